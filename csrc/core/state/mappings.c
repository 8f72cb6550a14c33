/* The files that this process has mapped, and what is measured of each.
 *
 * Each mapping has an object in the log (struct pt_mapping), which is completed when the mapping goes or the process
 * ends.  An incomplete one was mapped when its process was killed.  state/mapping_places.c finds a mapping by an
 * address. */
#include "state/kernel_accounting.h"
#include "state/mapping_dirt.h"
#include "state/mapping_places.h"
#include "base/clock.h"
#include "log/chunks.h"
#include "log/ids.h"
#include "state/descriptors.h"

#include <string.h>
#include <sys/mman.h>

#if !defined(MAP_SHARED_VALIDATE) /* glibc 2.17 */
#define MAP_SHARED_VALIDATE 3
#endif

#define MOST_LISTED 65536u         /* objects of one process in the log: 5 MiB */
#define LISTED_AT_FORK 64u         /* inherited mappings of a child that are listed at once */
#define ALLOWANCE_AT_END 100000000 /* ns of measuring when the process ends */
#define TRANSPORT (1u << 31)       /* a flag beside those of the log: see is_transport() */

static uint32_t listed; /* objects of this process */

/* Starts a new log: ids of the old one mean nothing there. */
void pt_mappings_reset(void)
{
    pt_places_reset();
    listed = 0;
}

/* ---- objects in the log ---------------------------------------------------------- */

/* The object with this id. NULL: the id is 0, or belongs to an earlier log. */
static struct pt_mapping *object_at(uint32_t id)
{
    return pt_owned(id, sizeof(struct pt_mapping));
}

static void list_object(struct pt_mapping_place *m, struct pt_process *p, uint32_t process)
{
    m->process = process;
    m->object = 0;
    struct pt_mapping *o = NULL;
    if (__atomic_fetch_add(&listed, 1, __ATOMIC_RELAXED) < MOST_LISTED)
        o = pt_heap_alloc_slow(sizeof *o);
    if (!o) {
        __atomic_fetch_add(&p->mappings_unlisted, 1, __ATOMIC_RELAXED);
        return;
    }
    o->desc = m->desc;
    o->record = m->record;
    o->protection = m->protection;
    o->flags = m->flags;
    o->length = m->length;
    o->offset = m->offset;
    o->made = pt_ticks();
    pt_heap_publish(o, PT_HEAP_MAPPING);
    m->object = pt_id_of(o);
    uint32_t head = __atomic_load_n(&p->mappings, __ATOMIC_ACQUIRE);
    do
        o->previous = head;
    while (!__atomic_compare_exchange_n(&p->mappings, &head, m->object, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE));
}

/* Is it memory in which PyTorch and multiprocessing pass data from process to process?  No file is behind it.  A
 * DataLoader maps some for each batch, and examining it would take longer than passing the batch. */
static bool is_transport(uint32_t desc)
{
    static const char *const names[] = {"/dev/shm/torch_", "/dev/shm/psm_", "/dev/shm/pym-"};
    uint32_t length, base;
    const char *path = pt_string_at(pt_desc_path(desc), &length, &base);
    for (size_t i = 0; path && i < sizeof names / sizeof *names; i++)
        if (length > strlen(names[i]) && !memcmp(path, names[i], strlen(names[i])))
            return true;
    return false;
}

void pt_mapping_made(struct pt_thread *t, const struct pt_new_mapping *made)
{
    struct pt_mapping_place m = {.desc = made->desc,
                                 .record = made->record,
                                 .protection = (uint32_t)made->protection,
                                 .length = made->length,
                                 .offset = made->offset};
    int type = made->flags & MAP_TYPE;
    bool shared = type == MAP_SHARED || type == MAP_SHARED_VALIDATE;
    m.flags = (shared ? PT_MAPPING_SHARED : 0) | (made->flags & (MAP_POPULATE | MAP_LOCKED) ? PT_MAPPING_POPULATED : 0);
    if (is_transport(m.desc)) {
        m.flags |= TRANSPORT;
    } else if (t->process_id) {
        __atomic_fetch_or(&t->process->blind, PT_BLIND_MAPPED, __ATOMIC_RELAXED);
        if (m.desc)
            list_object(&m, t->process, t->process_id);
        if (shared && made->protection & PROT_WRITE)
            m.dirty_before = pt_dirty_cached_slow(made->fd, made->offset, made->length);
    }
    pt_place_record((uintptr_t)made->address, &m);
}

void pt_mapping_moved(struct pt_mapping_place *m, void *address, uint64_t length)
{
    struct pt_mapping_place moved = *m;
    moved.length = length;
    struct pt_mapping *object = object_at(moved.object);
    if (object)
        object->length = length;
    pt_mapping_forget(m);
    pt_place_record((uintptr_t)address, &moved);
}

