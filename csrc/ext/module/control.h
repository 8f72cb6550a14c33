/* Functions of the module that start, stop and steer tracing. */
#ifndef PYIO_TRACE_MODULE_CONTROL_H
#define PYIO_TRACE_MODULE_CONTROL_H

#include <Python.h>

PyObject *pt_module_start(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *pt_module_prepare(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *pt_module_store_settings(PyObject *module, PyObject *settings);
PyObject *pt_module_stop(PyObject *module, PyObject *args);
PyObject *pt_module_finish_with(PyObject *module, PyObject *args);
PyObject *pt_module_start_sampler(PyObject *module, PyObject *args);
PyObject *pt_module_note(PyObject *module, PyObject *text);
PyObject *pt_module_say(PyObject *module, PyObject *text);
PyObject *pt_module_name_process(PyObject *module, PyObject *args);
PyObject *pt_module_set_program(PyObject *module, PyObject *packages);
PyObject *pt_module_asked_from(PyObject *module, PyObject *stack);
PyObject *pt_module_enter_found(PyObject *module, PyObject *args);
PyObject *pt_module_set_variable(PyObject *module, PyObject *args);
PyObject *pt_module_pause(PyObject *module, PyObject *on);
PyObject *pt_module_set_mode(PyObject *module, PyObject *number);
PyObject *pt_module_dump(PyObject *module, PyObject *path);
PyObject *pt_module_dump_on_signal(PyObject *module, PyObject *number);

#endif
