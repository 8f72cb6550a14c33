/* A call as it arrived, and the function that it was meant for. */
#ifndef PYIO_TRACE_ORIGINAL_H
#define PYIO_TRACE_ORIGINAL_H

#include <Python.h>

#include "watch/builtin_call.h"

#include "core.h"

/* The function behind a watched one: either its vectorcall or, if it is written in C and watched by its definition, the
 * call as it arrived there. */
struct pt_original {
    vectorcallfunc vectorcall; /* NULL: use `builtin` */
    const struct pt_builtin_call *builtin;
};

/* A call by the vectorcall protocol, whatever convention it came by. */
struct pt_invocation {
    const struct pt_original *original;
    PyObject *callable;
    PyObject *const *args;
    size_t flagged; /* number of positional arguments, with flags: PyVectorcall_NARGS() */
    PyObject *names;
};

static inline Py_ssize_t pt_positional(const struct pt_invocation *c)
{
    return PyVectorcall_NARGS(c->flagged);
}

/* Positional and keyword arguments together. */
static inline Py_ssize_t pt_arguments(const struct pt_invocation *c)
{
    return pt_positional(c) + (c->names ? PyTuple_GET_SIZE(c->names) : 0);
}

/* Calls the original function.  Returns what it returns. */
static inline PyObject *pt_call_original(const struct pt_invocation *c)
{
    if (PT_LIKELY(c->original->vectorcall != NULL))
        return c->original->vectorcall(c->callable, c->args, c->flagged, c->names);
    return pt_builtin_call_original(c->original->builtin, c->args, pt_positional(c), c->names);
}

#endif
