/* Instrumenting Python's own file objects and mmap objects. */
#ifndef PYIO_TRACE_FILES_H
#define PYIO_TRACE_FILES_H

#include <Python.h>

const char *pt_files_unsupported(void); /* NULL, or why file objects cannot be instrumented */
PyObject *pt_files_install(PyObject *module, PyObject *unused);
PyObject *pt_files_install_mmap(PyObject *module, PyObject *type);
PyObject *pt_files_uninstall(PyObject *module, PyObject *unused);
PyObject *pt_files_snapshot(PyObject *module, PyObject *unused);

#endif
