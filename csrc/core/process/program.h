/* A program that a child becomes without exec. */
#ifndef PYIO_TRACE_PROGRAM_H
#define PYIO_TRACE_PROGRAM_H

#include "base/compiler.h"

#include <stdint.h>

/* linux/futex.h, which musl's headers lack. */
enum { PT_FUTEX_WAIT = 0, PT_FUTEX_WAKE = 1 };

struct pt_range {
    uintptr_t low, high;
};
struct pt_object { /* an executable or its loader, mapped */
    struct pt_range place;
    uintptr_t base, entry, headers;
    unsigned header_count;
};
struct pt_program {
    struct pt_object program, loader; /* loader: entry 0, if the program is static */
    struct pt_range stack;            /* at its low end the child runs; from its high end on, the program */
    uintptr_t start;                  /* where the stack of the program begins */
};

/* All three for a child that shares no memory with its parent, on a stack of its own.  0 or an errno. */
int pt_program_map(const char *path, struct pt_program *p);
void pt_program_arguments(struct pt_program *p, const char *name, const char *argument);
/* Gives back all other memory, sets *word to number and wakes who waits for that, and becomes the program.  word lies in
 * a shared mapping, whose range is shared. */
_Noreturn void pt_program_become(const struct pt_program *p, struct pt_range shared, uint32_t *word, uint32_t number);

#endif
