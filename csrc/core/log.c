/* The live log: creating it, joining it, claiming room in it.
 *
 * The file is made sparse at its full budget and mapped once, so that no
 * descriptor of ours stays in the program.  Room is claimed with one atomic
 * add and its blocks are reserved (blocks.c) before anything is stored there. */
#include "core.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

const struct pt_op_row pt_operation_table[PT_MAX_OPS] = {
#define OP(id, name_, layer_, klass_, shape_) \
    [PT_OP_##id] = {.name = name_, .layer = PT_##layer_, .klass = PT_##klass_, .shape = PT_SHAPE_##shape_},
#include "operations.def"
#undef OP
};

static uint32_t claims_under_way; /* atomic, of this process: pt_log_finish waits for them */
static uint64_t claims_end;       /* atomic, of this process: end of the last chunk that it got */

const char *pt_op_name(unsigned op)
{
    return op < PT_OP_COUNT ? pt_operation_table[op].name : "";
}

/* Whether its result is bytes moved, and not a descriptor or a process id: as Vocabulary.moves of the reader. */
bool pt_op_moves(unsigned op)
{
    const struct pt_op_row *row = &pt_operation_table[op];
    bool sized = row->shape == PT_SHAPE_FD || row->shape == PT_SHAPE_FD2 || row->shape == PT_SHAPE_FD2_AT ||
                 row->shape == PT_SHAPE_SPAN || row->shape == PT_SHAPE_PATH;
    return sized && row->klass != PT_OPEN && row->klass != PT_CLOSE && row->klass != PT_PROCESS;
}

static bool out_of_reach; /* what this process maps is used up, the log is not */

/* 0, or -errno: ENOMEM of a process that may not map so much, another of a file system that has no shared mappings. */
static int map_log(int fd, uint64_t size)
{
    out_of_reach = false;
    /* A program under a limit of its address space keeps most of it. */
    struct rlimit limit;
    uint64_t room = size;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && room > limit.rlim_cur / 8)
        room = limit.rlim_cur / 8 / PT_PAGE * PT_PAGE;
    for (; room >= PT_FIRST_CHUNK + PT_PROCESS_CHUNK; room = room / 2 / PT_PAGE * PT_PAGE) {
        void *at = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
        if (at == MAP_FAILED && errno == ENOMEM)
            continue;
        if (at == MAP_FAILED)
            return -ENODEV;
        madvise(at, room, MADV_DONTDUMP); /* a core file need not hold the log */
        pt_blocks_of(fd);
        pt.base = at;
        pt.mapped = room;
        pt.header = at;
        return 0;
    }
    return -ENOMEM;
}

static void read_text(const char *path, char *out, size_t room)
{
    long fd = pt_sys(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    long n = pt_sys(SYS_read, fd, out, room - 1);
    pt_sys(SYS_close, fd);
    for (long i = 0; i < n; i++)
        if (out[i] == '\n')
            out[i] = 0;
}

static void write_header(uint64_t budget, uint32_t full_reason)
{
    struct pt_header *h = pt.header;
    struct utsname names;
    memset(h, 0, sizeof *h);
    memcpy(pt.base + PT_OPTABLE_OFFSET, pt_operation_table, sizeof pt_operation_table);
    h->version = PT_LOG_VERSION;
    h->first_chunk = PT_FIRST_CHUNK;
    h->budget = budget;
    h->next = PT_FIRST_CHUNK;
    h->tick_kind = pt.tick_kind;
    h->owner_pid = (uint32_t)pt_sys6(SYS_getpid, 0, 0, 0, 0, 0, 0);
    h->first = pt_clock_pair();
    h->run_id = pt_hash_bytes(&h->first, sizeof h->first, h->owner_pid);
    h->full_reason = full_reason;
    read_text("/proc/sys/kernel/random/boot_id", h->boot_id, sizeof h->boot_id);
    if (uname(&names) == 0)
        memcpy(h->host, names.nodename, strnlen(names.nodename, sizeof names.nodename - 1));
    __atomic_thread_fence(__ATOMIC_RELEASE);
    memcpy(h->magic, PT_LOG_MAGIC, 8);
}

/* Back to the log before. */
static void unmap_log(char *base_before, uint64_t mapped_before)
{
    char *base = pt.base;
    uint64_t mapped = pt.mapped;
    pt.base = base_before;
    pt.mapped = mapped_before;
    pt.header = (struct pt_header *)base_before;
    munmap(base, mapped);
}

/* Takes away what has the name of a new log: an earlier log, a link to one.  Never what is no file, a device or a pipe,
 * nor the system's own links (/dev/stdout).  pyio_trace/output.py has the same rule, and says more. */
static int make_way(const char *path)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return errno == ENOENT ? 0 : -errno;
    if (S_ISLNK(st.st_mode)) {
        bool systems = (strncmp(path, "/dev/", 5) == 0 && strncmp(path, "/dev/shm/", 9) != 0) || strncmp(path, "/proc/", 6) == 0;
        if (systems || (stat(path, &st) == 0 && !S_ISREG(st.st_mode)))
            return -EEXIST;
    } else if (!S_ISREG(st.st_mode)) {
        return S_ISDIR(st.st_mode) ? -EISDIR : -EEXIST;
    }
    return unlink(path) == 0 || errno == ENOENT ? 0 : -errno;
}

