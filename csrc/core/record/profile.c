/* Sums of similar operations, in bounded memory: --mode profile, and what trace falls back to when its log is full.
 *
 * An entry is an object in the log, found by a hash of its key.  It belongs to the state of one thread, and no two
 * live threads share a state.  So adding to it takes no lock and no locked instruction, only instructions that a
 * signal handler on the same thread cannot split.  Threads share one field: where the latest transfer of a file ended
 * (latest_end). */
#include "record/call.h"
#include "base/hash.h"
#include "log/chunks.h"
#include "log/intern.h"
#include "format/operations.h"
#include "state/positions.h"
#include "state/summed_descriptors.h"

#include <fcntl.h>
#include <string.h>

static inline void add(uint64_t *to, uint64_t n)
{
#if defined(__x86_64__)
    __asm__ volatile("addq %1, %0" : "+m"(*to) : "er"(n) : "memory", "cc");
#else
    __atomic_fetch_add(to, n, __ATOMIC_RELAXED);
#endif
}

static inline void raise_to(uint64_t *to, uint64_t n)
{
    uint64_t seen = __atomic_load_n(to, __ATOMIC_RELAXED);
    while (n > seen && !__atomic_compare_exchange_n(to, &seen, n, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
}

static bool moves_bytes(unsigned op)
{
    return pt_op_has(op, PT_READS | PT_WRITES);
}

static inline struct pt_profile_data *data_of(struct pt_profile *p)
{
    return (struct pt_profile_data *)((char *)p + PT_PROFILE_SIZE);
}

/* ---- positions, while only sums are kept -------------------------------------------------- */

static bool appends(uint32_t desc)
{
    const struct pt_desc *d = pt_desc_at(desc);
    return d && d->open_flags & O_APPEND;
}

/* The offset of a pwritev2 whose flags say where it writes; -1: not known. */
static int64_t place_of_flags(const struct pt_record *r)
{
    if (r->offset == PT_TO_END)
        pt_position_set((int)r->aux, -1);
    return r->offset <= PT_AT_PLACE ? PT_AT_PLACE - r->offset : -1;
}

/* The offset at which a transfer began; of a copy, in its input. */
static int64_t place_of(const struct pt_call *c, int64_t moved)
{
    const struct pt_record *r = c->record;
    const struct pt_op_row *row = pt_op_row(c->op);
    if (pt_op_has(c->op, PT_COPIES))
        return r->offset >= 0 ? r->offset : pt_position_move(c->from, moved);
    if (row->shape == PT_SHAPE_SPAN_AT)
        return r->offset;
    if (row->shape != PT_SHAPE_FD)
        return -1;
    if (r->offset >= 0)
        return row->klass == PT_WRITE && appends(r->desc) ? -1 : r->offset; /* Linux: at the end all the same */
    if (PT_UNLIKELY(r->offset < -1 && r->offset != PT_AT_POSITION))
        return place_of_flags(r);
    if (row->layer == PT_STDIO) /* the buffer's own transfers are not seen */
        pt_position_set((int)r->aux, -1);
    return row->layer == PT_POSIX ? pt_position_move((int)r->aux, moved) : -1;
}

/* The offset at which a copy began in its output. */
static int64_t output_place(const struct pt_call *c, int64_t moved)
{
    if (c->output >= 0 || pt_op_has(c->op, PT_OUTPUT_STAYS))
        return c->output;
    return pt_position_move(c->to, moved);
}

/* Follows calls that are not transfers. */
static void follow(const struct pt_call *c, int error)
{
    const struct pt_record *r = c->record;
    uint8_t layer = pt_op_row(c->op)->layer;
    bool stream = layer == PT_STDIO; /* its own buffer moves the position unseen */
    if (layer == PT_APP)             /* may seek within its buffer; only lseek moves the position */
        return;
    switch (pt_op_row(c->op)->shape) {
    case PT_SHAPE_SEEK:
        if (!error)
            pt_position_set((int)r->aux, stream ? -1 : r->offset);
        break;
    case PT_SHAPE_FD:
        if (stream)
            pt_position_set((int)r->aux, -1);
        break;
    default: break;
    }
}

static void opened_at_start(int fd, uint32_t flags)
{
    if (flags & O_APPEND)
        pt_position_shared(fd);
    else
        pt_position_set(fd, 0);
}

/* ---- entries -------------------------------------------------------------------------------- */

/* What tells calls of one operation apart: the detail of a span, the command of fcntl. */
static uint32_t variant_of(const struct pt_record *r, uint8_t shape)
{
    switch (shape) {
    case PT_SHAPE_SPAN: return (uint32_t)r->offset;
    case PT_SHAPE_COMMAND:
    case PT_SHAPE_WAIT: return r->size;
    default: return 0;
    }
}

static uint64_t key_of(const struct pt_call *c, const struct pt_thread *t, unsigned error)
{
    const struct pt_record *r = c->record;
    /* Where aux is only a descriptor number, it is no part of the key. */
    bool named = pt_op_has(c->op, PT_AUX_IS_ID);
    uint32_t words[8] = {t->process_id, t->number, c->op | error << 8, r->desc,
                         r->stack,      r->parent, named ? r->aux : 0, variant_of(r, pt_op_row(c->op)->shape)};
    return pt_hash_bytes(words, sizeof words, 0x50524f4600000000ull);
}

/* The entry that holds where the latest read (or write) of a file by this process ended: the first entry made for any
 * of them, perhaps this one. */
static uint32_t keeper_of(const struct pt_profile *p, const struct pt_thread *t, uint32_t desc, bool writes)
{
    uint32_t own = pt_id_of(p), path = pt_summed_name(desc);
    if (!desc)
        return 0;
    uint32_t words[4] = {t->process_id, path ? path : desc, path != 0, writes};
    uint64_t key = pt_hash_bytes(words, sizeof words, 0x4c41535400000000ull);
    uint32_t known = pt_intern_find(key);
    if (!known) {
        pt_intern_add(key, own);
        known = pt_intern_find(key); /* another thread may have been first */
    }
    return known ? known : own;
}

static struct pt_profile *make_entry(const struct pt_call *c, const struct pt_thread *t, unsigned error, uint64_t key)
{
    const struct pt_record *r = c->record;
    struct pt_profile *p = pt_sums_alloc_slow(moves_bytes(c->op));
    if (!p)
        return NULL;
    p->process = t->process_id;
    p->tid = t->tid;
    p->op = c->op;
    p->link = (uint8_t)(c->flags >> PT_LINK_SHIFT);
    p->error = (uint16_t)error;
    p->desc = r->desc;
    p->stack = r->stack;
    p->parent = r->parent;
    p->aux = r->aux;
    p->opened = variant_of(r, pt_op_row(c->op)->shape);
    if (moves_bytes(c->op) && !error)
        p->opened = keeper_of(p, t, r->desc, pt_op_row(c->op)->klass == PT_WRITE);
    pt_heap_publish(p, PT_HEAP_PROFILE);
    pt_intern_add(key, pt_id_of(p));
    return p;
}

/* The entry with this id. NULL: the id is 0, or belongs to an earlier log. */
static struct pt_profile *entry_at(uint32_t id, bool with_data)
{
    return pt_owned(id, with_data ? PT_PROFILE_DATA_SIZE : PT_PROFILE_SIZE);
}

/* The entry for the output of a copy. */
static struct pt_profile *output_of(const struct pt_call *c, const struct pt_thread *t, const struct pt_profile *copy)
{
    uint32_t words[2] = {pt_id_of(copy), PT_OP_OUTPUT};
    uint64_t key = pt_hash_bytes(words, sizeof words, 0x4f55545000000000ull);
    struct pt_profile *p = entry_at(pt_intern_find(key), true);
    if (p)
        return p;
    p = pt_sums_alloc_slow(true);
    if (!p)
        return NULL;
    p->process = t->process_id;
    p->tid = copy->tid;
    p->op = PT_OP_OUTPUT;
    p->desc = c->record->aux;
    p->parent = pt_id_of(copy);
    p->opened = keeper_of(p, t, c->record->aux, true);
    pt_heap_publish(p, PT_HEAP_PROFILE);
    pt_intern_add(key, pt_id_of(p));
    return p;
}

static struct pt_profile *entry_of(const struct pt_call *c, const struct pt_thread *t, unsigned error)
{
    uint64_t key = key_of(c, t, error);
    struct pt_profile *p = entry_at(pt_intern_find(key), moves_bytes(c->op));
    return p ? p : make_entry(c, t, error, key);
}

/* A thread mostly repeats what it did last, so that entry is tried before any hash is computed. */
static struct pt_profile *same_as_last(const struct pt_call *c, const struct pt_thread *t)
{
    uint64_t last = t->sums[c->op % PT_LATEST];
    struct pt_profile *p = last >> 32 == c->op ? entry_at((uint32_t)last, moves_bytes(c->op)) : NULL;
    const struct pt_record *r = c->record;
    if (p && p->desc == r->desc && p->stack == r->stack && p->parent == r->parent && p->process == t->process_id &&
        pt_op_row(c->op)->shape == PT_SHAPE_FD)
        return p;
    return NULL;
}

uint32_t pt_profile_begin(struct pt_call *c, struct pt_thread *t)
{
    struct pt_profile *p = same_as_last(c, t);
    if (!p) {
        p = entry_of(c, t, 0);
        if (!p)
            return 0;
        t->sums[c->op % PT_LATEST] = pt_id_of(p) | (uint64_t)c->op
                                                       << 32; /* kept here: the entry itself may be forged */
    }
    if (p->tid != t->tid)
        p->tid = 0;
    add(&p->begun, 1);
    return pt_id_of(p);
}

static unsigned range_of(uint64_t bytes)
{
    static const uint64_t up_to[PT_SIZE_RANGES - 1] = {100,      1u << 10,  10u << 10,  100u << 10, 1u << 20,
                                                       4u << 20, 10u << 20, 100u << 20, 1u << 30};
    unsigned i = 0;
    while (i < PT_SIZE_RANGES - 1 && bytes > up_to[i])
        i++;
    return i;
}

/* Where the latest transfer of the file ended, plus 1; 0: there was none.  Stores the end of this one.  Of several
 * threads that transfer at once, two may get the same answer.  The id comes from the log, where others can write. */
static inline uint64_t latest_end(struct pt_profile *p, uint64_t end)
{
    uint32_t keeper = pt_read_id(&p->opened);
    if (PT_UNLIKELY(keeper != pt_id_of(p))) {
        p = pt_checked(keeper, PT_PROFILE_DATA_SIZE);
        if (!p)
            return 0;
    }
    uint64_t *at = &data_of(p)->last_end, before = __atomic_load_n(at, __ATOMIC_RELAXED);
    __atomic_store_n(at, end + 1, __ATOMIC_RELAXED);
    return before;
}

static inline __attribute__((always_inline)) void add_transfer(struct pt_profile *p, int64_t at, uint64_t moved)
{
    struct pt_profile_data *d = data_of(p);
    add(&d->sizes[range_of(moved)], 1);
    for (unsigned i = 0; i < PT_COMMON_SIZES; i++) {
        if (d->common[i][1] && d->common[i][0] != moved)
            continue;
        d->common[i][0] = moved;
        add(&d->common[i][1], 1);
        break;
    }
    if (at < 0)
        return;
    uint64_t begin = (uint64_t)at, before = latest_end(p, begin + moved);
    if (before) {
        add(&d->consecutive, begin == before - 1);
        add(&d->sequential, begin >= before - 1);
    }
    add(&d->placed, 1);
    add(&d->unaligned, begin % 4096 != 0);
    raise_to(&d->highest, begin + moved);
}

static PT_COLD void add_output(const struct pt_call *c, const struct pt_thread *t, const struct pt_profile *copy,
                               int64_t moved)
{
    int64_t at = output_place(c, moved);
    struct pt_profile *p = output_of(c, t, copy);
    if (!p)
        return;
    add(&p->begun, 1);
    add(&p->count, 1);
    add_transfer(p, at, (uint64_t)moved);
}

/* ---- the end of a call ----------------------------------------------------------
 *
 * A call added 1 to `begun` of the entry of its successes when it began.  At its
 * end it goes through these steps:
 *   1. entry_for_result:  a failure moves on to the entry of its error number;
 *   2. follow_result:     the positions of descriptors move as the call moved them;
 *   3. add_call:          calls, time, the first begin and the last end;
 *   4. add_bytes:         of operations that move bytes, also their sizes and places.
 * So `begun` less `count` of an entry is how many of its calls are under way. */

static inline struct pt_profile *entry_for_result(const struct pt_call *c, struct pt_profile *p, int error)
{
    struct pt_profile *failed = PT_UNLIKELY(error) ? entry_of(c, c->thread, (unsigned)error & 0x7fff) : NULL;
    if (!failed)
        return p;
    add(&p->begun, (uint64_t)-1);
    add(&failed->begun, 1);
    return failed;
}

/* Returns the bytes moved without an error; -1: the result was none. */
static inline int64_t follow_result(const struct pt_call *c, struct pt_profile *p, int64_t moved, int error)
{
    if (error)
        moved = -1;
    if (pt_op_row(c->op)->shape != PT_SHAPE_OPEN || error) {
        follow(c, error);
        return moved;
    }
    p->opened = (uint32_t)c->record->offset;
    if (pt_op_row(c->op)->layer == PT_POSIX && moved >= 0)
        opened_at_start((int)moved, c->record->aux);
    return -1; /* the result was the descriptor's number */
}

static inline void add_call(const struct pt_call *c, struct pt_profile *p, uint64_t ticks)
{
    if (!p->first)
        p->first = c->begin;
    add(&p->count, 1);
    add(&p->ticks, ticks);
    raise_to(&p->longest, ticks);
    raise_to(&p->last, c->begin + ticks);
}

/* part: bytes moved before an error. */
static inline void add_bytes(const struct pt_call *c, struct pt_profile *p, int64_t moved, int64_t part)
{
    if (c->size != PT_SIZE_NONE)
        add(&p->asked, c->size);
    else if (moved > 0) /* no size was given: all there is was asked for */
        add(&p->asked, (uint64_t)moved);
    int64_t at = place_of(c, moved);
    if (PT_UNLIKELY(part > 0))
        add(&p->moved, (uint64_t)part);
    if (moved < 0)
        return;
    add(&p->moved, (uint64_t)moved);
    add_transfer(p, at, (uint64_t)moved);
    if (pt_op_has(c->op, PT_COPIES))
        add_output(c, c->thread, p, moved);
}

void pt_profile_end(struct pt_call *c, uint64_t ticks, int64_t moved, int error)
{
    struct pt_profile *p = entry_at(c->profile, moves_bytes(c->op));
    if (!p || c->op != p->op) /* another process wrote over the entry */
        return;
    p = entry_for_result(c, p, error);
    int64_t part = PT_UNLIKELY(error) ? moved : 0;
    moved = follow_result(c, p, moved, error);
    add_call(c, p, ticks);
    if (moves_bytes(c->op))
        add_bytes(c, p, moved, part);
}

/* The bytes of a call whose result came after its end.  Adds without a lock where the entry belongs to this thread; a
 * request that another thread waits for, at the moment of an operation of its own thread, may miss one addition. */
void pt_profile_late(uint32_t id, unsigned op, int64_t place, int64_t moved)
{
    struct pt_profile *p = entry_at(id, moves_bytes(op));
    if (!p || op != p->op || moved < 0 || !moves_bytes(op))
        return;
    add(&p->moved, (uint64_t)moved);
    add_transfer(p, place, (uint64_t)moved);
}
