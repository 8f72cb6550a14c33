/* Python interface for watching library functions; capture/instrumentation/watching.py calls it. */
#ifndef PYIO_TRACE_WATCH_H
#define PYIO_TRACE_WATCH_H

#include <Python.h>

/* Initialises the types and state that watching needs.  Returns 0, or -1 with an exception set. */
int pt_watch_ready(void);
PyObject *pt_watch(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *pt_is_watched(PyObject *module, PyObject *function);
PyObject *pt_unwatch_all(PyObject *module, PyObject *unused);
PyObject *pt_watch_faults(PyObject *module, PyObject *unused);

#endif
