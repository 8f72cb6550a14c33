/* A thread's Python stack, and the sites of its calls. */
#ifndef PYIO_TRACE_FRAMES_H
#define PYIO_TRACE_FRAMES_H

#include <Python.h>

#include "core.h"

/* NULL if the frames of this Python version are known, else why stacks are off. */
const char *pt_frames_unsupported(void);
/* How many frames a stack may have; 0: as many as the log allows. */
void pt_frames_set_depth(unsigned depth);

/* Puts into the process's entry of the log where its frames are, for the sampler. */
void pt_frames_tell_layout(void);

/* Returns the id of the calling thread's stack; 0 if it is no Python thread.  Needs no GIL. */
uint32_t pt_frames_stack_no_gil(struct pt_thread *t);

/* Notes a code object that is pickled for other processes, where its file will not be known.  Needs the GIL. */
void pt_frames_note_sent(PyObject *code);

/* A call site is the innermost three pairs of frame and instruction.  These three need the GIL. */
void pt_frames_site(const void *out[6]);
/* Whether the current call comes from `site`.  Also notes the calling thread state in `t`. */
bool pt_frames_same_site(struct pt_thread *t, const void *const site[6]);
/* Notes in `t` where its call on a file object comes from, so that operations inside the call share its stack.
 * recorded: the stack is known. */
void pt_frames_call_from(struct pt_thread *t, bool recorded);

#endif
