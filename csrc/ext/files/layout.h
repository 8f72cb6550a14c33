/* Where Python's own file objects keep their descriptor. */
#ifndef PYIO_TRACE_LAYOUT_H
#define PYIO_TRACE_LAYOUT_H

#include <Python.h>

/* How to find the file of an object. */
enum pt_file_kind {
    PT_KIND_RAW,      /* FileIO: it has the descriptor */
    PT_KIND_BUFFERED, /* BufferedReader and its like, around a FileIO */
    PT_KIND_TEXT,     /* TextIOWrapper, around one of those */
    PT_KIND_MAPPED    /* mmap: by the address of the mapping */
};

/* The types, and the offsets of private members.  Found at installation, by looking at objects whose members are
 * known. */
struct pt_file_layout {
    PyTypeObject *raw, *reader, *writer, *random, *text, *mmap;
    Py_ssize_t fd, raw_in_buffered, buffer_in_text;
};
extern struct pt_file_layout pt_layout;

/* Fills in pt_layout, but for mmap.  Returns NULL, or why the layout is not understood. */
const char *pt_layout_find(void);

/* Reads the descriptor out of the object, without running its code.  -1: it has no file of the system. */
static inline int pt_file_descriptor(PyObject *file, enum pt_file_kind kind)
{
    if (kind == PT_KIND_TEXT) {
        file = *(PyObject **)((char *)file + pt_layout.buffer_in_text);
        if (!file)
            return -1;
        PyTypeObject *type = Py_TYPE(file);
        if (type == pt_layout.raw)
            kind = PT_KIND_RAW;
        else if (type != pt_layout.reader && type != pt_layout.writer && type != pt_layout.random)
            return -1;
    }
    if (kind != PT_KIND_RAW) {
        file = *(PyObject **)((char *)file + pt_layout.raw_in_buffered);
        if (!file || Py_TYPE(file) != pt_layout.raw)
            return -1;
    }
    return *(int *)((char *)file + pt_layout.fd);
}

#endif
