/* The entry points of a folder's distributions. */
#ifndef PYIO_TRACE_DISTRIBUTIONS_H
#define PYIO_TRACE_DISTRIBUTIONS_H

#include <Python.h>

PyObject *pt_entry_points_that_mention(PyObject *module, PyObject *args);

#endif
