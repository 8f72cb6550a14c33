/* One call on a Python file object.
 *
 * Only the outermost call is recorded.  TextIOWrapper.read() calls BufferedReader.read(), which calls FileIO.read():
 * that is one request on its way down.  While a call is recorded, t->depth is above zero, and calls inside it pass.
 *
 * Small calls coalesce.  A *series* is a record that like calls add to: same object, operation, parent, open file and
 * call site, with no pause between them.  Where only sums are kept, they add to the entry of sums of the first call
 * instead, pauses or not.  A thread has PT_SERIES series (struct pt_series).
 *
 *   begin   pt_file_begin -> join_series            most calls: no record, no span, often no clock
 *                         -> begin_unjoined         any other call: a record of its own; perhaps a new series
 *   end     pt_file_end   -> end_joined -> add_to_series  nothing happened inside, and the call was not timed
 *                                       -> end_timed      otherwise
 *                         -> end_first_of_series    the call's record becomes that of a series
 *
 * Invariants:
 * - series->record is NULL, and series->sums 0, until the first call has completed.  Nothing joins a call that is still
 *   under way.
 * - The record is the series' own only as long as record->begin == series->first.  A stop of tracing, or a ring that
 *   reuses the record, changes that.  Sums are the series' own only in the log, and the process, of series->epoch.
 *   join_series() checks it (is_open), and end_timed() again, before anything is added.
 * - A joined call has no span at first.  It sets t->pending, then PT_GATE_PENDING.  The first operation inside leaves
 *   the usual path because of that gate, opens the span and clears t->pending (state/threads.c).  A signal handler is
 *   such an operation too; it sees the gate only after the pointer is set.
 * - The gate is cleared when the span opens, or else when the call ends.
 * - c->begin is 0 for a call that is not timed.  If something happened inside, its time counts from series->opened.
 *
 * Counts and bytes are exact, and so are the times of calls in which something happened.  In a tight loop, other
 * calls are timed now and then (set_pace), because reading the clock twice costs more than the call itself. */
#include "files/file_call.h"

#include "frames/frames.h"

#define COALESCED_BELOW 4096u /* bytes: larger calls have records of their own */

/* Calls that take less than TIGHT_US, follow each other as fast and only copy memory are a tight loop: one call in
 * UNTIMED_MOST + 1 is timed and stands for the others. */
#define TIGHT_US 1u
#define UNTIMED_MOST 31u
/* Keeps a record's sums within 32 bits, even if a whole stretch of untimed calls follows. */
#define SUM_MOST 0xf0000000u
#define MOVED_MOST 0x0fffffff

/* ---- joining a series ---------------------------------------------------------------- */

static inline bool adds_to_sums(const struct pt_series *series)
{
    return series->sums && series->epoch == pt.epoch;
}

static inline bool is_open(const struct pt_series *series)
{
    const struct pt_record *r = series->record;
    return r ? r->begin == series->first : adds_to_sums(series) && pt.disposition[series->op] == PT_PROFILED;
}

static inline bool is_free(const struct pt_series *series)
{
    return !series->record && !series->sums;
}

/* Returns the series of this object and operation; if there is none, the place for a new one: a free one, or else the
 * one that was timed longest ago.  So a reader and a writer that take turns do not end each other's series. */
static inline struct pt_series *find_series(struct pt_thread *t, PyObject *file, unsigned op)
{
    struct pt_series *usual = &t->series[((uintptr_t)file >> 5 ^ op) % PT_SERIES], *oldest = usual;
    if (PT_LIKELY(usual->object == file && usual->op == op))
        return usual;
    for (int i = 0; i < PT_SERIES; i++) {
        struct pt_series *series = &t->series[i];
        if (series->object == file && series->op == op)
            return series;
        if (!is_free(oldest) && (is_free(series) || series->timed < oldest->timed))
            oldest = series;
    }
    return oldest;
}

/* Reads the clock.  Returns false if a pause, or sums that are full, have ended the series. */
static bool begin_timed(struct pt_file_call *c)
{
    const struct pt_series *series = c->series;
    const struct pt_record *r = series->record;
    c->begin = pt_ticks();
    return !r || (c->begin - series->first - (uint64_t)r->offset < PT_PAUSE_US * pt_ticks_per_us() &&
                  r->aux < SUM_MOST && r->size < SUM_MOST && r->result < SUM_MOST);
}

/* Begins the call as one more of a series.  Returns false, with nothing changed but *c, if there is none that it
 * fits. */
static inline bool join_series(struct pt_file_call *c, struct pt_thread *t, PyObject *file, unsigned op, uint32_t desc,
                               uint64_t requested)
{
    struct pt_series *series = find_series(t, file, op);
    if (series->object != file || series->op != op || series->parent != t->parent || series->desc != desc ||
        !is_open(series) || !pt_frames_same_site(t, series->site))
        return false;
    c->series = series;
    c->begin = 0;
    if (PT_LIKELY(series->untimed))
        series->untimed--;
    else if (!begin_timed(c))
        return false;
    c->thread = t;
    c->requested = requested;
    c->epoch = t->epoch;
    c->joined = true;
    t->pending = series;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    t->gate = PT_GATE_PENDING;
    return true;
}

