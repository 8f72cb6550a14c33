/* Iterators that watched calls return: each step is a span. */
#ifndef PYIO_TRACE_ITERATORS_H
#define PYIO_TRACE_ITERATORS_H

#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

/* Makes each step of `iterator` a span of that name, about the file whose path has the string id `path`.  counts: the
 * nbytes of what a step returns are bytes that the program read.  Does nothing if the iterator cannot be watched. */
void pt_iterator_watch(PyObject *iterator, PyObject *name, uint32_t path, bool counts);
void pt_iterators_unwatch_all(void);

#endif
