/* The meta-path finder and the loader of watched modules (capture/instrumentation/import_hooks.py). */
#include "imports/finder.h"

#include "python/frameless.h"

/* A module that the finders after ours are being asked for, on this thread.  One of them may itself ask every finder on
 * sys.meta_path.  Ours then answers None, or the two would call each other without end. */
struct lookup {
    PyObject *name; /* Borrowed */
    const struct lookup *outer;
};
static __thread const struct lookup *innermost_lookup;

static bool is_being_looked_up(PyObject *name)
{
    const struct lookup *at = innermost_lookup;
    while (at && at->name != name && !(PyUnicode_Check(name) && PyUnicode_Compare(at->name, name) == 0))
        at = at->outer;
    return at != NULL;
}

/* Asks the finders that follow `itself` on sys.meta_path; the import system has asked those before it.  Returns a new
 * reference: a spec, or None. */
static PyObject *ask_later_finders(PyObject *itself, PyObject *args)
{
    PyObject *listed = PySys_GetObject("meta_path"); /* Borrowed */
    PyObject *finders = listed ? PySequence_Tuple(listed) : NULL;
    PyObject *spec = finders ? Py_NewRef(Py_None) : NULL;
    bool after = false;
    for (Py_ssize_t i = 0; spec == Py_None && i < PyTuple_GET_SIZE(finders); i++) {
        PyObject *finder = PyTuple_GET_ITEM(finders, i); /* Borrowed */
        if (!after) {
            after = finder == itself;
            continue;
        }
        PyObject *find = PyObject_GetAttrString(finder, "find_spec");
        if (!find && PyErr_ExceptionMatches(PyExc_AttributeError)) {
            PyErr_Clear(); /* a finder of the old protocol: the import system skips it too */
            continue;
        }
        Py_SETREF(spec, find ? PyObject_Call(find, args, NULL) : NULL);
        Py_XDECREF(find);
    }
    Py_XDECREF(finders);
    return spec;
}

/* parts: a dict of the watched names, the finder whose find_spec this is, and a function to call with each spec. */
static PyObject *find_spec(struct pt_frameless *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"name", "path", "target", NULL};
    PyObject *name, *path = Py_None, *target = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OO:find_spec", names, &name, &path, &target))
        return NULL;
    int watched = PyDict_Contains(self->parts[0], name);
    if (watched <= 0 || is_being_looked_up(name))
        return watched < 0 ? NULL : Py_NewRef(Py_None);
    PyObject *three = PyTuple_Pack(3, name, path, target);
    struct lookup here = {name, innermost_lookup};
    innermost_lookup = &here;
    PyObject *spec = three ? ask_later_finders(self->parts[1], three) : NULL;
    innermost_lookup = here.outer;
    Py_XDECREF(three);
    if (spec && spec != Py_None && !pt_call_untraced(self->parts[2], spec))
        Py_CLEAR(spec);
    return spec;
}

/* finder(watched, itself, prepare) -> a find_spec() that answers with what later finders find, for watched names only
 */
PyObject *pt_finder(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    (void)module;
    if (n != 3 || !PyDict_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "finder() takes a dict of the watched names, a finder and a function");
        return NULL;
    }
    return pt_frameless_new(find_spec, args, n);
}

/* parts: before(module), a loader's exec_module, after(module). */
static PyObject *exec_module(struct pt_frameless *self, PyObject *args, PyObject *kwargs)
{
    PyObject *module = PyTuple_GET_SIZE(args) ? PyTuple_GET_ITEM(args, 0) : Py_None; /* Borrowed */
    /* before() removes this very object from the loader, which may free it. */
    PyObject *load = Py_NewRef(self->parts[1]), *after = Py_NewRef(self->parts[2]);
    PyObject *result = pt_call_untraced(self->parts[0], module) ? PyObject_Call(load, args, kwargs) : NULL;
    if (result && !pt_call_untraced(after, module))
        Py_CLEAR(result);
    Py_DECREF(load);
    Py_DECREF(after);
    return result;
}

/* wrap_exec_module(before, exec_module, after) -> an exec_module() that calls before(module) and after(module) too */
PyObject *pt_wrap_exec_module(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    (void)module;
    if (n != 3) {
        PyErr_SetString(PyExc_TypeError, "wrap_exec_module() takes three functions");
        return NULL;
    }
    return pt_frameless_new(exec_module, args, n);
}