/* ---- the first call of a series -------------------------------------------------------- */

static void begin_series(struct pt_series *series, const struct pt_thread *t, PyObject *file, unsigned op,
                         uint32_t desc)
{
    series->record = NULL;
    series->sums = 0;
    series->desc = desc;
    series->object = file;
    series->op = (uint8_t)op;
    series->parent = t->parent;
    series->granted = series->untimed = 0;
    series->usual = 0;
    pt_frames_site(series->site);
}

static uint32_t requested_or_moved(const struct pt_file_call *c, int64_t moved)
{
    return c->requested == PT_REQUESTED_NONE ? (uint32_t)(moved < 0 ? 0 : moved) : (uint32_t)c->requested;
}

static void end_first_of_series(struct pt_file_call *c, int64_t moved, int error)
{
    struct pt_record *r = c->call.record;
    uint64_t now = pt_ticks();
    bool like_others = !error && moved <= MOVED_MOST, fits = like_others && c->call.disposition == PT_RECORDED;
    c->series->stack = r->stack;
    if (fits) {
        c->call.flags |= PT_COALESCED;
        r->aux = 1;
        r->offset = (int64_t)(now - c->begin);
        r->size = requested_or_moved(c, moved);
    }
    pt_end_raising(&c->call, moved < 0 ? 0 : moved, error);
    if (fits && c->call.disposition == PT_RECORDED) { /* pt_end() has not dropped it as too short or too small */
        c->series->record = r;
        c->series->first = c->begin;
        c->series->timed = now;
    } else if (like_others && c->call.disposition == PT_PROFILED && c->call.intended == PT_PROFILED) {
        c->series->sums = c->call.profile;
        c->series->epoch = pt.epoch;
        c->series->timed = now;
    }
}

/* ---- the end of a joined call ------------------------------------------------------------ */

/* end: ticks; 0: not known. */
static inline void add_to_series(const struct pt_file_call *c, uint64_t end, uint64_t ticks, int64_t moved)
{
    const struct pt_series *series = c->series;
    struct pt_record *r = series->record;
    uint32_t got = moved < 0 ? 0 : (uint32_t)moved;
    if (!r) {
        uint64_t requested = c->requested == PT_REQUESTED_NONE ? PT_SIZE_NONE : c->requested;
        pt_profile_add(series->sums, series->op, end, ticks, requested, got);
        return;
    }
    bool carry = __builtin_add_overflow(r->duration_lo, (uint32_t)ticks, &r->duration_lo);
    if (PT_UNLIKELY(carry || ticks >> 32))
        r->duration_hi += (uint16_t)((ticks >> 32) + carry);
    r->aux++;
    r->size += c->requested == PT_REQUESTED_NONE ? got : (uint32_t)c->requested;
    r->result += got;
}

/* After a timed call with nothing inside: how many calls may go untimed from here?  None on a mapped file, where a page
 * fault can take any time without an operation inside. */
static void set_pace(struct pt_file_call *c, uint64_t now)
{
    struct pt_series *series = c->series;
    uint64_t tight = TIGHT_US * pt_ticks_per_us();
    bool untimed = !c->mapped && now - c->begin < tight && now - series->timed < tight * (series->granted + 1u);
    unsigned next = series->granted * 2u + 1;
    series->granted = series->untimed = (uint8_t)(!untimed ? 0 : next < UNTIMED_MOST ? next : UNTIMED_MOST);
    series->usual = (uint32_t)(now - c->begin);
    series->timed = now;
}

/* A call that failed or is too large for the sums gets a record of its own, and ends the series. */
static PT_COLD void end_outside_series(struct pt_file_call *c, uint64_t begin, int64_t moved, int error)
{
    uint32_t desc = c->series->desc;
    uint32_t fd = (uint32_t)pt_desc_fd(desc);
    uint64_t requested = c->requested != PT_REQUESTED_NONE ? c->requested
                         : error || moved < 0              ? PT_SIZE_NONE
                                                           : (uint64_t)moved;
    c->series->record = NULL;
    c->series->sums = 0;
    pt_begin(&c->call, c->thread, c->series->op, desc, fd, -1, requested);
    c->call.begin = c->call.record->begin = begin;
    pt_end_raising(&c->call, moved, error);
}

