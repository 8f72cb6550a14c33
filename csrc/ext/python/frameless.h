/* Callables that leave no frame.
 *
 * Python calls some code of ours between its own frames: import hooks, and both ends of work that one thread hands to
 * another.  Written in Python, each would be a frame in the program's tracebacks, a step in its debugger and a line in
 * its profile.  An object of this type is called without a frame, and is no C function for sys.setprofile either. */
#ifndef PYIO_TRACE_FRAMELESS_H
#define PYIO_TRACE_FRAMELESS_H

#include <Python.h>
#include <stdbool.h>

#define PT_FRAMELESS_PARTS 3

struct pt_frameless {
    PyObject_HEAD PyObject *(*call)(struct pt_frameless *self, PyObject *args, PyObject *kwargs);
    PyObject *parts[PT_FRAMELESS_PARTS]; /* Owned; `call` gives them their meaning */
};

extern PyTypeObject pt_frameless_type;

/* A new callable that holds `n` parts.  Returns a new reference. */
PyObject *pt_frameless_new(PyObject *(*call)(struct pt_frameless *, PyObject *, PyObject *), PyObject *const *parts,
                           Py_ssize_t n);

/* untraced(function) -> a callable that calls Python code of ours with tracing and profiling off */
PyObject *pt_untraced(PyObject *module, PyObject *function);

/* Calls Python code of ours with tracing and profiling off.  Drops what that code raises.  Returns false if a signal
 * handler raised during the call (Ctrl-C): that exception is the program's, and stays set. */
bool pt_call_untraced(PyObject *function, PyObject *argument);

#endif
