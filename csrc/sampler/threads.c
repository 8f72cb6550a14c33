/* The threads of a process at one moment.
 *
 * The kernel's schedstat says how long a thread has run, how long it has waited for a processor, and how often it was
 * given one.  If none of these has changed, the thread has not moved, and nothing else of it is read. */
#include "sampler.h"

#include "base/sys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INTERPRETERS_MOST 64u
#define LISTED_EVERY 16u            /* rounds between lists of the threads of a process that cannot be read */
#define LATE 500000u                /* ns: of waiting for a processor, at least, that make a thread late */
#define NAMES_US_WITHIN 500000000ll /* ns */

static struct view view;

/* ---- the kernel's files ---------------------------------------------------------- */

static bool read_file(int fd, char *text, size_t room)
{
    long n = fd < 0 ? -1 : pt_sys(SYS_pread64, fd, text, room - 1, 0);
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

/* False: the thread has ended. */
static bool read_schedstat(struct thread *t)
{
    char text[96], *at = text;
    if (!read_file(t->schedstat, text, sizeof text))
        return false;
    t->cpu_now = strtoull(at, &at, 10);
    t->delay_now = strtoull(at, &at, 10);
    t->slices_now = strtoull(at, &at, 10);
    return true;
}

static bool has_run(const struct thread *t)
{
    return !t->known || t->state == PT_SAMPLE_RUNNING || t->cpu_now != t->cpu || t->slices_now != t->slices;
}

/* What a thread waits for in a system call. */
static uint8_t state_in(long number, bool in_gil)
{
    switch (number) {
    case SYS_futex: return in_gil ? PT_SAMPLE_GIL : PT_SAMPLE_LOCK;
    case SYS_nanosleep:
    case SYS_clock_nanosleep: return PT_SAMPLE_SLEEP;
#if defined(SYS_poll)
    case SYS_poll:
    case SYS_select:
    case SYS_epoll_wait:
#endif
    case SYS_ppoll:
    case SYS_pselect6:
    case SYS_epoll_pwait: return PT_SAMPLE_POLL;
    case SYS_wait4:
    case SYS_waitid: return PT_SAMPLE_WAIT;
    case -1: return PT_SAMPLE_FAULT; /* asleep outside system calls: a page fault, or stopped */
    default: return PT_SAMPLE_SYSTEM_CALL;
    }
}

static uint8_t read_state(const struct process *p, const struct thread *t)
{
    char text[256], *at;
    if (!read_file(t->syscall, text, sizeof text) || *text == 'r')
        return PT_SAMPLE_RUNNING;
    long number = strtol(text, &at, 10);
    uint64_t first = strtoull(at, NULL, 16);
    return state_in(number, p->gil && first >= p->gil && first - p->gil < p->layout.gil_size);
}

/* A thread that has been woken and waits for a processor: nothing that the kernel counts has changed yet, but it is no
 * longer blocked.  Only asked of threads that waited noticeably the last time they ran: elsewhere this takes no time. */
static void notice_waking(const struct process *p, struct thread *t)
{
    if (t->late && !has_run(t) && read_state(p, t) == PT_SAMPLE_RUNNING)
        t->state = PT_SAMPLE_RUNNING;
}

/* ---- the table of threads --------------------------------------------------------- */

static int open_file(const struct process *p, uint32_t tid, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%u/%s", p->pid, tid, name);
    return (int)pt_sys(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
}

static void close_files(const struct thread *t)
{
    if (t->schedstat >= 0)
        pt_sys(SYS_close, t->schedstat);
    if (t->syscall >= 0)
        pt_sys(SYS_close, t->syscall);
}

static void drop(struct process *p, unsigned i)
{
    close_files(&p->threads[i]);
    p->threads[i] = p->threads[--p->count];
}

void sampler_forget_threads(struct process *p)
{
    while (p->count)
        drop(p, 0);
    free(p->threads);
    p->threads = NULL;
    p->room = 0;
}

static bool make_room(struct process *p)
{
    if (p->count < p->room)
        return true;
    unsigned room = p->room ? 2 * p->room : 8;
    struct thread *more = room <= THREADS_MOST ? realloc(p->threads, room * sizeof *more) : NULL;
    if (!more)
        return false;
    p->threads = more;
    p->room = room;
    return true;
}

/* NULL: the process has no such thread. */
static struct thread *thread_of(struct process *p, uint32_t tid)
{
    for (unsigned i = 0; i < p->count; i++)
        if (p->threads[i].tid == tid)
            return &p->threads[i];
    if (!tid || tid > INT32_MAX || !make_room(p))
        return NULL;
    struct thread fresh = {.tid = tid, .schedstat = open_file(p, tid, "schedstat"), .syscall = -1};
    if (fresh.schedstat < 0) {
        if (fresh.schedstat == -EMFILE || fresh.schedstat == -ENFILE)
            sampler_note_unseen();
        return NULL;
    }
    fresh.syscall = open_file(p, tid, "syscall");
    p->threads[p->count] = fresh;
    struct thread *t = &p->threads[p->count++];
    if (read_schedstat(t))
        return t;
    drop(p, p->count - 1);
    return NULL;
}

/* ---- a look ------------------------------------------------------------------------- */

/* A new thread is assumed to have begun halfway between the last look and this one. */
static void add(const struct process *p, struct thread *t, const struct moment *m)
{
    struct moment since = *m;
    if (t->known) {
        sampler_add(p, t, m, t->cpu_now - t->cpu, t->delay_now - t->delay);
    } else {
        since.from += (m->now - m->from) / 2;
        since.from_ticks += (m->now_ticks - m->from_ticks) / 2;
        sampler_add(p, t, &since, 0, 0);
    }
    if (t->cpu_now != t->cpu || t->slices_now != t->slices)
        t->late = t->known && t->delay_now - t->delay >= LATE;
    t->known = true;
    t->cpu = t->cpu_now;
    t->delay = t->delay_now;
    t->slices = t->slices_now;
}

static void look_at_thread(struct process *p, const struct moment *m)
{
    struct thread *t = thread_of(p, (uint32_t)word_in(view.state, p->layout.ts_tid));
    if (!t || t->seen) /* a thread that serves two interpreters is listed twice */
        return;
    t->seen = true;
    if (has_run(t)) {
        t->state = read_state(p, t);
        t->flags = 0;
        t->stack = p->depth && !sampler_log_is_full ? sampler_stack(p, t, &view, m->now, &t->flags) : 0;
    }
    add(p, t, m);
}

static const struct thread *thread_at(const struct process *p, uint64_t at)
{
    for (unsigned i = 0; i < p->count; i++)
        if (p->threads[i].state_at == at)
            return &p->threads[i];
    return NULL;
}

static void look_at_interpreters(struct process *p, uint64_t interpreter, const struct moment *m)
{
    const struct pt_layout *l = &p->layout;
    for (unsigned i = 0; interpreter && i < INTERPRETERS_MOST; i++) {
        p->gil = l->version >= 0x30c ? sampler_read_word(p, interpreter + l->gil) : l->runtime + l->gil;
        uint64_t at = sampler_read_word(p, interpreter + l->is_threads);
        for (unsigned k = 0; at && k < THREADS_MOST; k++) {
            if (!sampler_take_view(p, thread_at(p, at), at, &view))
                break;
            uint64_t next = word_in(view.state, l->ts_next);
            look_at_thread(p, m);
            at = next;
        }
        interpreter = sampler_read_word(p, interpreter + l->is_next);
    }
}

/* Of a process whose memory may not be read, only the kernel's figures are known. */
static void look_from_afar(struct process *p, const struct moment *m)
{
    if (m->round - p->listed >= LISTED_EVERY || !p->listed) {
        char path[32];
        snprintf(path, sizeof path, "/proc/%d/task", p->pid);
        DIR *threads = opendir(path);
        p->listed = m->round;
        for (struct dirent *entry; threads && (entry = readdir(threads));)
            thread_of(p, (uint32_t)strtoul(entry->d_name, NULL, 10));
        if (threads)
            closedir(threads);
    }
    for (unsigned i = 0; i < p->count; i++) {
        struct thread *t = &p->threads[i];
        t->seen = true;
        t->state = PT_SAMPLE_RUNNING;
        t->stack = 0;
        t->flags = PT_SAMPLE_UNREADABLE;
        if (!t->known || t->cpu_now != t->cpu)
            add(p, t, m);
    }
}

/* Under Yama a process has to name us first, and a new one may not have done so yet. */
static bool may_name_us(const struct process *p, const struct moment *m)
{
    return __atomic_load_n(&pt.header->names_sampler, __ATOMIC_RELAXED) && (int64_t)m->now - p->since < NAMES_US_WITHIN;
}

void sampler_look_at(struct process *p, const struct moment *m)
{
    bool changed = !p->count;
    for (unsigned i = 0; i < p->count;) {
        struct thread *t = &p->threads[i];
        t->seen = false;
        if (!read_schedstat(t)) {
            drop(p, i);
            changed = true;
            continue;
        }
        notice_waking(p, t);
        changed |= has_run(t);
        i++;
    }
    if (!changed) { /* nor has any of them begun another one */
        for (unsigned i = 0; i < p->count; i++)
            add(p, &p->threads[i], m);
        return;
    }
    sampler_read_error = 0;
    uint64_t interpreter = p->refused ? 0 : sampler_read_word(p, p->layout.runtime + p->layout.rt_head);
    if (!interpreter && (sampler_read_error == EPERM || sampler_read_error == ENOSYS) && !may_name_us(p, m))
        sampler_refuse(p, sampler_reason(p, sampler_read_error));
    if (p->refused)
        look_from_afar(p, m);
    else
        look_at_interpreters(p, interpreter, m);
    for (unsigned i = 0; i < p->count;)
        if (p->threads[i].seen)
            i++;
        else
            drop(p, i);
}
