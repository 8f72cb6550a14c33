/* Reading a thread's Python frames.  The one place that knows the interpreter's
 * frame layout, by the version's own internal headers. */
#ifndef PYIO_TRACE_FRAMES_H
#define PYIO_TRACE_FRAMES_H

#include <Python.h>

#include "core.h"

/* The id of the calling thread's stack; needs no GIL.  0: not a Python thread. */
uint32_t pt_frames_stack_no_gil(struct pt_thread *t);
/* Three levels of (frame, instruction) tell one call site from another: is it the one at site?  Notes in the
 * thread who makes the call.  Needs the GIL. */
bool pt_frames_same_site(struct pt_thread *t, const void *const site[6]);
void pt_frames_site(const void *out[6]);
/* Notes in the thread where its call on a file object comes from.  recorded: its stack is known.  Needs the GIL. */
void pt_frames_call_from(struct pt_thread *t, bool recorded);
/* NULL if this version's frames are known, else why stacks are off. */
const char *pt_frames_unsupported(void);
void pt_frames_set_depth(unsigned depth);

#endif
