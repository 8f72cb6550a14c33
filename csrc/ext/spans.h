/* Spans opened from Python, suppression, and context handed to other threads. */
#ifndef PYIO_TRACE_SPANS_H
#define PYIO_TRACE_SPANS_H

#include <Python.h>

#include "core.h"

extern PyTypeObject pt_span_type, pt_carried_type;
PyObject *pt_carry(PyObject *module, PyObject *function);
PyObject *pt_suppress(PyObject *module, PyObject *on);

#endif
