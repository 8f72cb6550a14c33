/* One operation, from its begin to its end: the usual path of every hook.
 *
 *   pt_enter -> pt_begin_* -> the original -> pt_end_*
 *
 * All of it is inline, for this is what tracing costs.  What has no record of
 * its own goes the same way, with a scratch record on the stack (apart.c). */
#ifndef PYIO_TRACE_CALL_H
#define PYIO_TRACE_CALL_H

#include "core.h"

/* The thread, if what it does now is traced, else NULL. */
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

/* The chunk's end is read before and after the place is taken: a handler that
 * comes between may have gone on to another chunk.  A place beyond the end of
 * its own chunk is then below the other's end, and one in the other chunk above
 * its own's (a ring's chunks have no order: there the second look tells). */
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
    struct pt_record *record; /* what is known of it so far; see apart */
    uint64_t begin;
    uint64_t size;
    uint32_t process_id;  /* whose record it is: a fork may come between */
    pt_fd_entry left_out; /* not traced, because of this descriptor's kind */
    uint8_t op;
    uint8_t flags;
    uint8_t apart; /* enum pt_apart; if not RECORDED, record is the scratch one */
    uint8_t why;   /* LEFT_OUT: enum pt_desc_kind */
    uint32_t epoch;
    uint32_t profile; /* PROFILED: id of its entry; a span's children have it as their parent */
    struct pt_record scratch;
};

PT_API void pt_begin_apart(struct pt_call *c, struct pt_thread *t, unsigned op, uint32_t desc, uint32_t aux,
                           int64_t offset, uint64_t size, uint32_t stack);
PT_API void pt_end_apart(struct pt_call *c, uint64_t ticks, int64_t moved, int error);
PT_API bool pt_dropped(struct pt_call *c, uint64_t ticks, int64_t moved, int error);
PT_API void pt_end_wide(struct pt_call *c, int64_t moved, int error);
void pt_count_unrecorded(const struct pt_call *c, int64_t moved);
uint32_t pt_profile_begin(struct pt_call *c, struct pt_thread *t);
void pt_profile_end(struct pt_call *c, uint64_t ticks, int64_t moved, int error);

/* The operation's id, for what happens inside it; 0: it has none. */
static inline uint32_t pt_call_id(const struct pt_call *c)
{
    return c->apart == PT_RECORDED ? pt_id_of(c->record) : c->profile;
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
    c->apart = PT_RECORDED;
    uint32_t stack = PT_STACK_UNKNOWN;
    struct pt_record *r;
    if (PT_UNLIKELY(pt.apart[op] && (pt.apart[op] != PT_BY_SIZE || size < pt.min_size)) ||
        PT_UNLIKELY((stack = pt_stack(t)) == PT_STACK_IMPORT) || PT_UNLIKELY(!(r = pt_claim(t)))) {
        pt_begin_apart(c, t, op, desc, aux, offset, size, stack);
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
    /* Further on in the chunk: its fresh line is here when its record is written. */
    __builtin_prefetch((char *)r + 8 * sizeof *r, 1);
    r->begin = c->begin = pt_ticks();
    __atomic_store_n(&r->flags, (uint8_t)(c->flags | PT_BEGUN), __ATOMIC_RELEASE);
}

/* Completes the record.  now: ticks; moved: bytes, or -1 where there are none. */
static inline void pt_end_at(struct pt_call *c, uint64_t now, int64_t moved, int error)
{
    uint64_t ticks = now - c->begin;
    struct pt_record *r = c->record;
    if (PT_UNLIKELY(c->apart)) {
        pt_end_apart(c, ticks, moved, error);
        return;
    }
    if (PT_UNLIKELY(ticks < pt.drop_below) && pt_dropped(c, ticks, moved, error))
        return;
    r->duration_lo = (uint32_t)ticks;
    r->duration_hi = ticks >> 48 ? 0xffff : (uint16_t)(ticks >> 32);
    uint8_t flags = c->flags | PT_DONE;
    if (PT_UNLIKELY(error)) {
        flags |= PT_FAILED;
        r->result = (uint32_t)error;
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

static inline void pt_end(struct pt_call *c, int64_t moved, int error) { pt_end_at(c, pt_ticks(), moved, error); }

#endif
