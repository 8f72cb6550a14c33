/* Sums of like operations, in a bounded amount of memory (--mode profile, and
 * what trace turns to when its log is full).
 *
 * An entry is an object in the log, found by a hash over what it stands for.  It belongs to one thread's state, which two live threads never share:
 * so adding to it takes no lock and no locked instruction, only ones that a
 * signal handler on the same thread cannot split. */
#include "call.h"

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

bool pt_profiling(void)
{
    return pt.mode == PT_MODE_PROFILE || __atomic_load_n(&pt.header->full_reason, __ATOMIC_RELAXED);
}

static bool moves_bytes(unsigned op)
{
    uint8_t klass = pt_op_row(op)->klass;
    return klass == PT_READ || klass == PT_WRITE || klass == PT_COPY;
}

static inline struct pt_profile_data *data_of(struct pt_profile *p) { return (struct pt_profile_data *)((char *)p + PT_PROFILE_SIZE); }

/* ---- positions, while only sums are kept -------------------------------------------------- */

#define SHARED (-1) /* in place of a position: not followed, since it has other names, or appends move it */
#define SHARED_BYTE 0xff
static int64_t *position_leaves[1u << PT_FD_TOP_BITS]; /* position + 1; 0: not known */
static uint32_t highest_leaf;
bool pt_positions_followed;

