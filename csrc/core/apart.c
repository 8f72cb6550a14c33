/* Operations that have no record of their own.
 *
 * Left out by choice (select.c), in sums only (profile.c), or counted because
 * the log is full.  Their hooks go the same way as all others, on a scratch
 * record: the descriptor table stays right, and nothing is dropped unseen. */
#include "call.h"


static bool no_place_given(const struct pt_record *r) { return r->offset == -1; }

/* What decide() has found out of the operation table, so that a call that is left out costs less than one that is not. */
enum trait { MOVES_POSITION = 1, IS_READ = 2, IS_WRITTEN = 4 };
static uint8_t traits[PT_MAX_OPS];

bool pt_op_moves_position(unsigned op) { return traits[op] & MOVES_POSITION; }

static uint8_t traits_of(unsigned op)
{
    const struct pt_op_row *row = pt_op_row(op);
    if (op >= PT_OP_COUNT || (row->layer != PT_POSIX && row->layer != PT_STDIO))
        return 0;
    bool read = row->klass == PT_READ, written = row->klass == PT_WRITE, copied = row->klass == PT_COPY;
    bool kept = copied && op != PT_OP_SPLICE && op != PT_OP_SPLICE_AT && op != PT_OP_TEE;
    bool moves = row->shape == PT_SHAPE_SEEK || copied || (row->shape == PT_SHAPE_FD && (read || written));
    return (uint8_t)((moves ? MOVES_POSITION : 0) | (read || kept ? IS_READ : 0) | (written || kept ? IS_WRITTEN : 0));
}

/* Of a call that moves the position. */
static __attribute__((noinline)) void note(const struct pt_call *c, void (*write)(struct pt_thread *, int))
{
    const struct pt_record *r = c->record;
    const struct pt_op_row *row = pt_op_row(c->op);
    if (row->klass == PT_COPY) { /* from one descriptor to another, by id */
        if (no_place_given(r) && r->desc)
            write(c->thread, ((struct pt_desc *)pt_at(r->desc))->fd);
        if (row->shape == PT_SHAPE_FD2 && r->aux)
            write(c->thread, ((struct pt_desc *)pt_at(r->aux))->fd);
    } else if (row->shape == PT_SHAPE_SEEK || no_place_given(r)) {
        write(c->thread, (int)r->aux);
    }
}

static void moved_unseen(struct pt_thread *t, int fd)
{
    pt_position_gap(t, fd);
    pt_profile_unplaced(fd);
}

static void gap_goes_on(struct pt_thread *t, int fd)
{
    pt_position_gap_ended(t, fd);
    pt_profile_unplaced(fd);
}

/* Whoever leaves out a call that moves the position leaves a note that it moved ... */
static void note_gap(const struct pt_call *c) { note(c, pt_position_gap); }
/* ... before it does where that is known then, and looks after it whether somebody has taken the note meanwhile. */
static void note_gap_ahead(const struct pt_call *c) { note(c, moved_unseen); }
static void note_moved(const struct pt_call *c) { note(c, gap_goes_on); }

static __attribute__((noinline)) void begin_sums(struct pt_call *c, struct pt_thread *t, uint32_t stack)
{
    c->record->stack = stack;
    c->profile = pt_profile_begin(c, t);
    c->why = c->apart; /* by then the mode may be another one */
    c->apart = c->profile ? PT_PROFILED : PT_COUNTED;
    c->begin = pt_ticks();
}

