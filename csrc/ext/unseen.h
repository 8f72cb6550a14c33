/* What Python calls of ours between its own frames, leaving no frame. */
#ifndef PYIO_TRACE_UNSEEN_H
#define PYIO_TRACE_UNSEEN_H

#include <Python.h>

#include <stdint.h>

extern PyTypeObject pt_unseen_type;
PyObject *pt_finder(PyObject *module, PyObject *const *args, Py_ssize_t n);
PyObject *pt_loading(PyObject *module, PyObject *const *args, Py_ssize_t n);
PyObject *pt_handing_over(PyObject *module, PyObject *function);
PyObject *pt_taking_over(PyObject *module, PyObject *function);
/* A callable that runs that function under that context (context.h). */
PyObject *pt_under_context(PyObject *function, uint64_t context);

#endif
