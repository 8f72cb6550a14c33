/* One operation, from begin to end: the usual path of every hook.
 *
 *   pt_enter -> pt_begin_* -> the original -> pt_end_*
 *
 * It is all inline, because this path is what tracing costs.  An operation without a record of its own takes the same
 * path, with a scratch record on the stack (record/unrecorded.c). */
#ifndef PYIO_TRACE_CALL_H
#define PYIO_TRACE_CALL_H

#include "base/clock.h"
#include "format/operations.h"
#include "log/ids.h"
#include "state/descriptors.h"
#include "state/threads.h"

/* The calling thread, if it is being traced; else NULL. */
static inline struct pt_thread *pt_enter(void)
{
    struct pt_thread *t = pt_self;
    if (PT_LIKELY(t && !(__atomic_load_n(&pt.gate, __ATOMIC_RELAXED) | t->gate)))
        return t;
    return pt_enter_slow();
}

/* Fetch-and-add that a signal handler on the same thread cannot split. */
static inline uintptr_t pt_bump(uintptr_t *at, uintptr_t by)
{
#if defined(__x86_64__)
    __asm__ volatile("xaddq %0, %1" : "+r"(by), "+m"(*at) : : "memory", "cc");
    return by;
#else
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    by = __atomic_fetch_add(at, by, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return by;
#endif
}

/* Reads the chunk's end both before and after taking the place, because a signal handler may come between and move
 * the thread to another chunk.  A place beyond the end of the old chunk is then below the end of the new one, and a
 * place in the new chunk is above the end of the old one.  (Chunks of a ring have no order; there the second look
 * tells.) */
static inline struct pt_record *pt_claim(struct pt_thread *t)
{
    uintptr_t end = __atomic_load_n(&t->end, __ATOMIC_RELAXED);
    uintptr_t at = pt_bump(&t->next, sizeof(struct pt_record)) + sizeof(struct pt_record);
    if (PT_LIKELY(at <= end && at <= __atomic_load_n(&t->end, __ATOMIC_RELAXED)))
        return (struct pt_record *)at - 1;
    return pt_claim_slow(t);
}

/* An operation under way. */
struct pt_call {
    struct pt_thread *thread; /* NULL: not traced */
    struct pt_record *record; /* what is known so far; see disposition */
    uint64_t begin;
    uint64_t size;
    uint32_t process_id;  /* the process that the record belongs to: the call may fork */
    pt_fd_entry left_out; /* not 0: left out, because of the kind of this descriptor */
    uint8_t op;
    uint8_t flags;
    uint8_t disposition; /* enum pt_disposition; if not PT_RECORDED, record points to scratch */
    union {
        uint8_t left_out_as; /* PT_LEFT_OUT: enum pt_desc_kind, by which it is counted */
        uint8_t
            intended; /* PT_PROFILED, PT_COUNTED: enum pt_disposition at its begin; the mode may have changed since */
    };
    uint32_t epoch;
    uint32_t profile; /* PT_PROFILED: id of its entry, which is the parent of what happens inside */
    int from, to;     /* of a copy only: its descriptors ... */
    int64_t output;   /* ... and the offset in the output, if the call gave one; else -1 */
    struct pt_record scratch;
};

/* The call already has thread, op and size. */
PT_API void pt_begin_unrecorded(struct pt_call *c, uint32_t desc, uint32_t aux, int64_t offset, uint32_t stack);
PT_API void pt_end_unrecorded(struct pt_call *c, uint64_t ticks, int64_t moved, int error);
PT_API bool pt_drop_small(struct pt_call *c, uint64_t ticks, int64_t moved, int error);
PT_API void pt_end_wide(struct pt_call *c, int64_t moved, int error);
PT_API void pt_raised(const struct pt_call *c, const char *type);
PT_API void pt_span_took(struct pt_thread *t, const struct pt_call *span, int64_t ns);
uint32_t pt_profile_begin(struct pt_call *c, struct pt_thread *t);
void pt_profile_end(struct pt_call *c, uint64_t ticks, int64_t moved, int error);
void pt_profile_late(uint32_t id, unsigned op, int64_t place, int64_t moved);

/* The id by which what happens inside the operation names it; 0: it has none. */
static inline uint32_t pt_call_id(const struct pt_call *c)
{
    return c->disposition == PT_RECORDED ? pt_id_of(c->record) : c->profile;
}

static inline uint32_t pt_stack(struct pt_thread *t)
{
    return pt.stack_function ? pt.stack_function(t) : 0;
}

/* Writes what is known at entry.  size: PT_SIZE_NONE where there is none. */
#define PT_SIZE_NONE UINT64_MAX
static inline void pt_begin(struct pt_call *c, struct pt_thread *t, unsigned op, uint32_t desc, uint32_t aux,
                            int64_t offset, uint64_t size)
{
    c->thread = t;
    c->op = (uint8_t)op;
    c->size = size;
    c->process_id = t->process_id;
    c->flags = (uint8_t)(t->parent ? t->link << PT_LINK_SHIFT : 0);
    c->disposition = PT_RECORDED;
    uint32_t stack = PT_STACK_UNKNOWN;
    struct pt_record *r;
    if (PT_UNLIKELY(pt.disposition[op] && (pt.disposition[op] != PT_BY_SIZE || size < pt.min_size)) ||
        PT_UNLIKELY((stack = pt_stack(t)) == PT_STACK_IMPORT) || PT_UNLIKELY(!(r = pt_claim(t)))) {
        pt_begin_unrecorded(c, desc, aux, offset, stack);
        return;
    }
    c->record = r;
    if (PT_UNLIKELY(size >= PT_NO_BYTES && size != PT_SIZE_NONE))
        c->flags |= PT_WIDE;
    r->op = (uint8_t)op;
    r->desc = desc;
    r->stack = stack;
    r->parent = t->parent;
    r->aux = aux;
    r->offset = offset;
    r->size = size >= PT_NO_BYTES ? PT_NO_BYTES : (uint32_t)size;
    r->result = PT_NO_BYTES;
    /* Eight records ahead: that cache line has arrived when its record is written. */
    __builtin_prefetch((char *)r + 8 * sizeof *r, 1);
    r->begin = c->begin = pt_ticks();
    __atomic_store_n(&r->flags, (uint8_t)(c->flags | PT_BEGUN), __ATOMIC_RELEASE);
}

#define PT_RAISED INT32_MIN /* as an error: an exception that has no errno */

/* Completes the record.  now: ticks; moved: bytes, or -1 where there are none.  A C stream may move a part and fail. */
static inline void pt_end_at(struct pt_call *c, uint64_t now, int64_t moved, int error)
{
    uint64_t ticks = now - c->begin;
    struct pt_record *r = c->record;
    if (PT_UNLIKELY(c->disposition)) {
        pt_end_unrecorded(c, ticks, moved, error);
        return;
    }
    if (PT_UNLIKELY(ticks < pt.drop_below) && pt_drop_small(c, ticks, moved, error))
        return;
    r->duration_lo = (uint32_t)ticks;
    r->duration_hi = ticks >> 48 ? 0xffff : (uint16_t)(ticks >> 32);
    uint8_t flags = c->flags | PT_DONE;
    if (PT_UNLIKELY(error)) {
        flags |= PT_FAILED;
        r->result = error == PT_RAISED ? 0 : (uint32_t)error;
        if (moved > 0) /* it moved a part before: an EXT record has the bytes */
            flags |= PT_WIDE;
    } else if (PT_UNLIKELY(moved >= (int64_t)PT_NO_BYTES)) {
        flags |= PT_WIDE;
        r->result = PT_NO_BYTES;
    } else {
        r->result = (uint32_t)moved; /* -1 becomes PT_NO_BYTES */
    }
    if (PT_UNLIKELY(flags & PT_WIDE))
        pt_end_wide(c, moved, error);
    __atomic_store_n(&r->flags, flags, __ATOMIC_RELEASE);
}

static inline void pt_end(struct pt_call *c, int64_t moved, int error)
{
    pt_end_at(c, pt_ticks(), moved, error);
}

#endif