int pt_log_create(const char *path, uint64_t budget)
{
    struct rlimit limit;
    char *base_before = pt.base;
    uint64_t mapped_before = pt.mapped;
    /* A new file, never an old one cut short: a process of another run may have that one mapped. */
    int error = make_way(path);
    if (error)
        return error;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return -errno;
    struct stat made;
    if (fstat(fd, &made) == 0 && (made.st_mode & 0600) != 0600)
        fchmod(fd, (made.st_mode & 0777) | 0600); /* a umask that leaves its owner nothing: the run's processes have to open it */
    /* Growing past RLIMIT_FSIZE would be a SIGXFSZ; a mapping within it never is. */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && budget > limit.rlim_cur)
        budget = limit.rlim_cur / PT_PAGE * PT_PAGE;
    if (budget < PT_FIRST_CHUNK + PT_PROCESS_CHUNK)
        error = -EFBIG;
    else if ((!pt_blocks_begin(fd, budget) && ftruncate(fd, 0) != 0) || ftruncate(fd, (off_t)budget) != 0)
        error = -errno;
    else if ((error = map_log(fd, budget)) != 0)
        ; /* nothing of it is mapped */
    else if (!pt_blocks_reserve(pt.base, PT_FIRST_CHUNK))
        error = -ENOSPC;
    close(fd);
    if (error) {
        unlink(path);
        if (pt.base != base_before)
            unmap_log(base_before, mapped_before);
        return error;
    }
    write_header(budget, PT_NOT_FULL);
    claims_end = 0;
    return 0;
}

static bool is_cut(int fd, uint64_t budget)
{
    struct stat st;
    return fstat(fd, &st) != 0 || (uint64_t)st.st_size < budget;
}

/* Until this process has entered itself (pt_log_joined), nobody may take the
 * run for ended and cut the file: it counts as a fork that is under way. */
int pt_log_join(const char *path)
{
    struct pt_header head;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int error = 0;
    char *base_before = pt.base;
    uint64_t mapped_before = pt.mapped;
    if (pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head || memcmp(head.magic, PT_LOG_MAGIC, 8) != 0 ||
        head.version != PT_LOG_VERSION || head.first_chunk != PT_FIRST_CHUNK)
        error = -EPROTO;
    else if (is_cut(fd, head.budget))
        error = -ESTALE; /* the run was finished: its file is cut to size */
    else
        error = map_log(fd, head.budget);
    if (!error) {
        __atomic_fetch_add(&pt.header->forks_pending, 1, __ATOMIC_SEQ_CST);
        if (is_cut(fd, head.budget)) { /* just now */
            pt_log_joined();
            unmap_log(base_before, mapped_before);
            error = -ESTALE;
        }
    }
    close(fd);
    if (!error) {
        pt.tick_kind = pt.header->tick_kind;
        claims_end = 0;
    }
    return error;
}

void pt_log_joined(void)
{
    __atomic_fetch_sub(&pt.header->forks_pending, 1, __ATOMIC_ACQ_REL);
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
                   pt.header->budget == limit.rlim_cur / PT_PAGE * PT_PAGE;
    return limited ? PT_FULL_LIMIT : PT_FULL_BUDGET;
}

