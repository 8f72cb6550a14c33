/* The flight recorder (--mode ring): records go to a fixed part of the log, whose chunks are reused, oldest first.
 *
 * A chunk that a thread is still writing to is passed over.  A chunk whose process was killed is reused. */
#include "log/ring.h"
#include "base/clock.h"
#include "format/operations.h"
#include "base/sys.h"
#include "log/chunks.h"
#include "log/process_table.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct ring {
    uint64_t start, slots; /* 0 slots: there is none */
};

static struct pt_chunk *slot_at(struct ring r, uint64_t i)
{
    return (struct pt_chunk *)(pt.base + r.start + i * PT_RING_SLOT);
}

static void empty_slot(struct pt_chunk *c)
{
    c->offset = (uint64_t)((char *)c - pt.base);
    c->size = PT_RING_SLOT;
    c->kind = PT_CHUNK_PAD;
    c->busy = 0;
    __atomic_store_n(&c->magic, PT_CHUNK_MAGIC, __ATOMIC_RELEASE);
}

/* All room is claimed at once, so that a disk that fills up later does not stop the recorder. */
static void set_up(void)
{
    struct pt_header *h = pt.header;
    uint64_t room = pt.ring < pt.budget / 2 ? pt.ring : pt.budget / 2, slots = room / PT_RING_SLOT;
    if (slots < 2)
        return;
    uint64_t size = slots * PT_RING_SLOT;
    struct pt_chunk *area = pt_chunk_claim_slow(&(struct pt_chunk_request){.kind = PT_CHUNK_PAD}, &size);
    if (!area)
        return;
    slots = size / PT_RING_SLOT; /* fewer on a nearly full disk */
    for (uint64_t i = slots; i-- > 0;)
        empty_slot((struct pt_chunk *)((char *)area + i * PT_RING_SLOT));
    uint64_t none = 0, start = (uint64_t)((char *)area - pt.base);
    if (__atomic_compare_exchange_n(&h->ring_start, &none, start, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        __atomic_store_n(&h->ring_slots, (uint32_t)slots, __ATOMIC_RELEASE);
}

/* pt.ring_place: the first page << 32 | slots, in one word because several threads may find the ring at once. */
#define NO_RING (1ull << 63)

static struct ring ring_of(uint64_t place)
{
    return place & NO_RING ? (struct ring){0, 0} : (struct ring){(place >> 32) * PT_PAGE, place & UINT32_MAX};
}

/* The header has the place of the ring. Each process reads it once, and checks it. */
static struct ring find_ring(void)
{
    struct pt_header *h = pt.header;
    uint64_t place = __atomic_load_n(&pt.ring_place, __ATOMIC_ACQUIRE), none = 0;
    uint64_t slots = place ? 0 : __atomic_load_n(&h->ring_slots, __ATOMIC_ACQUIRE);
    if (!slots)
        return ring_of(place);
    uint64_t start = __atomic_load_n(&h->ring_start, __ATOMIC_RELAXED), mapped = pt.mapped;
    if (slots >= 2 && start >= PT_FIRST_CHUNK && start % PT_PAGE == 0 && start < pt.budget &&
        slots <= (pt.budget - start) / PT_RING_SLOT) {
        place = start / PT_PAGE << 32 | slots;
        if (start + slots * PT_RING_SLOT > mapped)
            place = NO_RING; /* this process maps less of the log */
        else
            pt_log_keep_mapped(start + slots * PT_RING_SLOT);
    } else {
        place = NO_RING;
        pt_log_damaged("another program wrote over the log's header; the ring is not used any more: ");
    }
    if (!__atomic_compare_exchange_n(&pt.ring_place, &none, place, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
        place = none;
    return ring_of(place);
}

/* checked: the number of owners checked so far; each check is a system call. */
#define MOST_CHECKED 1000
static bool owner_is_gone(uint64_t process, unsigned *checked)
{
    const struct pt_process *p = process >> 32 ? NULL : pt_process_at((uint32_t)process);
    return !p || p->end_kind != PT_END_UNKNOWN || ((*checked)++ < MOST_CHECKED && !pt_process_exists(p));
}

/* A slow thread keeps its chunk for long: its latest records are recent, however old the chunk. */
static bool fresh(const struct pt_chunk *c, uint64_t claim, uint64_t slots)
{
    return c->kind == PT_CHUNK_OPS && claim - c->cursor < slots / 2;
}

/* Takes the chunk for this thread, unless another one is writing to it. */
static bool take(struct pt_chunk *c, const struct pt_thread *t, unsigned *checked)
{
    uint64_t busy = __atomic_load_n(&c->busy, __ATOMIC_ACQUIRE), mine = t->process_id ? t->process_id : UINT64_MAX;
    if (busy && !owner_is_gone(busy, checked))
        return false;
    return __atomic_compare_exchange_n(&c->busy, &busy, mine, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* Before a chunk is reused: notes its latest record.  Positions are known only from what began after all lost
 * records. */
static void note_lost(const struct pt_chunk *c)
{
    const struct pt_record *r = (const struct pt_record *)((const char *)c + PT_OPS_START);
    uint64_t latest = 0, *lost = &pt.header->ring_lost;
    for (; c->kind == PT_CHUNK_OPS && (const char *)(r + 1) <= (const char *)c + PT_RING_SLOT; r++)
        if (r->flags & PT_STATE_MASK && r->op != PT_OP_EXT && r->begin > latest)
            latest = r->begin;
    uint64_t seen = __atomic_load_n(lost, __ATOMIC_RELAXED);
    while (latest > seen &&
           !__atomic_compare_exchange_n(lost, &seen, latest, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        continue;
}

struct pt_chunk *pt_ring_claim_slow(struct pt_thread *t)
{
    struct ring r = find_ring();
    if (!r.slots && !pt.ring_place) {
        set_up();
        r = find_ring();
    }
    if (r.start + r.slots * PT_RING_SLOT > pt.mapped)
        return NULL; /* tracing is just being stopped */
    unsigned checked = 0;
    for (uint64_t tries = 0; tries < 2 * r.slots; tries++) {
        uint64_t number = __atomic_fetch_add(&pt.header->ring_next, 1, __ATOMIC_RELAXED);
        struct pt_chunk *c = slot_at(r, number % r.slots);
        if ((tries < r.slots && fresh(c, number, r.slots)) || !take(c, t, &checked))
            continue;
        note_lost(c);
        __atomic_store_n(&c->magic, 0, __ATOMIC_RELEASE); /* hides the chunk from readers for a moment */
        memset((char *)c + sizeof *c, 0, PT_RING_SLOT - sizeof *c);
        c->kind = PT_CHUNK_OPS;
        c->cursor = number;
        c->process = t->process_id;
        c->tid = t->tid;
        c->sequence = t->sequence;
        c->clock = pt_clock_pair();
        __atomic_store_n(&c->magic, PT_CHUNK_MAGIC, __ATOMIC_RELEASE);
        t->ring_chunk = c;
        return c;
    }
    return NULL;
}

void pt_ring_release(struct pt_thread *t)
{
    struct pt_chunk *c = t->ring_chunk;
    if (!c)
        return;
    t->ring_chunk = NULL;
    c->cursor = __atomic_load_n(&pt.header->ring_next, __ATOMIC_RELAXED);
    __atomic_store_n(&c->busy, 0, __ATOMIC_RELEASE);
}

/* In a dump, empties the chunks of the ring that were reused while it was written; their records are lost. */
void pt_ring_settle(long fd, uint64_t since)
{
    const struct pt_header *h = pt.header;
    struct ring r = find_ring();
    for (uint64_t i = 0; i < r.slots && r.start + r.slots * PT_RING_SLOT <= pt.mapped; i++) {
        const struct pt_chunk *now = slot_at(r, i);
        uint64_t at = (uint64_t)((const char *)now - pt.base);
        struct pt_chunk copy;
        if (pt_sys(SYS_pread64, fd, &copy, sizeof copy, at) != sizeof copy ||
            (copy.magic == PT_CHUNK_MAGIC && (copy.kind == PT_CHUNK_PAD || copy.clock.ticks < since) &&
             __atomic_load_n(&now->magic, __ATOMIC_ACQUIRE) == PT_CHUNK_MAGIC && now->clock.ticks == copy.clock.ticks))
            continue;
        copy = (struct pt_chunk){.magic = PT_CHUNK_MAGIC, .offset = at, .size = PT_RING_SLOT, .kind = PT_CHUNK_PAD};
        pt_sys(SYS_pwrite64, fd, &copy, sizeof copy, at);
    }
    pt_sys(SYS_pwrite64, fd, &h->ring_lost, sizeof h->ring_lost, offsetof(struct pt_header, ring_lost));
}
