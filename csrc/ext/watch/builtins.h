/* Watches functions and methods that are written in C, by their definition. */
#ifndef PYIO_TRACE_BUILTINS_H
#define PYIO_TRACE_BUILTINS_H

#include "watch/target.h"

/* The definition of a builtin function or method; NULL for any other object. */
PyMethodDef *pt_builtin_definition(PyObject *function);
/* From here on, calls of the function go through pt_watched_call().  Returns NULL, or why that cannot be. */
const char *pt_builtin_watch(struct pt_target *g);
bool pt_builtin_is_watched(const struct pt_builtin *b);
void pt_builtin_unwatch(struct pt_builtin *b);
/* To be called after the last of them is unwatched: builtin functions are hashed and compared by Python again. */
void pt_builtins_restore_hash(void);

#endif
