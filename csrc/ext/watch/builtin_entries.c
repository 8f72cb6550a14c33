/* The C functions that the definitions of watched builtin functions point to.
 *
 * Each turns its calling convention into a vectorcall, goes through pt_watched_call(), and so comes to the original.  A
 * PyMethodDef has no room for a pointer of ours, so there is one C function for each place and each convention. */
#include "watch/builtin_entries.h"

#include "watch/callback.h"
#include "watch/watched_call.h"

#include "core.h"

#include <string.h>

struct pt_builtin pt_builtins[PT_BUILTINS_MOST];

#define FEW 12

/* Other interpreters share the definitions, but instruments belong to the main one. */
static inline bool passes(const struct pt_builtin *b, PyObject *self)
{
    return pt_callback_runs() || (b->self && b->self != self) || PyInterpreterState_Get() != PyInterpreterState_Main();
}

static PyObject *enter(struct pt_builtin_call *c, PyObject *const *vector, Py_ssize_t n, PyObject *names)
{
    struct pt_original original = {.builtin = c};
    struct pt_invocation call = {.original = &original, .args = vector, .flagged = (size_t)n, .names = names};
    c->vector = vector;
    return pt_watched_call(c->builtin->target, &call);
}

/* A method's vectorcall has the object that it is called on before its arguments. */
static PyObject *enter_with_self(struct pt_builtin_call *c, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    if (!c->builtin->is_method)
        return enter(c, args, n, names);
    Py_ssize_t all = n + (names ? PyTuple_GET_SIZE(names) : 0);
    PyObject *few[FEW], **vector = all < FEW ? few : PyMem_Malloc((size_t)(all + 1) * sizeof *vector);
    if (!vector)
        return pt_builtin_call_unchanged(c);
    vector[0] = c->self;
    memcpy(vector + 1, args, (size_t)all * sizeof *vector);
    PyObject *result = enter(c, vector, n + 1, names);
    if (vector != few)
        PyMem_Free(vector);
    return result;
}

/* METH_NOARGS, METH_O, METH_VARARGS. */
static PyObject *one(const struct pt_builtin *b, PyObject *self, PyObject *argument)
{
    if (PT_UNLIKELY(passes(b, self)))
        return b->before.ml_meth(self, argument);
    struct pt_builtin_call c = {.builtin = b, .self = self, .argument = argument};
    if (b->before.ml_flags & METH_VARARGS)
        return enter_with_self(&c, ((PyTupleObject *)argument)->ob_item, PyTuple_GET_SIZE(argument), NULL);
    return enter_with_self(&c, &c.argument, b->before.ml_flags & METH_O ? 1 : 0, NULL);
}

/* METH_VARARGS | METH_KEYWORDS. */
static PyObject *dict(const struct pt_builtin *b, PyObject *self, PyObject *tuple, PyObject *dict)
{
    struct pt_builtin_call c = {.builtin = b, .self = self, .argument = tuple, .names = dict};
    if (PT_UNLIKELY(passes(b, self)))
        return pt_builtin_call_unchanged(&c);
    Py_ssize_t n = PyTuple_GET_SIZE(tuple), named = dict ? PyDict_GET_SIZE(dict) : 0, at = 0, i = 0;
    if (!named)
        return enter_with_self(&c, ((PyTupleObject *)tuple)->ob_item, n, NULL);
    PyObject *names = PyTuple_New(named), **args = PyMem_Malloc((size_t)(n + named) * sizeof *args), *name, *value;
    PyObject *result;
    if (names && args) {
        memcpy(args, ((PyTupleObject *)tuple)->ob_item, (size_t)n * sizeof *args);
        for (; i < named && PyDict_Next(dict, &at, &name, &value); i++) {
            PyTuple_SET_ITEM(names, i, Py_NewRef(name));
            args[n + i] = value;
        }
        result = enter_with_self(&c, args, n, names);
    } else {
        PyErr_Clear();
        result = pt_builtin_call_unchanged(&c);
    }
    PyMem_Free(args);
    Py_XDECREF(names);
    return result;
}

/* METH_FASTCALL, with METH_KEYWORDS and METH_METHOD or without. */
static PyObject *fast(const struct pt_builtin *b, PyObject *self, PyTypeObject *class, PyObject *const *args,
                      Py_ssize_t n, PyObject *names)
{
    struct pt_builtin_call c = {.builtin = b, .self = self, .names = names, .args = args, .n = n, .class = class};
    if (PT_UNLIKELY(passes(b, self)))
        return pt_builtin_call_unchanged(&c);
    return enter_with_self(&c, args, n, names);
}

#define PLACE(i)                                                                                        \
    static PyObject *one_##i(PyObject *s, PyObject *a)                                                  \
    {                                                                                                   \
        return one(&pt_builtins[0x##i], s, a);                                                          \
    }                                                                                                   \
    static PyObject *dict_##i(PyObject *s, PyObject *a, PyObject *k)                                    \
    {                                                                                                   \
        return dict(&pt_builtins[0x##i], s, a, k);                                                      \
    }                                                                                                   \
    static PyObject *fast_##i(PyObject *s, PyObject *const *a, Py_ssize_t n)                            \
    {                                                                                                   \
        return fast(&pt_builtins[0x##i], s, NULL, a, n, NULL);                                          \
    }                                                                                                   \
    static PyObject *names_##i(PyObject *s, PyObject *const *a, Py_ssize_t n, PyObject *k)              \
    {                                                                                                   \
        return fast(&pt_builtins[0x##i], s, NULL, a, n, k);                                             \
    }                                                                                                   \
    static PyObject *class_##i(PyObject *s, PyTypeObject *c, PyObject *const *a, size_t n, PyObject *k) \
    {                                                                                                   \
        return fast(&pt_builtins[0x##i], s, c, a, (Py_ssize_t)n, k);                                    \
    }
/* clang-format off */
#define SIXTEEN(h)                                                                                                     \
    PLACE(h##0) PLACE(h##1) PLACE(h##2) PLACE(h##3) PLACE(h##4) PLACE(h##5) PLACE(h##6) PLACE(h##7)                    \
    PLACE(h##8) PLACE(h##9) PLACE(h##a) PLACE(h##b) PLACE(h##c) PLACE(h##d) PLACE(h##e) PLACE(h##f)
#define ALL SIXTEEN(0) SIXTEEN(1) SIXTEEN(2) SIXTEEN(3) SIXTEEN(4) SIXTEEN(5) SIXTEEN(6) SIXTEEN(7)
ALL
#undef PLACE

static const struct {
    void *one, *dict, *fast, *names, *class;
} entries[PT_BUILTINS_MOST] = {
#define PLACE(i) {one_##i, dict_##i, fast_##i, names_##i, class_##i},
    ALL
#undef PLACE
};
/* clang-format on */

PyCFunction pt_builtin_entry(const struct pt_builtin *b)
{
    size_t i = (size_t)(b - pt_builtins);
    switch (b->before.ml_flags & PT_CONVENTION) {
    case METH_NOARGS:
    case METH_O:
    case METH_VARARGS: return (PyCFunction)entries[i].one;
    case METH_VARARGS | METH_KEYWORDS: return (PyCFunction)entries[i].dict;
    case METH_FASTCALL: return (PyCFunction)entries[i].fast;
    case METH_FASTCALL | METH_KEYWORDS: return (PyCFunction)entries[i].names;
    case METH_METHOD | METH_FASTCALL | METH_KEYWORDS: return (PyCFunction)entries[i].class;
    default: return NULL;
    }
}
