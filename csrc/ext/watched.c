/* Calls of a library's own functions, watched in place (capture/engine.py).
 *
 * No function is replaced.  A callable of Python, of Cython and of numpy holds
 * a pointer to what is done when it is called, its vectorcall; that pointer is
 * exchanged for ours, which makes a span of the call around the original.  So
 * the function stays the same object under all its names, wherever somebody has
 * kept it; it is pickled, compared and inspected as before; and no frame of ours
 * is in a traceback.  Undoing is putting the pointer back.
 *
 * The interpreter has shortcuts for Python functions, which do not look at the
 * pointer.  Such a function gets a type of the same name and layout, derived from
 * its own; from 3.12 on only __init__ and properties need that
 * (PyFunction_SetVectorcall keeps the other shortcuts away).
 *
 * Builtin functions and methods are watched by their definition (builtins.c). */
#include "watched.h"

#include "builtins.h"
#include "filecall.h"
#include "spans.h"
#include "steps.h"
#include "target.h"

#include <string.h>

/* Found by the address of the function, or of its definition.  Entries are never freed: a call may be under way in one. */
#define TARGETS 2048u
static struct pt_target *targets[TARGETS];
static unsigned target_count;

static struct pt_target **place_of(const void *key)
{
    for (uint32_t i = (uint32_t)((uintptr_t)key >> 4) * 2654435761u;; i++) {
        struct pt_target **place = &targets[i % TARGETS];
        struct pt_target *at = __atomic_load_n(place, __ATOMIC_ACQUIRE);
        if (!at || at->key == key)
            return place;
    }
}

struct pt_target *pt_target_of(const void *key)
{
    return *place_of(key);
}

/* ---- calling ours and theirs --------------------------------------------------------- */

PyObject *pt_call_original(const struct pt_original *original, PyObject *callable, PyObject *const *args, size_t flagged,
                           PyObject *names)
{
    if (PT_LIKELY(original->vectorcall != NULL))
        return original->vectorcall(callable, args, flagged, names);
    return pt_builtin_go_on(original->builtin, args, flagged, names);
}

static void add_details(struct pt_details *d, PyObject *answer)
{
    if (answer && PyDict_Check(answer))
        pt_details_add_dict(d, answer);
    Py_XDECREF(answer);
}

/* errno of the exception that is set, kept set; its type's name goes into the details (StopIteration: the end). */
static int error_of(struct pt_details *d, uint32_t *detail)
{
    PyObject *type = PyErr_Occurred();
    if (!type)
        return 0;
    int error = pt_error_number();
    pt_details_add_text(d, "raised", ((PyTypeObject *)type)->tp_name);
    *detail = pt_details_intern(d);
    return error;
}

/* The string of its name in this log. */
static uint32_t name_of(struct pt_target *g)
{
    if (PT_UNLIKELY(g->named_in != pt.epoch || !g->name_id)) {
        Py_ssize_t length;
        const char *name = PyUnicode_AsUTF8AndSize(g->name, &length);
        g->name_id = name ? pt_string(name, (size_t)length, 0) : 0;
        g->named_in = pt.epoch;
    }
    return g->name_id;
}

/* ---- the call ---------------------------------------------------------------------------- */

/* A call that marks the beginning or the end of something longer than itself, which has spans of its own. */
static PyObject *marking_call(struct pt_target *g, const struct pt_original *original, PyObject *callable, PyObject *const *args,
                              size_t flagged, PyObject *names)
{
    struct pt_raised held = {NULL, NULL, NULL, false}, late = held;
    struct pt_thread *t = g->details ? pt_enter() : NULL;
    if (t)
        Py_XDECREF(pt_ask(g, t, g->details, NULL, &held, args, flagged, names));
    if (held.theirs)
        return pt_raise_theirs(&held);
    PyObject *result = pt_call_original(original, callable, args, flagged, names);
    if (PT_UNLIKELY(held.type != NULL))
        pt_fault_unless_theirs(g, &held);
    t = g->after ? pt_enter() : NULL;
    if (t) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        Py_XDECREF(pt_ask(g, t, g->after, result ? result : Py_None, &late, args, flagged, names));
        PyErr_Restore(type, value, trace);
    }
    if (PT_UNLIKELY(late.theirs)) {
        Py_CLEAR(result);
        return pt_raise_theirs(&late);
    }
    return result;
}

