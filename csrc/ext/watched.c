/* Calls of a library's own functions, watched in place (capture/engine.py).
 *
 * No function is replaced.  A callable of CPython, of Cython and of numpy holds
 * a pointer to what is done when it is called, its vectorcall; that pointer is
 * exchanged for ours, which makes a span of the call around the original.  So
 * the function stays the same object under all its names, wherever somebody has
 * kept it; it is pickled, compared and inspected as before; and no frame of ours
 * is in a traceback.  Undoing is putting the pointer back.
 *
 * The interpreter has shortcuts for functions of its own exact types, which do
 * not look at the pointer.  Such a function gets a type of the same name and
 * layout, derived from its own; from 3.12 on Python functions need that for
 * __init__ and properties only (PyFunction_SetVectorcall keeps the other shortcuts away). */
#include "watched.h"

#include "context.h"
#include "core.h"
#include "details.h"
#include "filecall.h"
#include "spans.h"
#include "steps.h"

#include <string.h>

/* What a call's bytes are: enum in capture/instrument.py too. */
enum moved { MOVED_NONE, MOVED_RESULT, MOVED_LENGTH, MOVED_NBYTES, MOVED_ASKED };

struct target {
    PyObject *function;       /* Owned, for good */
    vectorcallfunc *slot;     /* where the pointer is */
    struct pt_original original;
    PyTypeObject *type;       /* Borrowed: what it was; they are static or as old as the function */
    bool by_attribute; /* of a property, which has a shortcut of its own */
    bool retyped;
    PyObject *name;           /* Owned */
    unsigned op;              /* PT_OP_SPAN_* */
    Py_ssize_t path_index;    /* of the argument that has the path; -1: none */
    PyObject *path_keyword;   /* Owned, NULL: by position only */
    PyObject *path;           /* Owned, or NULL: path(*args, **kwargs) */
    PyObject *details;        /* Owned, or NULL: details(*args, **kwargs) -> dict */
    PyObject *after;          /* Owned, or NULL: after(result, *args, **kwargs) -> dict */
    PyObject *bytes;          /* Owned, or NULL: bytes(result, *args, **kwargs) -> int */
    enum moved moved;
    enum pt_hand_over hands_over;
    PyObject *steps;          /* Owned, or NULL: name of the steps of the iterator that it returns */
    uint32_t faults; /* of ours, in this call */
};

/* Found by the function's address.  Entries are never freed: a call may be under way in one. */
#define TARGETS 2048u
static struct target *targets[TARGETS];
static unsigned target_count;
static uint32_t first_fault; /* said once a process */

static struct target **place_of(PyObject *function)
{
    for (uint32_t i = (uint32_t)((uintptr_t)function >> 4) * 2654435761u;; i++) {
        struct target **place = &targets[i % TARGETS];
        struct target *at = __atomic_load_n(place, __ATOMIC_ACQUIRE);
        if (!at || at->function == function)
            return place;
    }
}

/* ---- calling ours and theirs --------------------------------------------------------- */

PyObject *pt_call_original(const struct pt_original *original, PyObject *callable, PyObject *const *args, size_t flagged,
                           PyObject *names)
{
    if (PT_LIKELY(original->vectorcall != NULL))
        return original->vectorcall(callable, args, flagged, names);
    /* A builtin function of the old kind: a tuple and a dict. */
    Py_ssize_t n = PyVectorcall_NARGS(flagged), named = names ? PyTuple_GET_SIZE(names) : 0;
    PyObject *tuple = PyTuple_New(n), *dict = named ? PyDict_New() : NULL, *result = NULL;
    if (!tuple || (named && !dict))
        goto done;
    for (Py_ssize_t i = 0; i < n; i++)
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
    for (Py_ssize_t i = 0; i < named; i++)
        if (PyDict_SetItem(dict, PyTuple_GET_ITEM(names, i), args[n + i]) < 0)
            goto done;
    result = original->call(callable, tuple, dict);
done:
    Py_XDECREF(tuple);
    Py_XDECREF(dict);
    return result;
}

/* What code of ours has raised, or a signal's handler in it. */
struct raised {
    PyObject *type, *value, *trace; /* Owned */
    bool theirs;                    /* a handler: it is the program's, and goes on */
};

