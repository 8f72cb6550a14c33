/* Measures what bypasses the hooks: the kernel's own figures, read when a process begins or ends and when a mapping
 * goes, never during an operation.
 *
 * Page faults make no call.  They leave traces in the process's page tables: /proc/self/pagemap tells which pages of
 * a mapping are present, /proc/self/smaps how much of an area is dirty.  docs/explanation/blind-spots.md has the errors of this.
 * Raw system calls only, since a process may end in a signal handler. */
#include "state/kernel_accounting.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define ENTRIES 256u          /* of pagemap, in one read: 2 KiB on the stack */
#define FULL_PAGES (1u << 17) /* mappings of up to 512 MiB are examined whole, larger ones ... */
#define WINDOWS 512u          /* ... in this many windows of ENTRIES pages */
#define AROUND 16u            /* pages that one fault maps (fault_around_bytes, 64 KiB) ... */
#define HUGE 512u             /* ... or, with a large folio, a whole page-table page */

#define PRESENT (1ull << 63)
#define SWAPPED (1ull << 62)
#define OF_FILE (1ull << 61)

static int64_t began_ns, spent_ns; /* of this process: its begin, and the processor time spent on measuring */

int64_t pt_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The processor time of this thread.  Measuring is limited by it: on a busy machine, wall time would run out early. */
int64_t pt_thread_cpu_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

/* Measuring may take an allowance of processor time plus 2 % of the time that the process has lived. */
bool pt_measuring_affordable(int64_t allowance_ns)
{
    int64_t spent = __atomic_load_n(&spent_ns, __ATOMIC_RELAXED);
    return spent < allowance_ns || spent * 50 < pt_now_ns() - began_ns;
}

void pt_measuring_took(int64_t since_cpu_ns)
{
    __atomic_fetch_add(&spent_ns, pt_thread_cpu_ns() - since_cpu_ns, __ATOMIC_RELAXED);
}

