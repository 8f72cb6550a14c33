/* The system beside the program: processors, memory, disks, interfaces, and what other processes read and write.
 *
 * All of it is read from /proc, and a row has the difference between two readings.  Reading takes at most half a per
 * cent of a processor: after a slow reading the pause is longer.  Only the first pause is always one period, so that a
 * short run has rows, too.  After every 65,536 rows the pauses become twice as long.  Disks, interfaces and processes
 * without traffic get no row.  The kernel shows the traffic of a process to its user and to root only; the row of the
 * machine counts the processes that could not be read. */
#include "sampler.h"

#include "base/proc.h"
#include "log/chunks.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define BUDGET 200ull /* a look takes at most one in so many ns */
#define SECTOR 512u
#define TEXT_ROOM (64u << 10)
#define DEVICES_MOST 64u /* disks, and as many interfaces */
#define NUMBERS_MOST 16u
#define TRACKED (1u << 13) /* places for processes: a power of two, and half of them stay free */
#define NAMED_MOST 4u      /* other processes that get a row of their own in a look */
#define PARENTS_MOST 8u    /* of a process, that are looked at: is one of them of the run? */
#define CHUNK_SIZE (32u << 10)
#define ROWS_SHIFT 16
#define SLOWEST_SHIFT 12

/* A line of numbers as it was last time. */
struct counted {
    char name[sizeof((struct pt_system *)0)->name];
    uint64_t now[NUMBERS_MOST], before[NUMBERS_MOST];
    bool known;
};
struct tracked {
    uint32_t pid, look;
    uint64_t read, written;
};
struct traffic {
    uint32_t pid;
    uint64_t read, written;
};

static char text[TEXT_ROOM];
static struct counted processor, stalls, disks[DEVICES_MOST], interfaces[DEVICES_MOST];
static struct tracked tracked[TRACKED];
static unsigned tracked_count, unread;
static uint32_t look;
static uint64_t rows;
static struct pt_system row; /* what the rows of a look have in common */

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- rows --------------------------------------------------------------------------------- */

static void add(uint32_t kind, uint32_t pid, uint64_t device, const char *name, const uint64_t *values, unsigned count)
{
    static struct pt_system *next, *end;
    if (!next || next == end) {
        uint64_t size = CHUNK_SIZE;
        struct pt_chunk *c = pt_chunk_claim_slow(&(struct pt_chunk_request){.kind = PT_CHUNK_SYSTEM}, &size);
        if (!c) {
            __atomic_fetch_add(&pt.header->samples_lost, 1, __ATOMIC_RELAXED);
            return;
        }
        next = (struct pt_system *)((char *)c + PT_HEAP_START);
        end = next + (size - PT_HEAP_START) / sizeof *next;
    }
    rows++;
    struct pt_system *r = next++;
    r->ticks = row.ticks;
    r->kind = kind;
    r->pid = pid;
    r->device = device;
    strncpy(r->name, name, sizeof r->name);
    for (unsigned i = 0; i < PT_SYSTEM_VALUES; i++)
        r->values[i] = i < count ? values[i] : PT_SYSTEM_UNKNOWN;
    __atomic_store_n(&r->begin, row.begin, __ATOMIC_RELEASE);
}

static uint64_t since_before(const struct counted *c, unsigned i)
{
    return c->now[i] > c->before[i] ? c->now[i] - c->before[i] : 0; /* a counter may have begun anew */
}

/* ---- the kernel's files ---------------------------------------------------------------------- */

static bool read_proc(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t size = 0;
    for (long n = 1; fd >= 0 && n > 0 && size < sizeof text - 1; size += n > 0 ? (size_t)n : 0)
        n = read(fd, text + size, sizeof text - 1 - size);
    if (fd >= 0)
        close(fd);
    text[size] = 0;
    return size > 0;
}

/* The numbers that follow in a text. */
static void read_numbers(struct counted *c, const char *at)
{
    memcpy(c->before, c->now, sizeof c->now);
    memset(c->now, 0, sizeof c->now);
    for (unsigned i = 0; i < NUMBERS_MOST; i++) {
        char *end;
        c->now[i] = strtoull(at, &end, 10);
        if (end == at)
            break;
        at = end;
    }
}

static uint64_t number_after(const char *word, uint64_t otherwise)
{
    const char *at = strstr(text, word);
    return at ? strtoull(at + strlen(word), NULL, 10) : otherwise;
}

/* Total time, ns, that tasks were stalled: `some` or all (`full`) of them. */
static uint64_t stalled(const char *resource, const char *who)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/pressure/%s", resource);
    const char *line = read_proc(path) ? strstr(text, who) : NULL;
    const char *at = line ? strstr(line, "total=") : NULL;
    return at ? strtoull(at + 6, NULL, 10) * 1000 : PT_SYSTEM_UNKNOWN;
}

