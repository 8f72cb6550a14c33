/* The live log: claiming room in it.
 *
 * The file (log/file.c) is created sparse at its full budget and mapped once, so
 * that no descriptor of ours stays open in the program.
 *
 * Every process of the run can write anywhere in the log, even one that has
 * dropped its privileges since.  So this process never lets an unchecked value
 * from the log decide where it reads or writes: it copies control values once,
 * and checks ids and offsets against the size of the mapping. */
#include "log/chunks.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/messages.h"
#include "base/sys.h"
#include "log/file.h"
#include "log/process_table.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* All atomic, and of this process alone. */
static uint32_t claims_under_way; /* pt_log_finish waits for them */
static bool damage_reported;
static uint32_t full_here; /* enum pt_full_reason: why this process claims no more, while others may */

#define FIRST_LOGS 16
#define LOGS_IN_PAGE (PT_PAGE / sizeof(struct pt_kept))

/* Each log gets a new one.  So a thread that is in a hook while tracing restarts never combines the base of one log with
 * the end of another. */
static struct pt_kept *another_kept(void)
{
    static struct pt_kept first[FIRST_LOGS], *next = first, *end = first + FIRST_LOGS;
    if (next == end) {
        struct pt_kept *page = pt_memory(PT_PAGE);
        if (!page)
            return next - 1; /* the latest again */
        next = page;
        end = page + LOGS_IN_PAGE;
    }
    return next++;
}

static void keep_from(char *base)
{
    struct pt_kept *kept = another_kept();
    kept->base = base;
    kept->end = PT_FIRST_CHUNK;
    __atomic_store_n(&pt.kept, kept, __ATOMIC_RELEASE);
}

static uint64_t kept_end(void)
{
    return __atomic_load_n(&pt.kept->end, __ATOMIC_SEQ_CST);
}

void pt_log_close_claims(uint32_t reason)
{
    __atomic_store_n(&full_here, reason, __ATOMIC_RELAXED);
    if (pt.process_id)
        pt.process->full_reason = reason;
}

/* Copies the control values from a header that nobody else can write to yet: a new one, or a private copy. */
bool pt_log_read_control(const struct pt_header *h)
{
    const uint64_t most = 1ull << (32 + PT_ID_SHIFT); /* ids reach no further */
    if (h->budget < PT_FIRST_CHUNK + PT_PROCESS_CHUNK ||
        (h->tick_kind != PT_TICKS_MONOTONIC_NS && h->tick_kind != PT_BY_ARCH(PT_TICKS_TSC, PT_TICKS_CNTVCT)))
        return false;
    pt.budget = h->budget < most ? h->budget : most;
    pt.tick_kind = h->tick_kind;
    pt.run_id = h->run_id;
    pt.owner_pid = h->owner_pid;
    pt.owner_start = h->owner_start;
    pt.log_namespace = h->namespace_inode;
    pt.namespace_inode = 0; /* nobody joins a log of another one */
    pt.outer_pid = 0;
    pt.ring_place = 0;
    pt_spare_read_control(h);
    keep_from(pt.base);
    full_here = PT_NOT_FULL;
    damage_reported = false;
    return true;
}

/* Reports the damage in one line for the whole run. */
void pt_log_damaged(const char *consequence)
{
    if (!__atomic_exchange_n(&damage_reported, true, __ATOMIC_RELAXED) && pt.owns_run)
        pt_say_path(consequence, pt.path, "");
}