static void note_end(uint64_t end)
{
    uint64_t last = __atomic_load_n(&claims_end, __ATOMIC_RELAXED);
    while (end > last && !__atomic_compare_exchange_n(&claims_end, &last, end, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        continue;
}

/* Records stop before the log is full: the sums that go on then (profile.c) need room. */
static uint64_t limit_of(uint32_t kind)
{
    uint64_t budget = pt.header->budget;
    return kind == PT_CHUNK_OPS ? budget - budget / 8 / PT_PAGE * PT_PAGE : budget;
}

/* What to try next on a nearly full disk; 0: nothing. */
static uint64_t smaller(uint32_t kind, uint64_t size)
{
    if (kind == PT_CHUNK_OPS)
        return size > PT_PAGE ? PT_PAGE : 0;
    if (kind == PT_CHUNK_PAD && size >= 4 * PT_RING_SLOT) /* a ring: whole slots, two at least */
        return size / 2 / PT_RING_SLOT * PT_RING_SLOT;
    return 0;
}

static struct pt_chunk *claim(uint32_t kind, uint64_t size, uint32_t process, uint32_t tid, uint32_t sequence)
{
    struct pt_header *h = pt.header;
    for (;;) {
        uint32_t full = __atomic_load_n(&h->full_reason, __ATOMIC_RELAXED);
        if (out_of_reach || (full && (kind == PT_CHUNK_OPS || full == PT_FULL_DISK)))
            return NULL;
        if (!(pt.gate & PT_GATE_OFF) && __atomic_load_n(&h->next, __ATOMIC_RELAXED) + size > limit_of(kind)) {
            mark_full(budget_reason());
            return NULL;
        }
        /* A thread still in a hook when tracing stopped: the file may be cut already. */
        if ((pt.gate & PT_GATE_OFF) && __atomic_load_n(&h->next, __ATOMIC_SEQ_CST) + size > __atomic_load_n(&pt.mapped, __ATOMIC_SEQ_CST))
            return NULL;
        uint64_t at = __atomic_fetch_add(&h->next, size, __ATOMIC_RELAXED);
        if (at + size > __atomic_load_n(&pt.mapped, __ATOMIC_ACQUIRE)) {
            if (pt.gate & PT_GATE_OFF)
                return NULL; /* a thread that was in a hook when tracing stopped */
            if (at + size > h->budget) {
                mark_full(budget_reason());
                return NULL;
            }
            /* It is this process that maps no more of it (RLIMIT_AS): the others go on. */
            uint64_t end = at + size;
            __atomic_compare_exchange_n(&h->next, &end, at, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
            out_of_reach = true;
            return NULL;
        }
        struct pt_chunk *c = (struct pt_chunk *)(pt.base + at);
        if (!pt_blocks_reserve((char *)c, size)) {
            if (pt.gate & PT_GATE_OFF)
                return NULL;
            uint64_t less = smaller(kind, size);
            if (!less) {
                mark_full(PT_FULL_DISK);
                return NULL;
            }
            size = less;
            continue;
        }
        c->offset = at;
        c->size = size;
        c->kind = kind;
        c->process = process;
        c->tid = tid;
        c->sequence = sequence;
        c->cursor = PT_HEAP_START;
        c->clock = pt_clock_pair();
        __atomic_store_n(&c->magic, PT_CHUNK_MAGIC, __ATOMIC_RELEASE);
        note_end(at + size);
        return c;
    }
}

struct pt_chunk *pt_chunk_claim_slow(uint32_t kind, uint64_t size, uint32_t process, uint32_t tid, uint32_t sequence)
{
    __atomic_fetch_add(&claims_under_way, 1, __ATOMIC_SEQ_CST);
    struct pt_chunk *c = claim(kind, size, process, tid, sequence);
    __atomic_fetch_sub(&claims_under_way, 1, __ATOMIC_ACQ_REL);
    return c;
}

/* No claim of this process is or will be beyond what is returned. */
static uint64_t close_claims(void)
{
    uint64_t used = __atomic_load_n(&pt.header->next, __ATOMIC_ACQUIRE);
    __atomic_store_n(&pt.mapped, used, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 1000 && __atomic_load_n(&claims_under_way, __ATOMIC_SEQ_CST); i++)
        sched_yield();
    /* Some of the latest may have got their chunk; the others have only moved header.next. */
    uint64_t last = __atomic_load_n(&claims_end, __ATOMIC_SEQ_CST);
    return last > used ? last : used;
}

/* The program limits its address space: it gets back what it would not have
 * lacked without us, most of what is not used yet. */
void pt_log_shrink(uint64_t limit)
{
    uint64_t mapped = pt.mapped, keep = limit / 8 / PT_PAGE * PT_PAGE;
    uint64_t used = __atomic_load_n(&pt.header->next, __ATOMIC_ACQUIRE);
    keep = keep > used ? keep : used;
    if (keep >= mapped)
        return;
    __atomic_store_n(&pt.mapped, keep, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 1000 && __atomic_load_n(&claims_under_way, __ATOMIC_SEQ_CST); i++)
        sched_yield();
    if (__atomic_load_n(&claims_under_way, __ATOMIC_SEQ_CST))
        return; /* somebody may be writing beyond */
    uint64_t last = __atomic_load_n(&claims_end, __ATOMIC_SEQ_CST);
    uint64_t page = pt_kernel_page();
    keep = ((last > keep ? last : keep) + page - 1) / page * page;
    if (keep < mapped)
        pt_sys(SYS_munmap, pt.base + keep, mapped - keep);
}

/* Cuts the file to what is used.  By name, since no descriptor was kept; only
 * if it is still this run's file. */
static void cut_file(uint64_t used)
{
    struct pt_header head;
    int fd = open(pt.path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    if (pread(fd, &head, sizeof head, 0) == (ssize_t)sizeof head && head.run_id == pt.header->run_id &&
        ftruncate(fd, (off_t)used) != 0)
        pt.header->fault_count++; /* it stays sparse: harmless */
    close(fd);
}

/* This process is done with the log.  If it was the last of the run, the file
 * shrinks to what is used; a process that should join later finds it cut and
 * stays out.  What is still in flight in other threads completes inside the
 * used part, which stays mapped. */
void pt_log_finish(void)
{
    int saved = errno;
    uint64_t mapped = pt.mapped, used = close_claims();
    if (used < pt.header->budget && !pt_process_others_live()) {
        __atomic_store_n(&pt.header->next, used, __ATOMIC_RELEASE);
        cut_file(used);
    }
    if (used < mapped && !__atomic_load_n(&claims_under_way, __ATOMIC_SEQ_CST))
        munmap(pt.base + used, mapped - used);
    errno = saved;
}

#define HEAP_CHUNK (64u * 1024u)
#define FIRST_OF_RUN (16u * 1024u) /* what a Python's start fills, in blocks that are there (blocks.c) */
#define HEAP_MOST (1ull << 36) /* no place in any log is beyond */

/* Many processes live for a few milliseconds only, and have little to name: a process begins with a page, a forked one
 * too, and takes twice as much each time. */
static uint64_t heap_chunk_after(const struct pt_chunk *last)
{
    uint64_t size = PT_PAGE;
    if (pt.header->budget < 16 * HEAP_CHUNK)
        return size;
    if (!last)
        return pt.owns_run ? FIRST_OF_RUN : size;
    while (last->process == pt.process_id && size < HEAP_CHUNK && size <= last->size)
        size *= 2;
    return size;
}

static void *alloc_slow(struct pt_chunk **current, uint32_t kind, uint32_t size)
{
    for (;;) {
        struct pt_chunk *c = __atomic_load_n(current, __ATOMIC_ACQUIRE);
        if (c) {
            uint64_t at = __atomic_fetch_add(&c->cursor, size, __ATOMIC_RELAXED);
            /* Anybody may write into the file: its numbers are believed as far as the mapping goes. */
            if (at < HEAP_MOST && at + size <= c->size && (uint64_t)((char *)c - pt.base) + at + size <= pt.mapped) {
                struct pt_heap *object = (struct pt_heap *)((char *)c + at);
                object->size = size;
                return object;
            }
        }
        uint64_t want = heap_chunk_after(c);
        while (want < (uint64_t)size + PT_HEAP_START)
            want *= 2;
        struct pt_chunk *fresh = pt_chunk_claim_slow(kind, want, pt.process_id, 0, 0);
        if (!fresh)
            return NULL;
        /* A thread that loses this race tries the winner's chunk; its own stays empty. */
        __atomic_compare_exchange_n(current, &c, fresh, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    }
}

void *pt_heap_alloc_slow(uint32_t size)
{
    return alloc_slow(&pt.heap, PT_CHUNK_HEAP, (size + 15u) & ~15u);
}

struct pt_profile *pt_sums_alloc_slow(bool data)
{
    return data ? alloc_slow(&pt.sums[1], PT_CHUNK_SUMS_DATA, PT_PROFILE_DATA_SIZE)
                : alloc_slow(&pt.sums[0], PT_CHUNK_SUMS, PT_PROFILE_SIZE);
}

void pt_heap_publish(void *object, uint32_t kind)
{
    __atomic_store_n(&((struct pt_heap *)object)->kind, kind, __ATOMIC_RELEASE);
}
