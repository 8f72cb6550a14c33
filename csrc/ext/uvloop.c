/* Tasks under uvloop keep their spans from step to step (context.c does it for
 * asyncio's own handles).
 *
 * uvloop's handles are written in C and have no method that could be watched.
 * Each runs its callback between PyContext_Enter and PyContext_Exit, which
 * uvloop calls through slots of its own: these lead here until tracing ends. */
#include "context.h"

#include "call.h"

/* Contexts that uvloop has entered on this thread, the latest last.  It nests them seldom; those beyond are left alone. */
#define DEEPEST 8
struct entered {
    PyObject *context; /* compared only: uvloop holds it */
    struct pt_thread *thread; /* NULL: nothing is to be put back */
    uint32_t epoch, parent, link, at_first;
};
static __thread struct entered entered[DEEPEST];
static __thread unsigned depth;

static void take_up(PyObject *context)
{
    while (depth && entered[depth - 1].epoch != pt.epoch) /* tracing ended within: nobody told of the way out */
        pt_context_leave(entered[--depth].thread != NULL);
    if (depth == DEEPEST)
        return;
    struct pt_thread *t = PyInterpreterState_Get() == PyInterpreterState_Main() ? pt_enter() : NULL;
    struct entered *e = &entered[depth++];
    *e = (struct entered){.context = context, .epoch = pt.epoch, .thread = t};
    if (!t)
        return;
    e->parent = t->parent;
    e->link = t->link;
    pt_context_enter(t);
    e->at_first = t->parent;
}

static void leave_off(PyObject *context)
{
    if (!depth || entered[depth - 1].context != context)
        return;
    const struct entered *e = &entered[--depth];
    struct pt_thread *t = e->thread;
    if (t && t == pt_self && e->epoch == pt.epoch) {
        if (t->parent != e->at_first)
            pt_context_changed(t); /* a span that stays open while the task waits */
        t->parent = e->parent;
        t->link = e->link;
    }
    pt_context_leave(t != NULL);
}

static int enter(PyObject *context)
{
    int result = PyContext_Enter(context);
    if (result == 0)
        take_up(context);
    return result;
}

static int leave(PyObject *context)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    leave_off(context);
    PyErr_Restore(type, value, trace);
    return PyContext_Exit(context);
}

/* enters_contexts(module) -> bool: a module of C, whose calls of these functions surround what its handles run. */
PyObject *pt_enters_contexts(PyObject *module, PyObject *other)
{
    (void)module;
#ifdef Py_GIL_DISABLED
    Py_RETURN_FALSE; /* as for asyncio's own */
#endif
    const void *definition = PyModule_Check(other) ? PyModule_GetDef(other) : NULL;
    if (PyErr_Occurred())
        return NULL;
    bool done = definition && pt_context_ready() && pt_got_point(definition, "PyContext_Exit", leave) &&
                pt_got_point(definition, "PyContext_Enter", enter);
    return PyBool_FromLong(done);
}