PyObject *pt_watched_call(struct pt_target *g, const struct pt_original *original, PyObject *callable, PyObject *const *args,
                          size_t flagged, PyObject *names)
{
    if (PT_UNLIKELY(pt_asking))
        return pt_call_original(original, callable, args, flagged, names);
    if (PT_UNLIKELY(g->hands_over == PT_MARKS))
        return marking_call(g, original, callable, args, flagged, names);
    if (PT_UNLIKELY(g->hands_over))
        return pt_hand_over(g->hands_over, original, callable, args, flagged, names);
    struct pt_thread *t = pt_enter();
    if (!t)
        return pt_call_original(original, callable, args, flagged, names);
    struct pt_raised held = {NULL, NULL, NULL, false}, late = held;
    struct pt_details *details = pt_details_take();
    if (!details)
        return pt_call_original(original, callable, args, flagged, names);
    uint32_t path = pt_path_asked(g, t, details, &held, args, flagged, names);
    if (g->details && path != PT_LEFT_OUT_PATH && !held.theirs)
        add_details(details, pt_ask(g, t, g->details, NULL, &held, args, flagged, names));
    if (PT_UNLIKELY(held.theirs || path == PT_LEFT_OUT_PATH)) {
        pt_details_give(details);
        if (held.theirs)
            return pt_raise_theirs(&held); /* as if the signal had come just before the call */
        return pt_call_original(original, callable, args, flagged, names);
    }
    uint32_t detail = pt_details_intern(details);
    struct pt_open_span span;
    pt_span_open(&span, t, g->op, path, name_of(g), detail);

    PyObject *result = pt_call_original(original, callable, args, flagged, names);

    if (PT_UNLIKELY(held.type != NULL))
        pt_fault_unless_theirs(g, &held);
    bool still = span.call.process_id == pt.process_id && !(pt.gate & PT_GATE_OFF) && t == pt_self;
    int64_t moved = -1;
    int error = 0;
    if (!result) {
        error = still ? error_of(details, &detail) : 0;
    } else if (still && !t->gate && (g->moved || g->after)) {
        moved = pt_moved_by(g, t, result, &late, args, flagged, names);
        if (g->after) {
            add_details(details, pt_ask(g, t, g->after, result, &late, args, flagged, names));
            detail = pt_details_intern(details);
        }
    }
    pt_details_give(details);
    if (still && pt_span_is_there(&span))
        span.call.record->offset = detail;
    if (g->steps && result) {
        pt_steps_watch(result, g->steps, path, moved >= 0);
        moved = -1;
    }
    pt_span_close(&span, moved, error);
    if (PT_UNLIKELY(late.theirs)) {
        Py_CLEAR(result); /* ... just after it */
        return pt_raise_theirs(&late);
    }
    return result;
}

static PyObject *watched_call(PyObject *callable, PyObject *const *args, size_t flagged, PyObject *names)
{
    struct pt_target *g = pt_target_of(callable);
    return pt_watched_call(g, &g->original, callable, args, flagged, names);
}

/* ---- a type of the same name and layout --------------------------------------------------- */

