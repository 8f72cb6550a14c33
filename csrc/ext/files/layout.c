/* Where Python's own file objects keep their descriptor: see layout.h. */
#include "files/layout.h"

struct pt_file_layout pt_layout;

static Py_ssize_t find_pointer(PyObject *object, const void *wanted)
{
    Py_ssize_t size = Py_TYPE(object)->tp_basicsize;
    for (Py_ssize_t at = sizeof(PyObject); at + (Py_ssize_t)sizeof(void *) <= size; at += sizeof(void *))
        if (*(void **)((char *)object + at) == wanted)
            return at;
    return -1;
}

static PyTypeObject *io_type(PyObject *io, const char *name)
{
    PyObject *type = PyObject_GetAttrString(io, name);
    if (type && !PyType_Check(type))
        Py_CLEAR(type);
    return (PyTypeObject *)type; /* the reference is kept for the life of the process */
}

static const char *find_offsets(PyObject *raw, PyObject *buffered, PyObject *text)
{
    PyObject *number = PyObject_CallMethod(raw, "fileno", NULL);
    long fd = number ? PyLong_AsLong(number) : -1;
    Py_XDECREF(number);
    pt_layout.fd = sizeof(PyObject);
    pt_layout.raw_in_buffered = find_pointer(buffered, raw);
    pt_layout.buffer_in_text = find_pointer(text, buffered);
    if (fd < 0 || pt_file_descriptor(raw, PT_KIND_RAW) != fd || pt_layout.raw_in_buffered < 0 ||
        pt_layout.buffer_in_text < 0)
        return "layout of the io types is not understood";
    return NULL;
}

const char *pt_layout_find(void)
{
    const char *problem = "the io types are not there";
    PyObject *io = PyImport_ImportModule("_io");
    if (!io)
        goto out;
    pt_layout.raw = io_type(io, "FileIO");
    pt_layout.reader = io_type(io, "BufferedReader");
    pt_layout.writer = io_type(io, "BufferedWriter");
    pt_layout.random = io_type(io, "BufferedRandom");
    pt_layout.text = io_type(io, "TextIOWrapper");
    if (PyErr_Occurred() || !pt_layout.raw || !pt_layout.reader || !pt_layout.writer || !pt_layout.random ||
        !pt_layout.text)
        goto out;
    PyObject *raw = PyObject_CallFunction((PyObject *)pt_layout.raw, "s", "/dev/null");
    PyObject *buffered = raw ? PyObject_CallFunctionObjArgs((PyObject *)pt_layout.reader, raw, NULL) : NULL;
    PyObject *text = buffered ? PyObject_CallFunction((PyObject *)pt_layout.text, "Os", buffered, "utf-8") : NULL;
    if (text)
        problem = find_offsets(raw, buffered, text);
    PyObject *closed = text ? PyObject_CallMethod(text, "close", NULL) : NULL;
    Py_XDECREF(closed);
    Py_XDECREF(text);
    Py_XDECREF(buffered);
    Py_XDECREF(raw);
out:
    Py_XDECREF(io);
    PyErr_Clear();
    return problem;
}
