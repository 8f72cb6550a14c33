/* Python interface for watching library functions; capture/instrumentation/watching.py calls it.
 *
 * Watching replaces one pointer and leaves the function object itself in place: for a Python function its vectorcall
 * pointer (functions.c), for a builtin the C function in its PyMethodDef (builtins.c).  Either way the call reaches
 * pt_watched_call(). */
#include "watch/watch.h"

#include "watch/builtins.h"
#include "watch/extract.h"
#include "watch/functions.h"
#include "watch/greenlets.h"
#include "watch/iterators.h"

int pt_watch_ready(void)
{
    return pt_extract_ready() < 0 ? -1 : pt_functions_ready();
}

/* ---- reading a description ------------------------------------------------------------------ */

/* Operations by kind: KINDS in capture/instrumentation/instrument.py. */
static const uint8_t op_of_kind[] = {PT_OP_SPAN_APP,           PT_OP_SPAN_APP_READ,    PT_OP_SPAN_APP_WRITE,
                                     PT_OP_SPAN_HDF5,          PT_OP_SPAN_MPIIO,       PT_OP_SPAN_APP_WAIT,
                                     PT_OP_SPAN_APP_CONTAINER, PT_OP_SPAN_APP_STARTING};

/* For PyArg_Parse: an object, NULL for None. */
static int unless_none(PyObject *value, void *out)
{
    *(PyObject **)out = value == Py_None ? NULL : value;
    return 1;
}

/* Returns false, with an exception set, if the arguments are wrong.  All references are borrowed. */
static bool parse_description(struct pt_target_description *d, PyObject *args, PyObject *kwargs)
{
    static char *words[] = {"",     "",          "kind",    "path_index",  "path_keyword",
                            "path", "details",   "after",   "bytes",       "bytes_source",
                            "role", "step_name", "only_if", "is_property", NULL};
    unsigned int kind = 0, bytes_source = PT_BYTES_NONE, role = PT_ROLE_OPERATION;
    int is_property = 0;
    *d = (struct pt_target_description){.path_index = -1};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OU|$InO&O&O&O&O&IIO&O&p:watch", words, &d->function, &d->name,
                                     &kind, &d->path_index, unless_none, &d->path_keyword, unless_none, &d->path,
                                     unless_none, &d->details, unless_none, &d->after, unless_none, &d->bytes,
                                     &bytes_source, &role, unless_none, &d->step_name, unless_none, &d->only_if,
                                     &is_property))
        return false;
    if (kind >= sizeof op_of_kind || bytes_source > PT_BYTES_CALLBACK || role >= PT_ROLE_COUNT) {
        PyErr_SetString(PyExc_ValueError, "no such kind, source of bytes, or role");
        return false;
    }
    d->op = op_of_kind[kind];
    d->bytes_source = (enum pt_bytes_source)bytes_source;
    d->role = (enum pt_role)role;
    d->is_property = is_property;
    return true;
}

/* ---- watching and unwatching ---------------------------------------------------------------- */

/* watch(function, name, **description) -> None, or why the function cannot be watched
 * A function that is watched already gets the new description. */
PyObject *pt_watch(PyObject *module, PyObject *args, PyObject *kwargs)
{
    (void)module;
    struct pt_target_description description;
    if (!parse_description(&description, args, kwargs))
        return NULL;
#ifdef Py_GIL_DISABLED
    return PyUnicode_FromString("functions are not watched where threads run without the GIL");
#endif
    PyObject *function = description.function;
    const PyMethodDef *definition = pt_builtin_definition(function);
    if (!definition && !pt_function_slot(function))
        return PyUnicode_FromFormat("a %s cannot be watched in place", Py_TYPE(function)->tp_name);
    if (PyInterpreterState_Get() != PyInterpreterState_Main())
        return PyUnicode_FromString("functions are watched in the main interpreter only");
    struct pt_target *g = pt_target_add(definition ? (const void *)definition : function, &description);
    if (!g)
        return PyErr_Occurred() ? NULL : PyUnicode_FromString("too many functions are watched");
    const char *problem = NULL;
    if (definition)
        problem = pt_builtin_watch(g);
    else
        pt_function_watch(g);
    if (problem)
        return PyUnicode_FromString(problem);
    Py_RETURN_NONE;
}

static bool is_watched(const struct pt_target *g)
{
    return g->builtin ? pt_builtin_is_watched(g->builtin) : pt_function_is_watched(g);
}

/* is_watched(function) -> bool */
PyObject *pt_is_watched(PyObject *module, PyObject *function)
{
    (void)module;
    const PyMethodDef *definition = pt_builtin_definition(function);
    const struct pt_target *g = pt_target_find(definition ? (const void *)definition : function);
    return PyBool_FromLong(g && is_watched(g));
}

/* unwatch_all(): restores every function. */
PyObject *pt_unwatch_all(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    for (unsigned i = 0; i < PT_TARGET_PLACES; i++) {
        struct pt_target *g = pt_target_at(i);
        if (!g || !is_watched(g))
            continue;
        if (g->builtin)
            pt_builtin_unwatch(g->builtin);
        else
            pt_function_unwatch(g);
    }
    pt_builtins_restore_hash();
    pt_iterators_unwatch_all();
    pt_greenlets_unwatch();
    Py_RETURN_NONE;
}

/* watch_faults() -> {name: how often callbacks for it failed} */
PyObject *pt_watch_faults(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *faults = PyDict_New();
    for (unsigned i = 0; faults && i < PT_TARGET_PLACES; i++) {
        const struct pt_target *g = pt_target_at(i);
        if (!g || !g->faults)
            continue;
        PyObject *number = PyLong_FromUnsignedLong(g->faults);
        if (!number || PyDict_SetItem(faults, g->description.name, number) < 0)
            Py_CLEAR(faults);
        Py_XDECREF(number);
    }
    return faults;
}
