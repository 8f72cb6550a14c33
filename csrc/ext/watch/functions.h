/* Watches callables that have a vectorcall pointer: functions of Python, Cython and numpy. */
#ifndef PYIO_TRACE_FUNCTIONS_H
#define PYIO_TRACE_FUNCTIONS_H

#include "watch/target.h"

/* Prepares the type that watched functions of Python get.  Returns 0, or -1 with an exception set. */
int pt_functions_ready(void);
/* The place of this callable's vectorcall pointer; NULL: it has none of its own, and cannot be watched. */
vectorcallfunc *pt_function_slot(PyObject *function);
/* From here on, calls of the function go through pt_watched_call(). */
void pt_function_watch(struct pt_target *g);
bool pt_function_is_watched(const struct pt_target *g);
void pt_function_unwatch(struct pt_target *g);

#endif
