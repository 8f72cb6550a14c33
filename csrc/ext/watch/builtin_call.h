/* A call of a builtin function, by any of C's calling conventions. */
#ifndef PYIO_TRACE_BUILTIN_CALL_H
#define PYIO_TRACE_BUILTIN_CALL_H

#include <Python.h>

#include <stdbool.h>

struct pt_target;

/* A watched definition. */
struct pt_builtin {
    PyMethodDef *definition; /* Borrowed: lives as long as the function, which its target owns */
    PyMethodDef before;
    struct pt_target *target;
    PyObject *self; /* compared only: a bound function is watched for this object alone; NULL: for any */
    bool is_method; /* its first argument is the object that it is called on */
};

/* The call as it arrived. */
struct pt_builtin_call {
    const struct pt_builtin *builtin;
    PyObject *self;
    PyObject *argument; /* METH_O: the argument; METH_VARARGS: a tuple; else NULL */
    PyObject *names;    /* METH_VARARGS: a dict; else a tuple; NULL: no keywords */
    PyObject *const *args;
    Py_ssize_t n;
    PyTypeObject *class;
    PyObject *const *vector; /* the same arguments as a vector, for those who read or replace them */
};

#define PT_CONVENTION (METH_NOARGS | METH_O | METH_FASTCALL | METH_KEYWORDS | METH_METHOD | METH_VARARGS)

/* Calls the original C function as the call arrived. */
PyObject *pt_builtin_call_unchanged(const struct pt_builtin_call *c);
/* Calls it with these arguments.  If they are still c->vector, the call goes on unchanged. */
PyObject *pt_builtin_call_original(const struct pt_builtin_call *c, PyObject *const *args, Py_ssize_t n,
                                   PyObject *names);

#endif
