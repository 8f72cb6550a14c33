/* Functions of the module that answer questions and change nothing. */
#ifndef PYIO_TRACE_QUERIES_H
#define PYIO_TRACE_QUERIES_H

#include <Python.h>

PyObject *pt_module_identity(PyObject *module, PyObject *unused);
PyObject *pt_module_stack(PyObject *module, PyObject *unused);
PyObject *pt_module_state(PyObject *module, PyObject *unused);
PyObject *pt_module_traces(PyObject *module, PyObject *name);
PyObject *pt_module_knows_operation(PyObject *module, PyObject *pattern);
PyObject *pt_module_redacted(PyObject *module, PyObject *args);
PyObject *pt_module_address(PyObject *module, PyObject *object);
PyObject *pt_module_operations(PyObject *module, PyObject *unused);
PyObject *pt_module_got_snapshot(PyObject *module, PyObject *unused);
PyObject *pt_module_hook_names(PyObject *module, PyObject *unused);

#endif