static int64_t *position_slow(int fd, bool make)
{
    if ((uint32_t)fd >= 1u << (PT_FD_LEAF_BITS + PT_FD_TOP_BITS))
        return NULL;
    int64_t **top = &position_leaves[(uint32_t)fd >> PT_FD_LEAF_BITS], *leaf = __atomic_load_n(top, __ATOMIC_ACQUIRE);
    if (!leaf && make) {
        size_t bytes = sizeof *leaf << PT_FD_LEAF_BITS;
        int64_t *fresh = pt_memory(bytes);
        if (!fresh)
            return NULL;
        if (pt_ever_forked) /* what was open before is shared with a child */
            memset(fresh, SHARED_BYTE, bytes);
        __atomic_store_n(&pt_positions_followed, true, __ATOMIC_RELAXED);
        uint32_t index = (uint32_t)fd >> PT_FD_LEAF_BITS, seen = __atomic_load_n(&highest_leaf, __ATOMIC_RELAXED);
        while (index > seen &&
               !__atomic_compare_exchange_n(&highest_leaf, &seen, index, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            continue;
        if (__atomic_compare_exchange_n(top, &leaf, fresh, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
            leaf = fresh;
        else
            pt_memory_back(fresh, bytes);
    }
    return leaf ? &leaf[(uint32_t)fd & ((1u << PT_FD_LEAF_BITS) - 1)] : NULL;
}

/* Threads that use one descriptor at once may see each other's: one of them is right. */
static int64_t look(const int64_t *at) { return __atomic_load_n(at, __ATOMIC_RELAXED); }
static void put(int64_t *at, int64_t position) { __atomic_store_n(at, position, __ATOMIC_RELAXED); }

static void set_position(int fd, int64_t position)
{
    int64_t *at = position_slow(fd, position >= 0);
    if (at && look(at) != SHARED)
        put(at, position + 1);
}

/* The number stands for another descriptor from now on. */
void pt_profile_new(int fd)
{
    int64_t *at = position_slow(fd, pt_ever_forked);
    if (at)
        put(at, 0);
}

void pt_profile_shared(int fd)
{
    int64_t *at = fd < 0 ? NULL : position_slow(fd, true);
    if (at)
        put(at, SHARED);
}

/* It is moved, and how far will not be seen. */
void pt_profile_unplaced(int fd)
{
    set_position(fd, -1);
}

/* Where a call on a descriptor began, or -1.  Moves the position on. */
static int64_t place_of(const struct pt_call *c, int64_t moved)
{
    const struct pt_record *r = c->record;
    const struct pt_op_row *row = pt_op_row(c->op);
    if (row->shape != PT_SHAPE_FD || r->offset >= 0)
        return row->shape == PT_SHAPE_FD || row->shape == PT_SHAPE_FD2 ? r->offset : -1;
    if (row->layer == PT_STDIO) /* its buffer's transfers are not seen */
        pt_profile_unplaced((int)r->aux);
    if (row->layer != PT_POSIX)
        return -1;
    int64_t *at = position_slow((int)r->aux, false), before = at && look(at) > 0 ? look(at) - 1 : -1;
    if (before >= 0 && moved > 0)
        put(at, before + 1 + moved);
    return before;
}

/* What a call that is not a transfer does to positions. */
static void follow(const struct pt_call *c, int error)
{
    const struct pt_record *r = c->record;
    switch (pt_op_row(c->op)->shape) {
    case PT_SHAPE_SEEK:
        if (!error)
            set_position((int)r->aux, pt_op_row(c->op)->layer == PT_POSIX ? r->offset : -1);
        break;
    default:
        break;
    }
}

static void opened_at_start(int fd, uint32_t flags)
{
    if (flags & O_APPEND)
        pt_profile_shared(fd);
    else
        set_position(fd, 0);
}

/* ---- entries -------------------------------------------------------------------------------- */

static uint64_t key_of(const struct pt_call *c, const struct pt_thread *t, unsigned error)
{
    const struct pt_record *r = c->record;
    uint8_t shape = pt_op_row(c->op)->shape;
    /* aux is a descriptor's number where it has no meaning of its own: of the sums, not of what they stand for */
    bool named = shape == PT_SHAPE_PATH2 || shape == PT_SHAPE_FD2 || shape == PT_SHAPE_FD2_AT || shape == PT_SHAPE_SPAN;
    uint32_t words[8] = {t->process_id, t->number, c->op | error << 8, r->desc, r->stack, r->parent, named ? r->aux : 0,
                         shape == PT_SHAPE_SPAN ? (uint32_t)r->offset : 0};
    return pt_hash_bytes(words, sizeof words, 0x50524f4600000000ull);
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
    p->opened = pt_op_row(c->op)->shape == PT_SHAPE_SPAN ? (uint32_t)r->offset : 0;
    pt_heap_publish(p, PT_HEAP_PROFILE);
    pt_intern_add(key, pt_id_of(p));
    return p;
}

static struct pt_profile *entry_of(const struct pt_call *c, const struct pt_thread *t, unsigned error)
{
    uint64_t key = key_of(c, t, error);
    uint32_t id = pt_intern_find(key);
    return id ? pt_at(id) : make_entry(c, t, error, key);
}

/* A thread mostly goes on with what it did before: that entry is looked at before any hash is made. */
static struct pt_profile *same_as_last(const struct pt_call *c, const struct pt_thread *t)
{
    uint32_t id = t->sums[c->op % PT_LATEST];
    struct pt_profile *p = pt_at(id);
    const struct pt_record *r = c->record;
    if (id && p->op == c->op && p->desc == r->desc && p->stack == r->stack && p->parent == r->parent &&
        p->process == t->process_id && pt_op_row(c->op)->shape == PT_SHAPE_FD)
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
        t->sums[c->op % PT_LATEST] = pt_id_of(p);
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

static void add_transfer(struct pt_profile_data *d, int64_t at, uint64_t moved)
{
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
    uint64_t begin = (uint64_t)at;
    if (d->placed) {
        add(&d->consecutive, begin == d->last_end);
        add(&d->sequential, begin >= d->last_end);
    }
    add(&d->placed, 1);
    add(&d->unaligned, begin % 4096 != 0);
    d->last_end = begin + moved;
    raise_to(&d->highest, begin + moved);
}

void pt_profile_end(struct pt_call *c, uint64_t ticks, int64_t moved, int error)
{
    struct pt_thread *t = c->thread;
    struct pt_profile *p = pt_at(c->profile);
    if (c->op != p->op)
        return;
    if (error) { /* failures have an entry of their own */
        struct pt_profile *failed = entry_of(c, t, (unsigned)error & 0x7fff);
        if (failed) {
            add(&p->begun, (uint64_t)-1);
            p = failed;
            add(&p->begun, 1);
        }
        moved = -1;
    }
    uint8_t shape = pt_op_row(c->op)->shape;
    if (shape == PT_SHAPE_OPEN && !error) {
        p->opened = (uint32_t)c->record->offset;
        if (pt_op_row(c->op)->layer == PT_POSIX && moved >= 0)
            opened_at_start((int)moved, c->record->aux);
        moved = -1; /* the descriptor's number */
    } else {
        follow(c, error);
    }
    if (!p->first)
        p->first = c->begin;
    add(&p->count, 1);
    add(&p->ticks, ticks);
    raise_to(&p->longest, ticks);
    raise_to(&p->last, c->begin + ticks);
    if (!moves_bytes(c->op))
        return;
    if (c->size != PT_SIZE_NONE)
        add(&p->asked, c->size);
    else if (moved > 0) /* all there is: as in a run of like calls */
        add(&p->asked, (uint64_t)moved);
    int64_t at = place_of(c, moved);
    if (moved >= 0) {
        add(&p->moved, (uint64_t)moved);
        add_transfer(data_of(p), at, (uint64_t)moved);
    }
}

void pt_profile_all_shared(void)
{
    for (uint32_t i = 0; i <= highest_leaf; i++)
        if (position_leaves[i])
            memset(position_leaves[i], SHARED_BYTE, sizeof(int64_t) << PT_FD_LEAF_BITS);
}

/* In another mode positions are not followed. */
void pt_profile_forget_places(void)
{
    for (uint32_t i = 0; i <= highest_leaf; i++)
        for (uint32_t fd = 0; position_leaves[i] && fd < 1u << PT_FD_LEAF_BITS; fd++)
            if (position_leaves[i][fd] > 0)
                position_leaves[i][fd] = 0;
}