static void mark_full(uint32_t reason)
{
    uint32_t none = PT_NOT_FULL;
    if (__atomic_compare_exchange_n(&pt.header->full_reason, &none, reason, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        pt.header->full_since = pt_ticks();
}

static uint32_t budget_reason(void)
{
    struct rlimit limit;
    bool limited = pt_sys(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
                   pt.budget == limit.rlim_cur / PT_PAGE * PT_PAGE;
    return limited ? PT_FULL_LIMIT : PT_FULL_BUDGET;
}

void pt_log_keep_mapped(uint64_t end)
{
    struct pt_kept *kept = __atomic_load_n(&pt.kept, __ATOMIC_ACQUIRE);
    uint64_t last = __atomic_load_n(&kept->end, __ATOMIC_RELAXED);
    while (end > last &&
           !__atomic_compare_exchange_n(&kept->end, &last, end, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        continue;
}

/* ---- claiming a chunk ------------------------------------------------------
 *
 * A claim has four steps:
 *   1. is_closed:  does this process claim at all, and chunks of this kind?
 *   2. take_room:  move header.next on by the size, with one compare-and-swap.
 *   3. reserve:    have the file system back the room with blocks.
 *   4. open_chunk: write the chunk's header; its magic number last.
 * If the disk is full in step 3, the claim is made again with a smaller size.
 *
 * What holds, whatever other processes do:
 * - No two claims overlap, as long as nobody but the core writes header.next.
 * - A chunk that is returned lies within [PT_FIRST_CHUNK, pt.mapped) and has
 *   blocks, so a store into it neither faults nor raises SIGBUS.
 * - Room that was taken but could not be reserved stays a gap.  A gap has no
 *   magic number, and readers skip it.
 * - header.next is not trusted: any process of the run can write to it.  A value
 *   that cannot be true ends the claims of this process.  A value that was set
 *   back by whole pages makes chunks overlap: records are lost, nothing worse. */

/* Records, samples and rows of the system stop before the log is full: the sums that follow (record/profile.c) need
 * room too. */
static bool stops_early(uint32_t kind)
{
    return kind == PT_CHUNK_OPS || kind == PT_CHUNK_SAMPLES || kind == PT_CHUNK_SYSTEM;
}

static uint64_t limit_of(uint32_t kind)
{
    uint64_t budget = pt.budget;
    return stops_early(kind) ? budget - budget / 8 / PT_PAGE * PT_PAGE : budget;
}

/* The disk has no room for a chunk of this size: the size to try next, or 0. */
static uint64_t smaller(uint32_t kind, uint64_t size)
{
    if (stops_early(kind))
        return size > PT_PAGE ? PT_PAGE : 0;
    if (kind == PT_CHUNK_PAD && size >= 4 * PT_RING_SLOT) /* a ring: whole slots, two at least */
        return size / 2 / PT_RING_SLOT * PT_RING_SLOT;
    return 0;
}

/* A full disk or quota stops every process of the run; other reasons concern this one only. */
static bool stops_all(uint32_t reason)
{
    return reason == PT_FULL_DISK || reason == PT_FULL_QUOTA;
}

static bool is_closed(uint32_t kind)
{
    uint32_t full = __atomic_load_n(&pt.header->full_reason, __ATOMIC_RELAXED);
    return __atomic_load_n(&full_here, __ATOMIC_RELAXED) || stops_all(full) || (full && stops_early(kind));
}

/* Could the core have written this value of header.next? */
static bool is_possible(uint64_t next)
{
    return next >= PT_FIRST_CHUNK && next % PT_PAGE == 0 && next <= pt.budget;
}

/* May a chunk be claimed at this offset?  If not, notes why. */
static bool has_room_at(uint64_t at, uint32_t kind, uint64_t size)
{
    uint64_t mapped = __atomic_load_n(&pt.mapped, __ATOMIC_SEQ_CST);
    if (pt.gate & PT_GATE_OFF) /* a thread was in a hook when tracing stopped; the file may be cut already */
        return is_possible(at) && at <= mapped && size <= mapped - at;
    if (!is_possible(at)) {
        pt_log_close_claims(PT_FULL_DAMAGED);
        mark_full(PT_FULL_DAMAGED);
        pt_log_damaged("another program wrote over the log's header; what follows is only counted: ");
        return false;
    }
    uint64_t limit = limit_of(kind);
    if (at > limit || size > limit - at) {
        mark_full(budget_reason());
        return false;
    }
    if (at > mapped || size > mapped - at) { /* only this process maps less of the log (RLIMIT_AS) */
        pt_log_close_claims(PT_FULL_ADDRESSES);
        return false;
    }
    return true;
}

/* The offset of `size` bytes that are this claim's alone; 0: there is no room. */
static uint64_t take_room(uint32_t kind, uint64_t size)
{
    uint64_t at = __atomic_load_n(&pt.header->next, __ATOMIC_SEQ_CST);
    do {
        if (!has_room_at(at, kind, size))
            return 0;
    } while (!__atomic_compare_exchange_n(&pt.header->next, &at, at + size, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    return at;
}

/* Returns the room, unless another claim has followed. */
static void give_back(uint64_t at, uint64_t size)
{
    uint64_t end = at + size;
    __atomic_compare_exchange_n(&pt.header->next, &end, at, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Handles a failed reservation.  Returns the size to try next, or 0. */
static uint64_t size_after_failure(uint32_t reason, uint32_t kind, uint64_t at, uint64_t size)
{
    if (pt.gate & PT_GATE_OFF)
        return 0;
    uint64_t less = stops_all(reason) ? smaller(kind, size) : 0;
    if (!less && stops_all(reason)) {
        mark_full(reason);
    } else if (!less) {
        give_back(at, size);
        pt_log_close_claims(reason);
    }
    return less;
}

static void open_chunk(struct pt_chunk *c, uint64_t at, const struct pt_chunk_request *wanted, uint64_t size)
{
    c->offset = at;
    c->size = size;
    c->kind = wanted->kind;
    c->process = wanted->process;
    c->tid = wanted->tid;
    c->sequence = wanted->sequence;
    c->cursor = PT_HEAP_START;
    c->clock = pt_clock_pair();
    __atomic_store_n(&c->magic, PT_CHUNK_MAGIC, __ATOMIC_RELEASE);
    pt_log_keep_mapped(at + size); /* not what is read back from the chunk */
}

static struct pt_chunk *claim(const struct pt_chunk_request *wanted, uint64_t *size)
{
    for (uint64_t want = *size; want;) {
        uint64_t at = is_closed(wanted->kind) ? 0 : take_room(wanted->kind, want);
        if (!at)
            return NULL;
        struct pt_chunk *c = (struct pt_chunk *)(pt.base + at);
        uint32_t failed = pt_blocks_reserve((char *)c, want);
        if (!failed) {
            open_chunk(c, at, wanted, want);
            *size = want;
            return c;
        }
        want = size_after_failure(failed, wanted->kind, at, want);
    }
    return NULL;
}

struct pt_chunk *pt_chunk_claim_slow(const struct pt_chunk_request *wanted, uint64_t *size)
{
    __atomic_fetch_add(&claims_under_way, 1, __ATOMIC_SEQ_CST);
    struct pt_chunk *c = claim(wanted, size);
    __atomic_fetch_sub(&claims_under_way, 1, __ATOMIC_ACQ_REL);
    return c;
}

/* ---- giving up what is not used --------------------------------------------- */

/* The used part of the log, in whole pages: at least what this process uses, at most what it maps. */
static uint64_t used_so_far(void)
{
    uint64_t next = __atomic_load_n(&pt.header->next, __ATOMIC_ACQUIRE), known = kept_end();
    uint64_t used = next > known ? next : known, mapped = pt.mapped;
    return used < mapped ? (used + PT_PAGE - 1) / PT_PAGE * PT_PAGE : mapped;
}

/* Ends the claims of this process.  Returns an offset that none of them goes beyond. */
static uint64_t close_claims(void)
{
    uint64_t used = used_so_far();
    __atomic_store_n(&pt.mapped, used, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 1000 && __atomic_load_n(&claims_under_way, __ATOMIC_SEQ_CST); i++)
        sched_yield();
    /* Claims that were under way may have succeeded. */
    uint64_t last = kept_end();
    return last > used ? last : used;
}

/* The program has limited its address space: unmaps most of what is not used
 * yet, so that the log takes no addresses from the program. */
void pt_log_shrink(uint64_t limit)
{
    uint64_t mapped = pt.mapped, keep = limit / 8 / PT_PAGE * PT_PAGE;
    uint64_t used = used_so_far();
    keep = keep > used ? keep : used;
    if (keep >= mapped)
        return;
    __atomic_store_n(&pt.mapped, keep, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 1000 && __atomic_load_n(&claims_under_way, __ATOMIC_SEQ_CST); i++)
        sched_yield();
    if (__atomic_load_n(&claims_under_way, __ATOMIC_SEQ_CST))
        return; /* a thread may be writing beyond */
    uint64_t last = kept_end();
    uint64_t page = pt_kernel_page();
    keep = ((last > keep ? last : keep) + page - 1) / page * page;
    if (keep < pt.extent) {
        pt_sys(SYS_munmap, pt.base + keep, pt.extent - keep);
        pt.extent = keep;
    }
}

/* This process is done with the log.  The last process of the run cuts the file
 * to its used part; a process that wants to join later finds it cut and stays
 * out.  Other threads may still be completing records: the used part stays
 * mapped for them. */
void pt_log_finish(void)
{
    pt_log_leave(!pt_process_others_live() && !pt_process_others_awaited());
}

void pt_log_leave(bool cut)
{
    int saved = errno;
    uint64_t used = close_claims();
    if (cut && !pt_log_is_private() && used < pt.budget) {
        __atomic_store_n(&pt.header->next, used, __ATOMIC_RELEASE);
        pt_log_cut(used);
    }
    uint64_t page = pt_kernel_page(), keep = (used + page - 1) / page * page;
    if (keep < pt.extent && !__atomic_load_n(&claims_under_way, __ATOMIC_SEQ_CST)) {
        munmap(pt.base + keep, pt.extent - keep);
        pt.extent = keep;
    }
    errno = saved;
}
