/* The context of a thread's work (context.h).
 *
 * A thread's innermost open span and the stacks of its submitters are fields of its state in the core.  Handing work
 * over means capturing both where the work is submitted, and applying them in the thread that runs it.
 *
 * Between the steps of an asyncio task, a context variable keeps them.  asyncio copies the current context for each
 * task that a task creates, and for each callback that another thread gives to a loop; the copies inherit the
 * variable. */
#include "context/context.h"

#include "core.h"

#include <string.h>

struct pt_run pt_run;

PT_COLD uint32_t pt_run_number_slow(void)
{
    uint32_t epoch = __atomic_load_n(&pt.epoch, __ATOMIC_ACQUIRE);
    uint32_t number = (uint32_t)pt_hash_bytes(pt.path, strlen(pt.path), 7) | 1;
    __atomic_store_n(&pt_run.number, number, __ATOMIC_RELEASE);
    __atomic_store_n(&pt_run.epoch, epoch, __ATOMIC_RELEASE);
    return number;
}

/* ---- handing over to other work ---------------------------------------------------------- */

/* Puts the stack of the current call before those of its submitters.  If the stack is among them already, it and those
 * before it are dropped: a callback that submits itself would make new lists for ever.  If there is no room, the latest
 * submitter is dropped, because the oldest is most often the program's own code. */
static void add_submitter(struct pt_submitters *from, uint32_t stack)
{
    uint32_t stacks[PT_SUBMITTERS] = {stack}, count = 1, first = 0;
    while (first < from->count && from->stacks[first] != stack)
        first++;
    bool known = first < from->count, full = from->count == PT_SUBMITTERS;
    first = known ? first + 1 : full;
    for (; first < from->count; first++)
        stacks[count++] = from->stacks[first];
    memcpy(from->stacks, stacks, sizeof stacks);
    from->count = count;
    from->hash = pt_hash_bytes(stacks, count * sizeof *stacks, 0x46524f4d00000000ull) | 1;
}

/* The id of the current stack without its submitters; 0 if there is none. */
static uint32_t stack_without_submitters(struct pt_thread *t)
{
    struct pt_submitters from = t->from;
    memset(&t->from, 0, sizeof t->from);
    uint32_t stack = pt_stack(t);
    t->from = from;
    return stack == PT_STACK_IMPORT ? 0 : stack;
}

static PyObject *as_bytes(const struct pt_context *context)
{
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)context, sizeof *context);
    if (!bytes)
        PyErr_Clear();
    return bytes;
}

/* A thread that was started in a span hands on that it is in the span only until the span ends. */
static struct pt_context of_thread(const struct pt_thread *t)
{
    return (struct pt_context){.run = pt_run_number(),
                               .span = t->parent,
                               .link = t->link == PT_LINK_STARTED ? PT_LINK_STARTED : PT_LINK_CONTEXT,
                               .thread = t->number,
                               .in_span = true,
                               .from = t->from};
}

PyObject *pt_context_capture(struct pt_thread *t)
{
    struct pt_context context = of_thread(t);
    context.in_span = t->parent;
    uint32_t stack = stack_without_submitters(t);
    if (stack)
        add_submitter(&context.from, stack);
    return context.span || context.from.count ? as_bytes(&context) : NULL;
}

bool pt_context_read(PyObject *captured, struct pt_context *context)
{
    if (!captured || !PyBytes_CheckExact(captured) || PyBytes_GET_SIZE(captured) != sizeof *context)
        return false;
    memcpy(context, PyBytes_AS_STRING(captured), sizeof *context);
    return context->run == pt_run_number() && context->from.count <= PT_SUBMITTERS;
}

/* Sets the thread's submitters.  Coalesced calls are compared by their innermost frames only, so calls made for other
 * submitters must not join them: their call sites are forgotten. */
static void set_submitters(struct pt_thread *t, const struct pt_submitters *from)
{
    if (from->hash && from->hash != t->series_from) {
        t->series_from = from->hash;
        for (int i = 0; i < PT_SERIES; i++)
            t->series[i].site[1] = NULL;
    }
    t->from = *from;
}

void pt_context_apply(struct pt_thread *t, const struct pt_context *context)
{
    if (context->in_span) {
        t->parent = t->handed = context->span;
        t->link = context->link;
    }
    set_submitters(t, &context->from);
}

void pt_context_restore(struct pt_thread *t, const struct pt_saved_context *saved)
{
    static const struct pt_submitters nobody;
    bool same = saved->run == pt_run_number();
    t->parent = same ? saved->parent : 0;
    t->handed = same ? saved->handed : 0;
    t->pool_work = saved->pool_work;
    t->link = saved->link;
    set_submitters(t, same ? &saved->from : &nobody);
}

/* ---- tasks -------------------------------------------------------------------------------- */

static PyObject *variable; /* Owned: a ContextVar, made when the first handle runs */
static __thread int handles_running;
bool pt_context_always;

bool pt_context_variable_ready(void)
{
    if (!variable && !(variable = PyContextVar_New("pyio_trace_span", NULL)))
        PyErr_Clear();
    return variable != NULL;
}

/* Reads the variable in the current context. */
static bool get_current(struct pt_context *context)
{
    PyObject *value = NULL;
    bool found = PyContextVar_Get(variable, NULL, &value) == 0 && value;
    if (found && !pt_context_read(value, context))
        *context = (struct pt_context){.in_span = true}; /* of another run: in no span of this one */
    PyErr_Clear();
    Py_XDECREF(value);
    return found;
}

bool pt_context_variable_get(PyObject *entered, struct pt_context *context)
{
    bool found = false;
    if (PyContext_Enter(entered) == 0) {
        found = get_current(context);
        PyContext_Exit(entered);
    }
    PyErr_Clear();
    return found;
}

PyObject *pt_context_variable_set(PyObject *captured)
{
    PyObject *token = captured ? PyContextVar_Set(variable, captured) : NULL;
    if (!token)
        PyErr_Clear();
    return token;
}

void pt_context_variable_reset(PyObject *token)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (PyContextVar_Reset(variable, token) != 0)
        PyErr_Clear();
    Py_DECREF(token);
    PyErr_Restore(type, value, trace);
}

static void store_current(struct pt_thread *t)
{
    struct pt_context context = of_thread(t);
    t->handed = t->parent;
    PyObject *value = as_bytes(&context);
    Py_XDECREF(pt_context_variable_set(value));
    Py_XDECREF(value);
}

void pt_context_variable_store(PyObject *entered, struct pt_thread *t)
{
    if (PyContext_Enter(entered) == 0) {
        store_current(t);
        PyContext_Exit(entered);
    }
}

void pt_context_handle_begins(void)
{
    handles_running++;
}

void pt_context_handle_ends(void)
{
    handles_running--;
}

void pt_context_apply_current(struct pt_thread *t)
{
    struct pt_context context;
    if (!get_current(&context))
        return;
    if (handles_running)
        pt_context_apply_stored(t, &context);
    else
        pt_context_apply(t, &context);
}

void pt_context_apply_stored(struct pt_thread *t, const struct pt_context *stored)
{
    bool own = stored->thread == t->number;
    if (own ? stored->in_span && stored->span == t->handed : t->pool_work)
        return;
    pt_context_apply(t, stored);
}

void pt_context_changed(struct pt_thread *t)
{
    if ((handles_running || pt_context_always) && variable)
        store_current(t);
}
