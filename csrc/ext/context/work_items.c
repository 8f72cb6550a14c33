/* Work that carries its context along (capture/instrumentation/instrument_registry.py).
 *
 * An executor makes one object for each piece of work in the thread that submits it, and runs that object in a thread
 * of its pool.  The object's __init__ captures the submitter's context; its run() applies it. */
#include "context/work_items.h"

#include "context/context.h"
#include "python/frameless.h"

#include "core.h"

#define ATTRIBUTE "_pyio_trace_context" /* of the work item: what pt_context_capture() returned */

/* Calls `function` in that context, then restores this thread's own. */
static PyObject *call_in_context(struct pt_thread *t, const struct pt_context *context, bool pool_work,
                                 PyObject *function, PyObject *args, PyObject *kwargs)
{
    struct pt_saved_context before = pt_context_save(t);
    pt_context_apply(t, context);
    t->pool_work = pool_work;
    uint32_t applied = t->parent;
    PyObject *result = PyObject_Call(function, args, kwargs);
    if (t == pt_self) {
        struct pt_saved_context now = pt_context_save(t);
        if (now.parent != applied) { /* the call left a span open, and the thread stays in it */
            before.parent = now.parent;
            before.link = now.link;
        }
        pt_context_restore(t, &before);
    }
    return result;
}

/* parts: the __init__ of a work item. */
static PyObject *init_work_item(struct pt_frameless *self, PyObject *args, PyObject *kwargs)
{
    PyObject *result = PyObject_Call(self->parts[0], args, kwargs);
    struct pt_thread *t = result && PyTuple_GET_SIZE(args) ? pt_enter() : NULL;
    PyObject *captured = t ? pt_context_capture(t) : NULL;
    if (captured && PyObject_SetAttrString(PyTuple_GET_ITEM(args, 0), ATTRIBUTE, captured) < 0)
        PyErr_Clear();
    Py_XDECREF(captured);
    return result;
}

/* parts: the method that runs a work item.  Work that was submitted outside of any span runs in none, even if the
 * pool's thread was started within one. */
static PyObject *run_work_item(struct pt_frameless *self, PyObject *args, PyObject *kwargs)
{
    struct pt_thread *t = pt_enter();
    if (!t)
        return PyObject_Call(self->parts[0], args, kwargs);
    PyObject *captured = PyTuple_GET_SIZE(args) ? PyObject_GetAttrString(PyTuple_GET_ITEM(args, 0), ATTRIBUTE) : NULL;
    PyErr_Clear();
    struct pt_context context;
    if (!pt_context_read(captured, &context))
        context = (struct pt_context){0};
    context.in_span = true;
    Py_XDECREF(captured);
    return call_in_context(t, &context, true, self->parts[0], args, kwargs);
}

/* capture_context_in(__init__) -> an __init__ that also captures this thread's context */
PyObject *pt_capture_context_in(PyObject *module, PyObject *init)
{
    (void)module;
    return pt_frameless_new(init_work_item, &init, 1);
}

/* run_in_captured_context(method) -> a method that runs in the context that __init__ captured */
PyObject *pt_run_in_captured_context(PyObject *module, PyObject *method)
{
    (void)module;
    return pt_frameless_new(run_work_item, &method, 1);
}

/* parts: a function, and the captured context.  This is the outermost call of a thread.  What it raises is reported
 * here, with the function that the program gave; Python would report it with this object. */
static PyObject *call_bound(struct pt_frameless *self, PyObject *args, PyObject *kwargs)
{
    struct pt_thread *t = pt_enter();
    struct pt_context context;
    bool handed_over = t && pt_context_read(self->parts[1], &context);
    context.link = PT_LINK_STARTED;
    PyObject *result = handed_over ? call_in_context(t, &context, false, self->parts[0], args, kwargs)
                                   : PyObject_Call(self->parts[0], args, kwargs);
    if (result || PyErr_ExceptionMatches(PyExc_SystemExit))
        return result;
#if PY_VERSION_HEX >= 0x030d0000
    PyErr_FormatUnraisable("Exception ignored in thread started by %R", self->parts[0]);
#else
    _PyErr_WriteUnraisableMsg("in thread started by", self->parts[0]);
#endif
    Py_RETURN_NONE;
}

PyObject *pt_bind_context(PyObject *function, PyObject *captured)
{
    PyObject *parts[2] = {function, captured};
    return pt_frameless_new(call_bound, parts, 2);
}