/* opened: something happened inside, and opened the call's span. */
static PT_COLD void end_timed(struct pt_file_call *c, int64_t moved, bool failed, bool opened)
{
    struct pt_series *series = c->series;
    struct pt_thread *t = c->thread;
    uint64_t now = pt_ticks();
    if (opened) {
        t->depth--;
        bool another = t->epoch != c->epoch; /* the record is in another log, or the parent process completes it */
        t->parent = another ? 0 : series->parent;
        t->link = series->link;
        if (another)
            return;
    }
    int error = pt_file_error(failed);
    uint64_t begin = c->begin ? c->begin : opened ? series->opened : now;
    if (!is_open(series)) { /* tracing stopped, or a ring reused the record */
        series->record = NULL;
        series->sums = 0;
    } else if (PT_UNLIKELY(error || moved > MOVED_MOST)) {
        end_outside_series(c, begin, moved, error);
    } else {
        add_to_series(c, now, now - begin, moved);
        if (series->record)
            series->record->offset = (int64_t)(now - series->first);
        if (c->begin && !opened)
            set_pace(c, now);
    }
}

static inline void end_joined(struct pt_file_call *c, int64_t moved, bool failed)
{
    struct pt_thread *t = c->thread;
    t->gate &= ~(uint32_t)PT_GATE_PENDING;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    bool opened = !t->pending;
    const struct pt_series *series = c->series;
    bool open = series->record || adds_to_sums(series);
    if (PT_LIKELY(!opened && !c->begin && !failed && moved < (int64_t)COALESCED_BELOW && open))
        add_to_series(c, 0, series->usual, moved);
    else
        end_timed(c, moved, failed, opened);
}

/* ---- begin and end of any call ------------------------------------------------------------ */

/* What a file object is about. */
struct open_file {
    uint32_t desc; /* id of its descriptor in the log */
    int fd;        /* -1: a mapped file */
};

/* Returns false if the call is not recorded: there is no file, or rules exclude it.  Excluded calls are counted by the
 * system calls inside. */
static bool find_open_file(struct pt_thread *t, PyObject *file, enum pt_file_kind kind, struct open_file *found)
{
    if (kind == PT_KIND_MAPPED) {
        /* an mmap object begins with the address of its mapping; an anonymous one has no file */
        *found = (struct open_file){pt_mapping_desc(*(void **)((char *)file + sizeof(PyObject))), -1};
        return found->desc != 0;
    }
    found->fd = pt_file_descriptor(file, kind);
    pt_fd_entry e = found->fd < 0 ? PT_FD_EXCLUDED : pt_fd_get(t, found->fd);
    found->desc = pt_entry_id(e);
    return !(e & PT_FD_EXCLUDED);
}

/* The whole way in: for the first call of a series, for calls that do not coalesce, and where something is unusual. */
static __attribute__((noinline)) void begin_unjoined(struct pt_file_call *c, PyObject *file, enum pt_file_kind kind,
                                                     unsigned op, uint64_t requested, bool small)
{
    c->thread = NULL;
    c->series = NULL;
    struct pt_thread *t = pt_enter();
    if (!t || t->depth)
        return;
    c->mapped = kind == PT_KIND_MAPPED;
    struct open_file found;
    if (!find_open_file(t, file, kind, &found))
        return;
    if (small) {
        if (join_series(c, t, file, op, found.desc, requested))
            return;
        c->series = find_series(t, file, op);
        begin_series(c->series, t, file, op, found.desc);
    }
    c->thread = t;
    c->requested = requested;
    c->joined = false;
    pt_begin(&c->call, t, op, found.desc, (uint32_t)found.fd, -1,
             requested == PT_REQUESTED_NONE ? PT_SIZE_NONE : requested);
    c->begin = c->call.begin;
    c->epoch = t->epoch;
    c->before = pt_file_enter(t, &c->call);
}

void pt_file_begin(struct pt_file_call *c, PyObject *file, enum pt_file_kind kind, unsigned op, uint64_t requested,
                   bool coalesce)
{
    struct pt_thread *t = pt_self;
    bool small = coalesce && (requested < COALESCED_BELOW || requested == PT_REQUESTED_NONE);
    if (PT_LIKELY(small && kind != PT_KIND_MAPPED && t && !t->gate)) {
        int fd = pt_file_descriptor(file, kind);
        pt_fd_entry e = pt_fd_peek(fd);
        c->mapped = false;
        /* e > 0: the descriptor is known, and not excluded (PT_FD_EXCLUDED is the sign bit) */
        if (PT_LIKELY((int64_t)e > 0 && join_series(c, t, file, op, pt_entry_id(e), requested)))
            return;
    }
    begin_unjoined(c, file, kind, op, requested, small);
}

void pt_file_end(struct pt_file_call *c, int64_t moved, bool failed)
{
    struct pt_thread *t = c->thread;
    if (!t)
        return;
    if (PT_LIKELY(c->joined)) {
        end_joined(c, moved, failed);
        return;
    }
    t->depth--;
    if (PT_UNLIKELY(t->epoch != c->epoch)) { /* the record is in another log, or the parent process completes it */
        t->parent = 0;
        return;
    }
    pt_span_leave(t, c->before);
    int error = pt_file_error(failed);
    if (c->series)
        end_first_of_series(c, moved, error);
    else
        pt_end_raising(&c->call, moved, error);
}