/* capture/faults.py says. */
static bool is_theirs(const struct raised *r)
{
    if (!PyErr_GivenExceptionMatches(r->type, PyExc_Exception))
        return true;
    PyObject *module = PyImport_ImportModule("pyio_trace.capture.faults");
    PyObject *answer = module ? PyObject_CallMethod(module, "is_the_programs", "OO", r->type, r->trace ? r->trace : Py_None) : NULL;
    bool is = answer == Py_True;
    PyErr_Clear();
    Py_XDECREF(answer);
    Py_XDECREF(module);
    return is;
}

static void forget(struct raised *r)
{
    Py_CLEAR(r->type);
    Py_CLEAR(r->value);
    Py_CLEAR(r->trace);
}

/* A fault of ours: the first of a process is said, all are counted, none goes further.  Takes what was raised. */
static void fault(struct target *g, struct raised *r)
{
    PyObject *type = r->type, *value = r->value;
    g->faults++;
    if (!(pt.gate & PT_GATE_OFF))
        __atomic_fetch_add(&pt.header->fault_count, 1, __ATOMIC_RELAXED);
    if (!first_fault++) {
        PyObject *text = PyObject_Str(value ? value : Py_None);
        const char *said = text ? PyUnicode_AsUTF8(text) : NULL;
        const char *name = PyUnicode_AsUTF8(g->name);
        char line[400];
        int n = snprintf(line, sizeof line, "pyio-trace: details of %s are missing: %s: %s (said once)\n", name ? name : "?",
                         type ? ((PyTypeObject *)type)->tp_name : "?", said ? said : "?");
        if (n > 0 && write(2, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1) < 0) {
            /* stderr is closed: nobody to tell */
        }
        Py_XDECREF(text);
        PyErr_Clear();
    }
    forget(r);
}

/* Takes what is set just now.  The first fault before a call is held until after it; what is the program's comes before
 * any fault, and after the call there is nothing to hold it for. */
static void hold(struct target *g, struct raised *held, bool before)
{
    struct raised now = {NULL, NULL, NULL, false};
    PyErr_Fetch(&now.type, &now.value, &now.trace);
    if (!now.type)
        return;
    PyErr_NormalizeException(&now.type, &now.value, &now.trace);
    now.theirs = is_theirs(&now);
    if (now.theirs ? !held->theirs : before && !held->type) {
        if (held->type)
            fault(g, held);
        *held = now;
    } else if (now.theirs) {
        forget(&now);
    } else {
        fault(g, &now);
    }
}

/* Sets it again, for the program. */
static PyObject *raise_theirs(struct raised *held)
{
    PyErr_Restore(held->type, held->value, held->trace);
    return NULL;
}

/* Of what was asked before the call.  It takes the call's own arguments, and as deep in the stack as the call is: where
 * those are wrong, or there is no further down, it raises what the call raises next, and neither is our fault. */
static void fault_unless_theirs(struct target *g, struct raised *r)
{
    PyObject *const shared[] = {PyExc_TypeError, PyExc_RecursionError};
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    bool likewise = false;
    for (size_t i = 0; type && i < sizeof shared / sizeof *shared; i++)
        likewise |= PyErr_GivenExceptionMatches(type, shared[i]) && PyErr_GivenExceptionMatches(r->type, shared[i]);
    if (likewise)
        forget(r);
    else
        fault(g, r);
    PyErr_Restore(type, value, trace);
}

static __thread int asking; /* questions under way: what they call is not watched */

/* Code of ours, with the call's arguments and perhaps its result before them: neither traced nor
 * profiled, and what it calls is not watched, but for the spans of those that mark one's ends.  System
 * calls that it should cause (HDF5 reads what it is asked about) are in the log all the same.  New
 * reference; NULL: it raised, and that is seen to, or held. */
