/* Opening and closing spans, in any order and on any thread.
 *
 * Spans of one thread usually nest: closing one makes its parent the thread's innermost span again.  Generators break
 * that.  Two that take turns close in the order in which they opened; one that another thread finishes closes while
 * its own thread is still inside it.  So a span that closes while spans opened in it are still open is noted in a
 * table.  When the last of those closes, its thread's innermost span becomes the nearest enclosing one that is still
 * open. */
#include "spans/open_span.h"

#include "context/context.h"

#include <time.h>

/* Found by a hash of the id.  Where two share a place the later one stays. */
#define CLOSED_EARLY_MOST 256u
static struct closed_early {
    uint32_t id, run, parent, link; /* id 0: an empty place */
} closed_early[CLOSED_EARLY_MOST];

static struct closed_early *closed_early_place(uint32_t id)
{
    return &closed_early[id * 2654435761u >> 24];
}

/* Finds the innermost span around `s` that is still open. */
static void find_enclosing(const struct pt_open_span *s, uint32_t *parent, uint32_t *link)
{
    *parent = s->parent_before;
    *link = s->link_before;
    for (unsigned i = 0; *parent && i < CLOSED_EARLY_MOST; i++) {
        const struct closed_early *at = closed_early_place(*parent);
        if (at->id != *parent || at->run != s->run)
            return;
        *link = at->link;
        *parent = at->parent;
    }
}

/* Takes `t`, the thread that opened the span, out of it. */
static void leave(const struct pt_open_span *s, struct pt_thread *t)
{
    uint32_t parent, link, id = s->id;
    if (!id || s->run != pt_run_number())
        return;
    find_enclosing(s, &parent, &link);
    if (t == pt_self && t->parent == id) {
        t->parent = parent;
        t->link = link;
    } else if (s->call.disposition ==
               PT_RECORDED) { /* an aggregate's id is shared by other spans that are still open */
        *closed_early_place(id) = (struct closed_early){id, s->run, parent, link};
        /* If the thread that opened it is still directly inside, take it out. */
        if (t != pt_self)
            __atomic_compare_exchange_n(&t->parent, &id, parent, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
}

/* ---- processor time ----------------------------------------------------------------------
 *
 * To read it is a system call, of 0.2 to 0.3 us.  So it is read for spans that may last: those whose name is new, or
 * whose latest span of that name did. */
#define LASTS_US 100u
#define NAMES_MOST 1024u
static uint8_t latest_was_short[NAMES_MOST]; /* by a hash of the name; all threads write it */

static uint8_t *latest_of(const struct pt_record *r, unsigned op)
{
    return &latest_was_short[((r->aux ? r->aux : op) * 2654435761u) >> 22];
}

static int64_t processor_time(void)
{
    struct timespec now;
    return pt_sys(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &now) == 0
               ? (int64_t)now.tv_sec * 1000000000 + now.tv_nsec
               : -1;
}

static inline void cpu_begins(struct pt_open_span *s, const struct pt_thread *t)
{
    s->tid = t->tid;
    s->cpu = s->call.disposition == PT_RECORDED && !*latest_of(s->call.record, s->call.op) ? processor_time() : -1;
}

/* The span's call has ended. */
static inline void cpu_ends(const struct pt_open_span *s, uint64_t now)
{
    const struct pt_call *end = &s->call;
    if (end->disposition != PT_RECORDED || !pt_span_has_record(s))
        return;
    uint8_t *is_short = latest_of(end->record, end->op), was_short = *is_short;
    bool lasts = now - end->begin >= LASTS_US * pt_ticks_per_us();
    if (was_short == lasts)
        *is_short = !lasts;
    if (lasts && s->cpu >= 0 && end->thread == pt_self && s->tid == pt_self->tid)
        pt_span_took(pt_self, end, processor_time() - s->cpu);
}

void pt_span_open(struct pt_open_span *s, struct pt_thread *t, unsigned op, uint32_t path, uint32_t name,
                  uint32_t detail)
{
    pt_begin(&s->call, t, op, path, name, detail, PT_SIZE_NONE);
    s->id = pt_call_id(&s->call);
    s->parent_before = t->parent;
    s->link_before = t->link;
    s->run = pt_run_number();
    if (s->id) {
        if (PT_UNLIKELY(closed_early_place(s->id)->id == s->id))
            closed_early_place(s->id)->id = 0; /* a ring reuses its ids */
        t->parent = s->id;
        t->link = PT_LINK_THREAD;
    }
    cpu_begins(s, t);
}

void pt_span_close(struct pt_open_span *s, int64_t moved, int error)
{
    struct pt_thread *t = s->call.thread;
    if (!t)
        return;
    s->call.thread = NULL;
    leave(s, t);
    if (s->call.process_id != pt.process_id || (pt.gate & PT_GATE_OFF))
        return;
    if (moved >= 0 && pt_span_has_record(s))
        s->call.record->size = moved >= (int64_t)PT_NO_BYTES ? PT_NO_BYTES : (uint32_t)moved;
    s->call.thread = t;
    uint64_t now = pt_ticks();
    pt_end_at(&s->call, now, error ? -1 : moved, error);
    cpu_ends(s, now);
    s->call.thread = NULL;
}
