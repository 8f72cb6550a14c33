/* Calls an instrument's callbacks: Python code of ours in the middle of the program. */
#ifndef PYIO_TRACE_CALLBACK_H
#define PYIO_TRACE_CALLBACK_H

#include "watch/target.h"

/* Whether a callback is under way on this thread: what it calls is not watched. */
static inline bool pt_callback_runs(void)
{
    const struct pt_thread *t = pt_self;
    return PT_UNLIKELY(t && t->callbacks);
}

/* What a callback has raised, and is yet to be reported or raised. */
struct pt_callback_error {
    PyObject *type, *value, *trace; /* Owned; NULL: nothing */
    bool is_programs;               /* raised by a signal handler of the program: it goes on to the program */
};

/* Calls a callback with the arguments of the call, after `result` if that is not NULL.  Tracing and profiling are off
 * meanwhile, and what the callback calls is not watched (unless the target is a marker, whose callbacks open and
 * close spans).  System calls that it causes are recorded all the same; HDF5 reads what it is asked about.
 *
 * Returns a new reference, or NULL if it raised.  Then the error is handled here or kept in *error: before the call
 * (result is NULL), the first fault is kept until pt_callback_report(); at any time, an error of the program's is
 * kept in place of a fault. */
PyObject *pt_callback(struct pt_target *g, PyObject *callback, PyObject *result, struct pt_callback_error *error,
                      const struct pt_invocation *call);

/* Takes the exception that is set, and keeps it if it is the program's.  For errors that the call itself will raise
 * again if they are anything else. */
void pt_callback_keep_programs(struct pt_callback_error *error);
/* Sets the kept exception.  Returns NULL. */
PyObject *pt_callback_raise(struct pt_callback_error *error);
/* Reports a fault that was kept before the call, now that the call has returned.  Callbacks get the call's own
 * arguments, as deep in the stack as the call.  If the arguments are wrong, or the stack is at its limit, a callback
 * raises what the call itself raises next: that is not reported. */
void pt_callback_report(struct pt_target *g, struct pt_callback_error *error);

#endif
