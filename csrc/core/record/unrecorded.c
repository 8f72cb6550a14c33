/* Operations without a record of their own.
 *
 * They are left out by choice (state/filter.c), added to sums (record/profile.c), or counted because the log is full.
 * Their hooks take the same path as all others, with a scratch record.  So the descriptor table stays right, and
 * nothing is dropped uncounted. */
#include "record/call.h"
#include "record/unrecorded.h"
#include "format/operations.h"
#include "state/filter.h"
#include "state/positions.h"

static bool no_place_given(const struct pt_record *r)
{
    return r->offset == -1 || r->offset == PT_TO_END || r->offset == PT_AT_POSITION;
}

/* For a call that moves a position: applies `mark` to each descriptor whose position it moves. */
static __attribute__((noinline)) void mark_positions(const struct pt_call *c, void (*mark)(struct pt_thread *, int))
{
    const struct pt_record *r = c->record;
    if (pt_op_has(c->op, PT_COPIES)) { /* moves two positions */
        if (no_place_given(r) && r->desc)
            mark(c->thread, c->from);
        if (!pt_op_has(c->op, PT_OUTPUT_STAYS) && r->aux)
            mark(c->thread, c->to);
    } else if (pt_op_row(c->op)->shape == PT_SHAPE_SEEK || no_place_given(r)) {
        mark(c->thread, (int)r->aux);
    }
}

static void moved_unseen(struct pt_thread *t, int fd)
{
    pt_position_gap(t, fd);
    pt_position_set(fd, -1);
}

static void moved_again(struct pt_thread *t, int fd)
{
    pt_position_gap_ended(t, fd);
    pt_position_set(fd, -1);
}

/* Skipping a position-changing call marks its descriptor stale: afterwards ... */
static void mark_gap(const struct pt_call *c)
{
    mark_positions(c, pt_position_gap);
}
/* ... or before the call, if it is known then that it will be skipped.  After the call the mark is checked again,
 * because another thread may have cleared it too early. */
static void mark_gap_before(const struct pt_call *c)
{
    mark_positions(c, moved_unseen);
}
static void mark_gap_after(const struct pt_call *c)
{
    mark_positions(c, moved_again);
}

static __attribute__((noinline)) void begin_sums(struct pt_call *c, struct pt_thread *t, uint32_t stack)
{
    c->record->stack = stack;
    c->profile = pt_profile_begin(c, t);
    c->intended = c->disposition;
    c->disposition = c->profile ? PT_PROFILED : PT_COUNTED;
    c->begin = pt_ticks();
}

void pt_begin_unrecorded(struct pt_call *c, uint32_t desc, uint32_t aux, int64_t offset, uint32_t stack)
{
    struct pt_thread *t = c->thread;
    c->record = &c->scratch;
    c->scratch = (struct pt_record){
        .op = c->op,
        .desc = desc,
        .parent = t->parent,
        .aux = aux,
        .offset = offset,
        .result = PT_NO_BYTES,
        .size = c->size >= PT_NO_BYTES ? PT_NO_BYTES : (uint32_t)c->size,
    };
    c->epoch = t->epoch;
    c->profile = 0;
    uint8_t disposition = pt.disposition[c->op], left_out_as = PT_LEFT_OPERATION;
    if (disposition != PT_LEFT_OUT) {
        bool too_small = disposition == PT_BY_SIZE && c->size < pt.min_size;
        c->disposition = disposition;
        if (stack == PT_STACK_UNKNOWN && !too_small) {
            c->disposition = PT_PROFILED; /* even if the mode has changed just now */
            stack = pt_stack(t);
        }
        if (!too_small && stack != PT_STACK_IMPORT) {
            begin_sums(c, t, stack);
            return;
        }
        left_out_as = too_small ? PT_LEFT_SMALL : PT_LEFT_IMPORT;
    }
    c->left_out_as = left_out_as;
    c->disposition = PT_LEFT_OUT;
    c->begin = 0;
    if (pt_op_has(c->op, PT_MOVES_POSITION))
        mark_gap_before(c);
}

