/* Spans opened from Python, and suppression. */
#ifndef PYIO_TRACE_SPANS_H
#define PYIO_TRACE_SPANS_H

#include <Python.h>

#include "call.h"

/* A span that is open on this thread. */
struct pt_open_span {
    struct pt_call call; /* thread: NULL if it is not recorded */
    uint32_t id;
    uint32_t parent_before;
    uint32_t link_before;
    uint32_t run; /* that the ids are of */
};
/* op: one of PT_OP_SPAN_*; path, name, detail: string ids. */
void pt_span_open(struct pt_open_span *s, struct pt_thread *t, unsigned op, uint32_t path, uint32_t name, uint32_t detail);
/* moved: bytes, -1 for none.  On another thread, in a forked child or after
 * tracing stopped only what is right there is done. */
void pt_span_close(struct pt_open_span *s, int64_t moved, int error);

/* Whether its record is still its own: a ring may have come round to it since. */
static inline bool pt_span_is_there(const struct pt_open_span *s)
{
    return s->call.apart || s->call.record->begin == s->call.begin;
}

extern PyTypeObject pt_span_type;
PyObject *pt_suppress(PyObject *module, PyObject *on);

#endif
