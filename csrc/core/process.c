/* The lives of processes: entering the process table, fork, vfork, exec, end.
 *
 * A forked child is entered by the atfork handler, before any of its own code
 * runs; one of vfork's by its first hook (vforks.c).  How a process ended is
 * written by itself (exit, _exit) or by the parent that waited for it. */
#include "measure.h"
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct pt_process unlisted; /* when there was no room for an entry */
bool pt_ever_forked;

/* A field of /proc/PID/stat, by its number in proc(5); 0 if it cannot be read. */
static uint64_t stat_field(const char *path, int wanted)
{
    char text[1024];
    long fd = pt_sys(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    long n = pt_sys(SYS_read, fd, text, sizeof text - 1);
    pt_sys(SYS_close, fd);
    text[n > 0 ? n : 0] = 0;
    char *p = strrchr(text, ')'); /* the name may hold anything */
    for (int field = 2; p && field < wanted; field++)
        p = strchr(p + 1, ' ');
    uint64_t value = 0;
    for (p = p ? p + 1 : NULL; p && *p >= '0' && *p <= '9'; p++)
        value = value * 10 + (uint64_t)(*p - '0');
    return value;
}

static uint64_t start_time_of_self(void)
{
    return stat_field("/proc/self/stat", 22);
}

static bool has_ended(const struct pt_process *p)
{
    return p->end_kind == PT_END_EXIT || p->end_kind == PT_END_SIGNAL;
}

/* The entry that a joining process came from: its own, from before an exec, or
 * that of the nearest ancestor in the run (a shell may stand between). */
static struct pt_process *entry_it_came_from(void)
{
    struct pt_process *p = pt_process_find(pt.pid);
    uint32_t pid = pt.pid;
    if (p && has_ended(p))
        p = NULL; /* the number was another process's before */
    for (int i = 0; !p && pid > 1 && i < 64; i++) {
        char path[32];
        snprintf(path, sizeof path, "/proc/%u/stat", pid);
        pid = (uint32_t)stat_field(path, 4);
        p = pid > 1 ? pt_process_find(pid) : NULL;
    }
    return p;
}

/* Among thousands of processes, a walk of the whole list would be a page fault for each. */
static uint32_t *bucket_of(uint32_t pid)
{
    return (uint32_t *)(pt.base + PT_PROCESS_INDEX_OFFSET) + pid % PT_PROCESS_BUCKETS;
}

static void push(uint32_t *newest, uint32_t *next, uint32_t id)
{
    uint32_t head = __atomic_load_n(newest, __ATOMIC_ACQUIRE);
    do
        __atomic_store_n(next, head, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(newest, &head, id, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE));
}

bool pt_process_enter(uint32_t start, uint32_t started_by, uint32_t pid, uint32_t parent, struct pt_process **process,
                      uint32_t *process_id)
{
    struct pt_chunk *c = pt_chunk_claim_slow(PT_CHUNK_PROCESS, PT_PROCESS_CHUNK, 0, 0, 0);
    if (!c) {
        *process = &unlisted;
        *process_id = 0;
        return false;
    }
    struct pt_process *p = (struct pt_process *)c;
    uint32_t id = pt_id_of(c);
    c->process = id;
    p->pid = pid;
    p->ppid = start == PT_START_VFORK || start == PT_START_SPAWN ? pt.pid : (uint32_t)pt_sys6(SYS_getppid, 0, 0, 0, 0, 0, 0);
    p->parent = parent;
    p->started_by = started_by;
    p->start = start;
    p->begin = pt_ticks();
    p->cwd = pt.cwd;
    push(&pt.header->processes, &p->previous, id);
    push(bucket_of(pid), &p->bucket_next, id);
    *process = p;
    *process_id = id;
    return true;
}

void pt_process_end(struct pt_process *p, uint32_t kind, int status)
{
    if (!p)
        return;
    if (p == pt.process && p != &unlisted && (uint32_t)pt_sys6(SYS_getpid, 0, 0, 0, 0, 0, 0) == p->pid) {
        bool all = kind != PT_END_EXEC || p->start != PT_START_FORK; /* fork and exec: it has used nothing of its parent's */
        pt_account_ends(p);
        pt_mappings_end(all);
        if (!(p->blind & PT_BLIND_IO_URING) && pt_ring_open_slow())
            __atomic_fetch_or(&p->blind, PT_BLIND_IO_URING, __ATOMIC_RELAXED);
    }
    p->end_status = status;
    p->end_clock = pt_clock_pair();
    p->end = p->end_clock.ticks;
    __atomic_store_n(&p->end_kind, kind, __ATOMIC_RELEASE);
}

/* The process list, newest first.  Bounded: it lives in a file that anybody may have written to. */
static struct pt_process *at_process(uint32_t id)
{
    return id && ((uint64_t)id << PT_ID_SHIFT) + sizeof(struct pt_process) <= pt.mapped ? pt_at(id) : NULL;
}
#define PT_EACH_PROCESS(p)                                                                                       \
    struct pt_process *p = at_process(__atomic_load_n(&pt.header->processes, __ATOMIC_ACQUIRE));                 \
    for (int walked = 0; p && walked < 1000000; p = at_process(p->previous), walked++)

/* The newest entry of a pid. */
struct pt_process *pt_process_find(uint32_t pid)
{
    struct pt_process *p = at_process(__atomic_load_n(bucket_of(pid), __ATOMIC_ACQUIRE));
    for (int walked = 0; p && walked < 1000000; p = at_process(p->bucket_next), walked++)
        if (p->pid == pid)
            return p;
    return NULL;
}

/* The process that an operation has started, if it has entered itself. */
struct pt_process *pt_process_started_by(uint32_t record)
{
    PT_EACH_PROCESS(p)
        if (p->started_by == record)
            return p;
    return NULL;
}

static bool exists(const struct pt_process *p)
{
    return pt_sys(SYS_kill, p->pid, 0) != -ESRCH; /* -EPERM: it has become another user's */
}

/* Does another process of the run still write to the log? */
bool pt_process_others_live(void)
{
    if (__atomic_load_n(&pt.header->forks_pending, __ATOMIC_ACQUIRE))
        return true;
    uint32_t last = 0;
    PT_EACH_PROCESS(p) {
        if (p->pid != pt.pid && p->followed == 1 && p->end_kind == PT_END_UNKNOWN && exists(p))
            return true;
        last = p->previous;
    }
    return last != 0; /* beyond what this process maps: not to be known from here */
}

/* Is there a program that was started with all it needs to join the run, and has not done so yet? */
bool pt_process_others_awaited(void)
{
    PT_EACH_PROCESS(p)
        if (p->awaited && p->pid != pt.pid && !has_ended(p) && pt_process_find(p->pid) == p && exists(p))
            return true;
    return false;
}

/* ---- fork --------------------------------------------------------------- */

/* A fork's child shares its positions with its parent: neither follows the other. */
void pt_has_forked(void)
{
    pt_ever_forked = true;
    pt_profile_all_shared();
}

/* Until the child has entered itself, nobody may take the run for ended: its
 * parent may be gone before it first runs. */
static void before_fork(void)
{
    pt_got_before_fork();
    pt_has_forked(); /* before the child can move what both share */
    if (pt.base && !(pt.gate & PT_GATE_OFF))
        __atomic_fetch_add(&pt.header->forks_pending, 1, __ATOMIC_ACQ_REL);
}

static void fork_is_entered(void)
{
    __atomic_fetch_sub(&pt.header->forks_pending, 1, __ATOMIC_ACQ_REL);
}

static void after_fork_in_parent(void)
{
    pt_got_after_fork(false);
}

void pt_fork_failed(void)
{
    if (pt.base && !(pt.gate & PT_GATE_OFF))
        fork_is_entered();
}

void pt_enter_forked_child(void)
{
    pt_got_after_fork(true);
    if (!pt.base)
        return;
    pt_has_forked();
    uint32_t parent = pt.process_id;
    uint32_t pid = (uint32_t)pt_sys6(SYS_getpid, 0, 0, 0, 0, 0, 0);
    struct pt_process *from = pt.process;
    pt.pid = pid;
    pt.owns_run = false;
    if ((pt.gate & PT_GATE_OFF)) { /* stopped: nothing of the child is traced */
        pt_threads_after_fork();
        return;
    }
    pt_process_enter(PT_START_FORK, pt_self ? pt_self->forking : 0, pid, parent, &pt.process, &pt.process_id);
    struct pt_process *p = pt.process;
    pt.counters = p == &unlisted ? (struct pt_counter *)(pt.base + PT_OVERFLOW_OFFSET)
                                 : (struct pt_counter *)((char *)p + PT_COUNTERS_OFFSET);
    if (p != &unlisted && from != &unlisted) {
        p->start_time = start_time_of_self();
        pt_account_begins(p, true);
        pt_mappings_forked();
        p->followed = 1;
        p->stack_state = from->stack_state;
        p->blind = from->blind;
        p->argv_length = from->argv_length;
        memcpy(p->version, from->version, sizeof p->version);
        memcpy(p->note, from->note, sizeof p->note);
        memcpy(p->executable, from->executable, sizeof p->executable);
        memcpy(p->argv, from->argv, sizeof p->argv);
    }
    pt_threads_after_fork();
}

static void in_forked_child(void)
{
    pt_enter_forked_child();
    if (pt.base && !(pt.gate & PT_GATE_OFF))
        fork_is_entered();
}

/* ---- what is known of it ------------------------------------------------- */

/* A child that posix_spawn made: known by its pid and arguments only. */
void pt_spawned(uint32_t pid, const struct pt_call *call, const char *path, char *const *argv, bool awaited)
{
    struct pt_process *p;
    uint32_t id;
    if (!pt_process_enter(PT_START_SPAWN, pt_call_id(call), pid, pt.process_id, &p, &id))
        return;
    p->begin = call->begin; /* it may have joined by itself before the call returned */
    p->awaited = awaited;
    pt_process_describe(p, path, argv);
}

void pt_process_describe(struct pt_process *p, const char *path, char *const *argv)
{
    if (p == &unlisted)
        return;
    if (path)
        memcpy(p->executable, path, strnlen(path, sizeof p->executable - 1) + 1);
    p->executable[sizeof p->executable - 1] = 0;
    uint32_t at = 0;
    for (; argv && *argv && at < sizeof p->argv; argv++) {
        size_t n = strnlen(*argv, sizeof p->argv - at - 1);
        memcpy(p->argv + at, *argv, n);
        p->argv[at + n] = 0;
        at += (uint32_t)n + 1;
    }
    p->argv_length = at;
}

/* As the options tell it. */
void pt_process_describe_self(const struct pt_options *o)
{
    struct pt_process *p = pt.process;
    p->stack_state = o->stacks;
    if (o->version)
        strncpy(p->version, o->version, sizeof p->version - 1);
    if (o->executable)
        strncpy(p->executable, o->executable, sizeof p->executable - 1);
    p->argv_length = o->argv_length < sizeof p->argv ? o->argv_length : sizeof p->argv;
    if (o->argv)
        memcpy(p->argv, o->argv, p->argv_length);
}

void pt_process_setup_once(void)
{
    static bool done;
    if (done)
        return;
    done = true;
    pt_atfork(before_fork, after_fork_in_parent, in_forked_child);
    pt_finish_setup_once();
}

/* This process, as pt_start finds it. */
void pt_process_begin(const struct pt_options *o)
{
    uint32_t start = o->create ? PT_START_TOP : PT_START_JOINED;
    struct pt_process *from = o->create ? NULL : entry_it_came_from();
    uint32_t started_by = 0;
    bool same = from && from->pid == pt.pid; /* exec, or a spawn that has noted itself already */
    if (same)
        started_by = from->exec_by;
    else if (from)
        started_by = pt_shell_of(from, o);
    pt_process_enter(start, started_by, pt.pid, from ? pt_id_of(from) : 0, &pt.process, &pt.process_id);
    struct pt_process *p = pt.process;
    pt.counters = p == &unlisted ? (struct pt_counter *)(pt.base + PT_OVERFLOW_OFFSET)
                                 : (struct pt_counter *)((char *)p + PT_COUNTERS_OFFSET);
    if (p != &unlisted) {
        p->start_time = start_time_of_self();
        p->followed = 1;
    }
    if (same)
        from->awaited = 0;
    if (!o->create)
        pt_log_joined();
    if (p == &unlisted)
        return;
    pt_cwd_refresh_slow();
    p->cwd = pt.cwd;
    pt_process_describe_self(o);
    pt_account_begins(p, false);
}
