/* Spans opened from Python, and suppression.  A Span is open between begin()
 * and end() on one thread. */
#include "spans.h"

#include "context.h"

#include <structmember.h>

struct span {
    PyObject_HEAD
    struct pt_open_span open;
};

static const uint8_t op_of_layer[] = {[PT_APP] = PT_OP_SPAN_APP, [PT_USER] = PT_OP_SPAN_USER,
                                      [PT_HDF5] = PT_OP_SPAN_HDF5, [PT_MPIIO] = PT_OP_SPAN_MPIIO};

/* Spans that were closed while others, opened in them, went on: generators that take turns, a generator that another
 * thread finishes.  When the last of those ends, its thread goes back past them.  Found by id; the latest stays where
 * two share a place. */
#define PASSED 256u
static struct passed {
    uint32_t id, run, parent, link; /* id 0: none */
} passed[PASSED];

static struct passed *passed_place(uint32_t id) { return &passed[id * 2654435761u >> 24]; }

/* The innermost of a span's surroundings that is still open. */
static void surroundings(const struct pt_open_span *s, uint32_t *parent, uint32_t *link)
{
    *parent = s->parent_before;
    *link = s->link_before;
    for (unsigned i = 0; *parent && i < PASSED; i++) {
        const struct passed *at = passed_place(*parent);
        if (at->id != *parent || at->run != s->run)
            return;
        *link = at->link;
        *parent = at->parent;
    }
}

/* The thread that the span was opened on is in it no longer. */
static void leave(const struct pt_open_span *s, struct pt_thread *t)
{
    uint32_t parent, link, id = s->id;
    if (!id || s->run != pt_run_number())
        return;
    surroundings(s, &parent, &link);
    if (t == pt_self && t->parent == id) {
        t->parent = parent;
        t->link = link;
    } else if (s->call.apart == PT_RECORDED) { /* else others have its id too */
        *passed_place(id) = (struct passed){id, s->run, parent, link};
        /* Of another thread: it may be outside of any span of its own until it ends. */
        if (t != pt_self)
            __atomic_compare_exchange_n(&t->parent, &id, parent, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
}

void pt_span_open(struct pt_open_span *s, struct pt_thread *t, unsigned op, uint32_t path, uint32_t name, uint32_t detail)
{
    pt_begin(&s->call, t, op, path, name, detail, PT_SIZE_NONE);
    s->id = pt_call_id(&s->call);
    s->parent_before = t->parent;
    s->link_before = t->link;
    s->run = pt_run_number();
    if (s->id) {
        if (PT_UNLIKELY(passed_place(s->id)->id == s->id))
            passed_place(s->id)->id = 0; /* a ring has come round */
        t->parent = s->id;
        t->link = PT_LINK_THREAD;
    }
}

void pt_span_close(struct pt_open_span *s, int64_t moved, int error)
{
    struct pt_thread *t = s->call.thread;
    if (!t)
        return;
    s->call.thread = NULL;
    leave(s, t);
    if (s->call.process_id != pt.process_id || (pt.gate & PT_GATE_OFF))
        return;
    if (moved >= 0 && pt_span_is_there(s))
        s->call.record->size = moved >= (int64_t)PT_NO_BYTES ? PT_NO_BYTES : (uint32_t)moved;
    struct pt_call end = s->call;
    end.thread = t;
    pt_end(&end, moved, error);
}

static uint32_t intern_text(PyObject *text, bool path)
{
    if (!text || text == Py_None)
        return 0;
    Py_ssize_t n;
    const char *bytes = PyUnicode_AsUTF8AndSize(text, &n);
    if (!bytes) {
        PyErr_Clear(); /* a name that is not UTF-8 costs the name, not the program */
        return 0;
    }
    return pt_string(bytes, (size_t)n, path && bytes[0] != '/' ? pt.cwd : 0);
}

/* begin(name, layer=1, path=None, detail=None): opens the span on this thread. */
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

/* detach(): it stays open, and what this thread does from here on is not in it: for what goes on beside the
 * thread's own work, such as the waiting of a task that somebody else is going to run. */
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

/* end(bytes=None, errno=0, detail=None): closes it; a detail takes the place of the one that it began with.  On
 * another thread, in a forked child or after tracing stopped only what is right there is done. */
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
        if (detail && pt_span_is_there(&self->open))
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
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pyio_trace.native._capture.Span",
    .tp_basicsize = sizeof(struct span),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_methods = span_methods,
    .tp_members = span_members,
};

/* suppress(True) before, suppress(False) after: nothing of this thread is recorded. */
PyObject *pt_suppress(PyObject *module, PyObject *on)
{
    (void)module;
    int yes = PyObject_IsTrue(on);
    if (yes < 0)
        return NULL;
    struct pt_thread *t = pt_self ? pt_self : pt_enter(); /* also after a stop: what was opened is closed */
    if (!t)
        Py_RETURN_NONE;
    if (yes)
        t->suppress++;
    else if (t->suppress)
        t->suppress--;
    t->gate = t->suppress ? t->gate | PT_GATE_SUPPRESSED : t->gate & ~(uint32_t)PT_GATE_SUPPRESSED;
    Py_RETURN_NONE;
}
