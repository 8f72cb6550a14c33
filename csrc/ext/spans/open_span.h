/* A span from its begin to its end. */
#ifndef PYIO_TRACE_OPEN_SPAN_H
#define PYIO_TRACE_OPEN_SPAN_H

#include "core.h"

struct pt_open_span {
    struct pt_call call; /* thread is NULL if the span is not recorded */
    uint32_t id;
    uint32_t parent_before;
    uint32_t link_before;
    uint32_t run; /* pt_run_number() of the log that the ids belong to */
    uint32_t tid; /* the thread that opened it */
    int64_t cpu;  /* processor time of that thread at the begin, ns; -1: not measured */
};

/* op: one of PT_OP_SPAN_*; path, name, detail: string ids. */
void pt_span_open(struct pt_open_span *s, struct pt_thread *t, unsigned op, uint32_t path, uint32_t name,
                  uint32_t detail);
/* moved: bytes, or -1 for none.  May be called on another thread, in a forked child, or after tracing stopped; it then
 * does only the part that still applies. */
void pt_span_close(struct pt_open_span *s, int64_t moved, int error);

/* Whether the span may still write to its record.  A ring may have reused it. */
static inline bool pt_span_has_record(const struct pt_open_span *s)
{
    return s->call.disposition || s->call.record->begin == s->call.begin;
}

#endif
