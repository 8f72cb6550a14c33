/* The methods of Python's own file objects. */
#ifndef PYIO_TRACE_METHODS_H
#define PYIO_TRACE_METHODS_H

#include <Python.h>

void pt_methods_install(void);
void pt_methods_uninstall(void);
/* Adds {"Type.method": (definition, C function)}.  Returns 0, or -1 with an exception set. */
int pt_methods_snapshot(PyObject *dict);

#endif
