/* The slots of the file types, for what no method descriptor covers. */
#ifndef PYIO_TRACE_SLOTS_H
#define PYIO_TRACE_SLOTS_H

#include <Python.h>

void pt_slots_install(void);
void pt_slots_uninstall(void);
/* Adds {"Type.slot": address}.  Returns 0, or -1 with an exception set. */
int pt_slots_snapshot(PyObject *dict);

#endif
