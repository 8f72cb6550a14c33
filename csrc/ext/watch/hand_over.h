/* Watched functions that hand context over to other work (capture/instrumentation/instrument_registry.py). */
#ifndef PYIO_TRACE_HAND_OVER_H
#define PYIO_TRACE_HAND_OVER_H

#include "watch/target.h"

/* Makes the call, with the context handed over as `role` says.  Returns what the call returns. */
PyObject *pt_hand_over(enum pt_role role, const struct pt_invocation *call);

#endif
