/* Series of small calls on one stream (record/coalesced.h).
 *
 * A thread has a few open series, found by stream and operation.  A signal handler may take a series' place in the
 * middle of a call that joins it; the call then stays with the record it began with, which does not move. */
#include "record/coalesced.h"

/* Keeps the sums within their 32 bits. */
#define MOST 0xf0000000u
#define MOST_AT_ONCE 0x0fffffff

static bool is_of(const struct pt_stream_series *series, const void *stream, unsigned op)
{
    return series->record && series->stream == stream && series->record->op == op;
}

/* The series of this stream and operation, or the place where one may begin: a free one, or the least recently used.
 * So two streams that are used in turn do not end each other's series. */
static struct pt_stream_series *place_of(struct pt_thread *t, const void *stream, unsigned op)
{
    struct pt_stream_series *usual = &t->streams[((uintptr_t)stream >> 5 ^ op) % PT_SERIES];
    if (PT_LIKELY(is_of(usual, stream, op)))
        return usual;
    struct pt_stream_series *oldest = usual;
    for (int i = 0; i < PT_SERIES; i++) {
        struct pt_stream_series *series = &t->streams[i];
        if (is_of(series, stream, op))
            return series;
        if (oldest->record && (!series->record || series->last < oldest->last))
            oldest = series;
    }
    return oldest;
}

/* Any descriptor: the stream alone identifies the series. */
#define ANY UINT32_MAX

static bool goes_on(const struct pt_stream_series *series, struct pt_thread *t, unsigned op, const void *stream,
                    uint32_t desc, uint64_t now)
{
    const struct pt_record *r = series->record;
    return r && r->begin == series->begin && series->stream == stream && r->op == op &&
           (r->desc == desc || desc == ANY) && r->parent == t->parent &&
           now - series->last < PT_PAUSE_US * pt_ticks_per_us() && r->aux < UINT32_MAX &&
           (r->size < MOST || r->size == PT_NO_BYTES) && (r->result < MOST || r->result == PT_NO_BYTES) &&
           r->stack == pt_stack(t);
}

/* Does the call join an open series? If not, a series may begin with it. */
static bool joins(struct pt_series_call *c, struct pt_thread *t, unsigned op, const void *stream, uint32_t desc)
{
    c->place = NULL;
    if (c->requested >= PT_TINY && c->requested != PT_SIZE_NONE) {
        pt_series_break(t, stream);
        return false;
    }
    c->place = place_of(t, stream, op);
    c->call.op = (uint8_t)op;
    c->begin = pt_ticks();
    if (PT_LIKELY(goes_on(c->place, t, op, stream, desc, c->begin))) {
        c->joined = c->place->record;
        c->thread = t;
        return true;
    }
    c->place->record = NULL; /* set when its first call has ended */
    c->place->stream = stream;
    return false;
}

static struct pt_thread *enter(struct pt_series_call *c, uint64_t requested, uint32_t aux)
{
    c->call.thread = NULL;
    c->call.left_out = 0;
    c->joined = NULL;
    c->requested = requested;
    c->aux = aux;
    return pt_enter();
}

void pt_series_begin_fd(struct pt_series_call *c, unsigned op, const void *stream, int fd, uint64_t requested)
{
    struct pt_thread *t = enter(c, requested, (uint32_t)fd);
    c->call.op = (uint8_t)op;
    if (PT_UNLIKELY(t == NULL)) {
        c->call.left_out = pt_begin_paused(op, fd);
        return;
    }
    pt_fd_entry e = pt_fd_get(t, fd);
    if (PT_UNLIKELY(e & PT_FD_EXCLUDED)) {
        /* An import that looks through a folder makes no call for each entry: its opendir is counted. */
        if (op != PT_OP_READDIR || pt_entry_kind(e) != PT_LEFT_IMPORT)
            c->call.left_out = e;
    } else if (!joins(c, t, op, stream, pt_entry_id(e)))
        pt_begin(&c->call, t, op, pt_entry_id(e), (uint32_t)fd, -1, requested);
}

void pt_series_begin_path(struct pt_series_call *c, unsigned op, const void *stream, const char *path)
{
    struct pt_thread *t = enter(c, PT_SIZE_NONE, 0);
    if (t && !joins(c, t, op, stream, ANY))
        pt_begin_path(&c->call, op, path, 0);
}

static void end_first(struct pt_series_call *c, int64_t moved, int error)
{
    struct pt_record *r = c->call.record;
    if (c->requested == PT_SIZE_NONE && !error && moved >= 0 && moved < (int64_t)PT_NO_BYTES)
        r->size = (uint32_t)moved;
    uint64_t now = pt_ticks();
    bool series = c->place && !error && moved <= MOST_AT_ONCE && c->call.disposition == PT_RECORDED;
    if (series) {
        c->call.flags |= PT_COALESCED;
        r->aux = 1;
        r->offset = (int64_t)(now - c->call.begin);
    }
    pt_end(&c->call, moved, error);
    if (series && c->call.disposition == PT_RECORDED) { /* not left out as too small */
        c->place->record = r;
        c->place->begin = c->call.begin;
        c->place->last = now;
    }
}

/* A failed call must not vanish in the sums: it ends the series and gets a record of its own. */
static PT_COLD void leave_series(struct pt_series_call *c, int64_t moved, int error)
{
    const struct pt_record *r = c->joined;
    uint64_t requested = c->requested == PT_SIZE_NONE && moved >= 0 ? (uint64_t)moved : c->requested;
    if (c->place->record == r)
        c->place->record = NULL;
    pt_begin(&c->call, c->thread, c->call.op, r->desc, c->aux, -1, requested); /* r->op may be forged by now */
    c->call.begin = c->call.record->begin = c->begin;
    pt_end(&c->call, moved, error);
}

void pt_series_end(struct pt_series_call *c, int64_t moved, int error)
{
    struct pt_record *r = c->joined;
    if (!r) {
        if (c->call.thread)
            end_first(c, moved, error);
        else
            pt_end_untraced(&c->call, moved);
        return;
    }
    if (PT_UNLIKELY(c->place->record == r && r->begin != c->place->begin)) { /* a ring has reused the record */
        c->place->record = NULL;
        return;
    }
    if (PT_UNLIKELY(error || moved > MOST_AT_ONCE)) {
        leave_series(c, moved, error);
        return;
    }
    uint64_t now = pt_ticks();
    uint64_t duration = ((uint64_t)r->duration_hi << 32 | r->duration_lo) + (now - c->begin);
    r->duration_lo = (uint32_t)duration;
    r->duration_hi = duration >> 48 ? 0xffff : (uint16_t)(duration >> 32);
    r->aux++;
    if (moved >= 0) {
        r->size += (uint32_t)(c->requested == PT_SIZE_NONE ? (uint64_t)moved : c->requested);
        r->result += (uint32_t)moved;
    }
    r->offset = (int64_t)(now - r->begin);
    if (c->place->record == r)
        c->place->last = now;
}

void pt_series_break(struct pt_thread *t, const void *stream)
{
    for (int i = 0; i < PT_SERIES; i++)
        if (t->streams[i].stream == stream)
            t->streams[i].record = NULL;
}
