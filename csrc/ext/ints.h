/* Python's small ints, read where they are: most ints are, and asking costs more than all else about them. */
#ifndef PYIO_TRACE_INTS_H
#define PYIO_TRACE_INTS_H

#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

/* Whether it is an int (no subclass of it) of one digit; then *value is what it is. */
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