static void look_at_machine(uint64_t cost)
{
    enum { USER, NICE, SYSTEM, IDLE, WAIT, IRQ, SOFT_IRQ };
    uint64_t values[PT_SYSTEM_VALUES], tick = 1000000000ull / (uint64_t)sysconf(_SC_CLK_TCK);
    if (read_proc("/proc/stat") && strncmp(text, "cpu ", 4) == 0)
        read_numbers(&processor, text + 4);
    static const unsigned busy[] = {USER, NICE, SYSTEM, IRQ, SOFT_IRQ};
    values[0] = 0;
    for (unsigned i = 0; i < sizeof busy / sizeof *busy; i++)
        values[0] += since_before(&processor, busy[i]) * tick;
    values[1] = since_before(&processor, WAIT) * tick;
    values[2] = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
    memcpy(stalls.before, stalls.now, sizeof stalls.now);
    stalls.now[0] = stalled("cpu", "some");
    stalls.now[1] = stalled("memory", "some");
    stalls.now[2] = stalled("io", "some");
    stalls.now[3] = stalled("io", "full");
    for (unsigned i = 0; i < 4; i++)
        values[3 + i] = stalls.now[i] == PT_SYSTEM_UNKNOWN ? PT_SYSTEM_UNKNOWN : since_before(&stalls, i);
    bool known = read_proc("/proc/meminfo");
    values[7] = known ? number_after("MemAvailable:", 0) << 10 : PT_SYSTEM_UNKNOWN;
    values[8] = known ? number_after("\nCached:", 0) << 10 : PT_SYSTEM_UNKNOWN;
    values[9] = known ? (number_after("Dirty:", 0) + number_after("Writeback:", 0)) << 10 : PT_SYSTEM_UNKNOWN;
    values[10] = cost;
    values[11] = unread;
    if (look)
        add(PT_SYSTEM_MACHINE, 0, 0, "", values, PT_SYSTEM_VALUES);
}

/* The entry of a device; NULL: there are too many. */
static struct counted *of_name(struct counted *table, const char *name)
{
    for (unsigned i = 0; i < DEVICES_MOST; i++) {
        if (!table[i].name[0])
            snprintf(table[i].name, sizeof table[i].name, "%s", name);
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    }
    return NULL;
}

static char *line_after(char *line)
{
    char *end = strchr(line, '\n');
    return end ? end + 1 : line + strlen(line);
}

static void look_at_disks(void)
{
    enum {
        READS,
        READ_MERGED,
        READ_SECTORS,
        READ_MS,
        WRITES,
        WRITE_MERGED,
        WRITTEN_SECTORS,
        WRITE_MS,
        UNDER_WAY,
        BUSY_MS
    };
    if (!read_proc("/proc/diskstats"))
        return;
    for (char *line = text; *line; line = line_after(line)) {
        unsigned major, minor;
        char name[sizeof row.name];
        int numbers = 0;
        struct counted *d;
        if (sscanf(line, "%u %u %31s %n", &major, &minor, name, &numbers) != 3 || !(d = of_name(disks, name)))
            continue;
        read_numbers(d, line + numbers);
        const uint64_t values[] = {
            since_before(d, READ_SECTORS) * SECTOR,
            since_before(d, WRITTEN_SECTORS) * SECTOR,
            since_before(d, READS),
            since_before(d, WRITES),
            since_before(d, READ_MS) * 1000000u,
            since_before(d, WRITE_MS) * 1000000u,
            since_before(d, BUSY_MS) * 1000000u,
        };
        if (d->known && values[0] + values[1] + values[6])
            add(PT_SYSTEM_DISK, 0, makedev(major, minor), name, values, sizeof values / sizeof *values);
        d->known = true;
    }
}

static void look_at_network(void)
{
    enum { RECEIVED, PACKETS_IN, ERRORS_IN, DROPPED_IN, SENT = 8, PACKETS_OUT, ERRORS_OUT, DROPPED_OUT };
    if (!read_proc("/proc/net/dev"))
        return;
    for (char *line = text; *line; line = line_after(line)) {
        char name[sizeof row.name];
        int numbers = 0;
        struct counted *d;
        if (sscanf(line, " %31[^:\n]:%n", name, &numbers) != 1 || !numbers || !(d = of_name(interfaces, name)))
            continue;
        read_numbers(d, line + numbers);
        uint64_t lost = since_before(d, ERRORS_IN) + since_before(d, DROPPED_IN) + since_before(d, ERRORS_OUT) +
                        since_before(d, DROPPED_OUT);
        const uint64_t values[] = {since_before(d, RECEIVED), since_before(d, SENT), since_before(d, PACKETS_IN),
                                   since_before(d, PACKETS_OUT), lost};
        if (d->known && values[0] + values[1] + lost)
            add(PT_SYSTEM_NETWORK, 0, 0, name, values, sizeof values / sizeof *values);
        d->known = true;
    }
}

/* ---- processes --------------------------------------------------------------------------------- */

static bool is_of_the_run(uint32_t pid)
{
    if (pid == (uint32_t)getpid())
        return true;
    for (unsigned i = 0; i < sampler_process_count; i++)
        if (sampler_processes[i]->pid == (int)pid)
            return true;
    return false;
}

