/* How many bytes the data in a Python object takes. */
#include "python/byte_size.h"

/* A str counts as its UTF-8, whatever the file's encoding; docs/explanation/limits.md says what that means for other encodings. */
static uint64_t utf8_size(PyObject *text)
{
    Py_ssize_t n = PyUnicode_GET_LENGTH(text);
    if (PyUnicode_IS_ASCII(text))
        return (uint64_t)n;
    int kind = PyUnicode_KIND(text);
    const void *data = PyUnicode_DATA(text);
    uint64_t bytes = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_UCS4 ch = PyUnicode_READ(kind, data, i);
        bytes += ch < 0x80 ? 1 : ch < 0x800 ? 2 : ch < 0x10000 ? 3 : 4;
    }
    return bytes;
}

uint64_t pt_byte_size_slow(PyObject *value)
{
    if (PyBytes_Check(value))
        return (uint64_t)PyBytes_GET_SIZE(value);
    if (PyUnicode_Check(value))
        return utf8_size(value);
    if (PyByteArray_Check(value))
        return (uint64_t)PyByteArray_GET_SIZE(value);
    if (PyMemoryView_Check(value))
        return (uint64_t)PyMemoryView_GET_BUFFER(value)->len;
    Py_buffer view;
    if (!PyObject_CheckBuffer(value) || PyObject_GetBuffer(value, &view, PyBUF_SIMPLE) < 0) {
        PyErr_Clear();
        return 0;
    }
    uint64_t bytes = (uint64_t)view.len;
    PyBuffer_Release(&view);
    return bytes;
}
