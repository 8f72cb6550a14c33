/* The Python type Span, open between begin() and end(), and suppression of a thread's operations. */
#include "spans/span_type.h"

#include "context/context.h"
#include "spans/open_span.h"

#include <structmember.h>

struct span {
    PyObject_HEAD struct pt_open_span open;
};

/* In the layer app, what is longer than a call: a task. */
static const uint8_t op_of_layer[] = {[PT_APP] = PT_OP_SPAN_APP_CONTAINER,
                                      [PT_USER] = PT_OP_SPAN_USER,
                                      [PT_HDF5] = PT_OP_SPAN_HDF5,
                                      [PT_MPIIO] = PT_OP_SPAN_MPIIO};

/* Returns the id of a str in the log; 0 for None. */
static uint32_t intern_text(PyObject *text, bool path)
{
    if (!text || text == Py_None)
        return 0;
    Py_ssize_t n;
    const char *bytes = PyUnicode_AsUTF8AndSize(text, &n);
    if (!bytes) {
        PyErr_Clear(); /* a name that is not UTF-8 is left out; the program must not see an error */
        return 0;
    }
    if (!path)
        return pt_string(bytes, (size_t)n, 0); /* names and details are the user's own words: not redacted */
    return pt_location(bytes, (size_t)n, bytes[0] != '/' ? pt.cwd : 0);
}

/* begin(name, layer=1, path=None, detail=None) -> bool: opens the span on this thread; false: it is not recorded */
static PyObject *span_begin(struct span *self, PyObject *const *args, Py_ssize_t n)
{
    if (n < 1 || !PyUnicode_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "begin() takes a name, a layer, a path and a detail");
        return NULL;
    }
    long layer = n > 1 ? PyLong_AsLong(args[1]) : PT_USER;
    if (layer < 0 || layer > PT_MPIIO) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "no such layer");
        return NULL;
    }
    self->open.call.thread = NULL;
    struct pt_thread *t = pt_enter();
    if (!t)
        Py_RETURN_FALSE;
    uint32_t name = intern_text(args[0], false);
    uint32_t path = n > 2 ? intern_text(args[2], true) : 0;
    uint32_t detail = n > 3 ? intern_text(args[3], false) : 0;
    pt_span_open(&self->open, t, op_of_layer[layer], path, name, detail);
    pt_context_changed(t);
    Py_RETURN_TRUE;
}

/* detach(): leaves the span open, but takes this thread out of it.  For what goes on while the thread does other
 * work, such as a task that waits for another thread to run it. */
static PyObject *span_detach(struct span *self, PyObject *unused)
{
    (void)unused;
    struct pt_thread *t = self->open.call.thread;
    if (t && t == pt_self && t->parent == self->open.id) {
        t->parent = self->open.parent_before;
        t->link = self->open.link_before;
        pt_context_changed(t);
    }
    Py_RETURN_NONE;
}

/* end(bytes=None, errno=0, detail=None): closes the span.  A detail replaces the one given to begin().  May be called
 * on another thread, in a forked child, or after tracing stopped; see pt_span_close(). */
static PyObject *span_end(struct span *self, PyObject *const *args, Py_ssize_t n)
{
    int64_t moved = -1;
    long error = 0;
    if (n > 0 && args[0] != Py_None)
        moved = PyLong_AsLongLong(args[0]);
    if (n > 1)
        error = PyLong_AsLong(args[1]);
    if (PyErr_Occurred())
        return NULL;
    struct pt_thread *t = self->open.call.thread;
    if (n > 2 && args[2] != Py_None && t && self->open.call.process_id == pt.process_id && !(pt.gate & PT_GATE_OFF)) {
        uint32_t detail = intern_text(args[2], false);
        if (detail && pt_span_has_record(&self->open))
            self->open.call.record->offset = detail;
    }
    pt_span_close(&self->open, moved, (int)error);
    if (t && t == pt_self)
        pt_context_changed(t);
    Py_RETURN_NONE;
}

static PyMethodDef span_methods[] = {
    {"begin", (PyCFunction)(void (*)(void))span_begin, METH_FASTCALL, "begin(name, layer=1, path=None, detail=None)"},
    {"detach", (PyCFunction)span_detach, METH_NOARGS, "detach()"},
    {"end", (PyCFunction)(void (*)(void))span_end, METH_FASTCALL, "end(bytes=None, errno=0, detail=None)"},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef span_members[] = {
    {"id", T_UINT, offsetof(struct span, open.id), READONLY, "the operation's id in the log; 0: not recorded"},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject pt_span_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pyio_trace.native._capture.Span",
    .tp_basicsize = sizeof(struct span),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_methods = span_methods,
    .tp_members = span_members,
};

/* suppress(on): while on, nothing of this thread is recorded.  Nests: each suppress(True) needs a suppress(False). */
PyObject *pt_suppress(PyObject *module, PyObject *on)
{
    (void)module;
    int yes = PyObject_IsTrue(on);
    if (yes < 0)
        return NULL;
    struct pt_thread *t =
        pt_self ? pt_self : pt_enter(); /* the thread's state also after a stop: suppress(False) must still count */
    if (!t)
        Py_RETURN_NONE;
    if (yes)
        t->suppress++;
    else if (t->suppress)
        t->suppress--;
    t->gate = t->suppress ? t->gate | PT_GATE_SUPPRESSED : t->gate & ~(uint32_t)PT_GATE_SUPPRESSED;
    Py_RETURN_NONE;
}
