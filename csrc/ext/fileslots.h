/* The slots of the file types that no method descriptor covers. */
#ifndef PYIO_TRACE_FILESLOTS_H
#define PYIO_TRACE_FILESLOTS_H

#include <Python.h>

void pt_slots_install(void);
void pt_slots_uninstall(void);
int pt_slots_snapshot(PyObject *dict);

#endif
