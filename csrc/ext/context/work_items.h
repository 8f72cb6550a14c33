/* Work that carries its context along: callables without a frame for both ends of a hand-over. */
#ifndef PYIO_TRACE_WORK_ITEMS_H
#define PYIO_TRACE_WORK_ITEMS_H

#include <Python.h>

PyObject *pt_capture_context_in(PyObject *module, PyObject *init);
PyObject *pt_run_in_captured_context(PyObject *module, PyObject *method);
/* A callable that runs `function` in a context that pt_context_capture() returned.  Returns a new reference. */
PyObject *pt_bind_context(PyObject *function, PyObject *captured);

#endif
