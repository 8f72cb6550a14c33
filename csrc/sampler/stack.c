/* The stack of a thread that may be running.
 *
 * One call reads its thread state, its innermost frame and the newest part of its data stack, at the addresses of the
 * last look.  A few calls before it warm the caches, so that the parts are read within a short time.  The thread may
 * still move on in between.  A frame then leads to no code object, to a line that its code does not have, or to a
 * generator that nobody calls, and the stack is read again. */
#include "sampler.h"

#include "base/hash.h"
#include "log/chunks.h"
#include "log/ids.h"
#include "log/intern.h"

#include <string.h>

#define WARMING 3u /* calls that only warm the caches */
#define ATTEMPTS 4u
#define AHEAD 1024u       /* bytes that the data stack may have grown by since */
#define FRAMES_MOST 1000u /* that are followed, with those that have no code */
#define GENERATOR 1       /* owner of a frame: a generator, whose frame is not on the data stack */

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

/* Reads the view at the addresses of the last look. */
static bool take_at_once(const struct process *p, const struct thread *t, uint64_t at, struct view *v)
{
    const struct pt_layout *l = &p->layout;
    struct part parts[3] = {{at, v->state, STATE_ROOM}, {t->data_at, v->data, t->data_size}};
    unsigned count = 2;
    if (l->has_cframe)
        parts[count++] = (struct part){t->frame_at + l->cframe, &v->frame, sizeof v->frame};
    if (!t->data_size || t->state_at != at)
        return false;
    for (unsigned i = 0; i <= WARMING; i++)
        if (!sampler_read_parts(p, parts, count))
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
    if (!l->has_cframe) {
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

bool sampler_take_view(const struct process *p, const struct thread *t, uint64_t at, struct view *v)
{
    v->at = at;
    v->frame_at = v->data_at = v->frame = 0;
    v->data_size = 0;
    return (t && take_at_once(p, t, at, v)) || sampler_read(p, at, v->state, STATE_ROOM);
}

/* ---- from frames to an id ------------------------------------------------------- */

struct found {
    uint32_t count;
    bool more; /* frames beyond these */
    struct pt_frame frames[DEEPEST];
};

/* False: the stack was torn, at the frame after those that were found. */
static bool walk(const struct process *p, const struct view *v, uint64_t now, struct found *found)
{
    const struct pt_layout *l = &p->layout;
    uint64_t f = v->frame;
    found->count = 0;
    for (unsigned i = 0; f && i < FRAMES_MOST && found->count < p->depth; i++) {
        char own[FRAME_ROOM];
        const char *frame = own;
        if (f >= v->data_at && l->fr_size <= v->data_size && f - v->data_at <= v->data_size - l->fr_size)
            frame = v->data + (f - v->data_at);
        else if (!sampler_read(p, f, own, l->fr_size))
            return false;
        uint64_t code = word_in(frame, l->fr_code) & ~7ull, previous = word_in(frame, l->fr_previous);
        unsigned char owner = (unsigned char)frame[l->fr_owner];
        if (owner <= l->owner_most) {
            struct code *c = code ? sampler_code(p, code, now) : NULL;
            if (!c || (owner == GENERATOR && !previous))
                return false;
            int64_t line =
                c->id ? sampler_line(c, (int64_t)(word_in(frame, l->fr_instruction) - code - l->co_bytes) / 2) : 0;
            if (line < 0)
                return false;
            if (c->id)
                found->frames[found->count++] = (struct pt_frame){c->id, (uint32_t)line};
        }
        f = previous;
    }
    found->more = f != 0;
    return true;
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
        if (i && !sampler_take_view(p, NULL, v->at, v))
            break;
        if (!complete(p, v))
            continue;
        t->state_at = v->at;
        t->frame_at = v->frame_at;
        t->data_at = v->data_at;
        uint64_t at;
        size_t used = data_of(p, v, &at);
        t->data_size = used ? (uint32_t)(used + AHEAD / 2 < DATA_ROOM ? used + AHEAD / 2 : DATA_ROOM) : 0;
        if (walk(p, v, now, &found))
            return id_of(&found);
    }
    found.more = true;
    *flags |= found.count ? PT_SAMPLE_INNERMOST : PT_SAMPLE_UNREADABLE;
    return id_of(&found);
}