static bool own_counters(void)
{
    return pt.counters != (struct pt_counter *)(pt.base + PT_OVERFLOW_OFFSET);
}

static void count(const struct pt_call *c, uint64_t ticks, int64_t moved, int error)
{
    struct pt_counter *n = &pt.counters[c->op];
    __atomic_fetch_add(&n->count, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&n->ticks, ticks, __ATOMIC_RELAXED);
    if (error)
        __atomic_fetch_add(&n->errors, 1, __ATOMIC_RELAXED);
    if (moved > 0 && pt_op_has(c->op, PT_RESULT_IS_BYTES))
        __atomic_fetch_add(&n->bytes, (uint64_t)moved, __ATOMIC_RELAXED);
}

/* The log is full: this should have been a record, or a sum. */
static void count_lost(void)
{
    __atomic_fetch_add(&pt.header->lost, 1, __ATOMIC_RELAXED);
    if (own_counters())
        __atomic_fetch_add(&pt.process->lost, 1, __ATOMIC_RELAXED);
}

void pt_count_left_out(struct pt_thread *t, uint32_t kind, int64_t moved)
{
    bool own = t->process_id; /* else the log had no room for an entry of this process */
    __atomic_fetch_add(&(own ? t->process->excluded_ops : pt.header->excluded_ops)[kind & 15], 1, __ATOMIC_RELAXED);
    if (moved > 0)
        __atomic_fetch_add(&(own ? t->process->excluded_bytes : pt.header->excluded_bytes)[kind & 15], (uint64_t)moved,
                           __ATOMIC_RELAXED);
}

/* A data call without a row, left out by choice or suppressed.  Its bytes were seen, so they must not count as bytes
 * that bypassed the hooks (pt_process.end_account). */
void pt_count_unrecorded(const struct pt_call *c, int64_t moved)
{
    struct pt_thread *t = pt_self;
    if (moved <= 0 || !pt_op_has(c->op, PT_KERNEL_COUNTS) || (pt.gate & PT_GATE_OFF) || !t->process_id ||
        t->gate & PT_GATE_VFORK || t->epoch != pt.epoch)
        return;
    if (pt_op_has(c->op, PT_READS))
        __atomic_fetch_add(&t->process->unrecorded_read, (uint64_t)moved, __ATOMIC_RELAXED);
    if (pt_op_has(c->op, PT_WRITES))
        __atomic_fetch_add(&t->process->unrecorded_written, (uint64_t)moved, __ATOMIC_RELAXED);
}

static __attribute__((noinline)) void end_sums(struct pt_call *c, uint64_t ticks, int64_t moved, int error)
{
    if (c->disposition == PT_PROFILED)
        pt_profile_end(c, ticks, moved, error);
    else
        count(c, ticks, moved, error);
    if (c->intended != PT_PROFILED || c->disposition == PT_COUNTED)
        count_lost();
    /* In a full log the reader knows since when positions are unknown. */
    if (!error && pt_op_has(c->op, PT_MOVES_POSITION) &&
        (c->intended == PT_PROFILED || !__atomic_load_n(&pt.header->full_reason, __ATOMIC_RELAXED)))
        mark_gap(c);
}

void pt_end_unrecorded(struct pt_call *c, uint64_t ticks, int64_t moved, int error)
{
    struct pt_thread *t = c->thread;
    if ((pt.gate & PT_GATE_OFF) || t->epoch != c->epoch)
        return; /* it began before tracing was restarted, or in the parent process */
    if (c->disposition != PT_LEFT_OUT) {
        end_sums(c, ticks, moved, error);
        return;
    }
    if (c->left_out_as != PT_LEFT_IMPORT ||
        pt_op_row(c->op)->layer != PT_APP) /* the operations beneath it are counted */
        pt_count_left_out(t, c->left_out_as, moved);
    pt_count_unrecorded(c, moved);
    if (!error && pt_op_has(c->op, PT_MOVES_POSITION))
        mark_gap_after(c);
}

/* --min-duration and --min-size: gives back a record that was claimed at the begin.  Only the latest record of the
 * thread can be given back, so a call with others inside keeps its record.  Returns true also if a ring has reused
 * the record meanwhile. */
