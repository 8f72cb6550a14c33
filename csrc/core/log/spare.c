/* Keeps counting on a full disk that takes no more stores, not even into pages that the log has.  On a copy-on-write
 * file system (btrfs), a page that was written back needs a new block.
 *
 * The first such store raises SIGBUS (hooks/sigbus.c).  The mapping then becomes private: everything stays at its
 * address, and what this process stores stays in its own memory.  The process claims no more chunks, so its
 * operations are counted, and so are those whose records the file lacks.  At its end, its entry and counters go into
 * spare room that was set aside when the log was created: extents that were never written need no new block.
 * pyio_trace/log/spare_counters.py reads them. */
#include "base/memory.h"
#include "base/clock.h"
#include "base/sys.h"
#include "log/chunks.h"
#include "log/file.h"
#include "format/operations.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#define BTRFS 0x9123683el
#ifndef F_OFD_SETLKW /* glibc before 2.20 */
#define F_OFD_SETLK 37
#define F_OFD_SETLKW 38
#endif
#define FIRST_SLOT (64u * 1024u) /* beyond the part that is written before the log */
#define PATIENCE 1000            /* faults of threads that were about to store while the mapping changed */

static uint32_t state; /* atomic; 0: the log is shared, 1: being changed, 2: private */
static uint32_t later; /* atomic: faults since then */
static uint64_t since; /* ticks */
static bool has_room;  /* does this log have the room? Read once, since other processes can write to the header */

void pt_spare_read_control(const struct pt_header *h)
{
    state = later = 0;
    has_room = h->kept_room == FIRST_SLOT >> PT_ID_SHIFT;
}

/* Sets the room aside in a new log, which still takes stores. */
void pt_spare_set_aside(int fd)
{
    struct statfs fs;
    struct pt_chunk *c = (struct pt_chunk *)(pt.base + PT_FIRST_CHUNK);
    uint64_t slots = PT_KEPT_SLOTS * (uint64_t)PT_PROCESS_CHUNK, end = FIRST_SLOT + slots;
    if (fstatfs(fd, &fs) != 0 || fs.f_type != BTRFS || pt.mapped < 16 * end)
        return;
    if (pt_sys(SYS_fallocate, fd, 0, FIRST_SLOT, slots) != 0 || pt_blocks_reserve((char *)c, PT_PAGE) != PT_NOT_FULL)
        return;
    *c = (struct pt_chunk){.offset = PT_FIRST_CHUNK, .size = end - PT_FIRST_CHUNK, .kind = PT_CHUNK_PAD};
    c->clock = pt.header->first;
    c->magic = PT_CHUNK_MAGIC;
    pt.header->next = end;
    pt.header->kept_room = FIRST_SLOT >> PT_ID_SHIFT;
}

bool pt_log_is_private(void)
{
    return __atomic_load_n(&state, __ATOMIC_RELAXED) == 2;
}

