/* Context goes with the work: to another thread, from step to step of a task. */
#ifndef PYIO_TRACE_CONTEXT_H
#define PYIO_TRACE_CONTEXT_H

#include <Python.h>

#include "core.h"

/* What is done when a function is called, but for us. */
struct pt_original {
    vectorcallfunc vectorcall;             /* NULL: it is written in C, and watched by its definition */
    const struct pt_builtin_call *builtin; /* ... and this is the call (builtins.c) */
};
PyObject *pt_call_original(const struct pt_original *original, PyObject *callable, PyObject *const *args, size_t flagged,
                           PyObject *names); /* watched.c */

/* What a watched call hands over: numbers in capture/instrument.py too. */
enum pt_hand_over {
    PT_HANDS_NOTHING,
    PT_STARTS, /* its first argument is run in another thread, under the span that is open now */
    PT_STEPS,  /* self is a handle of asyncio's: it goes on under the span in which it was left */
    PT_MARKS,  /* nothing, and it is no operation: its details() and after() may open spans, and close them (watched.c) */
};
#define PT_HAND_OVER_MOST PT_MARKS

PyObject *pt_hand_over(enum pt_hand_over kind, const struct pt_original *original, PyObject *callable,
                       PyObject *const *args, size_t flagged, PyObject *names);

/* Runs differ in the path of their log; a forked child is in the same one. */
uint32_t pt_run_number(void);
/* A span and the run it is of, in one number; 0: none.  It may outlive either. */
uint64_t pt_context_of(const struct pt_thread *t);
/* The span of such a number; 0: there is none, or it is of another run. */
uint32_t pt_context_span(uint64_t context);
/* After a span has been opened or closed on this thread: what a task's copies of its context will find. */
void pt_context_changed(struct pt_thread *t);

/* For other loops than asyncio's own (uvloop.c): the context of a handle has just been entered on this thread, and it goes
 * on under the span in which it was left; after that, whoever entered it leaves. */
bool pt_context_ready(void);
void pt_context_enter(struct pt_thread *t);
void pt_context_leave(bool entered);
PyObject *pt_enters_contexts(PyObject *module, PyObject *other); /* uvloop.c */

#endif