PT_COLD bool pt_drop_small(struct pt_call *c, uint64_t ticks, int64_t moved, int error)
{
    const struct pt_op_row *row = pt_op_row(c->op);
    struct pt_record *r = c->record;
    if (r->begin != c->begin)
        return true;
    bool moves = pt_op_has(c->op, PT_READS | PT_WRITES);
    bool may =
        moves || row->klass == PT_META || row->klass == PT_SYNC || row->klass == PT_SEEK || row->shape == PT_SHAPE_WAIT;
    bool small = ticks < pt.min_ticks || (moves && moved >= 0 && (uint64_t)moved < pt.min_size);
    if (!small || !may || row->shape == PT_SHAPE_DUP)
        return false;
    c->scratch = *r; /* a signal handler may claim the record next */
    __atomic_store_n(&r->flags, PT_EMPTY, __ATOMIC_RELEASE);
    uintptr_t next = (uintptr_t)(r + 1);
    if (!__atomic_compare_exchange_n(&c->thread->next, &next, (uintptr_t)r, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED)) {
        __atomic_store_n(&r->flags, (uint8_t)(c->flags | PT_BEGUN), __ATOMIC_RELEASE);
        return false;
    }
    c->disposition = PT_LEFT_OUT;
    c->record = &c->scratch;
    c->left_out_as = PT_LEFT_SMALL;
    pt_count_left_out(c->thread, PT_LEFT_SMALL, moved);
    pt_count_unrecorded(c, moved);
    if (!error && pt_op_has(c->op, PT_MOVES_POSITION))
        mark_gap(c);
    return true;
}

static struct pt_thread *table_of(struct pt_thread *t)
{
    return t->gate & PT_GATE_VFORK && t->vfork_child ? t->vfork_child : t;
}

/* A call while tracing is paused or suppressed.  fd: -1 if it has none.  Returns how the call is counted, with the
 * descriptor whose position it moves. */
PT_COLD pt_fd_entry pt_begin_paused(unsigned op, int fd)
{
    struct pt_thread *t = pt_self;
    if ((pt.gate & PT_GATE_OFF) || !t)
        return 0;
    if (fd < 0 || !pt_op_has(op, PT_MOVES_POSITION))
        return pt_left_out_entry(PT_LEFT_PAUSED);
    moved_unseen(table_of(t), fd);
    return pt_left_out_entry(PT_LEFT_PAUSED) | ((uint32_t)fd + 1);
}

PT_COLD void pt_end_paused(pt_fd_entry left_out)
{
    if (!(pt.gate & PT_GATE_OFF) && pt_entry_id(left_out))
        moved_again(table_of(pt_self), (int)(pt_entry_id(left_out) - 1));
}

/* ---- switching ---------------------------------------------------------------------- */

static void decide(void)
{
    for (unsigned op = 0; op < PT_MAX_OPS; op++) {
        bool single = op < PT_OP_COUNT && pt_op_row(op)->klass == PT_PROCESS && pt_op_row(op)->shape != PT_SHAPE_WAIT;
        bool sums = pt.mode == PT_MODE_PROFILE && op < PT_OP_COUNT && !single && !pt_op_has(op, PT_HIDDEN);
        bool moves = pt_op_has(op, PT_READS | PT_WRITES);
        pt.disposition[op] = !pt_select_op(op)      ? PT_LEFT_OUT
                             : sums                 ? PT_PROFILED
                             : moves && pt.min_size ? PT_BY_SIZE
                                                    : PT_RECORDED;
    }
    pt.drop_below = pt.mode == PT_MODE_RING || pt.min_size ? UINT64_MAX : pt.min_ticks;
}

void pt_switch(uint32_t mode)
{
    pt_positions_forget();
    pt.mode = mode;
    decide();
}

void pt_pause(bool on)
{
    if (on)
        __atomic_fetch_or(&pt.gate, PT_GATE_PAUSED, __ATOMIC_RELEASE);
    else
        __atomic_fetch_and(&pt.gate, ~(uint32_t)PT_GATE_PAUSED, __ATOMIC_RELEASE);
}
