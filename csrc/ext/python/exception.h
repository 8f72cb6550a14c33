/* What the log says about the exception that is set. */
#ifndef PYIO_TRACE_EXCEPTION_H
#define PYIO_TRACE_EXCEPTION_H

#include <Python.h>

/* The errno of the OSError that is set, which stays set; 0 for any other exception. */
int pt_exception_errno(void);

#endif
