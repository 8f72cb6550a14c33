/* Calls of libraries above libc: begin, end, and results that come after the call has returned. */
#include "record/library_spans.h"
#include "log/chunks.h"

struct pt_thread *pt_library_begin(struct pt_library_span *s, unsigned op)
{
    struct pt_thread *t = pt_enter();
    s->call.thread = NULL;
    s->call.left_out = 0;
    s->call.op = (uint8_t)op;
    s->id = 0;
    if (PT_UNLIKELY(!t)) {
        s->call.left_out = pt_begin_paused(op, -1);
        return NULL;
    }
    s->errno_before = errno;
    if (pt.disposition[op] != PT_LEFT_OUT)
        return t;
    pt_begin(&s->call, t, op, 0, 0, 0, PT_SIZE_NONE);
    return NULL;
}

void pt_library_open(struct pt_library_span *s, struct pt_thread *t, struct pt_named path, uint32_t aux, int64_t offset,
                     uint64_t size)
{
    if (path.left_out) {
        s->call.left_out = pt_left_out_entry(path.left_out);
        return;
    }
    pt_begin(&s->call, t, s->call.op, path.id, aux, offset, size);
    s->id = pt_call_id(&s->call);
    s->parent_before = t->parent;
    s->link_before = t->link;
    if (s->id) {
        t->parent = s->id;
        t->link = PT_LINK_THREAD;
    }
}

static bool goes_on(const struct pt_library_span *s)
{
    return s->call.thread && s->call.process_id == pt.process_id && !(pt.gate & PT_GATE_OFF);
}

bool pt_library_described(const struct pt_library_span *s, uint32_t *path, int64_t *offset)
{
    if (!goes_on(s))
        return false;
    *path = s->call.record->desc;
    *offset = s->call.record->offset;
    return true;
}

void pt_library_describe(struct pt_library_span *s, int64_t offset)
{
    if (goes_on(s))
        s->call.record->offset = offset;
}

void pt_library_end(struct pt_library_span *s, int64_t moved, int error)
{
    struct pt_thread *t = s->call.thread;
    if (!t) {
        pt_end_untraced(&s->call, 0);
        return;
    }
    if (s->id && t == pt_self && t->parent == s->id) {
        t->parent = s->parent_before;
        t->link = s->link_before;
    }
    if (s->call.process_id == pt.process_id && !(pt.gate & PT_GATE_OFF))
        pt_end(&s->call, moved, error);
}

/* ---- results that come later ----------------------------------------------------------- */

struct pt_late_result pt_library_end_later(struct pt_library_span *s)
{
    struct pt_call *c = &s->call;
    c->flags &= (uint8_t)~PT_WIDE; /* the record of the rest is written once, with the result */
    pt_library_end(s, -1, 0);
    if (!c->thread)
        return (struct pt_late_result){0};
    return (struct pt_late_result){
        .record = c->record == &c->scratch ? NULL : c->record,
        .begin = c->begin,
        .size = c->size,
        .place = c->record->offset,
        .id = s->id,
        .process_id = c->process_id,
        .epoch = c->thread->epoch,
        .op = c->op,
        .disposition = c->disposition,
    };
}

static void complete(const struct pt_late_result *l, int64_t moved, int error)
{
    struct pt_record *r = l->record;
    uint8_t flags = __atomic_load_n(&r->flags, __ATOMIC_RELAXED);
    if (r->begin != l->begin || (flags & PT_STATE_MASK) != PT_DONE) /* a ring has reused it */
        return;
    struct pt_call c = {.thread = pt_self, .record = r, .size = l->size};
    bool wide = !error && (moved >= (int64_t)PT_NO_BYTES || (l->size >= PT_NO_BYTES && l->size != PT_SIZE_NONE));
    if (wide && c.thread) {
        pt_end_wide(&c, moved, 0);
        flags |= PT_WIDE;
    } else if (!wide) {
        __atomic_store_n(&r->result, (uint32_t)(error ? error : moved), __ATOMIC_RELAXED);
    }
    __atomic_store_n(&r->flags, error ? flags | PT_FAILED : flags, __ATOMIC_RELEASE);
}

void pt_late_result(const struct pt_late_result *l, int64_t moved, int error)
{
    if (pt.gate & PT_GATE_OFF || !l->begin || l->process_id != pt.process_id || l->epoch != pt.epoch)
        return;
    switch (l->disposition) {
    case PT_RECORDED: complete(l, moved, error); break;
    case PT_PROFILED: pt_profile_late(l->id, l->op, l->place, moved); break;
    case PT_COUNTED:
        if (moved > 0)
            __atomic_fetch_add(&pt.counters[l->op].bytes, (uint64_t)moved, __ATOMIC_RELAXED);
        break;
    default: break;
    }
}
