/* Calling the original of a builtin function by its own calling convention. */
#include "watch/builtin_call.h"

typedef PyObject *(*fast_function)(PyObject *, PyObject *const *, Py_ssize_t);
typedef PyObject *(*fast_keywords_function)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);

PyObject *pt_builtin_call_unchanged(const struct pt_builtin_call *c)
{
    void (*original)(void) = (void (*)(void))c->builtin->before.ml_meth;
    switch (c->builtin->before.ml_flags & PT_CONVENTION) {
    case METH_VARARGS | METH_KEYWORDS: return ((PyCFunctionWithKeywords)original)(c->self, c->argument, c->names);
    case METH_FASTCALL: return ((fast_function)original)(c->self, c->args, c->n);
    case METH_FASTCALL | METH_KEYWORDS: return ((fast_keywords_function)original)(c->self, c->args, c->n, c->names);
    case METH_METHOD | METH_FASTCALL | METH_KEYWORDS:
        return ((PyCMethod)original)(c->self, c->class, c->args, (size_t)c->n, c->names);
    default: return ((PyCFunction)original)(c->self, c->argument);
    }
}

static PyObject *tuple_of(PyObject *const *args, Py_ssize_t n)
{
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t i = 0; tuple && i < n; i++)
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
    return tuple;
}

static PyObject *dict_of(PyObject *names, PyObject *const *values)
{
    PyObject *dict = PyDict_New();
    for (Py_ssize_t i = 0; dict && i < PyTuple_GET_SIZE(names); i++)
        if (PyDict_SetItem(dict, PyTuple_GET_ITEM(names, i), values[i]) < 0)
            Py_CLEAR(dict);
    return dict;
}

static PyObject *call_with(struct pt_builtin_call c, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    if (c.builtin->is_method)
        args++, n--;
    if (!(c.builtin->before.ml_flags & METH_VARARGS)) {
        c.argument = n ? args[0] : NULL;
        c.args = args;
        c.n = n;
        return pt_builtin_call_unchanged(&c);
    }
    PyObject *tuple = tuple_of(args, n), *dict = names ? dict_of(names, args + n) : NULL, *result = NULL;
    c.argument = tuple;
    c.names = dict;
    if (tuple && (dict || !names))
        result = pt_builtin_call_unchanged(&c);
    Py_XDECREF(tuple);
    Py_XDECREF(dict);
    return result;
}

/* Not inlined: its registers would have to be saved for calls by vectorcall too (pt_call_original). */
__attribute__((noinline)) PyObject *pt_builtin_call_original(const struct pt_builtin_call *c, PyObject *const *args,
                                                             Py_ssize_t n, PyObject *names)
{
    return args == c->vector ? pt_builtin_call_unchanged(c) : call_with(*c, args, n, names);
}