/* A part of a mapping has become one of its own, or has grown. */
void pt_mapping_part_moved(struct pt_mapping_place *m, const struct pt_moved_part *part)
{
    uint64_t before = part->from - pt_place_address(m), after = before + part->old_length;
    struct pt_mapping_place own = {.desc = m->desc,
                                   .flags = m->flags,
                                   .protection = m->protection,
                                   .record = m->record,
                                   .length = part->length,
                                   .offset = m->offset + before};
    if (part->to == part->from) {
        if (after >= m->length)
            m->length = before + part->length;
        return;
    }
    if (own.desc && pt.process_id && !(own.flags & TRANSPORT))
        list_object(&own, pt.process, pt.process_id);
    if (part->old_length && after >= m->length)
        m->length = before; /* its end has gone; what is missing in the middle stays unnoticed */
    pt_place_record(part->to, &own);
}

/* ---- measuring ---------------------------------------------------------------------- */

static bool measurable(const struct pt_mapping_place *m)
{
    return pt.base && pt.process_id && m->desc && !(m->flags & TRANSPORT) && (m->process != pt.process_id || m->object);
}

/* In a forked child, the figures of a mapping of its parent start again. */
static void adopt(struct pt_mapping_place *m)
{
    if (m->process == pt.process_id)
        return;
    memset(&m->gone, 0, sizeof m->gone);
    m->synced = m->others_cleaned = 0;
    m->record = 0;
    m->flags |= PT_MAPPING_INHERITED;
    list_object(m, pt.process, pt.process_id);
}

/* In a forked child.  If it is killed, its list must say what it has inherited.  A process may have mapped thousands of
 * files: of the others only those get an object that are measured. */
void pt_mappings_forked(void)
{
    listed = 0;
    uint32_t left = LISTED_AT_FORK;
    for (struct pt_mapping_place *m = NULL; left && (m = pt_place_next(m));)
        if (measurable(m)) {
            adopt(m);
            pt_note_dirt_at_fork(m);
            left--;
        }
}

/* An area may cover a part of a mapping, or several mappings: each gets its own size at most. */
static void add_dirty(struct pt_mapping_place *m, uintptr_t start, uintptr_t end, uint64_t dirty)
{
    uintptr_t from = pt_place_address(m) > start ? pt_place_address(m) : start;
    uintptr_t to = pt_place_address(m) + m->length < end ? pt_place_address(m) + m->length : end;
    if (from < to)
        m->dirty += dirty < to - from ? dirty : to - from;
}

static void one_area(uintptr_t start, uintptr_t end, uint64_t dirty, void *data)
{
    add_dirty(data, start, end, dirty);
}

static void any_area(uintptr_t start, uintptr_t end, uint64_t dirty, void *unused)
{
    (void)unused;
    for (struct pt_mapping_place *m = NULL; dirty && (m = pt_place_next(m));)
        add_dirty(m, start, end, dirty);
}

static uint64_t dirty_now(struct pt_mapping_place *m)
{
    m->dirty = 0;
    pt_dirty_each_slow(pt_place_address(m) + m->length, one_area, m);
    return m->dirty;
}

/* Stores what is known. A second call replaces the first (after a failed exec). */
static void complete(struct pt_mapping_place *m, uint32_t how)
{
    struct pt_resident now;
    bool known = pt_resident_slow(pt_place_address(m), m->length, &now);
    if (m->process != pt.process_id) {
        if (!known || !now.touched)
            return; /* inherited and unused */
        adopt(m);
    }
    struct pt_mapping *o = object_at(m->object);
    if (!o)
        return;
    /* Pages that were dirty before are not attributed to this mapping. */
    uint64_t before = m->dirty_before + (m->dirty ? pt_others_dirt(m) : 0);
    uint64_t written = m->dirty > before ? m->dirty - before : 0;
    uint32_t shares = 0;
    o->touched = m->gone.touched + now.touched;
    o->at_least = m->gone.at_least + now.at_least;
    o->written = m->synced + (pt_mapping_writes_file(m) ? written : 0);
    o->synced = m->synced;
    o->others_cleaned = m->others_cleaned;
    o->file_dirty = 0;
    if (pt_mapping_writes_file(m) && written) {
        int fd = pt_mapping_descriptor(m);
        o->file_dirty = fd < 0 ? 0 : pt_dirty_cached_slow(fd, 0, 0);
        shares = pt_touched_shares(m);
    }
    o->measured_at = pt_ticks();
    o->flags = m->flags | shares << PT_MAPPING_SHARES_SHIFT | (m->synced ? PT_MAPPING_SYNCED : 0) |
               (m->gone.sampled || now.sampled ? PT_MAPPING_SAMPLED : 0);
    __atomic_store_n(&o->measured, known ? how : PT_MEASURING_SKIPPED, __ATOMIC_RELEASE);
}