static long open_own(const char *path)
{
    return pt_sys(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
}

/* The kernel counts our own reads too: they are subtracted. */
static void note_own_reading(long bytes)
{
    if (bytes > 0 && pt.process_id)
        __atomic_fetch_add(&pt.process->own_read, (uint64_t)bytes, __ATOMIC_RELAXED);
}

/* ---- pages ------------------------------------------------------------------ */

/* Counts the pages of one mapping, in order.  A fault maps one page, or those around it, or a whole page-table page
 * of them: the fewest faults that explain the present pages are the lower bound.  A private copy was made for its
 * page alone. */
struct tally {
    uint64_t there, fewest;
    uint64_t block, window;     /* those of the last page */
    unsigned in_block, windows; /* file pages in it; windows with any */
    unsigned in_window;
};

static void close_block(struct tally *t)
{
    t->windows += t->in_window > 0;
    t->fewest += t->in_block == HUGE ? 1 : t->windows;
    t->in_block = t->windows = t->in_window = 0;
}

static void add_page(struct tally *t, uint64_t page, uint64_t entry)
{
    if (page / HUGE != t->block)
        close_block(t);
    else if (page / AROUND != t->window) {
        t->windows += t->in_window > 0;
        t->in_window = 0;
    }
    t->block = page / HUGE;
    t->window = page / AROUND;
    if (!(entry & (PRESENT | SWAPPED)))
        return;
    t->there++;
    if (entry & OF_FILE) {
        t->in_block++;
        t->in_window++;
    } else {
        t->fewest++;
    }
}

/* Examines pages [first, first + count); false: the kernel does not tell. */
static bool look(long fd, uint64_t first, uint64_t count, struct tally *t)
{
    uint64_t entries[ENTRIES];
    while (count) {
        uint64_t n = count < ENTRIES ? count : ENTRIES;
        long got = pt_sys(SYS_pread64, fd, entries, n * 8, first * 8);
        note_own_reading(got);
        if (got != (long)(n * 8))
            return false;
        for (uint64_t i = 0; i < n; i++)
            add_page(t, first + i, entries[i]);
        first += n;
        count -= n;
    }
    return true;
}

bool pt_resident_slow(uintptr_t address, uint64_t length, struct pt_resident *out)
{
    uint64_t size = getauxval(AT_PAGESZ), first = address / size, count = (length + size - 1) / size, looked = count;
    struct tally t = {.block = first / HUGE, .window = first / AROUND};
    memset(out, 0, sizeof *out);
    long fd = count ? open_own("/proc/self/pagemap") : -1;
    if (fd < 0)
        return false;
    bool good = true;
    if (count <= FULL_PAGES) {
        good = look(fd, first, count, &t);
    } else {
        uint64_t share = count / WINDOWS; /* one window in each share, at varying places: data have periods too */
        for (uint64_t i = 0; i < WINDOWS && good; i++) {
            uint64_t shift = (i * 2654435761u >> 7) % (share - ENTRIES + 1);
            good = look(fd, first + i * share + shift, ENTRIES, &t);
        }
        looked = (uint64_t)WINDOWS * ENTRIES;
        out->sampled = true;
    }
    pt_sys(SYS_close, fd);
    close_block(&t);
    double scale = (double)size * ((double)count / (double)looked);
    out->touched = (uint64_t)((double)t.there * scale);
    out->at_least = (uint64_t)((double)t.fewest * scale);
    out->touched = out->touched < length ? out->touched : length; /* the last page may be partial */
    out->at_least = out->at_least < out->touched ? out->at_least : out->touched;
    return good;
}

/* ---- dirty pages --------------------------------------------------------------- */

struct area {
    uintptr_t start, end;
    uint64_t dirty;
};

static const char *hexadecimal(const char *p, uintptr_t *value)
{
    *value = 0;
    for (;; p++) {
        unsigned digit = *p >= '0' && *p <= '9'   ? (unsigned)(*p - '0')
                         : *p >= 'a' && *p <= 'f' ? (unsigned)(*p - 'a') + 10
                                                  : 16;
        if (digit == 16)
            return p;
        *value = *value << 4 | digit;
    }
}

static uint64_t decimal(const char *p)
{
    uint64_t value = 0;
    while (*p == ' ' || *p == '\t')
        p++;
    for (; *p >= '0' && *p <= '9'; p++)
        value = value * 10 + (uint64_t)(*p - '0');
    return value;
}

/* Parses one line of smaps: the head of an area, or one of its figures. */
static void read_line(const char *line, struct area *a, pt_dirty_seen *seen, void *data)
{
    static const char shared[] = "Shared_Dirty:", private[] = "Private_Dirty:";
    if (strncmp(line, shared, sizeof shared - 1) == 0) {
        a->dirty = decimal(line + sizeof shared - 1) * 1024;
    } else if (strncmp(line, private, sizeof private - 1) == 0) {
        seen(a->start, a->end, a->dirty + decimal(line + sizeof private - 1) * 1024, data);
    } else {
        uintptr_t start, end;
        const char *p = hexadecimal(line, &start);
        if (*p == '-' && *hexadecimal(p + 1, &end) == ' ')
            *a = (struct area){start, end, 0};
    }
}

/* The kernel computes the figures of an area when it is read, so nothing beyond the wanted areas is read. */
bool pt_dirty_each_slow(uintptr_t until, pt_dirty_seen *seen, void *data)
{
    char buffer[2048];
    size_t held = 0;
    struct area a = {0, 0, 0};
    long fd = open_own("/proc/self/smaps"), got = -1;
    while (fd >= 0 && a.start < until && (got = pt_sys(SYS_read, fd, buffer + held, sizeof buffer - 1 - held)) > 0) {
        note_own_reading(got);
        held += (size_t)got;
        buffer[held] = 0;
        char *line = buffer, *end;
        for (; (end = strchr(line, '\n')); line = end + 1) {
            *end = 0;
            read_line(line, &a, seen, data);
        }
        held -= (size_t)(line - buffer);
        if (held == sizeof buffer - 1)
            held = 0; /* the end of a very long path */
        memmove(buffer, line, held);
    }
    if (fd >= 0)
        pt_sys(SYS_close, fd);
    return fd >= 0 && got >= 0;
}

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

/* Bytes of a file's range that are dirty in the page cache, whoever wrote them; 0 where the kernel cannot tell (Linux
 * before 6.5). */
uint64_t pt_dirty_cached_slow(int fd, uint64_t offset, uint64_t length)
{
    uint64_t range[2] = {offset, length}, found[5] = {0};
    if (pt_sys(SYS_cachestat, fd, range, found, 0) != 0)
        return 0;
    return found[1] * getauxval(AT_PAGESZ); /* struct cachestat: nr_cache, nr_dirty, ... */
}

/* ---- the kernel's account ---------------------------------------------------------- */

/* If tracing stops and the process goes on: the account at that moment, and what the tracer itself had read. */
static struct pt_account at_stop;
static uint64_t own_at_stop;
static bool known_at_stop;
static bool began_alone; /* the process had one thread when its account began */

static uint64_t nanoseconds(const struct timeval *t)
{
    return (uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_usec * 1000;
}

bool pt_account_now_slow(struct pt_account *out)
{
    char text[512];
    long fd = open_own("/proc/self/io");
    if (fd < 0)
        return false;
    long n = pt_sys(SYS_read, fd, text, sizeof text - 1);
    pt_sys(SYS_close, fd);
    text[n > 0 ? n : 0] = 0;
    uint64_t *const values[] = {&out->read_chars,  &out->write_chars,  &out->read_calls,
                                &out->write_calls, &out->storage_read, &out->storage_written};
    const char *p = text; /* "rchar: 1", "wchar: 2", ...: in this order since there is such a file */
    for (unsigned i = 0; i < sizeof values / sizeof *values; i++) {
        p = strchr(p, ':');
        if (!p)
            return false;
        *values[i] = decimal(++p);
    }
    struct rusage usage;
    if (pt_sys(SYS_getrusage, RUSAGE_SELF, &usage) == 0) {
        out->minor_faults = (uint64_t)usage.ru_minflt;
        out->major_faults = (uint64_t)usage.ru_majflt;
        out->cpu_user = nanoseconds(&usage.ru_utime);
        out->cpu_system = nanoseconds(&usage.ru_stime);
    }
    note_own_reading(n);
    return true;
}

void pt_account_begins(struct pt_process *p, bool forked, bool alone)
{
    began_alone = alone;
    began_ns = pt_now_ns();
    spent_ns = 0;
    known_at_stop = false;
    /* The account of a forked child starts at zero. */
    if (forked || pt_account_now_slow(&p->begin_account))
        p->accounts = PT_ACCOUNT_BEGIN;
}

/* Copies the figures of calls, which the log has one by one, but not those of storage and faults. */
static void take_calls(struct pt_account *to, const struct pt_account *from)
{
    to->read_chars = from->read_chars;
    to->write_chars = from->write_chars;
    to->read_calls = from->read_calls;
    to->write_calls = from->write_calls;
}

/* Subtracts what other threads moved between the first reading of the account and the opening of the hooks. */
void pt_account_opened(struct pt_process *p)
{
    struct pt_account now;
    uint64_t own = __atomic_load_n(&p->own_read, __ATOMIC_RELAXED);
    if ((p->accounts & PT_ACCOUNT_BEGIN) && !began_alone && pt_account_now_slow(&now)) {
        take_calls(&p->begin_account, &now);
        __atomic_fetch_sub(&p->own_read, own, __ATOMIC_RELAXED); /* those reads came earlier */
    }
}

/* Notes the account as the hooks close, so that what other threads move afterwards is not counted. */
void pt_account_stops(struct pt_process *p)
{
    own_at_stop = __atomic_load_n(&p->own_read, __ATOMIC_RELAXED);
    known_at_stop = pt_account_now_slow(&at_stop);
}

void pt_account_ends(struct pt_process *p)
{
    uint64_t own = __atomic_load_n(&p->own_read, __ATOMIC_RELAXED);
    if (pt_account_now_slow(&p->end_account)) {
        p->own_read = own; /* this read comes after those it has counted */
        if (known_at_stop) {
            take_calls(&p->end_account, &at_stop);
            p->own_read = own_at_stop;
        }
        __atomic_fetch_or(&p->accounts, PT_ACCOUNT_END, __ATOMIC_RELEASE);
    }
}

/* When a parent waits for a child, the kernel adds the child's figures to the parent's, but not its processor time. */
void pt_account_of_child(const struct pt_account *before, const struct pt_account *after)
{
    struct pt_account *sum = &pt.process->children_account;
    const uint64_t *from = (const uint64_t *)before, *to = (const uint64_t *)after;
    for (unsigned i = 0; i < offsetof(struct pt_account, cpu_user) / sizeof(uint64_t); i++)
        if (to[i] > from[i])
            __atomic_fetch_add((uint64_t *)sum + i, to[i] - from[i], __ATOMIC_RELAXED);
}

#define SECTOR 512 /* the unit of ru_inblock and ru_oublock */

void pt_usage_of_child(struct pt_process *child, const struct rusage *usage)
{
    uint64_t user = nanoseconds(&usage->ru_utime), system = nanoseconds(&usage->ru_stime);
    if (pt.process_id) { /* what the kernel will tell our own parent of us includes this */
        __atomic_fetch_add(&pt.process->children_account.cpu_user, user, __ATOMIC_RELAXED);
        __atomic_fetch_add(&pt.process->children_account.cpu_system, system, __ATOMIC_RELAXED);
    }
    if (!child)
        return;
    struct pt_account *end = &child->end_account;
    end->cpu_user = user;
    end->cpu_system = system;
    end->storage_read = (uint64_t)usage->ru_inblock * SECTOR;
    end->storage_written = (uint64_t)usage->ru_oublock * SECTOR;
    __atomic_fetch_or(&child->accounts, PT_ACCOUNT_WAITED, __ATOMIC_RELEASE);
}

/* ---- io_uring ---------------------------------------------------------------------- */

struct dirent64_head { /* struct linux_dirent64, which libc */
    uint64_t ino;
    int64_t offset;
    uint16_t length;
    uint8_t type;
    char name[];
};

/* Rings are descriptors. Those made without the syscall() hook are recognised by their names in /proc. */
bool pt_ring_open_slow(void)
{
    static const char ring[] = "anon_inode:[io_uring]";
    char buffer[1024] __attribute__((aligned(8))), target[sizeof ring];
    long fd = pt_sys(SYS_openat, AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0), got;
    bool found = false;
    /* Stops early in a process with very many descriptors. */
    for (int looked = 0; fd >= 0 && !found && looked < 4096;) {
        got = pt_sys(SYS_getdents64, fd, buffer, sizeof buffer);
        if (got <= 0)
            break;
        for (long at = 0; at < got && !found; looked++) {
            const struct dirent64_head *d = (const struct dirent64_head *)(buffer + at);
            long n = d->name[0] == '.' ? 0 : pt_sys(SYS_readlinkat, fd, d->name, target, sizeof target);
            found = n == (long)sizeof ring - 1 && memcmp(target, ring, sizeof ring - 1) == 0;
            at += d->length;
        }
    }
    if (fd >= 0)
        pt_sys(SYS_close, fd);
    return found;
}