/* True: the failed store may be retried. Runs in a signal handler. */
bool pt_spare_begin_slow(void)
{
    uint32_t shared = 0;
    if (!__atomic_compare_exchange_n(&state, &shared, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        sched_yield();
        return shared != 0 && __atomic_fetch_add(&later, 1, __ATOMIC_RELAXED) < PATIENCE;
    }
    long fd = has_room ? pt_log_reopen_slow(pt.mapped) : -1;
    long at = fd < 0 ? -1
                     : pt_sys(SYS_mmap, pt.base, pt.mapped, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd, 0);
    if (fd >= 0)
        pt_sys(SYS_close, fd);
    bool done = at > 0 || at < -4095;
    if (done) {
        since = pt_ticks();
        pt_log_close_claims(PT_FULL_DISK);
    }
    __atomic_store_n(&state, done ? 2 : 0, __ATOMIC_RELEASE);
    return done;
}

/* A forked child inherits all this. It finds no room for an entry, and counts for itself. */
void pt_spare_forked(void)
{
    if (!pt_log_is_private())
        return;
    since = pt_ticks();
    memset(pt.base + PT_OVERFLOW_OFFSET, 0, PT_MAX_OPS * sizeof(struct pt_counter));
}

/* ---- the end ------------------------------------------------------------------------------ */

static void count_one(struct pt_process *p, const struct pt_record *mine, const struct pt_record *theirs)
{
    unsigned now = mine->flags & PT_STATE_MASK, before = theirs->flags & PT_STATE_MASK;
    bool series = mine->flags & PT_COALESCED,
         more = series && before && theirs->flags & PT_COALESCED && mine->aux > theirs->aux;
    if (!mine->op || mine->op >= PT_OP_COUNT || now == PT_EMPTY || (before != PT_EMPTY && !more) ||
        pt_op_has(mine->op, PT_HIDDEN))
        return;
    struct pt_counter *n = &pt.counters[mine->op];
    uint64_t calls = series ? mine->aux - (more ? theirs->aux : 0) : 1;
    uint64_t ticks = ((uint64_t)mine->duration_hi << 32 | mine->duration_lo) -
                     (more ? ((uint64_t)theirs->duration_hi << 32 | theirs->duration_lo) : 0);
    n->count += calls;
    n->ticks += now == PT_DONE ? ticks : 0;
    if (mine->flags & PT_FAILED)
        n->errors += calls;
    else if (now == PT_DONE && mine->result != PT_NO_BYTES && pt_op_has(mine->op, PT_RESULT_IS_BYTES))
        n->bytes += mine->result - (more ? theirs->result : 0);
    p->lost += calls;
}

#define PART 256u /* records compared at a time */

/* Counts the records of a chunk that the file lacks. */
static void count_chunk(long fd, struct pt_process *p, const char *chunk, uint64_t size, struct pt_record *theirs)
{
    const char *at = chunk + PT_OPS_START, *end = chunk + size;
    while (at + sizeof *theirs <= end) {
        uint64_t records = (uint64_t)(end - at) / sizeof *theirs;
        size_t bytes = (records < PART ? records : PART) * sizeof *theirs;
        if (pt_sys(SYS_pread64, fd, theirs, bytes, at - pt.base) != (long)bytes)
            return;
        if (memcmp(at, theirs, bytes) != 0)
            for (size_t i = 0; i < bytes / sizeof *theirs; i++)
                count_one(p, (const struct pt_record *)at + i, theirs + i);
        at += bytes;
    }
}

/* Has the chunk a private page? (Reading the whole log again would take too long.) */
static bool is_changed(long pages, const char *chunk, uint64_t size)
{
    uint64_t entries[64], page = pt_kernel_page();
    uint64_t first = (uintptr_t)chunk / page, end = ((uintptr_t)chunk + size + page - 1) / page;
    for (; first < end; first += 64) {
        uint64_t n = end - first < 64 ? end - first : 64;
        if (pages < 0 || pt_sys(SYS_pread64, pages, entries, n * 8, first * 8) != (long)(n * 8))
            return true;
        for (uint64_t i = 0; i < n; i++)
            if (entries[i] >> 62 && !(entries[i] >> 61 & 1)) /* present, and not a page of the file */
                return true;
    }
    return false;
}

static void count_records(long fd, struct pt_process *p, uint32_t process)
{
    struct pt_record *theirs = pt_memory(PART * sizeof *theirs);
    long pages = pt_sys(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0);
    uint64_t next = __atomic_load_n(&pt.header->next, __ATOMIC_RELAXED);
    uint64_t used = next < pt.mapped ? next : pt.mapped, at = PT_FIRST_CHUNK;
    while (theirs && process && at + sizeof(struct pt_chunk) <= used) {
        struct pt_chunk c; /* copied once: pages without a store of ours are still the file's */
        memcpy(&c, pt.base + at, sizeof c);
        __asm__ volatile("" : : : "memory");
        bool sound = c.magic == PT_CHUNK_MAGIC && c.offset == at && c.size >= PT_PAGE && c.size % PT_PAGE == 0 &&
                     c.size <= used - at;
        if (sound && c.kind == PT_CHUNK_OPS && c.process == process && is_changed(pages, pt.base + at, c.size))
            count_chunk(fd, p, pt.base + at, c.size, theirs);
        at += sound ? c.size : PT_PAGE;
    }
    if (pages >= 0)
        pt_sys(SYS_close, pages);
    if (theirs)
        pt_memory_back(theirs, PART * sizeof *theirs);
}

static void write_slot(long fd, const void *what)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = FIRST_SLOT, .l_len = PT_PAGE};
    uint64_t at = FIRST_SLOT, magic;
    pt_sys(SYS_fcntl, fd, F_OFD_SETLKW, &lock); /* not flock, which every process of the run holds */
    for (unsigned i = 0; i < PT_KEPT_SLOTS; i++, at += PT_PROCESS_CHUNK)
        if (pt_sys(SYS_pread64, fd, &magic, sizeof magic, at) == sizeof magic && !magic) {
            pt_sys(SYS_pwrite64, fd, what, PT_PROCESS_CHUNK, at);
            break;
        }
    lock.l_type = F_UNLCK;
    pt_sys(SYS_fcntl, fd, F_OFD_SETLK, &lock);
}

/* The calling process ends, or becomes another program. listed: p is in the log. */
void pt_spare_end_slow(struct pt_process *p, bool listed)
{
    uint64_t all = ~0ull, before;
    if (!pt_log_is_private())
        return;
    pt_sys(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all); /* no signal handler may see the descriptor */
    long fd = pt_log_reopen_slow(0);
    char *copy = fd >= 0 ? pt_memory(PT_PROCESS_CHUNK) : NULL;
    if (copy) {
        struct pt_process *entry = (struct pt_process *)copy;
        count_records(fd, p, listed ? pt.process_id : 0);
        memcpy(entry, p, sizeof *entry);
        memcpy(copy + PT_COUNTERS_OFFSET, pt.counters, PT_MAX_OPS * sizeof(struct pt_counter));
        entry->chunk.magic = PT_CHUNK_MAGIC;
        entry->chunk.process = listed ? pt.process_id : 0;
        if (!listed) {
            entry->pid = (uint32_t)pt_sys6(SYS_getpid, 0, 0, 0, 0, 0, 0);
            entry->begin = since;
        }
        write_slot(fd, copy);
        pt_memory_back(copy, PT_PROCESS_CHUNK);
    }
    if (fd >= 0)
        pt_sys(SYS_close, fd);
    pt_sys(SYS_rt_sigprocmask, SIG_SETMASK, &before, 0, sizeof before);
}
