/* Keeps the span of a task between its steps under uvloop; watch/hand_over.c does it for asyncio's own handles.
 *
 * uvloop's handles are written in C and have no method to watch.  Each runs its callback between PyContext_Enter and
 * PyContext_Exit, which uvloop calls through its own GOT slots.  While tracing, these slots lead here. */
#include "context/uvloop.h"

#include "context/context.h"

#include "core.h"

/* The contexts that uvloop has entered on this thread, innermost last.  Nesting is rare; deeper ones are not
 * followed. */
#define DEEPEST 8
struct entered {
    PyObject *context;        /* Borrowed from uvloop; compared only */
    struct pt_thread *thread; /* NULL: not traced, nothing to restore */
    uint32_t epoch, applied;  /* applied: the parent after the context was applied */
    struct pt_saved_context before;
};
static __thread struct entered entered[DEEPEST];
static __thread unsigned depth;

static void ends(const struct entered *e)
{
    if (e->thread)
        pt_context_handle_ends();
}

static void after_enter(PyObject *context)
{
    while (depth && entered[depth - 1].epoch != pt.epoch) /* tracing stopped within: the exit did not come here */
        ends(&entered[--depth]);
    if (depth == DEEPEST)
        return;
    struct pt_thread *t = PyInterpreterState_Get() == PyInterpreterState_Main() ? pt_enter() : NULL;
    struct entered *e = &entered[depth++];
    *e = (struct entered){.context = context, .epoch = pt.epoch, .thread = t};
    if (!t)
        return;
    e->before = pt_context_save(t);
    pt_context_apply_current(t);
    pt_context_handle_begins();
    e->applied = t->parent;
}

static void before_exit(PyObject *context)
{
    if (!depth || entered[depth - 1].context != context)
        return;
    const struct entered *e = &entered[--depth];
    struct pt_thread *t = e->thread;
    if (t && t == pt_self && e->epoch == pt.epoch) {
        if (t->parent != e->applied)
            pt_context_changed(t); /* a span that stays open while the task waits */
        pt_context_restore(t, &e->before);
    }
    ends(e);
}

static int enter(PyObject *context)
{
    int result = PyContext_Enter(context);
    if (result == 0)
        after_enter(context);
    return result;
}

static int leave(PyObject *context)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    before_exit(context);
    PyErr_Restore(type, value, trace);
    return PyContext_Exit(context);
}

/* watch_context_switches(library) -> bool: whether the context of what this C module runs is kept from now on */
PyObject *pt_watch_context_switches(PyObject *module, PyObject *library)
{
    (void)module;
#ifdef Py_GIL_DISABLED
    Py_RETURN_FALSE; /* as for asyncio's own handles */
#endif
    const void *definition = PyModule_Check(library) ? PyModule_GetDef(library) : NULL;
    if (PyErr_Occurred())
        return NULL;
    bool done = definition && pt_context_variable_ready() && pt_got_point(definition, "PyContext_Exit", leave) &&
                pt_got_point(definition, "PyContext_Enter", enter);
    return PyBool_FromLong(done);
}