/* Pickled by its name, as what it is derived from: the pickler knows that by its exact type. */
static PyObject *reduce_function(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyObject_GetAttrString(self, "__qualname__");
}
static PyMethodDef function_methods[] = {{"__reduce__", reduce_function, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyTypeObject function_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "function", .tp_methods = function_methods};

int pt_watched_ready(void)
{
    if (pt_about_ready() < 0)
        return -1;
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
    type->tp_flags = from->tp_flags & (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR);
    if (PyType_Ready(type) < 0)
        return -1;
    /* PyType_Ready has made a member of tp_doc, which would be found before the function's own __doc__. */
    if (PyDict_DelItemString(type->tp_dict, "__doc__") < 0)
        PyErr_Clear();
    PyType_Modified(type);
    return 0;
}

/* ---- exchanging and putting back --------------------------------------------------------- */

static vectorcallfunc *slot_of(PyObject *function)
{
    PyTypeObject *type = Py_TYPE(function);
    if (PyType_Check(function) || !PyType_HasFeature(type, Py_TPFLAGS_HAVE_VECTORCALL) || type->tp_vectorcall_offset <= 0)
        return NULL;
    return (vectorcallfunc *)(void *)((char *)function + type->tp_vectorcall_offset);
}

#if PY_VERSION_HEX >= 0x030c0000
static bool is_initialiser(PyObject *function)
{
    return PyUnicode_CompareWithASCIIString(((PyFunctionObject *)function)->func_name, "__init__") == 0;
}
#endif

static bool is_on(const struct pt_target *g)
{
    return g->builtin ? pt_builtin_is_watched(g->builtin) : g->slot && *g->slot == watched_call;
}

static void exchange(struct pt_target *g)
{
    PyObject *f = g->function;
    g->type = Py_TYPE(f);
    g->original.vectorcall = *g->slot;
    g->retyped = g->type == &PyFunction_Type;
#if PY_VERSION_HEX >= 0x030c0000
    if (g->type == &PyFunction_Type) {
        if (!g->by_attribute && (PY_VERSION_HEX < 0x030d0000 || !is_initialiser(f)))
            g->retyped = false;
        PyFunction_SetVectorcall((PyFunctionObject *)f, watched_call);
    }
#else
    if (g->type == &PyFunction_Type)
        ((PyFunctionObject *)f)->func_version = 0; /* shortcuts that were taken look at it */
#endif
    __atomic_store_n(g->slot, watched_call, __ATOMIC_RELEASE);
    if (g->retyped)
        Py_SET_TYPE(f, &function_type);
}

static void put_back(struct pt_target *g)
{
    PyObject *f = g->function;
    if (g->builtin) {
        pt_builtin_unwatch(g->builtin);
        return;
    }
    if (*g->slot == watched_call) /* else somebody has come after us, and goes on to us */
        __atomic_store_n(g->slot, g->original.vectorcall, __ATOMIC_RELEASE);
    if (g->retyped && Py_TYPE(f) == &function_type)
        Py_SET_TYPE(f, g->type);
    if (g->type == &PyFunction_Type)
        ((PyFunctionObject *)f)->func_version = 0; /* it may have shortcuts again */
}

static PyObject *unless_none(PyObject *value) { return value == Py_None ? NULL : Py_NewRef(value); }

/* By kind, as in capture/instrument.py. */
static const uint8_t kinds[] = {PT_OP_SPAN_APP, PT_OP_SPAN_APP_READ, PT_OP_SPAN_APP_WRITE, PT_OP_SPAN_HDF5, PT_OP_SPAN_MPIIO};

/* watch(function, name, kind, path_index, path_keyword, path, details, after, moved, bytes, hands_over,
 * by_attribute, steps)
 * -> None, or why it cannot be watched.  What is watched already gets the new description. */
PyObject *pt_watch(PyObject *module, PyObject *args, PyObject *kwargs)
{
    (void)module;
    static char *words[] = {"function", "name", "kind", "path_index", "path_keyword", "path", "details", "after", "moved",
                            "bytes", "hands_over", "by_attribute", "steps", NULL};
    PyObject *function, *name, *keyword = Py_None, *path = Py_None, *details = Py_None, *after = Py_None, *bytes = Py_None;
    PyObject *steps = Py_None;
    unsigned int kind = 0, moved = PT_MOVED_NONE, hands_over = 0;
    int by_attribute = 0;
    Py_ssize_t index = -1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OU|InOOOOIOIpO:watch", words, &function, &name, &kind, &index, &keyword,
                                     &path, &details, &after, &moved, &bytes, &hands_over, &by_attribute, &steps))
        return NULL;
    if (kind >= sizeof kinds || moved > PT_MOVED_ASKED || hands_over > PT_HAND_OVER_MOST) {
        PyErr_SetString(PyExc_ValueError, "no such kind, kind of bytes, or way of handing over");
        return NULL;
    }
