/* Context goes with the work: to another thread, and from step to step of an
 * asyncio task (capture/threads.py says which functions hand over).
 *
 * A thread's innermost open span is a field of its state (core.h).  Handing over
 * is noting that number where the work is given away, and putting it back in the
 * thread that takes the work up.  Between the steps of a task it is kept in a
 * context variable: tasks that a task makes have it by the copy of the context
 * that asyncio makes for them. */
#include "context.h"

#include "call.h"
#include "unseen.h"

#include <string.h>

static PyObject *variable; /* Owned: a ContextVar; made when the first task takes a step */
static __thread int steps; /* handles of event loops that are under way on this thread */

uint32_t pt_run_number(void)
{
    static uint32_t number, epoch;
    uint32_t now = __atomic_load_n(&pt.epoch, __ATOMIC_ACQUIRE);
    if (__atomic_load_n(&epoch, __ATOMIC_ACQUIRE) != now || !number) {
        __atomic_store_n(&number, (uint32_t)pt_hash_bytes(pt.path, strlen(pt.path), 7) | 1, __ATOMIC_RELEASE);
        __atomic_store_n(&epoch, now, __ATOMIC_RELEASE);
    }
    return __atomic_load_n(&number, __ATOMIC_ACQUIRE);
}

uint64_t pt_context_of(const struct pt_thread *t)
{
    return t && t->parent ? (uint64_t)pt_run_number() << 32 | t->parent : 0;
}

uint32_t pt_context_span(uint64_t context)
{
    return context && (uint32_t)(context >> 32) == pt_run_number() ? (uint32_t)context : 0;
}

/* ---- threads ---------------------------------------------------------------------------- */

/* Threads that serve whoever comes: what they run has a context of its own, or none. */
static bool is_pools_own(PyObject *function)
{
    static const char *const pools[] = {"concurrent.futures.", "multiprocessing.pool", "multiprocessing.queues",
                                        "distributed.threadpoolexecutor", "asyncio.", "tornado."};
    PyObject *thread = PyMethod_Check(function) ? PyMethod_GET_SELF(function) : NULL; /* Thread._bootstrap */
    PyObject *target = thread ? PyObject_GetAttrString(thread, "_target") : NULL;
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

#define ARGUMENTS 8

static PyObject *start(struct pt_thread *t, const struct pt_original *original, PyObject *callable, PyObject *const *args,
                       size_t flagged, PyObject *names)
{
    Py_ssize_t n = PyVectorcall_NARGS(flagged), all = n + (names ? PyTuple_GET_SIZE(names) : 0);
    if (n < 1 || all > ARGUMENTS || !PyCallable_Check(args[0]) || is_pools_own(args[0]))
        return pt_call_original(original, callable, args, flagged, names);
    PyObject *ours[ARGUMENTS];
    memcpy(ours, args, (size_t)all * sizeof *ours);
    ours[0] = pt_under_context(args[0], pt_context_of(t));
    if (!ours[0]) {
        PyErr_Clear();
        return pt_call_original(original, callable, args, flagged, names);
    }
    PyObject *result = pt_call_original(original, callable, ours, (size_t)n, names);
    Py_DECREF(ours[0]);
    return result;
}

/* ---- tasks -------------------------------------------------------------------------------- */

/* The number in the context that is entered; false: none was ever put there. */
static bool number_here(uint64_t *number)
{
    PyObject *value = NULL;
    bool found = PyContextVar_Get(variable, NULL, &value) == 0 && value;
    if (found)
        *number = PyLong_AsUnsignedLongLong(value);
    found &= !PyErr_Occurred();
    PyErr_Clear();
    Py_XDECREF(value);
    return found;
}

/* ... in that one. */
static bool context_get(PyObject *context, uint64_t *number)
{
    bool found = false;
    if (PyContext_Enter(context) == 0) {
        found = number_here(number);
        PyContext_Exit(context);
    }
    PyErr_Clear();
    return found;
}

static void variable_set(uint64_t number)
{
    PyObject *value = PyLong_FromUnsignedLongLong(number);
    PyObject *token = value ? PyContextVar_Set(variable, value) : NULL;
    if (!token)
        PyErr_Clear();
    Py_XDECREF(value);
    Py_XDECREF(token);
}

void pt_context_changed(struct pt_thread *t)
{
    if (steps && variable)
        variable_set(pt_context_of(t));
}

void pt_context_enter(struct pt_thread *t)
{
    uint64_t number = 0;
    steps++;
    if (number_here(&number)) { /* else: the span in which the loop itself runs */
        t->parent = pt_context_span(number);
        t->link = PT_LINK_CONTEXT;
    }
}

void pt_context_leave(bool entered)
{
    steps -= entered;
}

bool pt_context_ready(void)
{
    if (!variable && !(variable = PyContextVar_New("pyio_trace_span", NULL)))
        PyErr_Clear();
    return variable != NULL;
}

static PyObject *step(struct pt_thread *t, const struct pt_original *original, PyObject *callable, PyObject *const *args,
                      size_t flagged, PyObject *names)
{
    PyObject *context = pt_context_ready() && PyVectorcall_NARGS(flagged) ? PyObject_GetAttrString(args[0], "_context") : NULL;
    if (!context || !PyContext_CheckExact(context)) {
        PyErr_Clear();
        Py_XDECREF(context);
        return pt_call_original(original, callable, args, flagged, names);
    }
    uint32_t parent = t->parent, link = t->link;
    uint64_t number = 0;
    if (context_get(context, &number)) { /* else: the span in which the loop itself runs */
        t->parent = pt_context_span(number);
        t->link = PT_LINK_CONTEXT;
    }
    uint32_t at_first = t->parent;
    steps++;
    PyObject *result = pt_call_original(original, callable, args, flagged, names);
    steps--;
    if (t == pt_self) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        if (t->parent != at_first && PyContext_Enter(context) == 0) {
            variable_set(pt_context_of(t)); /* a span that stays open while the task waits */
            PyContext_Exit(context);
        }
        PyErr_Restore(type, value, trace);
        t->parent = parent;
        t->link = link;
    }
    Py_DECREF(context);
    return result;
}

PyObject *pt_hand_over(enum pt_hand_over kind, const struct pt_original *original, PyObject *callable,
                       PyObject *const *args, size_t flagged, PyObject *names)
{
    struct pt_thread *t = pt_enter();
    if (t && kind == PT_STEPS)
        return step(t, original, callable, args, flagged, names);
    if (t && kind == PT_STARTS && t->parent)
        return start(t, original, callable, args, flagged, names);
    return pt_call_original(original, callable, args, flagged, names);
}
