/* The stack of a thread that may be running.
 *
 * One call reads its thread state, its innermost frame and the newest part of its data stack, at the addresses of the
 * last look, and then the innermost frame once more.  A few calls before it warm the caches, so that the parts are read
 * within a short time.  The thread still calls and returns in between, and so the frame that was innermost a moment
 * before may have returned since.  What counts is the data stack, which is copied in one go: there a frame keeps the top
 * of its stack while it does not run, because it has called another frame, or has returned.  The first that keeps none is
 * the one that ran; those above it have returned.
 *
 * Where that leads nowhere, or a frame leads to no code object, to a line that its code does not have, or to a generator
 * that nobody calls, the stack is read again.  The last attempt takes the frames as they are: one that is traced keeps
 * its top while it runs. */
#include "sampler.h"

#include "base/hash.h"
#include "log/chunks.h"
#include "log/ids.h"
#include "log/intern.h"

#include <string.h>

#define WARMING 3u /* calls that only warm the caches */
#define ATTEMPTS 8u
#define AHEAD 1024u       /* bytes that the data stack may have grown by since */
#define FRAMES_MOST 1000u /* that are followed, with those that have no code */
#define GENERATOR 1       /* owner of a frame: a generator, whose frame is not on the data stack */

static bool has_cframe(const struct pt_layout *l)
{
    return l->version < 0x30d;
}

static uint64_t innermost_of(const struct process *p, const struct view *v)
{
    return word_in(v->state, p->layout.ts_frame);
}

static size_t data_of(const struct process *p, const struct view *v, uint64_t *at)
{
    uint64_t top = word_in(v->state, p->layout.ts_top);
    *at = word_in(v->state, p->layout.ts_chunk);
    return *at && top > *at ? top - *at < DATA_ROOM ? top - *at : DATA_ROOM : 0;
}

/* Reads the view at the addresses of the last look; warming: calls before the one that counts. */
static bool take_at_once(const struct process *p, const struct thread *t, uint64_t at, struct view *v, unsigned warming)
{
    const struct pt_layout *l = &p->layout;
    uint64_t innermost_at = has_cframe(l) ? t->frame_at + l->cframe : at + l->ts_frame;
    const struct part parts[PARTS_MOST] = {
        {at, v->state, STATE_ROOM},
        {innermost_at, &v->frame, sizeof v->frame},
        {t->data_at, v->data, t->data_size},
        {innermost_at, &v->frame_after, sizeof v->frame_after},
    };
    if (!t->data_size || t->state_at != at)
        return false;
    for (unsigned i = 0; i <= warming; i++)
        if (!sampler_read_parts(p, parts, PARTS_MOST))
            return false;
    v->frame_at = t->frame_at;
    v->data_at = t->data_at;
    v->data_size = t->data_size;
    return true;
}

/* Reads what the thread state points to, unless the first call has read it. */
static bool complete(const struct process *p, struct view *v)
{
    const struct pt_layout *l = &p->layout;
    uint64_t frame = innermost_of(p, v), data_at;
    size_t used = data_of(p, v, &data_at), size = used + AHEAD < DATA_ROOM ? used + AHEAD : DATA_ROOM;
    if (!has_cframe(l)) {
        v->frame = frame;
    } else if (frame != v->frame_at) {
        v->frame_at = frame;
        v->frame = 0;
        if (frame && !sampler_read(p, frame + l->cframe, &v->frame, sizeof v->frame))
            return false;
    }
    if (used && data_at == v->data_at && v->data_size >= used)
        return true;
    v->data_at = data_at;
    v->data_size = 0;
    if (used && sampler_read(p, data_at, v->data, size))
        v->data_size = size;
    else if (used && sampler_read(p, data_at, v->data, used))
        v->data_size = used;
    return true;
}

static bool take(const struct process *p, const struct thread *t, uint64_t at, struct view *v, unsigned warming)
{
    v->at = at;
    v->frame_at = v->data_at = v->frame = 0;
    v->data_size = 0;
    v->frame_after = 0;
    return (t && take_at_once(p, t, at, v, warming)) || sampler_read(p, at, v->state, STATE_ROOM);
}

bool sampler_take_view(const struct process *p, const struct thread *t, uint64_t at, struct view *v)
{
    return take(p, t, at, v, WARMING);
}

/* ---- from frames to an id ------------------------------------------------------- */

struct found {
    uint32_t count;
    bool more; /* frames beyond these */
    struct pt_frame frames[DEEPEST];
};

/* Before 3.14 the top is an index, negative while the frame runs.  Since then it is a pointer, and NULL while the frame
 * runs and is not in a function of C. */
static bool keeps_top(const struct pt_layout *l, const char *frame)
{
    return l->version < 0x30e ? (int32_t)half_in(frame, l->fr_top) >= 0 : word_in(frame, l->fr_top) != 0;
}

/* Whether C called it.  From 3.12 on the frame before it says so: that of C, which has no code. */
static bool is_entry(const struct pt_layout *l, const char *frame)
{
    return l->fr_entry && frame[l->fr_entry];
}