void pt_begin_apart(struct pt_call *c, struct pt_thread *t, unsigned op, uint32_t desc, uint32_t aux, int64_t offset,
                    uint64_t size, uint32_t stack)
{
    c->record = &c->scratch;
    c->scratch = (struct pt_record){
        .op = (uint8_t)op, .desc = desc, .parent = t->parent, .aux = aux, .offset = offset, .result = PT_NO_BYTES,
        .size = size >= PT_NO_BYTES ? PT_NO_BYTES : (uint32_t)size,
    };
    c->epoch = t->epoch;
    c->profile = 0;
    uint8_t apart = pt.apart[op], why = PT_LEFT_OPERATION;
    if (apart != PT_LEFT_OUT) {
        bool by_size = apart == PT_BY_SIZE && size < pt.min_size;
        c->apart = apart;
        if (stack == PT_STACK_UNKNOWN && !by_size) {
            c->apart = PT_PROFILED; /* also where the mode has become another one just now */
            stack = pt_stack(t);
        }
        if (!by_size && stack != PT_STACK_IMPORT) {
            begin_sums(c, t, stack);
            return;
        }
        why = by_size ? PT_LEFT_SMALL : PT_LEFT_IMPORT;
    }
    c->why = why;
    c->apart = PT_LEFT_OUT;
    c->begin = 0;
    if (traits[op] & MOVES_POSITION)
        note_gap_ahead(c);
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
    else if (moved > 0 && pt_op_moves(c->op))
        __atomic_fetch_add(&n->bytes, (uint64_t)moved, __ATOMIC_RELAXED);
}

/* The log is full: there should have been a record, or a sum. */
static void count_lost(void)
{
    __atomic_fetch_add(&pt.header->lost, 1, __ATOMIC_RELAXED);
    if (own_counters())
        __atomic_fetch_add(&pt.process->lost, 1, __ATOMIC_RELAXED);
}

void pt_count_left_out(struct pt_thread *t, uint32_t kind, int64_t moved)
{
    bool own = t->process_id; /* else the process found no room for an entry */
    __atomic_fetch_add(&(own ? t->process->excluded_ops : pt.header->excluded_ops)[kind & 15], 1, __ATOMIC_RELAXED);
    if (moved > 0)
        __atomic_fetch_add(&(own ? t->process->excluded_bytes : pt.header->excluded_bytes)[kind & 15], (uint64_t)moved,
                           __ATOMIC_RELAXED);
}

/* A call on data that gets no row, left out by choice or suppressed: its bytes are seen all the same, and must not be
 * taken for those of a call that passed us by (pt_process.end_account). */
void pt_count_unrecorded(const struct pt_call *c, int64_t moved)
{
    struct pt_thread *t = pt_self;
    uint8_t is = traits[c->op];
    if (!(is & (IS_READ | IS_WRITTEN)) || (pt.gate & PT_GATE_OFF) || !t->process_id || t->gate & PT_GATE_VFORK ||
        t->epoch != pt.epoch)
        return;
    if (is & IS_READ)
        __atomic_fetch_add(&t->process->unrecorded_read, (uint64_t)moved, __ATOMIC_RELAXED);
    if (is & IS_WRITTEN)
        __atomic_fetch_add(&t->process->unrecorded_written, (uint64_t)moved, __ATOMIC_RELAXED);
}

static __attribute__((noinline)) void end_sums(struct pt_call *c, uint64_t ticks, int64_t moved, int error)
{
    if (c->apart == PT_PROFILED)
        pt_profile_end(c, ticks, moved, error);
    else
        count(c, ticks, moved, error);
    if (c->why != PT_PROFILED || c->apart == PT_COUNTED)
        count_lost();
    /* In a full log the reader knows from when on. */
    if (!error && (traits[c->op] & MOVES_POSITION) &&
        (c->why == PT_PROFILED || !__atomic_load_n(&pt.header->full_reason, __ATOMIC_RELAXED)))
        note_gap(c);
}

void pt_end_apart(struct pt_call *c, uint64_t ticks, int64_t moved, int error)
{
    struct pt_thread *t = c->thread;
    if ((pt.gate & PT_GATE_OFF) || t->epoch != c->epoch)
        return; /* it began in a stretch that has ended since, or in the parent process */
    if (c->apart != PT_LEFT_OUT) {
        end_sums(c, ticks, moved, error);
        return;
    }
    if (c->why != PT_LEFT_IMPORT || pt_op_row(c->op)->layer != PT_APP) /* that is counted beneath */
        pt_count_left_out(t, c->why, error ? 0 : moved);
    if (error)
        return;
    pt_count_unrecorded(c, moved);
    if (traits[c->op] & MOVES_POSITION)
        note_moved(c);
}

