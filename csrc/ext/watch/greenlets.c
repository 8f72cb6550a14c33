/* Each greenlet works in a span of its own (greenlets.h).
 *
 * A switch is a call that returns when another greenlet switches back.  So the thread's state is saved on the C stack of
 * the greenlet that leaves, which greenlet itself keeps with it, and is restored when the call returns.  A greenlet that
 * runs for the first time has no such call: it begins in what its contextvars.Context has, or in no span.
 *
 * gevent switches through a table of C functions, Python code through methods.  While tracing, the table leads here;
 * the methods are watched as others are (hand_over.c). */
#include "watch/greenlets.h"

#include "context/context.h"

#include "core.h"

#include <string.h>

/* In greenlet's table since 0.3. */
#define THROW_NUMBER 5
#define SWITCH_NUMBER 6

typedef PyObject *(*switch_function)(PyObject *greenlet, PyObject *args, PyObject *kwargs);
typedef PyObject *(*throw_function)(PyObject *greenlet, PyObject *type, PyObject *value, PyObject *traceback);

/* References are owned, for good. */
static struct {
    PyTypeObject *type;       /* greenlet.greenlet */
    PyObject *dead, *context; /* its attributes, which classes derived from it may hide */
    void **table;
    void *switch_before, *throw_before;
} known;

/* ---- what a greenlet has begun ------------------------------------------------------------ */

/* The attribute of a greenlet itself: new reference, or NULL. */
static PyObject *attribute(PyObject *descriptor, PyObject *greenlet)
{
    descrgetfunc get = Py_TYPE(descriptor)->tp_descr_get;
    PyObject *value = get(descriptor, greenlet, (PyObject *)Py_TYPE(greenlet));
    PyErr_Clear();
    return value;
}

static bool has_begun(PyObject *greenlet)
{
    if (known.type->tp_as_number->nb_bool(greenlet))
        return true;
    PyObject *dead = attribute(known.dead, greenlet);
    bool is = dead == Py_True;
    Py_XDECREF(dead);
    return is;
}

/* Takes the thread out of the work of the greenlet that leaves.  If `to` begins now, it goes on in its own context. */
static void begin_work(struct pt_thread *t, PyObject *to)
{
    static const struct pt_context nothing = {.in_span = true};
    struct pt_context stored = nothing;
    if (PyObject_TypeCheck(to, known.type) && !has_begun(to)) {
        PyObject *context = attribute(known.context, to);
        bool own = context && context == PyThreadState_Get()->context;
        if (!own && (!context || !PyContext_CheckExact(context) || !pt_context_variable_get(context, &stored)))
            stored = nothing;
        Py_XDECREF(context);
        if (own) /* it goes on with what is done here */
            return;
    }
    t->pool_work = false;
    pt_context_apply(t, &stored);
}

void pt_greenlet_leaves(struct pt_greenlet_work *work, struct pt_thread *t, PyObject *to)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    work->context = pt_context_save(t);
    work->depth = t->depth;
    work->call_thread = t->call_thread;
    work->call_stack = t->call_stack;
    memcpy(work->call_site, t->call_site, sizeof work->call_site);
    if (t->depth) { /* within a file object's method: its series stays its own */
        memcpy(work->series, t->series, sizeof work->series);
        for (int i = 0; i < PT_SERIES; i++)
            t->series[i] = (struct pt_series){0};
        t->depth = 0;
    }
    begin_work(t, to);
    PyErr_Restore(type, value, trace);
}

void pt_greenlet_returns(const struct pt_greenlet_work *work, struct pt_thread *t)
{
    if (t != pt_self)
        return;
    pt_context_restore(t, &work->context);
    if (work->depth)
        memcpy(t->series, work->series, sizeof work->series);
    t->depth = work->depth;
    t->call_thread = work->call_thread;
    t->call_stack = work->call_stack;
    memcpy(t->call_site, work->call_site, sizeof work->call_site);
}

/* ---- switches that are made in C ----------------------------------------------------------- */

static PyObject *switch_to(PyObject *greenlet, PyObject *args, PyObject *kwargs)
{
    struct pt_greenlet_work work;
    struct pt_thread *t = pt_enter();
    if (t)
        pt_greenlet_leaves(&work, t, greenlet);
    PyObject *result = ((switch_function)known.switch_before)(greenlet, args, kwargs);
    if (t)
        pt_greenlet_returns(&work, t);
    return result;
}

static PyObject *throw_into(PyObject *greenlet, PyObject *type, PyObject *value, PyObject *traceback)
{
    struct pt_greenlet_work work;
    struct pt_thread *t = pt_enter();
    if (t)
        pt_greenlet_leaves(&work, t, greenlet);
    PyObject *result = ((throw_function)known.throw_before)(greenlet, type, value, traceback);
    if (t)
        pt_greenlet_returns(&work, t);
    return result;
}

/* ---- watching -------------------------------------------------------------------------------- */

/* watch_greenlets(type, capsule) -> bool: whether switches of greenlets are followed from now on.  type:
 * greenlet.greenlet; capsule: of its C functions */
PyObject *pt_watch_greenlets(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *type, *capsule;
    if (!PyArg_ParseTuple(args, "O!O", &PyType_Type, &type, &capsule))
        return NULL;
#ifdef Py_GIL_DISABLED
    Py_RETURN_FALSE; /* as for asyncio's handles */
#endif
    if (PyInterpreterState_Get() != PyInterpreterState_Main() || !pt_context_variable_ready())
        Py_RETURN_FALSE;
    const PyNumberMethods *numbers = ((PyTypeObject *)type)->tp_as_number;
    PyObject *dead = PyObject_GetAttrString(type, "dead"), *context = PyObject_GetAttrString(type, "gr_context");
    void **table = PyCapsule_CheckExact(capsule) ? PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)) : NULL;
    PyErr_Clear();
    bool fits = numbers && numbers->nb_bool && dead && context && table && Py_TYPE(dead)->tp_descr_get &&
                Py_TYPE(context)->tp_descr_get;
    if (!fits) {
        Py_XDECREF(dead);
        Py_XDECREF(context);
        Py_RETURN_FALSE;
    }
    if (!known.type) {
        known.type = (PyTypeObject *)Py_NewRef(type);
        known.dead = dead;
        known.context = context;
        known.table = table;
        known.switch_before = table[SWITCH_NUMBER];
        known.throw_before = table[THROW_NUMBER];
    } else {
        Py_DECREF(dead);
        Py_DECREF(context);
    }
    if (table != known.table || table[SWITCH_NUMBER] != known.switch_before ||
        table[THROW_NUMBER] != known.throw_before)
        Py_RETURN_FALSE; /* a second copy, or another tool's functions */
    table[SWITCH_NUMBER] = (void *)switch_to;
    table[THROW_NUMBER] = (void *)throw_into;
    pt_context_always = true;
    Py_RETURN_TRUE;
}

void pt_greenlets_unwatch(void)
{
    pt_context_always = false;
    if (!known.table)
        return;
    if (known.table[SWITCH_NUMBER] == (void *)switch_to)
        known.table[SWITCH_NUMBER] = known.switch_before;
    if (known.table[THROW_NUMBER] == (void *)throw_into)
        known.table[THROW_NUMBER] = known.throw_before;
}

bool pt_greenlets_are_followed(void)
{
    return known.type != NULL;
}
