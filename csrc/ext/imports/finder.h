/* What the import system calls for watched modules (capture/instrumentation/import_hooks.py), as callables without a
 * frame. */
#ifndef PYIO_TRACE_FINDER_H
#define PYIO_TRACE_FINDER_H

#include <Python.h>

PyObject *pt_finder(PyObject *module, PyObject *const *args, Py_ssize_t n);
PyObject *pt_wrap_exec_module(PyObject *module, PyObject *const *args, Py_ssize_t n);

#endif
