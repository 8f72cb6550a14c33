/* The parts of the end of a process. */
#ifndef PYIO_TRACE_ENDING_H
#define PYIO_TRACE_ENDING_H

#include "process/process.h"

/* ---- end_of_run.c */
struct pt_exit {
    uint32_t kind; /* PT_END_EXIT, PT_END_SIGNAL; PT_END_UNKNOWN: an exit whose status libc does not tell */
    int number;    /* status or signal */
};
void pt_exit_begins(const struct pt_exit *end); /* exit handlers and destructors are still to come */
void pt_exit_ends(const struct pt_exit *end);   /* nothing of the program is to come; may not return */

/* ---- last_in_exit.c */
void pt_last_in_exit_setup(void); /* once */

/* ---- stub.c */
bool pt_stub_become(const struct pt_exit *end, const char *const *argv); /* returns only if that cannot be */
void pt_finisher_run_here(const char *const *argv);                      /* instead: starts it, and waits for it */

/* ---- finisher.c.  heard_at: descriptor that it writes to, or -1 */
void pt_finisher_run(const char *const *argv, char *const *env, int heard_at);

#endif
