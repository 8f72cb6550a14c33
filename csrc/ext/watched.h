/* Calls of a library's own functions, watched in place (capture/engine.py). */
#ifndef PYIO_TRACE_WATCHED_H
#define PYIO_TRACE_WATCHED_H

#include <Python.h>

int pt_watched_ready(void); /* 0, or -1 with an exception */
PyObject *pt_watch(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *pt_is_watched(PyObject *module, PyObject *function);
PyObject *pt_unwatch_all(PyObject *module, PyObject *unused);
PyObject *pt_watch_faults(PyObject *module, PyObject *unused);

#endif
