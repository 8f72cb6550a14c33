/* What Python calls of ours between its own frames: the finder and the loader
 * of watched modules (capture/imports.py), and the two ends of work handed to
 * another thread (capture/threads.py).
 *
 * Written in Python, each would be a frame in the program's tracebacks, a step
 * in its debugger and a line in its profile.  Objects of a type of their own
 * are no frames, and no C functions for sys.setprofile either.  Where they
 * call Python code of ours, tracing and profiling are off meanwhile. */
#include "unseen.h"

#include "call.h"
#include "context.h"

struct unseen {
    PyObject_HEAD
    PyObject *(*call)(struct unseen *self, PyObject *args, PyObject *kwargs);
    PyObject *parts[3]; /* Owned; what they are depends on call */
};

static PyObject *unseen_new(PyObject *(*call)(struct unseen *, PyObject *, PyObject *), PyObject *const *parts, Py_ssize_t n)
{
    struct unseen *self = PyObject_GC_New(struct unseen, &pt_unseen_type);
    if (!self)
        return NULL;
    self->call = call;
    for (Py_ssize_t i = 0; i < 3; i++)
        self->parts[i] = i < n ? Py_NewRef(parts[i]) : NULL;
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

static PyObject *unseen_call(struct unseen *self, PyObject *args, PyObject *kwargs)
{
    return self->call(self, args, kwargs);
}

static int unseen_traverse(struct unseen *self, visitproc visit, void *arg)
{
    for (int i = 0; i < 3; i++)
        Py_VISIT(self->parts[i]);
    return 0;
}

static int unseen_clear(struct unseen *self)
{
    for (int i = 0; i < 3; i++)
        Py_CLEAR(self->parts[i]);
    return 0;
}

static void unseen_dealloc(struct unseen *self)
{
    PyObject_GC_UnTrack(self);
    unseen_clear(self);
    PyObject_GC_Del(self);
}

/* In a class it binds as a function does. */
static PyObject *unseen_bind(PyObject *self, PyObject *object, PyObject *type)
{
    (void)type;
    return object ? PyMethod_New(self, object) : Py_NewRef(self);
}

PyTypeObject pt_unseen_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pyio_trace.native._capture.Unseen",
    .tp_basicsize = sizeof(struct unseen),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_call = (ternaryfunc)unseen_call,
    .tp_descr_get = unseen_bind,
    .tp_dealloc = (destructor)unseen_dealloc,
    .tp_traverse = (traverseproc)unseen_traverse,
    .tp_clear = (inquiry)unseen_clear,
};

/* Calls Python code of ours.  What it raises is its own fault, and goes no further, but for what a signal's handler
 * raises meanwhile (Ctrl-C): then false, and that is set. */
static bool call_quietly(PyObject *function, PyObject *argument)
{
    PyThreadState *state = PyThreadState_Get();
    PyThreadState_EnterTracing(state);
    PyObject *result = PyObject_CallOneArg(function, argument);
    bool theirs = !result && !PyErr_ExceptionMatches(PyExc_Exception);
    if (!result && !theirs)
        PyErr_Clear();
    Py_XDECREF(result);
    PyThreadState_LeaveTracing(state);
    return !theirs;
}

/* ---- imports ------------------------------------------------------------------------- */

/* A name that the finders after ours are being asked for, on this thread.  One of them may ask all the others in turn,
 * ours among them: it is then told nothing, or the two would ask each other without end. */
struct asked {
    PyObject *name; /* Borrowed */
    const struct asked *outer;
};
static __thread const struct asked *asked;

static bool is_asked(PyObject *name)
{
    const struct asked *at = asked;
    while (at && at->name != name && !(PyUnicode_Check(name) && PyUnicode_Compare(at->name, name) == 0))
        at = at->outer;
    return at != NULL;
}

/* What the finders after ours find; new reference, None if nothing.  Those before it have been asked. */
static PyObject *found_elsewhere(PyObject *itself, PyObject *args)
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
            PyErr_Clear(); /* one of the old kind: the import system passes it over as well */
            continue;
        }
        Py_SETREF(spec, find ? PyObject_Call(find, args, NULL) : NULL);
        Py_XDECREF(find);
    }
    Py_XDECREF(finders);
    return spec;
}

/* parts: the watched names (a dict), the finder that this is the find_spec of, what to do with a spec. */
static PyObject *find_spec(struct unseen *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"name", "path", "target", NULL};
    PyObject *name, *path = Py_None, *target = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OO:find_spec", names, &name, &path, &target))
        return NULL;
    int watched = PyDict_Contains(self->parts[0], name);
    if (watched <= 0 || is_asked(name))
        return watched < 0 ? NULL : Py_NewRef(Py_None);
    PyObject *three = PyTuple_Pack(3, name, path, target);
    struct asked here = {name, asked};
    asked = &here;
    PyObject *spec = three ? found_elsewhere(self->parts[1], three) : NULL;
    asked = here.outer;
    Py_XDECREF(three);
    if (spec && spec != Py_None && !call_quietly(self->parts[2], spec))
        Py_CLEAR(spec);
    return spec;
}

