/* The Python type Span, and suppression. */
#ifndef PYIO_TRACE_SPAN_TYPE_H
#define PYIO_TRACE_SPAN_TYPE_H

#include <Python.h>

extern PyTypeObject pt_span_type;
PyObject *pt_suppress(PyObject *module, PyObject *on);

#endif
