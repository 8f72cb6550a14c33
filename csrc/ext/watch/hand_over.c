/* Watched functions that hand context over: starting a thread, running an event loop's handle, and giving a callback to
 * the loop of another thread.  Besides, pickling code for another process.  None is an operation of its own. */
#include "watch/hand_over.h"

#include "context/context.h"
#include "context/work_items.h"
#include "frames/frames.h"
#include "watch/greenlets.h"

#include "core.h"

#include <string.h>

/* ---- threads ---------------------------------------------------------------------------- */

/* The attribute `_target` of a threading.Thread: new reference, or NULL.  The object may be any other, which may have
 * code of the program for its attributes, so that only its dictionary is looked at. */
static PyObject *target_of(PyObject *thread)
{
    PyObject *dict = PyObject_GenericGetDict(thread, NULL);
    PyObject *target = dict && PyDict_Check(dict) ? PyDict_GetItemString(dict, "_target") : NULL; /* Borrowed */
    Py_XINCREF(target);
    Py_XDECREF(dict);
    return target;
}

/* Whether it is the main function of a thread in a pool.  Such a thread works for many submitters: what it runs
 * brings a context of its own, or has none. */
static bool is_pool_thread(PyObject *function)
{
    static const char *const pools[] = {"concurrent.futures.",
                                        "multiprocessing.pool",
                                        "multiprocessing.queues",
                                        "multiprocess.pool",
                                        "multiprocess.queues",
                                        "multiprocess.managers",
                                        "distributed.threadpoolexecutor",
                                        "multiprocessing.managers",
                                        "logging.handlers",
                                        "anyio.",
                                        "asyncio.",
                                        "joblib.externals.loky.",
                                        "loky.",
                                        "tornado.",
                                        "trio.",
                                        "uvloop."};
    PyObject *thread = PyMethod_Check(function) ? PyMethod_GET_SELF(function) : NULL; /* of Thread._bootstrap */
    PyObject *target = thread ? target_of(thread) : NULL;
    if (!target && thread) /* a class of the library's own, with a run() */
        target = Py_NewRef(Py_TYPE(thread));
    PyObject *module = target ? PyObject_GetAttrString(target, "__module__") : NULL;
    const char *name = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : NULL;
    bool is = false;
    for (size_t i = 0; name && i < sizeof pools / sizeof *pools; i++)
        is |= strncmp(name, pools[i], strlen(pools[i])) == 0;
    PyErr_Clear();
    Py_XDECREF(target);
    Py_XDECREF(module);
    return is;
}

#define ARGUMENTS_MOST 8

/* The first argument is the new thread's main function.  The call gets one that applies this thread's context first. */
static PyObject *start_thread(struct pt_thread *t, const struct pt_invocation *call)
{
    Py_ssize_t n = pt_positional(call), all = pt_arguments(call);
    if (n < 1 || all > ARGUMENTS_MOST || !PyCallable_Check(call->args[0]) || is_pool_thread(call->args[0]))
        return pt_call_original(call);
    PyObject *captured = pt_context_capture(t);
    PyObject *bound = captured ? pt_bind_context(call->args[0], captured) : NULL;
    Py_XDECREF(captured);
    if (!bound) {
        PyErr_Clear();
        return pt_call_original(call);
    }
    PyObject *args[ARGUMENTS_MOST];
    memcpy(args, call->args, (size_t)all * sizeof *args);
    args[0] = bound;
    struct pt_invocation changed = *call;
    changed.args = args;
    changed.flagged = (size_t)n;
    PyObject *result = pt_call_original(&changed);
    Py_DECREF(bound);
    return result;
}

/* ---- tasks -------------------------------------------------------------------------------- */