static PyObject *ask(struct target *g, struct pt_thread *t, PyObject *function, PyObject *result, struct raised *held,
                     PyObject *const *args, size_t flagged, PyObject *names)
{
    Py_ssize_t n = PyVectorcall_NARGS(flagged), all = n + (names ? PyTuple_GET_SIZE(names) : 0);
    PyObject *few[16], **shifted = NULL, *answer = NULL;
    if (result) {
        shifted = all + 1 <= 16 ? few : PyMem_Malloc((size_t)(all + 1) * sizeof *shifted);
        if (!shifted)
            return NULL;
        shifted[0] = result;
        memcpy(shifted + 1, args, (size_t)all * sizeof *shifted);
        args = shifted;
        n++;
    }
    PyThreadState *state = PyThreadState_Get();
    Py_INCREF(function); /* it may be let go meanwhile */
    bool quiet = g->hands_over != PT_MARKS;
    asking += quiet;
    PyThreadState_EnterTracing(state);
    answer = PyObject_Vectorcall(function, args, (size_t)n, names);
    if (!answer)
        hold(g, held, !result);
    PyThreadState_LeaveTracing(state);
    asking -= quiet;
    Py_DECREF(function);
    if (shifted && shifted != few)
        PyMem_Free(shifted);
    return answer;
}

/* ---- the path ---------------------------------------------------------------------------- */

#define LEFT_OUT UINT32_MAX

static uint32_t path_of_bytes(const char *bytes, size_t n)
{
    if (strlen(bytes) != n)
        return 0; /* a NUL within: no path */
    if (strncmp(bytes, "file://", 7) == 0)
        bytes += 7, n -= 7;
    else if (strstr(bytes, "://"))
        return pt_string(bytes, n, 0); /* nothing that the system knows */
    struct pt_named name = pt_name(bytes);
    return name.left_out ? LEFT_OUT : name.id;
}

static uint32_t path_of_number(struct pt_thread *t, PyObject *number)
{
    int overflow;
    long fd = PyLong_AsLongAndOverflow(number, &overflow);
    pt_fd_entry e = overflow || fd < 0 || fd > INT32_MAX ? 0 : pt_fd_get(t, (int)fd);
    if (e & PT_FD_EXCLUDED)
        return LEFT_OUT;
    return pt_entry_id(e) ? ((struct pt_desc *)pt_at(pt_entry_id(e)))->path : 0;
}

static bool is_file_object(PyObject *value)
{
    PyTypeObject *const known[] = {pt_layout.raw, pt_layout.reader, pt_layout.writer, pt_layout.random, pt_layout.text};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i] && PyObject_TypeCheck(value, known[i]))
            return true;
    return false;
}

/* A string's id; 0: there is no path; LEFT_OUT: nothing is to be recorded of it. */
static uint32_t path_of(struct target *g, struct pt_thread *t, struct raised *held, PyObject *value, int depth)
{
    uint32_t id = 0;
    PyObject *other = NULL;
    if (PyUnicode_Check(value) && PyUnicode_IS_COMPACT_ASCII(value))
        return path_of_bytes((const char *)PyUnicode_1BYTE_DATA(value), (size_t)PyUnicode_GET_LENGTH(value));
    if (PyUnicode_Check(value))
        other = PyUnicode_EncodeFSDefault(value);
    else if (PyBytes_Check(value))
        other = Py_NewRef(value);
    if (other) {
        id = path_of_bytes(PyBytes_AS_STRING(other), (size_t)PyBytes_GET_SIZE(other));
    } else if (PyLong_CheckExact(value)) {
        id = path_of_number(t, value);
    } else if (depth < 3 && (PyTuple_CheckExact(value) || PyList_CheckExact(value))) {
        if (PySequence_Fast_GET_SIZE(value) == 1) /* several: none of them is the one */
            id = path_of(g, t, held, PySequence_Fast_GET_ITEM(value, 0), depth + 1);
    } else if (depth < 3 && (is_file_object(value) || PyObject_HasAttrString((PyObject *)Py_TYPE(value), "__fspath__"))) {
        PyThreadState *state = PyThreadState_Get();
        PyThreadState_EnterTracing(state);
        other = is_file_object(value) ? PyObject_GetAttrString(value, "name") : PyOS_FSPath(value);
        PyThreadState_LeaveTracing(state);
        if (other)
            id = path_of(g, t, held, other, depth + 1);
        else if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception))
            hold(g, held, true); /* a signal came in: all else the call itself will say */
    }
    PyErr_Clear();
    Py_XDECREF(other);
    return id;
}

