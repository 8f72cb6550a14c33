/* How many bytes the data in a Python object takes. */
#ifndef PYIO_TRACE_BYTE_SIZE_H
#define PYIO_TRACE_BYTE_SIZE_H

#include <Python.h>
#include <stdint.h>

uint64_t pt_byte_size_slow(PyObject *value);

/* Bytes of a str (as UTF-8) or of a bytes-like object; 0 for any other object. */
static inline uint64_t pt_byte_size(PyObject *value)
{
    if (PyBytes_CheckExact(value))
        return (uint64_t)PyBytes_GET_SIZE(value);
    if (PyUnicode_CheckExact(value) && PyUnicode_IS_ASCII(value))
        return (uint64_t)PyUnicode_GET_LENGTH(value);
    return pt_byte_size_slow(value);
}

#endif