static void skip(struct pt_mapping_place *m)
{
    m->flags |= PT_MAPPING_PARTLY;
    struct pt_mapping *object = object_at(m->object);
    if (object && m->process == pt.process_id)
        __atomic_store_n(&object->measured, PT_MEASURING_SKIPPED, __ATOMIC_RELEASE);
}

void pt_mapping_measure(struct pt_mapping_place *m, uint32_t how)
{
    if (!measurable(m))
        return;
    if (!pt_measuring_affordable(PT_MEASURING_ALLOWANCE)) {
        skip(m);
        return;
    }
    int64_t since = pt_thread_cpu_ns();
    if (pt_mapping_writes_file(m))
        dirty_now(m);
    complete(m, how);
    pt_measuring_took(since);
}

void pt_mapping_dropped(struct pt_mapping_place *m, uintptr_t address, uint64_t length)
{
    struct pt_resident now;
    if (!measurable(m))
        return;
    if (!pt_measuring_affordable(PT_MEASURING_ALLOWANCE)) {
        m->flags |= PT_MAPPING_PARTLY;
        return;
    }
    int64_t since = pt_thread_cpu_ns();
    if (pt_resident_slow(address, length, &now)) {
        adopt(m);
        m->gone.touched += now.touched;
        m->gone.at_least += now.at_least;
        m->gone.sampled |= now.sampled;
    }
    pt_measuring_took(since);
}

/* ---- msync, which cleans dirty pages by writing them back (on tmpfs it does not) ------------ */

static void before_sync(struct pt_mapping_place *m)
{
    m->dirty_own = m->dirty_cached = 0;
    if (!measurable(m) || !pt_mapping_writes_file(m))
        return;
    if (!pt_measuring_affordable(PT_MEASURING_ALLOWANCE)) {
        m->flags |= PT_MAPPING_PARTLY;
        return;
    }
    int64_t since = pt_thread_cpu_ns();
    adopt(m);
    m->dirty_own = dirty_now(m);
    m->dirty_cached = pt_cached_dirt(m);
    pt_measuring_took(since);
}

static uint64_t take(uint64_t *from, uint64_t most)
{
    uint64_t taken = *from < most ? *from : most;
    *from -= taken;
    return taken;
}

static void after_sync(struct pt_mapping_place *m)
{
    if (!m->dirty_own && !m->dirty_cached)
        return;
    int64_t since = pt_thread_cpu_ns();
    uint64_t left = dirty_now(m), cleaned = m->dirty_own > left ? m->dirty_own - left : 0;
    uint64_t left_cached = m->dirty_cached ? pt_cached_dirt(m) : 0;
    uint64_t others = m->dirty_cached > left_cached + cleaned ? m->dirty_cached - left_cached - cleaned : 0;
    m->synced += cleaned - take(&m->dirty_before, cleaned);
    m->others_cleaned += others - take(&m->dirty_before, others);
    if (cleaned && pt_any_dirt_at_fork(m)) { /* relatives no longer see it: it counts here, unless it did there */
        m->flags |= PT_MAPPING_SYNCED_OTHERS;
        memset(m->dirty_at_fork, 0, sizeof m->dirty_at_fork);
    }
    pt_measuring_took(since);
}

static void each_within(const void *address, uint64_t length, void (*what)(struct pt_mapping_place *))
{
    uintptr_t from = (uintptr_t)address, to = from + length;
    for (struct pt_mapping_place *m = NULL; (m = pt_place_next(m));)
        if (pt_place_address(m) < to && from < pt_place_address(m) + m->length)
            what(m);
}

void pt_mappings_before_sync(const void *address, uint64_t length)
{
    each_within(address, length, before_sync);
}

void pt_mappings_after_sync(const void *address, uint64_t length)
{
    each_within(address, length, after_sync);
}

/* The process ends. all: include mappings that were inherited. */
void pt_mappings_end(bool all)
{
    if (!pt.base || !pt_place_next(NULL))
        return;
    bool writes = false;
    uintptr_t until = 0;
    int64_t since = pt_thread_cpu_ns();
    for (struct pt_mapping_place *m = NULL; (m = pt_place_next(m));) {
        if (!pt_mapping_writes_file(m))
            continue;
        m->dirty = 0;
        writes = true;
        until = pt_place_address(m) + m->length > until ? pt_place_address(m) + m->length : until;
    }
    if (writes)
        pt_dirty_each_slow(until, any_area, NULL);
    pt_measuring_took(since);
    for (struct pt_mapping_place *m = NULL; (m = pt_place_next(m));) {
        if (!measurable(m) || (!all && m->flags & PT_MAPPING_INHERITED))
            continue;
        if (!pt_measuring_affordable(ALLOWANCE_AT_END)) {
            skip(m);
            continue;
        }
        since = pt_thread_cpu_ns();
        complete(m, PT_MEASURED_AT_END);
        pt_measuring_took(since);
    }
}