/* finder(watched, itself, prepare): a find_spec() that finds what the others find, of watched names only. */
PyObject *pt_finder(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    (void)module;
    if (n != 3 || !PyDict_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "finder() takes a dict of the watched names, a finder and a function");
        return NULL;
    }
    return unseen_new(find_spec, args, n);
}

/* parts: a loader's exec_module, called between two functions of ours. */
static PyObject *exec_module(struct unseen *self, PyObject *args, PyObject *kwargs)
{
    PyObject *module = PyTuple_GET_SIZE(args) ? PyTuple_GET_ITEM(args, 0) : Py_None; /* Borrowed */
    PyObject *load = Py_NewRef(self->parts[1]), *after = Py_NewRef(self->parts[2]);
    /* takes this very object from the loader */
    PyObject *result = call_quietly(self->parts[0], module) ? PyObject_Call(load, args, kwargs) : NULL;
    if (result && !call_quietly(after, module))
        Py_CLEAR(result);
    Py_DECREF(load);
    Py_DECREF(after);
    return result;
}

/* loading(before, exec_module, after): an exec_module() with before(module) and after(module) around it. */
PyObject *pt_loading(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    (void)module;
    if (n != 3) {
        PyErr_SetString(PyExc_TypeError, "loading() takes three functions");
        return NULL;
    }
    return unseen_new(exec_module, args, n);
}

/* ---- context handed over ----------------------------------------------------------------- */

#define CONTEXT "_pyio_trace_context" /* on the object that is handed over: context.h's number */

/* Runs what it is given under that span, and this thread goes on as before. */
static PyObject *run_under(struct pt_thread *t, uint32_t span, PyObject *function, PyObject *args, PyObject *kwargs)
{
    uint32_t parent = t->parent, link = t->link;
    t->parent = span;
    t->link = PT_LINK_CONTEXT;
    PyObject *result = PyObject_Call(function, args, kwargs);
    if (t == pt_self && t->parent == span) {
        t->parent = parent;
        t->link = link;
    }
    return result;
}

/* parts: the __init__ of what is handed over. */
static PyObject *hand_over(struct unseen *self, PyObject *args, PyObject *kwargs)
{
    PyObject *result = PyObject_Call(self->parts[0], args, kwargs);
    uint64_t context = result ? pt_context_of(pt_enter()) : 0;
    if (!context || PyTuple_GET_SIZE(args) < 1)
        return result;
    PyObject *number = PyLong_FromUnsignedLongLong(context);
    if (!number || PyObject_SetAttrString(PyTuple_GET_ITEM(args, 0), CONTEXT, number) < 0)
        PyErr_Clear();
    Py_XDECREF(number);
    return result;
}

static uint32_t span_of(PyObject *number)
{
    uint32_t span = number ? pt_context_span(PyLong_AsUnsignedLongLong(number)) : 0;
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    return span;
}

/* parts: the method that runs it.  Its operations have the span in which it was made; if there was none, none:
 * the thread may have been started in some other span. */
static PyObject *take_over(struct unseen *self, PyObject *args, PyObject *kwargs)
{
    struct pt_thread *t = pt_enter();
    if (!t)
        return PyObject_Call(self->parts[0], args, kwargs);
    PyObject *number = PyTuple_GET_SIZE(args) ? PyObject_GetAttrString(PyTuple_GET_ITEM(args, 0), CONTEXT) : NULL;
    PyErr_Clear();
    uint32_t span = span_of(number);
    Py_XDECREF(number);
    return run_under(t, span, self->parts[0], args, kwargs);
}

/* handing_over(__init__): one that notes the span that is open on this thread. */
PyObject *pt_handing_over(PyObject *module, PyObject *function)
{
    (void)module;
    return unseen_new(hand_over, &function, 1);
}

/* taking_over(method): one that runs under the span that was noted. */
PyObject *pt_taking_over(PyObject *module, PyObject *function)
{
    (void)module;
    return unseen_new(take_over, &function, 1);
}

/* parts: a function, and a context's number.  It is the outermost call of a thread: what is raised there is reported
 * with the function that the program gave, not with this object around it. */
static PyObject *call_under_context(struct unseen *self, PyObject *args, PyObject *kwargs)
{
    struct pt_thread *t = pt_enter();
    uint32_t span = t ? span_of(self->parts[1]) : 0;
    PyObject *result = span ? run_under(t, span, self->parts[0], args, kwargs) : PyObject_Call(self->parts[0], args, kwargs);
    if (result || PyErr_ExceptionMatches(PyExc_SystemExit))
        return result;
#if PY_VERSION_HEX >= 0x030d0000
    PyErr_FormatUnraisable("Exception ignored in thread started by %R", self->parts[0]);
#else
    _PyErr_WriteUnraisableMsg("in thread started by", self->parts[0]);
#endif
    Py_RETURN_NONE;
}

PyObject *pt_under_context(PyObject *function, uint64_t context)
{
    PyObject *parts[2] = {function, PyLong_FromUnsignedLongLong(context)};
    PyObject *result = parts[1] ? unseen_new(call_under_context, parts, 2) : NULL;
    Py_XDECREF(parts[1]);
    return result;
}
