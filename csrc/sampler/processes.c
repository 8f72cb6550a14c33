/* The processes of the run, from the log's table.
 *
 * An entry may be forged: a process of the run that has dropped its privileges still has the log mapped.  So a process
 * is read only if it was started when the entry says (if it says so), belongs to our user, and has the log mapped.  The
 * log is private, so another user's process cannot have it mapped.  The layout is copied once, and checked.  Of a
 * process that is undumpable or another user's, we take only what the kernel tells everybody: its threads' processor
 * time. */
#include "sampler.h"

#include "base/proc.h"
#include "base/sys.h"
#include "log/process_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if !defined(SYS_pidfd_open)
#define SYS_pidfd_open 434
#endif
#define STEPS_MOST 4096u        /* entries checked in one round */
#define WAITED_FOR 2000000000ll /* ns: for an entry to be filled in */

struct process *sampler_processes[PROCESSES_MOST];
unsigned sampler_process_count;
static uint32_t newest; /* id of the entry that was the newest last time */

static void note_refused(int error)
{
    uint32_t none = 0;
    __atomic_compare_exchange_n(&pt.header->sampler_refused, &none, (uint32_t)error, false, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- is it one of ours? ---------------------------------------------------------- */

/* Looks in /proc/PID/maps for the file `wanted` or, if that is NULL, for the file that is mapped at an address.  place gets
 * its device and inode, in the spelling of /proc.
 *
 * Returns 0 if it is there, EACCES if it is not or we may not read the list, and ESRCH if the list is gone or empty,
 * which means that the process is ending. */
static int find_mapping(const char *path, uintptr_t at, char place[64], const char *wanted)
{
    FILE *maps = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    if (!maps)
        return errno == EACCES || errno == EPERM ? EACCES : ESRCH;
    int error = ESRCH;
    while (error && getline(&line, &room, maps) > 0) {
        unsigned long low, high, number;
        char device[24];
        error = EACCES;
        if (sscanf(line, "%lx-%lx %*s %*s %23s %lu", &low, &high, device, &number) != 4 || !number)
            continue;
        snprintf(place, 64, "%s %lu", device, number);
        if (wanted ? strcmp(place, wanted) == 0 : at >= low && at < high)
            error = 0;
    }
    free(line);
    fclose(maps);
    return error;
}

/* Whether a process has our log mapped.  Returns what find_mapping() does. */
static int find_our_log(int pid)
{
    static char ours[64];
    char path[32], other[64];
    int error = EACCES;
    if (!*ours && find_mapping("/proc/self/maps", (uintptr_t)pt.base, ours, NULL) != 0) {
        *ours = 0;
        return EACCES;
    }
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    for (int i = 0; i < 2; i++) { /* twice: a process that ends while its maps are read shows only some of them */
        error = find_mapping(path, 0, other, ours);
        if (error != EACCES)
            break;
    }
    return error;
}

enum whose { NOBODYS, OURS, ANOTHERS }; /* NOBODYS: the process has ended */

/* Whose process it is.  The owner of /proc/PID is no answer, because for an undumpable process that is root. */
static enum whose whose(int pid)
{
    char path[32], text[2048];
    unsigned real, effective;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    long fd = pt_sys(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    long n = fd < 0 ? -1 : pt_sys(SYS_read, fd, text, sizeof text - 1);
    if (fd >= 0)
        pt_sys(SYS_close, fd);
    text[n > 0 ? n : 0] = 0;
    const char *line = strstr(text, "\nUid:");
    if (!line || sscanf(line, " Uid: %u %u", &real, &effective) != 2)
        return NOBODYS;
    return real == geteuid() && effective == geteuid() ? OURS : ANOTHERS;
}

/* Whether the kernel lets us see what it hides of other users' processes and of undumpable ones. */
static bool is_open_to_us(int pid)
{
    char path[32], program[16];
    snprintf(path, sizeof path, "/proc/%d/exe", pid);
    long n = pt_sys(SYS_readlinkat, AT_FDCWD, path, program, sizeof program);
    return n != -EACCES && n != -EPERM;
}

/* Root may read everybody.  A process that has dropped root's rights could name root's processes in the log, and have
 * us read them.  So once there is such a process, no more are taken. */
static bool may_be_misled(void)
{
    for (unsigned i = 0; i < sampler_process_count && geteuid() == 0; i++)
        if (sampler_processes[i]->pidfd >= 0 && whose(sampler_processes[i]->pid) == ANOTHERS)
            return true;
    return false;
}

/* Notes in the log why a process is not read, and counts it. */
void sampler_refuse(struct process *p, int error)
{
    if (p->refused)
        return;
    p->refused = true;
    note_refused(error);
    __atomic_fetch_add(&pt.header->sampler_unread, 1, __ATOMIC_RELAXED);
}

/* Whether a process may not be read because it is another user's or undumpable; if not, the kernel lets nobody read. */
int sampler_reason(const struct process *p, int error)
{
    return error == EPERM && !is_open_to_us(p->pid) ? EACCES : error;
}

void sampler_note_unseen(void)
{
    note_refused(EMFILE);
    __atomic_fetch_add(&pt.header->sampler_unseen, 1, __ATOMIC_RELAXED);
}

/* Returns 0, ESRCH if the process has ended, or another errno if it is not one of ours. */
static int take(struct process *p)
{
    const struct pt_process *e = p->entry;
    uint32_t pid = e->namespace_inode ? e->outer_pid : e->pid;
    if (!pid || pid > INT32_MAX || pid == (uint32_t)getpid())
        return ESRCH;
    p->pid = (int)pid;
    p->start_time = e->start_time;
    p->pidfd = (int)pt_sys(SYS_pidfd_open, p->pid, 0);
    if (p->pidfd < 0)
        return -p->pidfd; /* ENOSYS: before Linux 5.3, where its end could be missed */
    bool forbidden = whose(p->pid) != OURS || !is_open_to_us(p->pid) || may_be_misled();
    int error = find_our_log(p->pid); /* last: it also tells whether the process has ended meanwhile */
    if (error == EACCES && __atomic_load_n(&e->end_kind, __ATOMIC_ACQUIRE) != PT_END_UNKNOWN)
        return ESRCH; /* it has just called exec */
    if (error == ESRCH || (p->start_time ? pt_process_start_time(pid) != p->start_time : error))
        return ESRCH;
    if (forbidden)
        sampler_refuse(p, EACCES);
    return forbidden ? 0 : error;
}

/* ---- its layout -------------------------------------------------------------------- */

static bool lie_within(const uint16_t *offsets, unsigned count, unsigned size, unsigned room)
{
    for (unsigned i = 0; i < count; i++)
        if (offsets[i] + size > room)
            return false;
    return true;
}
#define LIE_WITHIN(size, room, ...) \
    lie_within((const uint16_t[]){__VA_ARGS__}, sizeof((uint16_t[]){__VA_ARGS__}) / sizeof(uint16_t), size, room)

static bool is_usable(const struct pt_layout *l)
{
    return l->version >= 0x30b && l->version < 0x400 && l->runtime &&
           LIE_WITHIN(8, STATE_ROOM, l->ts_next, l->ts_tid, l->ts_chunk, l->ts_top, l->ts_frame) &&
           l->fr_size <= FRAME_ROOM && LIE_WITHIN(8, l->fr_size, l->fr_code, l->fr_instruction, l->fr_previous) &&
           LIE_WITHIN(8, l->fr_size, l->fr_top) && LIE_WITHIN(1, l->fr_size, l->fr_owner, l->fr_entry) &&
           l->co_bytes <= CODE_ROOM && LIE_WITHIN(8, l->co_bytes, l->co_file, l->co_name, l->co_table) &&
           LIE_WITHIN(4, l->co_bytes, l->co_first, l->co_flags) && l->str_ascii_data <= OBJECT_ROOM &&
           LIE_WITHIN(4, l->str_ascii_data, l->str_state) && LIE_WITHIN(8, l->str_ascii_data, l->str_length) &&
           l->bytes_data <= OBJECT_ROOM && LIE_WITHIN(8, l->bytes_data, l->bytes_size);
}

/* The layout comes later than the entry: when Python starts, or in the child of a fork. */
static bool has_layout(struct process *p)
{
    if (p->layout.version)
        return true;
    if (!__atomic_load_n(&p->entry->layout.version, __ATOMIC_ACQUIRE))
        return false;
    p->layout = p->entry->layout;
    if (!is_usable(&p->layout)) {
        p->layout.version = 0;
        return false;
    }
    uint32_t stacks = p->entry->stack_state;
    p->depth = stacks == PT_STACKS_FULL ? DEEPEST : stacks == PT_STACKS_SITE ? 8 : 0;
    return true;
}

/* ---- the table ------------------------------------------------------------------------- */

static void drop(unsigned i)
{
    struct process *p = sampler_processes[i];
    sampler_forget_threads(p);
    if (p->pidfd >= 0)
        pt_sys(SYS_close, p->pidfd);
    free(p);
    sampler_processes[i] = sampler_processes[--sampler_process_count];
}

static void add(uint32_t id)
{
    const struct pt_process *entry = pt_process_at(id);
    struct process *p = entry ? calloc(1, sizeof *p) : NULL;
    if (p && sampler_process_count == PROCESSES_MOST) {
        sampler_note_unseen();
        free(p);
        p = NULL;
    }
    if (!p)
        return;
    p->id = id;
    p->entry = entry;
    p->pidfd = -1;
    p->since = now_ns();
    sampler_processes[sampler_process_count++] = p;
}

/* Takes the entries that were added since the last round. */
static void add_new(void)
{
    uint32_t head = __atomic_load_n(&pt.header->processes, __ATOMIC_ACQUIRE), id = head;
    for (unsigned i = 0; id && id != newest && i < STEPS_MOST; i++) {
        const struct pt_process *entry = pt_process_at(id);
        add(id);
        id = entry ? __atomic_load_n(&entry->previous, __ATOMIC_ACQUIRE) : 0;
    }
    newest = head;
}

/* Drops the program that a process was before an exec. */
static void drop_earlier(const struct process *of)
{
    for (unsigned i = 0; i < sampler_process_count;)
        if (sampler_processes[i] != of && sampler_processes[i]->pid == of->pid)
            drop(i);
        else
            i++;
}

static uint32_t end_of(const struct process *p)
{
    return __atomic_load_n(&p->entry->end_kind, __ATOMIC_ACQUIRE);
}

/* A process that has called exec may join the run again, as another program. */
static bool is_over(const struct process *p)
{
    uint32_t end = end_of(p);
    if (p->gone || (end != PT_END_UNKNOWN && end != PT_END_EXEC))
        return true;
    return p->pidfd < 0 && (end == PT_END_EXEC || now_ns() - p->since > WAITED_FOR);
}

bool sampler_is_readable(struct process *p)
{
    return p->pidfd >= 0 && !p->gone && end_of(p) == PT_END_UNKNOWN && (p->refused || has_layout(p));
}

/* A process that sees no /proc, as in a chroot, cannot say when it was started.  Its entry is complete once it has a
 * layout, which comes last. */
static bool is_filled_in(const struct pt_process *e)
{
    return __atomic_load_n(&e->followed, __ATOMIC_ACQUIRE) == 1 &&
           (e->start_time || __atomic_load_n(&e->layout.version, __ATOMIC_ACQUIRE));
}

/* Whether another process may still join the run: one that has been started and has no entry yet, or one that is
 * becoming another program. */
bool sampler_expects_another(void)
{
    const struct pt_process *last = pt_process_at(newest);
    return pt_process_others_live() || pt_process_others_awaited() ||
           (last && __atomic_load_n(&last->end_kind, __ATOMIC_ACQUIRE) == PT_END_EXEC);
}

void sampler_update_processes(void)
{
    add_new();
    for (unsigned i = 0; i < sampler_process_count;) {
        struct process *p = sampler_processes[i];
        if (is_over(p)) {
            drop(i);
            continue;
        }
        if (p->pidfd < 0 && is_filled_in(p->entry)) {
            int error = take(p);
            if (error) {
                if (error == EMFILE || error == ENFILE)
                    sampler_note_unseen();
                else if (error != ESRCH)
                    sampler_refuse(p, error);
                drop(i);
                continue;
            }
            uint32_t id = p->id;
            drop_earlier(p);
            for (i = 0; i < sampler_process_count && sampler_processes[i]->id != id;)
                i++; /* drop_earlier() may have moved it */
        }
        i++;
    }
}