static PyObject *argument(Py_ssize_t index, PyObject *keyword, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    if (index >= 0 && index < n)
        return args[index]; /* Borrowed */
    for (Py_ssize_t i = 0; keyword && names && i < PyTuple_GET_SIZE(names); i++) {
        PyObject *name = PyTuple_GET_ITEM(names, i);
        if (name == keyword || PyUnicode_Compare(name, keyword) == 0)
            return args[n + i];
    }
    return NULL;
}

static uint32_t path_id(struct target *g, struct pt_thread *t, struct pt_details *d, struct raised *held,
                        PyObject *const *args, size_t flagged, PyObject *names)
{
    if (g->path) {
        PyObject *value = ask(g, t, g->path, NULL, held, args, flagged, names);
        if (value && PyTuple_CheckExact(value) && PyTuple_GET_SIZE(value) == 2 && PyDict_CheckExact(PyTuple_GET_ITEM(value, 1))) {
            pt_details_add_dict(d, PyTuple_GET_ITEM(value, 1)); /* both in one question */
            Py_SETREF(value, Py_NewRef(PyTuple_GET_ITEM(value, 0)));
        }
        uint32_t id = value == Py_NotImplemented ? LEFT_OUT : value ? path_of(g, t, held, value, 0) : 0;
        Py_XDECREF(value);
        return id;
    }
    PyObject *value = argument(g->path_index, g->path_keyword, args, PyVectorcall_NARGS(flagged), names);
    return value ? path_of(g, t, held, value, 0) : 0;
}

/* ---- bytes and details ------------------------------------------------------------------- */

static int64_t number_of(PyObject *value)
{
    int64_t number = value && pt_is_number(value) ? PyNumber_AsSsize_t(value, NULL) : -1;
    PyErr_Clear();
    return number < 0 ? -1 : number;
}

static PyObject *word_dtype, *word_hasobject, *word_nbytes; /* interned, for good */

/* An array of objects has only pointers to its data: their bytes are not what was moved. */
static bool has_objects(PyObject *array)
{
    PyObject *dtype = PyObject_GetAttr(array, word_dtype);
    PyObject *answer = dtype ? PyObject_GetAttr(dtype, word_hasobject) : NULL;
    bool has = answer == Py_True;
    PyErr_Clear();
    Py_XDECREF(dtype);
    Py_XDECREF(answer);
    return has;
}

static int64_t moved_by(struct target *g, struct pt_thread *t, PyObject *result, struct raised *late, PyObject *const *args,
                        size_t flagged, PyObject *names)
{
    PyObject *answer = NULL;
    int64_t moved = -1;
    if (g->moved == MOVED_RESULT)
        moved = number_of(result);
    else if (g->moved == MOVED_LENGTH && (PyBytes_Check(result) || PyByteArray_Check(result)))
        moved = Py_SIZE(result);
    else if (g->moved == MOVED_NBYTES && !has_objects(result))
        moved = number_of(answer = PyObject_GetAttr(result, word_nbytes));
    else if (g->moved == MOVED_ASKED && g->bytes)
        moved = number_of(answer = ask(g, t, g->bytes, result, late, args, flagged, names));
    PyErr_Clear();
    Py_XDECREF(answer);
    return moved;
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

/* ---- the call ---------------------------------------------------------------------------- */

/* A call that marks the beginning or the end of something longer than itself, which has spans of its own. */
static PyObject *marking_call(struct target *g, PyObject *callable, PyObject *const *args, size_t flagged, PyObject *names)
{
    struct raised held = {NULL, NULL, NULL, false}, late = held;
    struct pt_thread *t = g->details ? pt_enter() : NULL;
    if (t)
        Py_XDECREF(ask(g, t, g->details, NULL, &held, args, flagged, names));
    if (held.theirs)
        return raise_theirs(&held);
    PyObject *result = pt_call_original(&g->original, callable, args, flagged, names);
    if (PT_UNLIKELY(held.type != NULL))
        fault_unless_theirs(g, &held);
    t = g->after ? pt_enter() : NULL;
    if (t) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        Py_XDECREF(ask(g, t, g->after, result ? result : Py_None, &late, args, flagged, names));
        PyErr_Restore(type, value, trace);
    }
    if (PT_UNLIKELY(late.theirs)) {
        Py_CLEAR(result);
        return raise_theirs(&late);
    }
    return result;
}

