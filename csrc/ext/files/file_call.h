/* One call on a Python file object, for the methods (methods.c) and the slots (slots.c) of its type. */
#ifndef PYIO_TRACE_FILE_CALL_H
#define PYIO_TRACE_FILE_CALL_H

#include <Python.h>

#include "files/layout.h"
#include "frames/frames.h"
#include "python/exception.h"

#include "core.h"

/* The span that was innermost before a call became that. */
struct pt_enclosing {
    uint32_t parent, link;
};

struct pt_file_call {
    struct pt_thread *thread; /* NULL: not recorded */
    struct pt_series *series; /* the series that it belongs to or begins; NULL: it cannot coalesce */
    uint64_t begin;           /* ticks; 0: not timed */
    uint64_t requested;       /* bytes, or PT_REQUESTED_NONE */
    struct pt_enclosing before;
    uint32_t epoch; /* pt.epoch at the begin; a different one at the end means a stop or a fork in between */
    bool joined;    /* adds to the series' record; `call` and `before` are not filled in */
    bool mapped;    /* on a mapped file */
    struct pt_call call;
};

#define PT_REQUESTED_NONE UINT64_MAX

/* Whether a call goes on untraced: nothing is traced, or it is inside another file object's call. */
static inline bool pt_file_passes(void)
{
    return pt.gate || (pt_self && pt_self->depth);
}
/* requested: bytes, or PT_REQUESTED_NONE if the call names no number.  coalesce: it may share a record with like
 * calls. */
void pt_file_begin(struct pt_file_call *c, PyObject *file, enum pt_file_kind kind, unsigned op, uint64_t requested,
                   bool coalesce);
/* moved: bytes, or -1 for none.  failed: an exception is set. */
void pt_file_end(struct pt_file_call *c, int64_t moved, bool failed);

/* The error of a call that may have set an exception: its errno, PT_RAISED, or 0. */
static inline int pt_file_error(bool failed)
{
    int error = failed ? pt_exception_errno() : 0;
    return failed && !error ? PT_RAISED : error;
}

/* pt_end, with the type of an exception that has no errno. */
static inline void pt_end_raising(struct pt_call *c, int64_t moved, int error)
{
    pt_end(c, moved, error);
    if (PT_UNLIKELY(error == PT_RAISED))
        pt_raised(c, ((PyTypeObject *)PyErr_Occurred())->tp_name);
}

/* Makes a call the thread's innermost span, if it has an id. */
static inline struct pt_enclosing pt_span_enter(struct pt_thread *t, const struct pt_call *c)
{
    struct pt_enclosing before = {t->parent, t->link};
    uint32_t id = pt_call_id(c);
    if (PT_LIKELY(id)) {
        t->parent = id;
        t->link = PT_LINK_THREAD;
    }
    return before;
}

static inline void pt_span_leave(struct pt_thread *t, struct pt_enclosing before)
{
    t->parent = before.parent;
    t->link = before.link;
}

/* Likewise, and marks what runs inside as part of a file object's call: calls of other file objects pass, and
 * operations with the same innermost frame share the call's stack. */
static inline struct pt_enclosing pt_file_enter(struct pt_thread *t, const struct pt_call *c)
{
    struct pt_enclosing before = pt_span_enter(t, c);
    bool recorded = pt_call_id(c) != 0;
    if (PT_LIKELY(recorded))
        t->call_stack = c->record->stack;
    pt_frames_call_from(t, recorded);
    t->depth++;
    return before;
}

#endif