enum walked { TORN, DOUBTFUL, WHOLE };

struct walk {
    enum walked walked;
    bool running; /* the frame that runs was found, or cannot be told */
    bool called;  /* by the frame that comes next, without C in between */
};

/* Drops the frames above the one that runs. */
static void follow_tops(struct walk *w, const struct pt_layout *l, const char *frame, struct found *found)
{
    bool keeps = keeps_top(l, frame);
    if (!w->running && !keeps) {
        found->count = 0;
        w->running = true;
    } else if (w->running && w->called && !keeps) {
        w->walked = DOUBTFUL;
    }
}

/* Where C called the last frame, and no frame has run since: before 3.14 they have all returned. */
static void reach_entry(struct walk *w, const struct pt_layout *l, const struct view *v)
{
    if (!w->running && (l->version < 0x30e || v->frame != v->frame_after))
        w->walked = DOUBTFUL;
    w->running = true;
    w->called = false;
}

/* From the frame f.  TORN: at the frame after those that were found. */
static enum walked walk(const struct process *p, const struct view *v, uint64_t f, uint64_t now, struct found *found)
{
    const struct pt_layout *l = &p->layout;
    struct walk w = {.walked = WHOLE};
    found->count = 0;
    for (unsigned i = 0; f && i < FRAMES_MOST && found->count < p->depth; i++) {
        char own[FRAME_ROOM];
        const char *frame = own;
        if (f >= v->data_at && l->fr_size <= v->data_size && f - v->data_at <= v->data_size - l->fr_size)
            frame = v->data + (f - v->data_at);
        else if (!sampler_read(p, f, own, l->fr_size))
            return TORN;
        uint64_t code = word_in(frame, l->fr_code) & ~7ull, previous = word_in(frame, l->fr_previous);
        unsigned char owner = (unsigned char)frame[l->fr_owner];
        if (owner <= l->owner_most) {
            struct code *c = code ? sampler_code(p, code, now) : NULL;
            if (!c || (owner == GENERATOR && !previous))
                return TORN;
            int64_t line =
                c->id ? sampler_line(c, (int64_t)(word_in(frame, l->fr_instruction) - code - l->co_bytes) / 2) : 0;
            if (line < 0)
                return TORN;
            follow_tops(&w, l, frame, found);
            w.called = true;
            if (c->id)
                found->frames[found->count++] = (struct pt_frame){c->id, (uint32_t)line};
        }
        if (owner > l->owner_most || is_entry(l, frame))
            reach_entry(&w, l, v);
        f = previous;
    }
    reach_entry(&w, l, v);
    found->more = f != 0;
    return w.walked;
}

/* From the innermost frame before the data stack was read, or, where that leads nowhere, after it. */
static enum walked walk_either(const struct process *p, const struct view *v, uint64_t now, struct found *found)
{
    enum walked walked = walk(p, v, v->frame, now, found);
    if (walked == WHOLE || !v->frame_after || v->frame_after == v->frame)
        return walked;
    return walk(p, v, v->frame_after, now, found);
}

static uint32_t id_of(const struct found *found)
{
    if (!found->count)
        return 0;
    size_t size = found->count * sizeof *found->frames;
    uint64_t hash = pt_hash_bytes(found->frames, size, 0x4c494e4500000000ull + found->more);
    uint32_t id = pt_intern_find(hash);
    if (id)
        return id;
    struct pt_stack *s = pt_heap_alloc_slow((uint32_t)(sizeof *s + size));
    if (!s)
        return 0;
    s->count = found->count;
    s->truncated = found->more;
    s->submitters = 0;
    memcpy(s + 1, found->frames, size);
    pt_heap_publish(s, PT_HEAP_STACK);
    id = pt_id_of(s);
    pt_intern_add(hash, id);
    return id;
}

uint32_t sampler_stack(const struct process *p, struct thread *t, struct view *v, uint64_t now, uint8_t *flags)
{
    struct found found = {0};
    for (unsigned i = 0; i < ATTEMPTS; i++) {
        if (i && !take(p, t, v->at, v, 0))
            break;
        if (!complete(p, v))
            continue;
        t->state_at = v->at;
        t->frame_at = v->frame_at;
        t->data_at = v->data_at;
        uint64_t at;
        size_t used = data_of(p, v, &at);
        t->data_size = used ? (uint32_t)(used + AHEAD / 2 < DATA_ROOM ? used + AHEAD / 2 : DATA_ROOM) : 0;
        enum walked walked = i + 1 < ATTEMPTS ? walk_either(p, v, now, &found) : walk(p, v, v->frame, now, &found);
        if (walked == WHOLE || (walked == DOUBTFUL && i + 1 == ATTEMPTS))
            return id_of(&found);
    }
    found.more = true;
    *flags |= found.count ? PT_SAMPLE_INNERMOST : PT_SAMPLE_UNREADABLE;
    return id_of(&found);
}
