/* Strings and other objects that are written once, then named by id. */
#ifndef PYIO_TRACE_INTERN_H
#define PYIO_TRACE_INTERN_H

#include "base/compiler.h"

struct pt_named { /* the string of a path, and why operations on it are left out (enum pt_desc_kind; 0: they are not) */
    uint32_t id;
    uint32_t left_out;
};
PT_API uint32_t pt_intern_find(uint64_t hash); /* 0: not there */
PT_API void pt_intern_add(uint64_t hash, uint32_t id);
struct pt_named pt_intern_find_named(uint64_t hash);
void pt_intern_add_named(uint64_t hash, struct pt_named name);
PT_API uint32_t pt_string(const char *bytes, size_t length, uint32_t base);
PT_API uint32_t pt_detail(const char *bytes, size_t length); /* likewise, for what is seldom repeated */
PT_API uint32_t pt_command(const char *command);             /* a shell command, without its secrets */
PT_API uint32_t pt_location(const char *bytes, size_t length, uint32_t base); /* a path or URL, without its secrets */
uint32_t pt_string_of_path(const char *path, size_t length, uint32_t base);   /* likewise, but written each time */
void pt_details_forget(void);
void pt_intern_reset(void);
void pt_intern_limit(uint64_t bytes); /* of --max-memory; 0: the default */

#endif
