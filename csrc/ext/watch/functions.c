/* Watches callables that have a vectorcall pointer: functions of Python, Cython and numpy.
 *
 * No function is replaced.  Such a callable holds a pointer to the C function that runs when it is called, its
 * vectorcall.  We replace that pointer by ours, which goes on to the original.  So the function stays the same object
 * wherever the program has stored it.  It is pickled, compared and inspected as before, and no frame of ours is in a
 * traceback.  Unwatching puts the pointer back.
 *
 * The interpreter has shortcuts for calls of Python functions that ignore the pointer.  A function that a shortcut
 * could reach also gets another type: derived from its own, with the same name and layout.  Up to 3.11 that is every
 * function.  From 3.12 on, PyFunction_SetVectorcall() turns most shortcuts off.  Only the getters of properties still
 * need the type, and from 3.13 on __init__. */
#include "watch/functions.h"

#include "watch/watched_call.h"

static PyObject *watched_vectorcall(PyObject *callable, PyObject *const *args, size_t flagged, PyObject *names)
{
    struct pt_target *g = pt_target_find(callable);
    struct pt_invocation call = {&g->original, callable, args, flagged, names};
    return pt_watched_call(g, &call);
}

/* ---- a type with the name and layout of Python's functions ---------------------------------- */

/* Python pickles functions by name because it knows their exact type.  This does the same for the derived type. */
static PyObject *reduce_function(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyObject_GetAttrString(self, "__qualname__");
}
static PyMethodDef function_methods[] = {{"__reduce__", reduce_function, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyTypeObject function_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "function",
                                     .tp_methods = function_methods};

int pt_functions_ready(void)
{
    PyTypeObject *type = &function_type, *from = &PyFunction_Type;
    if (type->tp_base)
        return 0;
    type->tp_base = from;
    type->tp_doc = from->tp_doc;
    type->tp_basicsize = from->tp_basicsize;
    type->tp_vectorcall_offset = from->tp_vectorcall_offset;
    type->tp_call = from->tp_call;
    type->tp_descr_get = from->tp_descr_get;
    type->tp_traverse = from->tp_traverse;
    type->tp_clear = from->tp_clear;
    type->tp_flags = from->tp_flags & (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                                       Py_TPFLAGS_METHOD_DESCRIPTOR);
    if (PyType_Ready(type) < 0)
        return -1;
    /* PyType_Ready() has made __doc__ a class attribute, which would hide the function's own. */
    if (PyDict_DelItemString(type->tp_dict, "__doc__") < 0)
        PyErr_Clear();
    PyType_Modified(type);
    return 0;
}

/* ---- replacing and restoring the pointer ---------------------------------------------------- */

vectorcallfunc *pt_function_slot(PyObject *function)
{
    PyTypeObject *type = Py_TYPE(function);
    if (PyType_Check(function) || !PyType_HasFeature(type, Py_TPFLAGS_HAVE_VECTORCALL) ||
        type->tp_vectorcall_offset <= 0)
        return NULL;
    vectorcallfunc *slot = (vectorcallfunc *)(void *)((char *)function + type->tp_vectorcall_offset);
    return *slot ? slot : NULL;
}

bool pt_function_is_watched(const struct pt_target *g)
{
    return g->slot && *g->slot == watched_vectorcall;
}

#if PY_VERSION_HEX >= 0x030c0000
/* Whether a shortcut of the interpreter still ignores the pointer. */
static bool needs_type(const struct pt_target *g)
{
    PyObject *name = ((PyFunctionObject *)g->description.function)->func_name;
    return g->description.is_property ||
           (PY_VERSION_HEX >= 0x030d0000 && PyUnicode_CompareWithASCIIString(name, "__init__") == 0);
}
#endif

void pt_function_watch(struct pt_target *g)
{
    PyObject *f = g->description.function;
    g->slot = pt_function_slot(f);
    if (pt_function_is_watched(g))
        return;
    g->type = Py_TYPE(f);
    g->original.vectorcall = *g->slot;
    g->retyped = g->type == &PyFunction_Type;
#if PY_VERSION_HEX >= 0x030c0000
    if (g->type == &PyFunction_Type) {
        g->retyped = needs_type(g);
        PyFunction_SetVectorcall((PyFunctionObject *)f, watched_vectorcall);
    }
#else
    if (g->type == &PyFunction_Type)
        ((PyFunctionObject *)f)->func_version = 0; /* invalidates shortcuts in code that has called it */
#endif
    __atomic_store_n(g->slot, watched_vectorcall, __ATOMIC_RELEASE);
    if (g->retyped)
        Py_SET_TYPE(f, &function_type);
}

void pt_function_unwatch(struct pt_target *g)
{
    PyObject *f = g->description.function;
    if (*g->slot == watched_vectorcall) /* else another tool has replaced our pointer, and calls it */
        __atomic_store_n(g->slot, g->original.vectorcall, __ATOMIC_RELEASE);
    if (g->retyped && Py_TYPE(f) == &function_type)
        Py_SET_TYPE(f, g->type);
    if (g->type == &PyFunction_Type)
        ((PyFunctionObject *)f)->func_version = 0; /* the interpreter may give it a version again, and shortcuts */
}
