/* What every hook is built from.
 *
 * A hook is declared with PT_HOOK_DECLARE, listed in hooks/hooks.def under each of its spellings, and written as
 *
 *     begin (stores what is known) -> the original -> end (stores the result, keeps errno)
 *
 * All functions here are async-signal-safe, take no lock and do not need the GIL. */
#ifndef PYIO_TRACE_HOOKS_H
#define PYIO_TRACE_HOOKS_H

#include "base/sys.h"
#include "log/ids.h"
#include "record/operation.h"
#include "state/descriptors.h"

#define PT_HOOK_DECLARE(ret, family, ...)     \
    extern ret (*real_##family)(__VA_ARGS__); \
    ret hook_##family(__VA_ARGS__);           \
    ret (*real_##family)(__VA_ARGS__)

/* Removes the parentheses around parameters and arguments in a table. */
#define PT_LIST(...) __VA_ARGS__

/* For calls that open something without a path: asks the kernel for its name. */
int pt_end_open_unnamed_slow(struct pt_call *c, int fd);
/* Forgets what the table knows under a descriptor number that a call has just returned: a close may have escaped the
 * hooks. */
int pt_fd_reused(int fd);
void pt_bus_guard(void); /* sigbus.c: keeps a truncated log from raising SIGBUS in the program */
void pt_bus_release(void);
void pt_waits_begin(void); /* waits.c: once the originals are known */
/* The working directory may have changed. */
void pt_cwd_changed(void);

#endif
