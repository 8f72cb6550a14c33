/* The flight recorder (--mode ring): records go to a fixed part of the log
 * whose chunks are used again, oldest first; and dumps, copies of the log as it
 * is at a moment.
 *
 * A chunk that a thread still writes to is passed over; one whose process was
 * killed is taken. */
#include "core.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct pt_chunk *slot_at(uint64_t i)
{
    return (struct pt_chunk *)(pt.base + pt.header->ring_start + i * PT_RING_SLOT);
}

static void empty_slot(struct pt_chunk *c)
{
    c->offset = (uint64_t)((char *)c - pt.base);
    c->size = PT_RING_SLOT;
    c->kind = PT_CHUNK_PAD;
    c->busy = 0;
    __atomic_store_n(&c->magic, PT_CHUNK_MAGIC, __ATOMIC_RELEASE);
}

/* The room is taken at once, so that a full disk later on does not stop the recorder. */
static void set_up(void)
{
    struct pt_header *h = pt.header;
    uint64_t room = pt.ring < h->budget / 2 ? pt.ring : h->budget / 2, slots = room / PT_RING_SLOT;
    if (slots < 2)
        return;
    struct pt_chunk *area = pt_chunk_claim_slow(PT_CHUNK_PAD, slots * PT_RING_SLOT, 0, 0, 0);
    if (!area)
        return;
    slots = area->size / PT_RING_SLOT; /* on a nearly full disk, what there is room for */
    for (uint64_t i = slots; i-- > 0;)
        empty_slot((struct pt_chunk *)((char *)area + i * PT_RING_SLOT));
    uint64_t none = 0, start = (uint64_t)((char *)area - pt.base);
    if (__atomic_compare_exchange_n(&h->ring_start, &none, start, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        __atomic_store_n(&h->ring_slots, (uint32_t)slots, __ATOMIC_RELEASE);
}

static bool owner_is_gone(uint64_t process)
{
    if (process >> (32 + PT_ID_SHIFT) || (process << PT_ID_SHIFT) + sizeof(struct pt_process) > pt.mapped)
        return true;
    const struct pt_process *p = pt_at((uint32_t)process);
    return p->end_kind != PT_END_UNKNOWN || pt_sys(SYS_kill, p->pid, 0) == -ESRCH;
}

/* A thread that does little keeps its chunk for long: what it wrote last is new, however old the chunk. */
static bool fresh(const struct pt_chunk *c, uint64_t claim, uint64_t slots)
{
    return c->kind == PT_CHUNK_OPS && claim - c->cursor < slots / 2;
}

/* May this thread write there?  Then nobody else does. */
static bool take(struct pt_chunk *c, const struct pt_thread *t)
{
    uint64_t busy = __atomic_load_n(&c->busy, __ATOMIC_ACQUIRE), mine = t->process_id ? t->process_id : UINT64_MAX;
    if (busy && !owner_is_gone(busy))
        return false;
    return __atomic_compare_exchange_n(&c->busy, &busy, mine, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* Before a chunk is used again: positions are known only from what began after all that is gone. */
static void note_lost(const struct pt_chunk *c)
{
    const struct pt_record *r = (const struct pt_record *)((const char *)c + PT_OPS_START);
    uint64_t latest = 0, *lost = &pt.header->ring_lost;
    for (; c->kind == PT_CHUNK_OPS && (const char *)(r + 1) <= (const char *)c + PT_RING_SLOT; r++)
        if (r->flags & PT_STATE_MASK && r->op != PT_OP_EXT && r->begin > latest)
            latest = r->begin;
    uint64_t seen = __atomic_load_n(lost, __ATOMIC_RELAXED);
    while (latest > seen && !__atomic_compare_exchange_n(lost, &seen, latest, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        continue;
}

struct pt_chunk *pt_ring_claim_slow(struct pt_thread *t)
{
    struct pt_header *h = pt.header;
    if (!__atomic_load_n(&h->ring_slots, __ATOMIC_ACQUIRE))
        set_up();
    uint64_t slots = __atomic_load_n(&h->ring_slots, __ATOMIC_ACQUIRE);
    if (h->ring_start + slots * PT_RING_SLOT > pt.mapped)
        return NULL; /* this process maps less of the log */
    for (uint64_t tries = 0; tries < 2 * slots; tries++) {
        uint64_t number = __atomic_fetch_add(&h->ring_next, 1, __ATOMIC_RELAXED);
        struct pt_chunk *c = slot_at(number % slots);
        if ((tries < slots && fresh(c, number, slots)) || !take(c, t))
            continue;
        note_lost(c);
        __atomic_store_n(&c->magic, 0, __ATOMIC_RELEASE); /* for readers there is nothing here for a moment */
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

/* ---- dumps --------------------------------------------------------------------------- */

/* In a dump, chunks of the ring that were used again while it was made are nobody's; what they had is lost. */
static void settle_ring(long fd, uint64_t since)
{
    const struct pt_header *h = pt.header;
    uint64_t slots = __atomic_load_n(&h->ring_slots, __ATOMIC_ACQUIRE);
    for (uint64_t i = 0; i < slots && h->ring_start + slots * PT_RING_SLOT <= pt.mapped; i++) {
        const struct pt_chunk *now = slot_at(i);
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

int pt_log_dump(const char *path)
{
    if ((pt.gate & PT_GATE_OFF) || !pt.base)
        return -ENOTCONN;
    uint64_t since = pt_ticks(), used = __atomic_load_n(&pt.header->next, __ATOMIC_ACQUIRE);
    used = used < pt.mapped ? used : pt.mapped;
    long fd = pt_sys(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return (int)fd;
    long n = 0;
    for (uint64_t at = 0; at < used; at += (uint64_t)n) {
        n = pt_sys(SYS_write, fd, pt.base + at, used - at < (1u << 30) ? used - at : 1u << 30);
        if (n == -EINTR)
            n = 0;
        else if (n <= 0)
            break;
    }
    if (n >= 0)
        settle_ring(fd, since);
    pt_sys(SYS_close, fd);
    if (n < 0)
        pt_sys(SYS_unlinkat, AT_FDCWD, path, 0); /* no room: half a dump would only keep what there is of it */
    return n < 0 ? (int)n : 0;
}

/* run.pyio -> run-dump-1.pyio; the number is the first that is free. */
static void dump_now(int signal)
{
    static uint32_t dumps;
    char path[sizeof pt.path + 32];
    size_t n = strlen(pt.path);
    (void)signal;
    if (n > 5 && strcmp(pt.path + n - 5, ".pyio") == 0)
        n -= 5;
    for (int tries = 0; tries < 10000; tries++) {
        char digits[12];
        int count = 0;
        uint32_t number = __atomic_add_fetch(&dumps, 1, __ATOMIC_RELAXED);
        do
            digits[count++] = (char)('0' + number % 10);
        while (number /= 10);
        memcpy(path, pt.path, n);
        memcpy(path + n, "-dump-", 6);
        char *p = path + n + 6;
        while (count)
            *p++ = digits[--count];
        memcpy(p, ".pyio", 6);
        int error = pt_log_dump(path);
        if (error == 0)
            return;
        if (error != -EEXIST) {
            pt_say_path("no dump: ", path, " cannot be written");
            return;
        }
    }
}

static int dump_signal;
static struct sigaction before_ours;

/* A program that sets a handler of its own for that signal later has it. */
int pt_dump_on_signal(int signal)
{
    struct sigaction ours = {.sa_handler = dump_now, .sa_flags = SA_RESTART}, now;
    if (dump_signal && sigaction(dump_signal, NULL, &now) == 0 && now.sa_handler == dump_now)
        sigaction(dump_signal, &before_ours, NULL);
    dump_signal = signal;
    return signal && sigaction(signal, &ours, &before_ours) != 0 ? -errno : 0;
}