#ifdef Py_GIL_DISABLED
    return PyUnicode_FromString("functions are not watched where threads run without the GIL");
#endif
    const PyMethodDef *definition = pt_builtin_definition(function);
    vectorcallfunc *slot = definition ? NULL : slot_of(function);
    if (!definition && (!slot || !*slot))
        return PyUnicode_FromFormat("a %s cannot be watched in place", Py_TYPE(function)->tp_name);
    if (PyInterpreterState_Get() != PyInterpreterState_Main())
        return PyUnicode_FromString("functions are watched in the main interpreter only");
    struct pt_target **place = place_of(definition ? (const void *)definition : function), *g = *place;
    bool known = g != NULL;
    if (!known && target_count >= TARGETS / 2)
        return PyUnicode_FromString("too many functions are watched");
    if (!known && !(g = PyMem_RawCalloc(1, sizeof *g)))
        return PyErr_NoMemory();
    g->slot = slot;
    g->op = kinds[kind];
    g->path_index = index;
    g->moved = (enum pt_moved)moved;
    g->hands_over = (enum pt_hand_over)hands_over;
    g->by_attribute = by_attribute;
    Py_XSETREF(g->name, Py_NewRef(name));
    g->name_id = 0;
    Py_XSETREF(g->path_keyword, unless_none(keyword));
    Py_XSETREF(g->path, unless_none(path));
    Py_XSETREF(g->details, unless_none(details));
    Py_XSETREF(g->after, unless_none(after));
    Py_XSETREF(g->bytes, unless_none(bytes));
    Py_XSETREF(g->steps, unless_none(steps));
    Py_XSETREF(g->function, Py_NewRef(function)); /* kept: its address, or its definition's, stands for it */
    if (!known) {
        g->key = definition ? (const void *)definition : function;
        target_count++;
        __atomic_store_n(place, g, __ATOMIC_RELEASE);
    }
    const char *problem = definition ? pt_builtin_watch(g) : NULL;
    if (problem)
        return PyUnicode_FromString(problem);
    if (!definition && !is_on(g))
        exchange(g);
    Py_RETURN_NONE;
}

PyObject *pt_is_watched(PyObject *module, PyObject *function)
{
    (void)module;
    const PyMethodDef *definition = pt_builtin_definition(function);
    const struct pt_target *g = pt_target_of(definition ? (const void *)definition : function);
    return PyBool_FromLong(g && is_on(g));
}

/* unwatch_all(): every function as it was. */
PyObject *pt_unwatch_all(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    for (unsigned i = 0; i < TARGETS; i++)
        if (targets[i] && is_on(targets[i]))
            put_back(targets[i]);
    pt_builtins_unwatched();
    pt_steps_unwatch_all();
    Py_RETURN_NONE;
}

/* watch_faults() -> {name: how often its details failed} */
PyObject *pt_watch_faults(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *faults = PyDict_New();
    for (unsigned i = 0; faults && i < TARGETS; i++) {
        if (!targets[i] || !targets[i]->faults)
            continue;
        PyObject *number = PyLong_FromUnsignedLong(targets[i]->faults);
        if (!number || PyDict_SetItem(faults, targets[i]->name, number) < 0)
            Py_CLEAR(faults);
        Py_XDECREF(number);
    }
    return faults;
}
