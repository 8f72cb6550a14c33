/* One call on a file object: from what it is about to what it did.
 * Shared by the method wrappers (files.c) and the slot wrappers (fileslots.c). */
#ifndef PYIO_TRACE_FILECALL_H
#define PYIO_TRACE_FILECALL_H

#include <Python.h>

#include "call.h"

enum pt_file_kind { PT_KIND_RAW, PT_KIND_BUFFERED, PT_KIND_TEXT, PT_KIND_MAPPED };

struct pt_file_call {
    struct pt_thread *thread; /* NULL: not recorded */
    struct pt_run *run;       /* NULL: a record of its own */
    uint64_t begin;           /* ticks; 0: not timed */
    uint64_t asked;
    uint32_t parent_before;
    uint32_t link_before;
    uint32_t epoch; /* pt.epoch at the begin: another one now means a stop or a fork in between */
    bool joins;     /* adds to the run's record; call is not filled in */
    bool mapped;    /* a mapped file */
    struct pt_call call;
};

/* Where the private structures keep what we need; found at installation by
 * looking at objects whose answers are known. */
struct pt_file_layout {
    PyTypeObject *raw, *reader, *writer, *random, *text, *mmap;
    Py_ssize_t fd, raw_in_buffered, buffer_in_text;
};
extern struct pt_file_layout pt_layout;
const char *pt_layout_find(void); /* NULL, or why the layout is not understood */

#define PT_ASKED_NONE UINT64_MAX
#define PT_RUN_BELOW 4096u

/* -1: no file of the system beneath */
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

/* Nothing is traced, or the call is beneath another file object's: then there is no begin. */
static inline bool pt_file_passes(void)
{
    return pt.gate || (pt_self && pt_self->depth);
}
void pt_file_begin(struct pt_file_call *c, PyObject *file, enum pt_file_kind kind, unsigned op, uint64_t asked, bool coalesce);
void pt_file_end(struct pt_file_call *c, int64_t moved, bool failed);
uint64_t pt_bytes_of_any(PyObject *value);
/* Of str or a bytes-like object; 0 for others. */
static inline uint64_t pt_bytes_of(PyObject *value)
{
    if (PyBytes_CheckExact(value))
        return (uint64_t)PyBytes_GET_SIZE(value);
    if (PyUnicode_CheckExact(value) && PyUnicode_IS_ASCII(value))
        return (uint64_t)PyUnicode_GET_LENGTH(value);
    return pt_bytes_of_any(value);
}
int pt_error_number(void);             /* errno of the exception that is set; 0: not an OSError */

#endif
