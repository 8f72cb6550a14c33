/* A call of a watched function.
 *
 *   pt_watched_call      passes the call on if it is not an operation, or nothing is traced
 *     describe_call      before: asks the instrument for the path and the details
 *     pt_span_open
 *     pt_call_original   the program's own call
 *     finish_call        after: the error, or the bytes and further details
 *     pt_span_close
 *
 * Invariants:
 * - The program gets what the original function returns or raises.  There is one exception: a signal handler of the
 *   program raised inside a callback.  The call then raises that, as if the signal had come just before the call (the
 *   function is not called) or just after it (its result is dropped).
 * - The instrument's faults reach nobody but the user: once on stderr, and counted.  A fault before the call is
 *   reported after it, since the call may raise for the same reason (pt_callback_report).
 * - While a callback runs, calls of watched functions pass (pt_callback_runs).
 * - Tracing may stop, and the process may fork, during the original function.  finish_call writes to the record only
 *   if this process, this thread and this log are still those of the begin.  pt_span_close checks for itself. */
#include "watch/watched_call.h"

#include "imports/import_times.h"
#include "python/exception.h"
#include "python/small_int.h"
#include "spans/details.h"
#include "spans/open_span.h"
#include "watch/callback.h"
#include "watch/extract.h"
#include "watch/hand_over.h"
#include "watch/iterators.h"

/* A call under way. */
struct watched_call {
    struct pt_target *target;
    const struct pt_invocation *as_called;
    struct pt_thread *thread;
    struct pt_details *details; /* Owned */
    uint32_t path, detail;      /* string ids */
    struct pt_callback_error before, after;
    struct pt_open_span span;
};

static void add_details(struct pt_details *d, PyObject *answer)
{
    if (answer && PyDict_Check(answer))
        pt_details_add_dict(d, answer);
    Py_XDECREF(answer);
}

/* Bytes of a member from which on a row costs little beside the work. */
#define WORTH_A_ROW 65536

/* Whether a call is not worth a row: the attribute that decides is missing, or a small number.  Runs no code of the
 * program: an attribute that the class has (a property) is not asked. */
static bool is_small(PyObject *name, const struct pt_invocation *call)
{
    PyObject *self = pt_positional(call) > 0 ? call->args[0] : NULL;
    if (!self || _PyType_Lookup(Py_TYPE(self), name))
        return false;
    PyObject *value = PyObject_GenericGetAttr(self, name);
    if (!value)
        PyErr_Clear();
    int64_t number;
    bool small = !value || (pt_small_int(value, &number) && number < WORTH_A_ROW);
    Py_XDECREF(value);
    return small;
}

/* Returns false if the call is to go on unrecorded, or to raise what is kept in `before`. */
static bool describe_call(struct watched_call *c)
{
    struct pt_target *g = c->target;
    c->path = pt_extract_path(g, c->thread, c->details, &c->before, c->as_called);
    if (g->description.details && c->path != PT_PATH_EXCLUDED && !c->before.is_programs)
        add_details(c->details, pt_callback(g, g->description.details, NULL, &c->before, c->as_called));
    if (PT_UNLIKELY(c->before.is_programs || c->path == PT_PATH_EXCLUDED))
        return false;
    c->detail = pt_details_intern(c->details);
    return true;
}

/* Returns the errno of the exception that is set, which stays set.  The name of its type goes into the details: a
 * library may raise StopIteration for the end of its data. */
static int describe_error(struct watched_call *c)
{
    PyObject *type = PyErr_Occurred();
    if (!type)
        return 0;
    int error = pt_exception_errno();
    pt_details_add_text(c->details, "raised", ((PyTypeObject *)type)->tp_name);
    c->detail = pt_details_intern(c->details);
    return error;
}

/* Writes down what the call did.  Returns its errno; sets *moved to its bytes, or to -1. */
static int finish_call(struct watched_call *c, PyObject *result, int64_t *moved)
{
    struct pt_target *g = c->target;
    int error = 0;
    *moved = -1;
    bool same = c->span.call.process_id == pt.process_id && !(pt.gate & PT_GATE_OFF) && c->thread == pt_self;
    if (!result) {
        error = same ? describe_error(c) : 0;
    } else if (same && !c->thread->gate && (g->description.bytes_source || g->description.after)) {
        *moved = pt_extract_bytes(g, result, &c->after, c->as_called);
        if (g->description.after) {
            add_details(c->details, pt_callback(g, g->description.after, result, &c->after, c->as_called));
            c->detail = pt_details_intern(c->details);
        }
    }
    if (same && pt_span_has_record(&c->span))
        c->span.call.record->offset = c->detail;
    if (g->description.step_name && result) { /* the bytes are those of the steps */
        pt_iterator_watch(result, g->description.step_name, c->path, *moved >= 0);
        *moved = -1;
    }
    return error;
}