static PyObject *watched_call(PyObject *callable, PyObject *const *args, size_t flagged, PyObject *names)
{
    struct target *g = *place_of(callable);
    if (PT_UNLIKELY(asking))
        return pt_call_original(&g->original, callable, args, flagged, names);
    if (PT_UNLIKELY(g->hands_over == PT_MARKS))
        return marking_call(g, callable, args, flagged, names);
    if (PT_UNLIKELY(g->hands_over))
        return pt_hand_over(g->hands_over, &g->original, callable, args, flagged, names);
    struct pt_thread *t = pt_enter();
    if (!t)
        return pt_call_original(&g->original, callable, args, flagged, names);
    struct raised held = {NULL, NULL, NULL, false}, late = held;
    struct pt_details *details = pt_details_take();
    if (!details)
        return pt_call_original(&g->original, callable, args, flagged, names);
    uint32_t path = path_id(g, t, details, &held, args, flagged, names);
    if (g->details && path != LEFT_OUT && !held.theirs)
        add_details(details, ask(g, t, g->details, NULL, &held, args, flagged, names));
    if (PT_UNLIKELY(held.theirs || path == LEFT_OUT)) {
        pt_details_give(details);
        if (held.theirs)
            return raise_theirs(&held); /* as if the signal had come just before the call */
        return pt_call_original(&g->original, callable, args, flagged, names);
    }
    Py_ssize_t length;
    const char *name = PyUnicode_AsUTF8AndSize(g->name, &length);
    uint32_t detail = pt_details_intern(details);
    struct pt_open_span span;
    pt_span_open(&span, t, g->op, path, name ? pt_string(name, (size_t)length, 0) : 0, detail);

    PyObject *result = pt_call_original(&g->original, callable, args, flagged, names);

    if (PT_UNLIKELY(held.type != NULL))
        fault_unless_theirs(g, &held);
    bool still = span.call.process_id == pt.process_id && !(pt.gate & PT_GATE_OFF) && t == pt_self;
    int64_t moved = -1;
    int error = 0;
    if (!result) {
        error = still ? error_of(details, &detail) : 0;
    } else if (still && !t->gate && (g->moved || g->after)) {
        moved = moved_by(g, t, result, &late, args, flagged, names);
        if (g->after) {
            add_details(details, ask(g, t, g->after, result, &late, args, flagged, names));
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
        return raise_theirs(&late);
    }
    return result;
}

/* ---- types of the same name and layout --------------------------------------------------- */

/* Pickled by its name, as what it is derived from: the pickler knows that by its exact type. */
static PyObject *reduce_function(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyObject_GetAttrString(self, "__qualname__");
}
static PyMethodDef function_methods[] = {{"__reduce__", reduce_function, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyTypeObject function_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "function", .tp_methods = function_methods};
static PyTypeObject builtin_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "builtin_function_or_method"};
static PyTypeObject method_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "method_descriptor"};

