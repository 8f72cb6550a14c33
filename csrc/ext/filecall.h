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
    uint64_t begin;
    uint64_t asked;
    uint32_t parent_before;
    uint32_t link_before;
    uint32_t epoch; /* pt.epoch at the begin: another one now means a stop or a fork in between */
    bool joins;     /* adds to the run's record; call is not filled in */
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

int pt_file_descriptor(PyObject *file, enum pt_file_kind kind); /* -1: no file of the system beneath */
void pt_file_begin(struct pt_file_call *c, PyObject *file, enum pt_file_kind kind, unsigned op, uint64_t asked, bool coalesce);
void pt_file_end(struct pt_file_call *c, int64_t moved, bool failed);
uint64_t pt_bytes_of(PyObject *value); /* of str or a bytes-like object; 0 for others */
int pt_error_number(void);             /* errno of the exception that is set; 0: not an OSError */

#endif
