/* Iterators that watched calls return: each step is a span. */
#ifndef PYIO_TRACE_STEPS_H
#define PYIO_TRACE_STEPS_H

#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

/* From here on each step of `iterator` is a span of that name, of the file whose name has the id `path`; counts:
 * the nbytes of what it gives are bytes that the program read.  Where that cannot be, nothing is done. */
void pt_steps_watch(PyObject *iterator, PyObject *name, uint32_t path, bool counts);
void pt_steps_unwatch_all(void);

#endif
