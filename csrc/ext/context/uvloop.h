/* Context of tasks that run under uvloop. */
#ifndef PYIO_TRACE_UVLOOP_H
#define PYIO_TRACE_UVLOOP_H

#include <Python.h>

PyObject *pt_watch_context_switches(PyObject *module, PyObject *library);

#endif
