/* Callables that leave no frame: see frameless.h. */
#include "python/frameless.h"

#include <stddef.h>
#include <structmember.h>

PyObject *pt_frameless_new(PyObject *(*call)(struct pt_frameless *, PyObject *, PyObject *), PyObject *const *parts,
                           Py_ssize_t n)
{
    struct pt_frameless *self = PyObject_GC_New(struct pt_frameless, &pt_frameless_type);
    if (!self)
        return NULL;
    self->call = call;
    for (Py_ssize_t i = 0; i < PT_FRAMELESS_PARTS; i++)
        self->parts[i] = i < n ? Py_NewRef(parts[i]) : NULL;
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

static PyObject *frameless_call(struct pt_frameless *self, PyObject *args, PyObject *kwargs)
{
    return self->call(self, args, kwargs);
}

static int frameless_traverse(struct pt_frameless *self, visitproc visit, void *arg)
{
    for (int i = 0; i < PT_FRAMELESS_PARTS; i++)
        Py_VISIT(self->parts[i]);
    return 0;
}

static int frameless_clear(struct pt_frameless *self)
{
    for (int i = 0; i < PT_FRAMELESS_PARTS; i++)
        Py_CLEAR(self->parts[i]);
    return 0;
}

static void frameless_dealloc(struct pt_frameless *self)
{
    PyObject_GC_UnTrack(self);
    frameless_clear(self);
    PyObject_GC_Del(self);
}

/* Binds like a function when it is found in a class. */
static PyObject *frameless_bind(PyObject *self, PyObject *object, PyObject *type)
{
    (void)type;
    return object ? PyMethod_New(self, object) : Py_NewRef(self);
}

static PyMemberDef frameless_members[] = {
    {"__wrapped__", T_OBJECT_EX, offsetof(struct pt_frameless, parts), READONLY, "the first part: what it stands for"},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject pt_frameless_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pyio_trace.native._capture.Frameless",
    .tp_basicsize = sizeof(struct pt_frameless),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_call = (ternaryfunc)frameless_call,
    .tp_descr_get = frameless_bind,
    .tp_dealloc = (destructor)frameless_dealloc,
    .tp_traverse = (traverseproc)frameless_traverse,
    .tp_clear = (inquiry)frameless_clear,
    .tp_members = frameless_members,
};

/* parts: a function of ours. */
static PyObject *call_ours(struct pt_frameless *self, PyObject *args, PyObject *kwargs)
{
    PyThreadState *state = PyThreadState_Get();
    PyThreadState_EnterTracing(state);
    PyObject *result = PyObject_Call(self->parts[0], args, kwargs);
    PyThreadState_LeaveTracing(state);
    return result;
}

PyObject *pt_untraced(PyObject *module, PyObject *function)
{
    (void)module;
    return pt_frameless_new(call_ours, &function, 1);
}

bool pt_call_untraced(PyObject *function, PyObject *argument)
{
    PyThreadState *state = PyThreadState_Get();
    PyThreadState_EnterTracing(state);
    PyObject *result = PyObject_CallOneArg(function, argument);
    bool programs = !result && !PyErr_ExceptionMatches(PyExc_Exception);
    if (!result && !programs)
        PyErr_Clear();
    Py_XDECREF(result);
    PyThreadState_LeaveTracing(state);
    return !programs;
}
