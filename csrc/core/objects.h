/* What the dynamic linker's tables of a loaded object say (objects.c). */
#ifndef PYIO_TRACE_OBJECTS_H
#define PYIO_TRACE_OBJECTS_H

#include "core.h"

#include <elf.h>
#include <link.h>

#if defined(__x86_64__)
#define R_SLOT R_X86_64_JUMP_SLOT
#define R_DATA R_X86_64_GLOB_DAT
#define R_ABS R_X86_64_64
#elif defined(__aarch64__)
#define R_SLOT R_AARCH64_JUMP_SLOT
#define R_DATA R_AARCH64_GLOB_DAT
#define R_ABS R_AARCH64_ABS64
#endif

struct pt_object {
    uintptr_t base, low, high;  /* load bias; range of its segments, holes included */
    uintptr_t data, data_end;   /* of its writable segment */
    uintptr_t relro, relro_end; /* page-aligned; 0: none */
    const char *strings;
    const ElfW(Sym) * symbols;
    const ElfW(Half) * versions; /* by symbol; NULL: it asks for none */
    const ElfW(Verneed) * needs;
    const ElfW(Rela) * rela, *plt;
    size_t rela_count, plt_count;
    const uint32_t *gnu_hash, *sysv_hash; /* of the symbols; NULL: none */
};

bool pt_object_read(const struct dl_phdr_info *info, struct pt_object *o);
const char *pt_object_file(const char *path); /* its name, without the folder */
bool pt_object_is_systems(const char *path); /* libc's, or a sanitizer's */
void *pt_object_symbol(const struct pt_object *o, const char *name); /* a function that it defines; NULL: it does not */

/* The objects in which the loader looks for a name before it comes to libc, and libc, as they were when it was read. */
#define PT_SCOPE 32u
struct pt_scope {
    unsigned count;
    uintptr_t libc;      /* an address in it */
    bool ends_with_libc; /* else dlsym is asked for everything */
    struct pt_object objects[PT_SCOPE];
};
void pt_scope_read(struct pt_scope *s);
void *pt_scope_symbol(const struct pt_scope *s, const char *name); /* as dlsym(RTLD_DEFAULT, name) */

bool pt_object_wants_old(const struct pt_object *o, size_t symbol, const char *name);
void pt_look_beyond_stubs(void);

#endif
