/* Time in imports, and the moment when the script begins. */
#ifndef PYIO_TRACE_IMPORT_TIMES_H
#define PYIO_TRACE_IMPORT_TIMES_H

#include <Python.h>

#include "core.h"

/* An import that loads a module.  outermost: not one inside another, on this thread. */
struct pt_import {
    uint64_t begin;      /* ticks */
    uint32_t process_id; /* the process that it began in: it may fork */
    bool outermost;
};
/* name: of the module, as importlib has it. */
void pt_import_begins(struct pt_import *import, PyObject *name);
void pt_import_ends(const struct pt_import *import, PyObject *name);

/* The code of __main__ is about to run.  Only the first call counts. */
void pt_script_begins(void);
/* Tracing has started: it begins now, unless a sign of its beginning follows. */
PyObject *pt_script_is_next(PyObject *module, PyObject *unused);
/* Tracing starts in the middle of it: for the log it begins now. */
PyObject *pt_script_is_running(PyObject *module, PyObject *unused);

#endif