static int derive(PyTypeObject *type, PyTypeObject *from)
{
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

int pt_watched_ready(void)
{
    if (!word_dtype) {
        word_dtype = PyUnicode_InternFromString("dtype");
        word_hasobject = PyUnicode_InternFromString("hasobject");
        word_nbytes = PyUnicode_InternFromString("nbytes");
    }
    if (!word_dtype || !word_hasobject || !word_nbytes)
        return -1;
    return derive(&function_type, &PyFunction_Type) < 0 || derive(&builtin_type, &PyCFunction_Type) < 0 ||
           derive(&method_type, &PyMethodDescr_Type) < 0 ? -1 : 0;
}

static PyTypeObject *derived_from(PyTypeObject *type)
{
    return type == &PyFunction_Type ? &function_type : type == &PyCFunction_Type ? &builtin_type
         : type == &PyMethodDescr_Type ? &method_type : NULL;
}

/* ---- exchanging and putting back --------------------------------------------------------- */

static vectorcallfunc *slot_of(PyObject *function)
{
    PyTypeObject *type = Py_TYPE(function);
    if (PyType_Check(function) || !PyType_HasFeature(type, Py_TPFLAGS_HAVE_VECTORCALL) || type->tp_vectorcall_offset <= 0)
        return NULL;
    return (vectorcallfunc *)(void *)((char *)function + type->tp_vectorcall_offset);
}

static bool is_initialiser(PyObject *function)
{
    return PyUnicode_CompareWithASCIIString(((PyFunctionObject *)function)->func_name, "__init__") == 0;
}

static void exchange(struct target *g)
{
    PyObject *f = g->function;
    g->type = Py_TYPE(f);
    g->original.vectorcall = *g->slot;
    g->original.call = g->type->tp_call;
    PyTypeObject *derived = derived_from(g->type);
#if PY_VERSION_HEX >= 0x030c0000
    if (g->type == &PyFunction_Type) {
        if (!g->by_attribute && (PY_VERSION_HEX < 0x030d0000 || !is_initialiser(f)))
            derived = NULL;
        PyFunction_SetVectorcall((PyFunctionObject *)f, watched_call);
    }
#else
    if (g->type == &PyFunction_Type)
        ((PyFunctionObject *)f)->func_version = 0; /* shortcuts that were taken look at it */
#endif
    __atomic_store_n(g->slot, watched_call, __ATOMIC_RELEASE);
    g->retyped = derived != NULL;
    if (derived)
        Py_SET_TYPE(f, derived);
}

static void put_back(struct target *g)
{
    PyObject *f = g->function;
    if (*g->slot == watched_call) /* else somebody has come after us, and goes on to us */
        __atomic_store_n(g->slot, g->original.vectorcall, __ATOMIC_RELEASE);
    if (g->retyped && Py_TYPE(f) == derived_from(g->type))
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
    unsigned int kind = 0, moved = MOVED_NONE, hands_over = 0;
    int by_attribute = 0;
    Py_ssize_t index = -1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OU|InOOOOIOIpO:watch", words, &function, &name, &kind, &index, &keyword,
                                     &path, &details, &after, &moved, &bytes, &hands_over, &by_attribute, &steps))
        return NULL;
    if (kind >= sizeof kinds || moved > MOVED_ASKED || hands_over > PT_HAND_OVER_MOST) {
        PyErr_SetString(PyExc_ValueError, "no such kind, kind of bytes, or way of handing over");
        return NULL;
    }
#ifdef Py_GIL_DISABLED
    return PyUnicode_FromString("functions are not watched where threads run without the GIL");
#endif
    vectorcallfunc *slot = slot_of(function);
    if (!slot || (!*slot && Py_TYPE(function) != &PyCFunction_Type))
        return PyUnicode_FromFormat("a %s cannot be watched in place", Py_TYPE(function)->tp_name);
    struct target **place = place_of(function), *g = *place;
    bool known = g != NULL, on = known && *slot == watched_call;
    if (!known && target_count >= TARGETS / 2)
        return PyUnicode_FromString("too many functions are watched");
    if (!known && !(g = PyMem_RawCalloc(1, sizeof *g)))
        return PyErr_NoMemory();
    g->slot = slot;
    g->op = kinds[kind];
    g->path_index = index;
    g->moved = (enum moved)moved;
    g->hands_over = (enum pt_hand_over)hands_over;
    g->by_attribute = by_attribute;
    Py_XSETREF(g->name, Py_NewRef(name));
    Py_XSETREF(g->path_keyword, unless_none(keyword));
    Py_XSETREF(g->path, unless_none(path));
    Py_XSETREF(g->details, unless_none(details));
    Py_XSETREF(g->after, unless_none(after));
    Py_XSETREF(g->bytes, unless_none(bytes));
    Py_XSETREF(g->steps, unless_none(steps));
    if (!known) {
        g->function = Py_NewRef(function); /* kept: its address stands for it */
        target_count++;
        __atomic_store_n(place, g, __ATOMIC_RELEASE);
    }
    if (!on)
        exchange(g);
    Py_RETURN_NONE;
}

PyObject *pt_is_watched(PyObject *module, PyObject *function)
{
    (void)module;
    vectorcallfunc *slot = slot_of(function);
    return PyBool_FromLong(slot && *slot == watched_call);
}

/* unwatch_all(): every function as it was. */
PyObject *pt_unwatch_all(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    for (unsigned i = 0; i < TARGETS; i++)
        if (targets[i] && *targets[i]->slot == watched_call)
            put_back(targets[i]);
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
