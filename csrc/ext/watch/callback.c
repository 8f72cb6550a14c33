/* Calls an instrument's callbacks: see callback.h.
 *
 * A callback may fail.  That costs a warning, once in a process, and the details of the call; the program sees nothing.
 * But a signal handler of the program may run inside a callback, and what it raises is the program's:
 * capture/instrumentation/exception_origin.py tells the two apart. */
#include "watch/callback.h"

#include <stdio.h>
#include <string.h>

static uint32_t warned; /* about a fault, in this process */

/* Whether the program raised it.  Cuts our own frames from its traceback. */
static bool is_programs(struct pt_callback_error *e)
{
    bool is = !PyErr_GivenExceptionMatches(e->type, PyExc_Exception);
    PyObject *module = PyImport_ImportModule("pyio_trace.capture.instrumentation.exception_origin");
    PyObject *answer =
        module ? PyObject_CallMethod(module, "the_programs", "OOO", e->type, e->value, e->trace ? e->trace : Py_None)
               : NULL;
    if (answer && PyTuple_CheckExact(answer)) {
        PyObject *trace = PyTuple_GET_ITEM(answer, 0);
        Py_XSETREF(e->trace, trace == Py_None ? NULL : Py_NewRef(trace));
        PyException_SetTraceback(e->value, trace);
        is = true;
    }
    PyErr_Clear();
    Py_XDECREF(answer);
    Py_XDECREF(module);
    return is;
}

static void drop(struct pt_callback_error *e)
{
    Py_CLEAR(e->type);
    Py_CLEAR(e->value);
    Py_CLEAR(e->trace);
}

/* Counts a fault of ours and drops it; the first one in a process is also printed. */
static void report(struct pt_target *g, struct pt_callback_error *e)
{
    PyObject *type = e->type, *value = e->value;
    g->faults++;
    if (!(pt.gate & PT_GATE_OFF))
        __atomic_fetch_add(&pt.header->fault_count, 1, __ATOMIC_RELAXED);
    if (!warned++) {
        PyObject *text = PyObject_Str(value ? value : Py_None);
        const char *said = text ? PyUnicode_AsUTF8(text) : NULL;
        const char *name = PyUnicode_AsUTF8(g->description.name);
        char line[400];
        snprintf(line, sizeof line, "details of %s are missing: %s: %s (said once)", name ? name : "?",
                 type ? ((PyTypeObject *)type)->tp_name : "?", said ? said : "?");
        const char *words = line;
        pt_say(&words, 1);
        Py_XDECREF(text);
        PyErr_Clear();
    }
    drop(e);
}

/* Takes the exception that is set.  Returns false if there is none. */
static bool take_exception(struct pt_callback_error *now)
{
    *now = (struct pt_callback_error){NULL, NULL, NULL, false};
    PyErr_Fetch(&now->type, &now->value, &now->trace);
    if (!now->type)
        return false;
    PyErr_NormalizeException(&now->type, &now->value, &now->trace);
    now->is_programs = is_programs(now);
    return true;
}

/* Keeps, reports or drops the exception that is set.  An error of the program's replaces a kept fault, but not an
 * earlier error of the program's.  A fault is kept only before the call, and only the first. */
static void handle_exception(struct pt_target *g, struct pt_callback_error *kept, bool before_call)
{
    struct pt_callback_error now;
    if (!take_exception(&now))
        return;
    if (now.is_programs ? !kept->is_programs : before_call && !kept->type) {
        if (kept->type)
            report(g, kept);
        *kept = now;
    } else if (now.is_programs) {
        drop(&now);
    } else {
        report(g, &now);
    }
}

void pt_callback_keep_programs(struct pt_callback_error *kept)
{
    struct pt_callback_error now;
    if (!take_exception(&now))
        return;
    if (now.is_programs && !kept->type)
        *kept = now;
    else
        drop(&now);
}

PyObject *pt_callback_raise(struct pt_callback_error *kept)
{
    PyErr_Restore(kept->type, kept->value, kept->trace);
    return NULL;
}

void pt_callback_report(struct pt_target *g, struct pt_callback_error *kept)
{
    /* What the call raised, and what a callback raises for the same reason.  An argument of a wrong type is a TypeError
     * to the call, but may have no such attribute for the callback. */
    PyObject *const same_reason[][2] = {
        {PyExc_TypeError, PyExc_TypeError},
        {PyExc_TypeError, PyExc_AttributeError},
        {PyExc_RecursionError, PyExc_RecursionError},
    };
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    bool same = false;
    for (size_t i = 0; type && i < sizeof same_reason / sizeof *same_reason; i++)
        same |= PyErr_GivenExceptionMatches(type, same_reason[i][0]) &&
                PyErr_GivenExceptionMatches(kept->type, same_reason[i][1]);
    if (same)
        drop(kept);
    else
        report(g, kept);
    PyErr_Restore(type, value, trace);
}

/* Levels of recursion that a callback has beyond the program's limit, where the call itself is the last that fits. */
#define HEADROOM 50

static void add_recursion_room(PyThreadState *state, int levels)
{
#if PY_VERSION_HEX < 0x030c0000
    state->recursion_remaining += levels;
#else
    state->py_recursion_remaining += levels;
#if PY_VERSION_HEX < 0x030e0000 /* 3.14 and later go by the stack's addresses */
    state->c_recursion_remaining += levels;
#endif
#endif
}

#define FEW 16

PyObject *pt_callback(struct pt_target *g, PyObject *callback, PyObject *result, struct pt_callback_error *error,
                      const struct pt_invocation *call)
{
    Py_ssize_t n = pt_positional(call), all = pt_arguments(call);
    PyObject *const *args = call->args;
    PyObject *few[FEW], **shifted = NULL, *answer = NULL;
    if (result) {
        shifted = all + 1 <= FEW ? few : PyMem_Malloc((size_t)(all + 1) * sizeof *shifted);
        if (!shifted)
            return NULL;
        shifted[0] = result;
        memcpy(shifted + 1, args, (size_t)all * sizeof *shifted);
        args = shifted;
        n++;
    }
    PyThreadState *state = PyThreadState_Get();
    Py_INCREF(callback); /* the callback may watch its target again, with another description */
    uint16_t unwatched = g->description.role != PT_ROLE_MARKER;
    struct pt_thread *t = pt_self; /* it exists: the call has entered */
    t->callbacks += unwatched;
    PyThreadState_EnterTracing(state);
    add_recursion_room(state, HEADROOM);
    answer = PyObject_Vectorcall(callback, args, (size_t)n, call->names);
    if (!answer)
        handle_exception(g, error, !result);
    add_recursion_room(state, -HEADROOM);
    PyThreadState_LeaveTracing(state);
    t->callbacks -= unwatched;
    Py_DECREF(callback);
    if (shifted && shifted != few)
        PyMem_Free(shifted);
    return answer;
}