/* ---- what watching costs ---------------------------------------------------------------------
 *
 * Watching a call takes time before and after the original function, most of it in the instrument and in the library,
 * which the instrument asks.  Another thread may run meanwhile.  So at most MOST_US of it count each time: what is
 * longer was mostly spent waiting for the GIL. */
#define MOST_US 1000u

static void add_cost(uint64_t since)
{
    uint64_t ticks = pt_ticks() - since, most = MOST_US * pt_ticks_per_us();
    if (!(pt.gate & PT_GATE_OFF) && pt.process_id)
        __atomic_fetch_add(&pt.process->watch_ticks, ticks < most ? ticks : most, __ATOMIC_RELAXED);
}

/* A call that begins or ends something longer than itself: its callbacks open and close the spans of that. */
static PyObject *call_marker(struct pt_target *g, const struct pt_invocation *call)
{
    struct pt_callback_error before = {NULL, NULL, NULL, false}, after = before;
    struct pt_thread *t = g->description.details ? pt_enter() : NULL;
    uint64_t since = pt_ticks();
    if (t) {
        Py_XDECREF(pt_callback(g, g->description.details, NULL, &before, call));
        add_cost(since);
    }
    if (before.is_programs)
        return pt_callback_raise(&before);
    PyObject *result = pt_call_original(call);
    if (PT_UNLIKELY(before.type != NULL))
        pt_callback_report(g, &before);
    t = g->description.after ? pt_enter() : NULL;
    if (t) {
        PyObject *type, *value, *trace;
        since = pt_ticks();
        PyErr_Fetch(&type, &value, &trace);
        Py_XDECREF(pt_callback(g, g->description.after, result ? result : Py_None, &after, call));
        PyErr_Restore(type, value, trace);
        add_cost(since);
    }
    if (PT_UNLIKELY(after.is_programs)) {
        Py_CLEAR(result);
        return pt_callback_raise(&after);
    }
    return result;
}

static PyObject *call_import(const struct pt_invocation *call)
{
    PyObject *name = pt_positional(call) > 0 ? call->args[0] : NULL; /* Borrowed */
    struct pt_import import;
    pt_import_begins(&import, name);
    PyObject *result = pt_call_original(call);
    pt_import_ends(&import, name);
    return result;
}

/* A loader of __main__ is made just before the script's code runs. */
static PyObject *make_loader(const struct pt_invocation *call)
{
    PyObject *name = pt_positional(call) > 1 ? call->args[1] : NULL;
    PyObject *result = pt_call_original(call);
    if (result && name && PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "__main__") == 0)
        pt_script_begins();
    return result;
}

/* A call that is no operation of its own. */
static PT_COLD PyObject *call_by_role(struct pt_target *g, const struct pt_invocation *call)
{
    switch (g->description.role) {
    case PT_ROLE_MARKER: return call_marker(g, call);
    case PT_ROLE_IMPORTS: return call_import(call);
    case PT_ROLE_LOADS: return make_loader(call);
    default: return pt_hand_over(g->description.role, call);
    }
}

PyObject *pt_watched_call(struct pt_target *g, const struct pt_invocation *call)
{
    if (pt_callback_runs())
        return pt_call_original(call);
    if (PT_UNLIKELY(g->description.role != PT_ROLE_OPERATION))
        return call_by_role(g, call);
    if (g->description.only_if && is_small(g->description.only_if, call))
        return pt_call_original(call);
    struct watched_call c;
    uint64_t since = pt_ticks();
    struct pt_thread *t = pt_enter();
    if (!t || !(c.details = pt_details_take()))
        return pt_call_original(call);
    c.target = g;
    c.as_called = call;
    c.thread = t;
    c.before = c.after = (struct pt_callback_error){NULL, NULL, NULL, false};
    if (PT_UNLIKELY(!describe_call(&c))) {
        pt_details_give(c.details);
        return c.before.is_programs ? pt_callback_raise(&c.before) : pt_call_original(call);
    }
    pt_span_open(&c.span, t, g->description.op, c.path, pt_target_name_id(g), c.detail);
    add_cost(since);

    PyObject *result = pt_call_original(call);

    since = pt_ticks();
    if (PT_UNLIKELY(c.before.type != NULL))
        pt_callback_report(g, &c.before);
    int64_t moved;
    int error = finish_call(&c, result, &moved);
    pt_details_give(c.details);
    pt_span_close(&c.span, moved, error);
    add_cost(since);
    if (PT_UNLIKELY(c.after.is_programs)) {
        Py_CLEAR(result);
        return pt_callback_raise(&c.after);
    }
    return result;
}
