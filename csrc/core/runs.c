/* Runs of like tiny calls on one stream (runs.h).
 *
 * A thread has a few open runs, found by stream and operation.  A signal handler
 * may take a run's place in the middle of a call that joins it: the call keeps
 * to the record it began with, which stays where it is. */
#include "runs.h"

/* Sums stay within their 32 bits. */
#define MOST 0xf0000000u
#define MOST_AT_ONCE 0x0fffffff

static bool is_of(const struct pt_stream_run *run, const void *stream, unsigned op)
{
    return run->record && run->stream == stream && run->record->op == op;
}

/* The run of these two, or where one may begin: a free place, or the one that
 * was left alone for longest, so that two streams used by turns do not end
 * each other's runs. */
static struct pt_stream_run *place_of(struct pt_thread *t, const void *stream, unsigned op)
{
    struct pt_stream_run *usual = &t->streams[((uintptr_t)stream >> 5 ^ op) % PT_RUNS];
    if (PT_LIKELY(is_of(usual, stream, op)))
        return usual;
    struct pt_stream_run *oldest = usual;
    for (int i = 0; i < PT_RUNS; i++) {
        struct pt_stream_run *run = &t->streams[i];
        if (is_of(run, stream, op))
            return run;
        if (oldest->record && (!run->record || run->last < oldest->last))
            oldest = run;
    }
    return oldest;
}

/* Whatever the run is named by: the stream alone tells what it is about. */
#define ANY UINT32_MAX

static bool goes_on(const struct pt_stream_run *run, struct pt_thread *t, unsigned op, const void *stream, uint32_t desc,
                    uint64_t now)
{
    const struct pt_record *r = run->record;
    return r && r->begin == run->begin && run->stream == stream && r->op == op && (r->desc == desc || desc == ANY) && r->parent == t->parent &&
           now - run->last < PT_PAUSE_US * pt_ticks_per_us() && r->aux < UINT32_MAX && (r->size < MOST || r->size == PT_NO_BYTES) &&
           (r->result < MOST || r->result == PT_NO_BYTES) && r->stack == pt_stack(t);
}

/* Does the call add to an open run?  Else one may begin with it. */
static bool joins(struct pt_run_call *c, struct pt_thread *t, unsigned op, const void *stream, uint32_t desc)
{
    c->place = NULL;
    if (c->asked >= PT_TINY && c->asked != PT_SIZE_NONE) {
        pt_runs_end(t, stream);
        return false;
    }
    c->place = place_of(t, stream, op);
    c->begin = pt_ticks();
    if (PT_LIKELY(goes_on(c->place, t, op, stream, desc, c->begin))) {
        c->joined = c->place->record;
        c->thread = t;
        return true;
    }
    c->place->record = NULL; /* set when its first call is done */
    c->place->stream = stream;
    return false;
}

static struct pt_thread *enter(struct pt_run_call *c, uint64_t asked, uint32_t aux)
{
    c->call.thread = NULL;
    c->call.left_out = 0;
    c->joined = NULL;
    c->asked = asked;
    c->aux = aux;
    return pt_enter();
}

void pt_run_begin_fd(struct pt_run_call *c, unsigned op, const void *stream, int fd, uint64_t asked)
{
    struct pt_thread *t = enter(c, asked, (uint32_t)fd);
    c->call.op = (uint8_t)op;
    if (PT_UNLIKELY(t == NULL)) {
        c->call.left_out = pt_passed_by(op, fd);
        return;
    }
    pt_fd_entry e = pt_fd_get(t, fd);
    if (PT_UNLIKELY(e & PT_FD_EXCLUDED))
        c->call.left_out = e;
    else if (!joins(c, t, op, stream, pt_entry_id(e)))
        pt_begin(&c->call, t, op, pt_entry_id(e), (uint32_t)fd, -1, asked);
}

void pt_run_begin_path(struct pt_run_call *c, unsigned op, const void *stream, const char *path)
{
    struct pt_thread *t = enter(c, PT_SIZE_NONE, 0);
    if (t && !joins(c, t, op, stream, ANY))
        pt_begin_path(&c->call, op, path, 0);
}

static void end_first(struct pt_run_call *c, int64_t moved, int error)
{
    struct pt_record *r = c->call.record;
    if (c->asked == PT_SIZE_NONE && !error && moved >= 0 && moved < (int64_t)PT_NO_BYTES)
        r->size = (uint32_t)moved;
    uint64_t now = pt_ticks();
    bool run = c->place && !error && moved <= MOST_AT_ONCE && c->call.apart == PT_RECORDED;
    if (run) {
        c->call.flags |= PT_COALESCED;
        r->aux = 1;
        r->offset = (int64_t)(now - c->call.begin);
    }
    pt_end(&c->call, moved, error);
    if (run && c->call.apart == PT_RECORDED) { /* not dropped as too small */
        c->place->record = r;
        c->place->begin = c->call.begin;
        c->place->last = now;
    }
}

/* A call that failed is not lost in a run's sums: it ends the run and has a record of its own. */
static PT_COLD void leave_run(struct pt_run_call *c, int64_t moved, int error)
{
    const struct pt_record *r = c->joined;
    uint64_t asked = c->asked == PT_SIZE_NONE && moved >= 0 ? (uint64_t)moved : c->asked;
    if (c->place->record == r)
        c->place->record = NULL;
    pt_begin(&c->call, c->thread, r->op, r->desc, c->aux, -1, asked);
    c->call.begin = c->call.record->begin = c->begin;
    pt_end(&c->call, moved, error);
}

void pt_run_end(struct pt_run_call *c, int64_t moved, int error)
{
    struct pt_record *r = c->joined;
    if (!r) {
        if (c->call.thread)
            end_first(c, moved, error);
        else
            pt_end_untraced(&c->call, moved);
        return;
    }
    if (PT_UNLIKELY(c->place->record == r && r->begin != c->place->begin)) { /* a ring has come round to it */
        c->place->record = NULL;
        return;
    }
    if (PT_UNLIKELY(error || moved > MOST_AT_ONCE)) {
        leave_run(c, moved, error);
        return;
    }
    uint64_t now = pt_ticks();
    uint64_t duration = ((uint64_t)r->duration_hi << 32 | r->duration_lo) + (now - c->begin);
    r->duration_lo = (uint32_t)duration;
    r->duration_hi = duration >> 48 ? 0xffff : (uint16_t)(duration >> 32);
    r->aux++;
    if (moved >= 0) {
        r->size += (uint32_t)(c->asked == PT_SIZE_NONE ? (uint64_t)moved : c->asked);
        r->result += (uint32_t)moved;
    }
    r->offset = (int64_t)(now - r->begin);
    if (c->place->record == r)
        c->place->last = now;
}

void pt_runs_end(struct pt_thread *t, const void *stream)
{
    for (int i = 0; i < PT_RUNS; i++)
        if (t->streams[i].stream == stream)
            t->streams[i].record = NULL;
}
