/* Watched functions and methods that are written in C, by their definition. */
#ifndef PYIO_TRACE_BUILTINS_H
#define PYIO_TRACE_BUILTINS_H

#include <Python.h>

#include <stdbool.h>

#include "target.h"

struct pt_builtin;
struct pt_builtin_call;

/* What defines it; NULL: it is none that is watched by its definition. */
PyMethodDef *pt_builtin_definition(PyObject *function);
/* From here on its calls go to pt_watched_call, with the target.  NULL, or why that cannot be. */
const char *pt_builtin_watch(struct pt_target *g);
bool pt_builtin_is_watched(const struct pt_builtin *b);
void pt_builtin_unwatch(struct pt_builtin *b);
/* After the last of them: how they are hashed and compared is Python's own again. */
void pt_builtins_unwatched(void);
/* What the call would do but for us. */
PyObject *pt_builtin_go_on(const struct pt_builtin_call *c, PyObject *const *args, size_t flagged, PyObject *names);

#endif