/* Also a program that one of the run's processes has started, traced or not. */
static bool belongs_to_the_run(uint32_t pid)
{
    for (unsigned i = 0; pid > 1 && i < PARENTS_MOST; i++) {
        if (is_of_the_run(pid))
            return true;
        pid = pt_process_parent(pid);
    }
    return false;
}

/* The place of a process; NULL: there are too many. */
static struct tracked *place_of(uint32_t pid)
{
    for (uint32_t at = pid * 2654435761u;; at++) {
        struct tracked *t = &tracked[at & (TRACKED - 1)];
        if (t->pid == pid)
            return t;
        if (!t->pid) {
            if (tracked_count == TRACKED / 2)
                return NULL;
            tracked_count++;
            *t = (struct tracked){.pid = pid};
            return t;
        }
    }
}

/* Forgets processes that have ended, when half of the places are taken. */
static void make_room(void)
{
    static struct tracked left[TRACKED / 2];
    unsigned count = 0;
    for (unsigned i = 0; i < TRACKED; i++)
        if (tracked[i].pid && tracked[i].look == look)
            left[count++] = tracked[i];
    memset(tracked, 0, sizeof tracked);
    tracked_count = 0;
    for (unsigned i = 0; i < count; i++)
        *place_of(left[i].pid) = left[i];
}

/* What a process has read from storage and written to it since the last look; false: not known. */
static bool traffic_of(const char *pid, struct traffic *found)
{
    char path[32], io[256];
    snprintf(path, sizeof path, "/proc/%.10s/io", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    long n = fd < 0 ? -1 : read(fd, io, sizeof io - 1);
    if (fd >= 0)
        close(fd);
    io[n > 0 ? n : 0] = 0;
    const char *read_bytes = strstr(io, "\nread_bytes: "), *written = strstr(io, "\nwrite_bytes: ");
    struct tracked *t = read_bytes && written ? place_of((uint32_t)strtoul(pid, NULL, 10)) : NULL;
    if (!t)
        return false;
    uint64_t read_now = strtoull(read_bytes + 13, NULL, 10), written_now = strtoull(written + 14, NULL, 10);
    bool same = read_now >= t->read && written_now >= t->written; /* else its number belongs to another one now */
    *found = (struct traffic){t->pid, read_now - (same ? t->read : 0), written_now - (same ? t->written : 0)};
    t->read = read_now;
    t->written = written_now;
    t->look = look;
    return true;
}

static void add_process(uint32_t kind, const struct traffic *t)
{
    char path[32];
    const uint64_t values[] = {t->read, t->written};
    snprintf(path, sizeof path, "/proc/%u/comm", t->pid);
    bool named = t->pid && read_proc(path);
    text[named ? strcspn(text, "\n") : 0] = 0;
    if (t->read + t->written)
        add(kind, t->pid, 0, text, values, 2);
}

static void look_at_processes(void)
{
    struct traffic named[NAMED_MOST + 1] = {{0}}, own = {0}, rest = {0}, one;
    DIR *proc = opendir("/proc");
    unread = 0;
    for (struct dirent *entry; proc && (entry = readdir(proc));) {
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
            continue;
        if (!traffic_of(entry->d_name, &one)) {
            unread++;
            continue;
        }
        if (!look || !(one.read + one.written))
            continue;
        if (belongs_to_the_run(one.pid)) {
            own.read += one.read;
            own.written += one.written;
            continue;
        }
        unsigned at = NAMED_MOST; /* sorted, most first; the last place is for the one that gives way */
        for (; at && named[at - 1].read + named[at - 1].written < one.read + one.written; at--)
            named[at] = named[at - 1];
        named[at] = one;
        rest.read += named[NAMED_MOST].read;
        rest.written += named[NAMED_MOST].written;
        named[NAMED_MOST] = (struct traffic){0};
    }
    if (proc)
        closedir(proc);
    for (unsigned i = 0; i < NAMED_MOST; i++)
        add_process(PT_SYSTEM_OTHER, &named[i]);
    add_process(PT_SYSTEM_OTHER, &rest);
    add_process(PT_SYSTEM_OWN, &own);
    if (tracked_count == TRACKED / 2)
        make_room();
}

/* ---- a look ------------------------------------------------------------------------------------- */

uint64_t sampler_look_at_system(const struct moment *m, uint64_t period)
{
    static uint64_t since, cost, unpaid;
    uint64_t used = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    row.begin = since ? since : m->now_ticks;
    row.ticks = m->now_ticks - row.begin;
    since = m->now_ticks;
    look_at_processes();
    look_at_disks();
    look_at_network();
    look_at_machine(cost);
    cost = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - used;
    unpaid += cost;
    uint64_t doubled = rows >> ROWS_SHIFT, pause = look ? unpaid * BUDGET : 0;
    unpaid = look ? 0 : unpaid;
    look++;
    period <<= doubled < SLOWEST_SHIFT ? doubled : SLOWEST_SHIFT;
    return m->now + (period > pause ? period : pause);
}