/* --min-duration and --min-size: gives a record back that was claimed at the
 * begin.  Only the latest of its thread can be: one that something happened
 * inside of stays.  In a ring, true as well of one that is not there any more:
 * the ring has come round to it since. */
PT_COLD bool pt_dropped(struct pt_call *c, uint64_t ticks, int64_t moved, int error)
{
    const struct pt_op_row *row = pt_op_row(c->op);
    struct pt_record *r = c->record;
    if (r->begin != c->begin)
        return true;
    bool moves = row->klass == PT_READ || row->klass == PT_WRITE || row->klass == PT_COPY;
    bool may = moves || row->klass == PT_META || row->klass == PT_SYNC || row->klass == PT_SEEK;
    bool small = ticks < pt.min_ticks || (moves && moved >= 0 && (uint64_t)moved < pt.min_size);
    if (!small || !may || row->shape == PT_SHAPE_DUP)
        return false;
    c->scratch = *r; /* a signal handler's call may have the record next */
    __atomic_store_n(&r->flags, PT_EMPTY, __ATOMIC_RELEASE);
    uintptr_t next = (uintptr_t)(r + 1);
    if (!__atomic_compare_exchange_n(&c->thread->next, &next, (uintptr_t)r, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        __atomic_store_n(&r->flags, (uint8_t)(c->flags | PT_BEGUN), __ATOMIC_RELEASE);
        return false;
    }
    c->apart = PT_LEFT_OUT;
    c->record = &c->scratch;
    c->why = PT_LEFT_SMALL;
    pt_count_left_out(c->thread, PT_LEFT_SMALL, error ? 0 : moved);
    if (!error) {
        pt_count_unrecorded(c, moved);
        if (traits[c->op] & MOVES_POSITION)
            note_gap(c);
    }
    return true;
}

static struct pt_thread *table_of(struct pt_thread *t)
{
    return t->gate & PT_GATE_VFORK && t->vfork_child ? t->vfork_child : t;
}

/* A call while tracing is paused or suppressed.  fd: -1 if it has none.  Returns what it is counted as, with the
 * descriptor whose position it moves. */
PT_COLD pt_fd_entry pt_passed_by(unsigned op, int fd)
{
    struct pt_thread *t = pt_self;
    if ((pt.gate & PT_GATE_OFF) || !t)
        return 0;
    if (fd < 0 || !pt_op_moves_position(op))
        return pt_left_out_entry(PT_LEFT_PAUSED);
    moved_unseen(table_of(t), fd);
    return pt_left_out_entry(PT_LEFT_PAUSED) | ((uint32_t)fd + 1);
}

PT_COLD void pt_has_passed_by(pt_fd_entry left_out)
{
    if (!(pt.gate & PT_GATE_OFF) && pt_entry_id(left_out))
        gap_goes_on(table_of(pt_self), (int)(pt_entry_id(left_out) - 1));
}

/* ---- switching ---------------------------------------------------------------------- */

static void decide(void)
{
    for (unsigned op = 0; op < PT_MAX_OPS; op++) {
        traits[op] = traits_of(op);
        bool sums = pt.mode == PT_MODE_PROFILE && op < PT_OP_COUNT && pt_op_row(op)->klass != PT_PROCESS &&
                    pt_op_row(op)->klass != PT_INTERNAL;
        uint8_t klass = op < PT_OP_COUNT ? pt_op_row(op)->klass : PT_META;
        bool moves = klass == PT_READ || klass == PT_WRITE || klass == PT_COPY;
        pt.apart[op] = !pt_select_op(op)       ? PT_LEFT_OUT
                       : sums                  ? PT_PROFILED
                       : moves && pt.min_size  ? PT_BY_SIZE
                                               : PT_RECORDED;
    }
    pt.drop_below = pt.mode == PT_MODE_RING || pt.min_size ? UINT64_MAX : pt.min_ticks;
}

void pt_switch(uint32_t mode)
{
    pt_profile_forget_places();
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
