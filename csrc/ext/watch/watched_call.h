/* A call of a watched function. */
#ifndef PYIO_TRACE_WATCHED_CALL_H
#define PYIO_TRACE_WATCHED_CALL_H

#include "watch/target.h"

/* Makes the call, as a span or whatever else the target's role says.  Returns what the program is to get. */
PyObject *pt_watched_call(struct pt_target *g, const struct pt_invocation *call);

#endif
