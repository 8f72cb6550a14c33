/* How many bytes a search through an mmap object has looked at. */
#ifndef PYIO_TRACE_MMAP_SEARCH_H
#define PYIO_TRACE_MMAP_SEARCH_H

#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

/* Of find(sub[, start[, end]]), or of rfind if `back`; result: what it returned. */
int64_t pt_mmap_searched(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *result, bool back);

#endif
