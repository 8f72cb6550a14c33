/* Watched functions that hand context over: starting a thread, running an event loop's handle, and giving a callback to
 * the loop of another thread.  None is an operation of its own. */
#include "watch/hand_over.h"

#include "context/context.h"
#include "context/work_items.h"

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
                                        "distributed.threadpoolexecutor",
                                        "asyncio.",
                                        "tornado.",
                                        "uvloop."};
    PyObject *thread = PyMethod_Check(function) ? PyMethod_GET_SELF(function) : NULL; /* of Thread._bootstrap */
    PyObject *target = thread ? target_of(thread) : NULL;
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
    struct pt_saved_context before = pt_context_save(t);
    struct pt_context stored;
    if (pt_context_variable_get(context, &stored))
        pt_context_apply(t, &stored);
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

PyObject *pt_hand_over(enum pt_role role, const struct pt_invocation *call)
{
    struct pt_thread *t = pt_enter();
    if (t && role == PT_ROLE_RUNS_HANDLE)
        return run_handle(t, call);
    if (t && role == PT_ROLE_SCHEDULES)
        return schedule(t, call);
    if (t && role == PT_ROLE_STARTS_THREAD && t->parent)
        return start_thread(t, call);
    return pt_call_original(call);
}