/* Makes the call in what was stored in the context (NULL: nothing), and stores where its work has got to. */
static PyObject *call_in(struct pt_thread *t, const struct pt_invocation *call, PyObject *context,
                         const struct pt_context *stored, bool always)
{
    struct pt_saved_context before = pt_context_save(t);
    if (stored && always)
        pt_context_apply(t, stored);
    else if (stored)
        pt_context_apply_stored(t, stored);
    if (always)
        t->pool_work = false;
    uint32_t applied = t->parent;
    pt_context_handle_begins();
    PyObject *result = pt_call_original(call);
    pt_context_handle_ends();
    if (t == pt_self) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        if (t->parent != applied) /* a span stays open while the task waits */
            pt_context_variable_store(context, t);
        PyErr_Restore(type, value, trace);
        pt_context_restore(t, &before);
    }
    return result;
}

static __thread const PyObject *entered_by_handle; /* Borrowed: what a handle is about to run its callback in */

/* self is an asyncio Handle, whose _context is the task's.  The handle runs in the span that the task was in when its
 * last step ended.  A task that takes its first step runs in the span of the loop. */
static PyObject *run_handle(struct pt_thread *t, const struct pt_invocation *call)
{
    PyObject *context =
        pt_context_variable_ready() && pt_positional(call) ? PyObject_GetAttrString(call->args[0], "_context") : NULL;
    if (!context || !PyContext_CheckExact(context)) {
        PyErr_Clear();
        Py_XDECREF(context);
        return pt_call_original(call);
    }
    struct pt_context stored;
    bool found = pt_context_variable_get(context, &stored);
    entered_by_handle = context;
    PyObject *result = call_in(t, call, context, found ? &stored : NULL, true);
    entered_by_handle = NULL;
    Py_DECREF(context);
    return result;
}

/* ---- callbacks for another thread's loop ------------------------------------------------------ */

/* The loop copies the current context, and runs the callback in the copy: the variable is set while it copies. */
static PyObject *schedule(struct pt_thread *t, const struct pt_invocation *call)
{
    PyObject *captured = pt_context_variable_ready() ? pt_context_capture(t) : NULL;
    PyObject *token = pt_context_variable_set(captured);
    Py_XDECREF(captured);
    PyObject *result = pt_call_original(call);
    if (token)
        pt_context_variable_reset(token);
    return result;
}

/* ---- what other libraries run in a context ---------------------------------------------------- */

/* self is a contextvars.Context.  trio runs each step of a task in one, anyio and others what a thread of theirs was
 * given.  As for a handle, a span that is left open stays with the context. */
static PyObject *run_in_context(struct pt_thread *t, const struct pt_invocation *call)
{
    PyObject *context = pt_positional(call) ? call->args[0] : NULL;
    bool done = context && context == entered_by_handle; /* run_handle() has done it */
    entered_by_handle = NULL;
    if (done || !context || !PyContext_CheckExact(context) || !pt_context_variable_ready())
        return pt_call_original(call);
    struct pt_context stored;
    return call_in(t, call, context, pt_context_variable_get(context, &stored) ? &stored : NULL, false);
}

/* self is the greenlet to switch to.  The call returns when another one switches back to the greenlet that calls. */
static PyObject *switch_greenlet(struct pt_thread *t, const struct pt_invocation *call)
{
    struct pt_greenlet_work work;
    pt_greenlet_leaves(&work, t, call->args[0]);
    PyObject *result = pt_call_original(call);
    pt_greenlet_returns(&work, t);
    return result;
}

PyObject *pt_hand_over(enum pt_role role, const struct pt_invocation *call)
{
    struct pt_thread *t = pt_enter();
    if (t && role == PT_ROLE_RUNS_HANDLE)
        return run_handle(t, call);
    if (t && role == PT_ROLE_SCHEDULES)
        return schedule(t, call);
    if (t && role == PT_ROLE_SENDS_CODE && pt_positional(call))
        pt_frames_note_sent(call->args[0]);
    if (t && role == PT_ROLE_RUNS_IN_CONTEXT)
        return run_in_context(t, call);
    if (t && role == PT_ROLE_SWITCHES && pt_positional(call) && pt_greenlets_are_followed())
        return switch_greenlet(t, call);
    if (t && role == PT_ROLE_STARTS_THREAD && t->parent)
        return start_thread(t, call);
    return pt_call_original(call);
}
