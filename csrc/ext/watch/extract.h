/* What a watched call is about: its file, and the bytes that it moved. */
#ifndef PYIO_TRACE_EXTRACT_H
#define PYIO_TRACE_EXTRACT_H

#include "spans/details.h"
#include "watch/callback.h"

#define PT_PATH_EXCLUDED UINT32_MAX /* the call is not recorded */

/* Prepares the interned strings.  Returns 0, or -1 with an exception set. */
int pt_extract_ready(void);
/* Returns the string id of the call's path; 0 if it has none; PT_PATH_EXCLUDED.  Adds the details that the
 * instrument's path callback returns with the path. */
uint32_t pt_extract_path(struct pt_target *g, struct pt_thread *t, struct pt_details *d,
                         struct pt_callback_error *error, const struct pt_invocation *call);
/* Returns the bytes that the call moved; -1 if that is not known. */
int64_t pt_extract_bytes(struct pt_target *g, PyObject *result, struct pt_callback_error *error,
                         const struct pt_invocation *call);

#endif
