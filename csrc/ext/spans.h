/* Spans opened from Python, and suppression. */
#ifndef PYIO_TRACE_SPANS_H
#define PYIO_TRACE_SPANS_H

#include <Python.h>

#include "core.h"

extern PyTypeObject pt_span_type;
PyObject *pt_suppress(PyObject *module, PyObject *on);

#endif
