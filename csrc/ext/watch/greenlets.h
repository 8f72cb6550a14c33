/* Greenlets: pieces of work that take turns on one thread, each with a C stack of its own (greenlet, gevent, eventlet).
 * Each has its own innermost span and its own call on a file object. */
#ifndef PYIO_TRACE_GREENLETS_H
#define PYIO_TRACE_GREENLETS_H

#include <Python.h>

#include "context/context.h"

/* The thread's state when a greenlet left it; lives on that greenlet's C stack. */
struct pt_greenlet_work {
    struct pt_saved_context context;
    uint32_t depth, call_stack; /* as in struct pt_thread */
    void *call_thread;
    const void *call_site[2];
    struct pt_series series[PT_SERIES]; /* depth > 0 */
};

/* Call before and after a switch to another greenlet.  The thread is pt_enter()'s before. */
void pt_greenlet_leaves(struct pt_greenlet_work *work, struct pt_thread *t, PyObject *to);
void pt_greenlet_returns(const struct pt_greenlet_work *work, struct pt_thread *t);

bool pt_greenlets_are_followed(void);
PyObject *pt_watch_greenlets(PyObject *module, PyObject *args);
void pt_greenlets_unwatch(void);

#endif
