/* Reads small Python ints directly.  Most ints are small, and a call of the C API costs more than the rest of the work
 * that is done with one. */
#ifndef PYIO_TRACE_SMALL_INT_H
#define PYIO_TRACE_SMALL_INT_H

#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

/* Whether `object` is an int of one digit, and no instance of a subclass; if so, *value is set to it. */
static inline bool pt_small_int(PyObject *object, int64_t *value)
{
    if (!PyLong_CheckExact(object))
        return false;
#if PY_VERSION_HEX >= 0x030C0000
    if (!PyUnstable_Long_IsCompact((PyLongObject *)object))
        return false;
    *value = PyUnstable_Long_CompactValue((PyLongObject *)object);
    return true;
#else
    Py_ssize_t size = Py_SIZE(object);
    if (size < -1 || size > 1)
        return false;
    *value = size ? (int64_t)size * ((PyLongObject *)object)->ob_digit[0] : 0;
    return true;
#endif
}

#endif
