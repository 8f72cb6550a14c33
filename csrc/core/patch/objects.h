/* What the dynamic linker's tables say about a loaded object. */
#ifndef PYIO_TRACE_OBJECTS_H
#define PYIO_TRACE_OBJECTS_H

#include "base/compiler.h"

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
    uintptr_t base, low, high;  /* load bias; range of its segments, with holes */
    uintptr_t data, data_end;   /* of its writable segment */
    uintptr_t relro, relro_end; /* page-aligned; 0: none */
    const char *strings;
    const ElfW(Sym) * symbols;
    const ElfW(Half) * versions; /* by symbol; NULL: it requires none */
    const ElfW(Verneed) * needs;
    const ElfW(Rela) * rela, *plt;
    size_t rela_count, plt_count;
    size_t defined;                       /* it defines all symbols from this one on; SIZE_MAX: not known of any */
    const uint32_t *gnu_hash, *sysv_hash; /* of the symbols; NULL: none */
};

static inline bool pt_object_holds(const struct pt_object *o, uintptr_t address)
{
    return address >= o->low && address < o->high;
}

bool pt_object_read(const struct dl_phdr_info *info, struct pt_object *o);
const char *pt_object_file(const char *path); /* its name, without the folder */
bool pt_object_is_systems(const char *path);  /* libc's, or a sanitizer's */
bool pt_object_is_left_alone(const struct dl_phdr_info *info, const struct pt_object *o); /* the system's, or ours */
void *pt_object_symbol(const struct pt_object *o, const char *name); /* a function that it defines, or NULL */
void *pt_object_variable(const struct pt_object *o, const char *name);

/* The loaded objects in the loader's order, at the time of reading. */
#define PT_SCOPE 32u
struct pt_scope {
    uintptr_t libc; /* an address in it */
    unsigned count;
    unsigned to_libc; /* the objects up to libc, which are searched first; 0: dlsym looks up everything */
    bool whole;       /* these are all objects */
    struct pt_object objects[PT_SCOPE];
};
void pt_scope_read(struct pt_scope *s);
uint32_t pt_name_hash(const char *name);                                          /* that of DT_GNU_HASH */
void *pt_scope_symbol(const struct pt_scope *s, const char *name, uint32_t hash); /* as dlsym(RTLD_DEFAULT, name) */

bool pt_object_wants_old(const struct pt_object *o, size_t symbol, const char *name);
void pt_resolve_stubs(void);

#endif
