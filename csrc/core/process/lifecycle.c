/* The lives of processes: their entries, fork, exec, end.
 *
 * A forked child gets its entry in the atfork handler, before any of its own code runs; a child of vfork in its first
 * hook (state/vfork_children.c).  How a process ended is written by itself (exit, _exit) or by the parent that waited
 * for it. */
#include "state/kernel_accounting.h"
#include "base/messages.h"
#include "base/proc.h"
#include "base/sys.h"
#include "log/file.h"
#include "log/intern.h"
#include "patch/patch.h"
#include "process/ending.h"
#include "process/process.h"
#include "redact/redact.h"
#include "state/mappings.h"
#include "state/path_strings.h"
#include "state/positions.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Whether this process began the run, perhaps before an exec.  The pid alone is no proof, since pids are reused. */
bool pt_is_owner(void)
{
    return pt.owner_pid == pt.pid && !pt.namespace_inode &&
           (!pt.owner_start || pt.owner_start == pt_process_start_time(0));
}

/* The entry that a joining process descends from: its own, from before an exec, or that of its nearest ancestor in
 * the run (a shell may stand between). */
static struct pt_process *entry_it_came_from(void)
{
    struct pt_process *p = pt_process_find(pt.pid);
    uint32_t pid = pt.pid;
    if (p && pt_process_has_ended(p))
        p = NULL; /* the id belonged to another process before */
    for (int i = 0; !p && pid > 1 && i < 64; i++) {
        pid = pt_process_parent(pid);
        p = pid > 1 ? pt_process_find(pid) : NULL;
    }
    return p;
}

void pt_process_end(struct pt_process *p, uint32_t kind, int status)
{
    if (!p)
        return;
    bool itself = (uint32_t)pt_sys6(SYS_getpid, 0, 0, 0, 0, 0, 0) == p->pid && p->namespace_inode == pt.namespace_inode;
    if (itself && p == pt.process && p != &pt_unlisted_process) {
        if (kind != PT_END_EXEC) /* the new program may still wait for them */
            pt_lost_children_end();
        bool all = kind != PT_END_EXEC ||
                   p->start != PT_START_FORK; /* fork, then exec: it has used no mapping of its parent */
        pt_mappings_end(all);
        pt_got_ends();
        pt_fd_identify_open_ones();
        pt_note_unseen_code();
        if (!(p->blind & PT_BLIND_IO_URING) && pt_ring_open_slow())
            __atomic_fetch_or(&p->blind, PT_BLIND_IO_URING, __ATOMIC_RELAXED);
        /* Last, to include our own reads just now, which the account of a parent includes too. */
        pt_account_ends(p);
    }
    p->end_by = itself ? 0 : pt.process_id;
    p->end_status = status;
    p->end_clock = pt_clock_pair();
    p->end = p->end_clock.ticks;
    __atomic_store_n(&p->end_kind, kind, __ATOMIC_RELEASE);
    if (itself || p == &pt_unlisted_process)
        pt_spare_end_slow(p, p != &pt_unlisted_process);
}

/* ---- fork --------------------------------------------------------------- */

/* Parent and child of a fork share their positions, so neither tracks them any more. */
void pt_has_forked(void)
{
    pt_ever_forked = true;
    pt_positions_all_shared();
}

/* Until the child has its entry, nobody may take the run for ended: its parent may be gone before it first runs. */
static void before_fork(void)
{
    pt_got_before_fork();
    pt_has_forked(); /* before the child can move a shared position */
    if (pt.base && !(pt.gate & PT_GATE_OFF))
        __atomic_fetch_add(&pt.header->forks_pending, 1, __ATOMIC_ACQ_REL);
}

void pt_fork_is_entered(void)
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
        pt_fork_is_entered();
}

/* pending: counted in header.forks_pending. */
void pt_enter_forked_child(bool pending)
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
    pt_stderr_give_up();           /* the run's first process is the one that speaks */
    if ((pt.gate & PT_GATE_OFF)) { /* tracing is stopped: the child is not traced */
        pt_threads_after_fork();
        return;
    }
    pt_spare_forked();
    pt_namespace_forked(parent);
    pt_sampler_name();
    pt_process_enter(PT_START_FORK, pt_self ? pt_self->forking : 0, pid, parent, &pt.process, &pt.process_id);
    struct pt_process *p = pt.process;
    pt.counters = p == &pt_unlisted_process ? (struct pt_counter *)(pt.base + PT_OVERFLOW_OFFSET)
                                            : (struct pt_counter *)((char *)p + PT_COUNTERS_OFFSET);
    bool listed = p != &pt_unlisted_process && from != &pt_unlisted_process;
    if (listed)
        p->followed = 1;
    if (pending) /* as early as possible: a child killed before this leaves the count too high */
        pt_fork_is_entered();
    if (listed) {
        struct pt_own_stat own = pt_own_stat();
        p->start_time = own.start_time;
        p->own_read = own.read; /* its account has begun with the fork */
        pt_account_begins(p, true, true);
        pt_mappings_forked();
        p->loaded = from->loaded;
        p->stack_state = from->stack_state;
        memcpy(&p->layout, &from->layout, offsetof(struct pt_layout, version));
        __atomic_store_n(&p->layout.version, from->layout.version, __ATOMIC_RELEASE);
        p->blind = from->blind;
        p->global_rank = from->global_rank; /* but not the name, which is its parent's own */
        p->local_rank = from->local_rank;
        p->world_size = from->world_size;
        p->node = from->node;
        p->job = from->job;
        p->step = from->step;
        p->job_run = from->job_run;
        memcpy(p->version, from->version, sizeof p->version);
        memcpy(p->note, from->note, sizeof p->note);
        pt_process_describe_like(p, from);
    }
    pt_threads_after_fork();
}

static void in_forked_child(void)
{
    pt_enter_forked_child(true);
}

/* ---- what is known of it ------------------------------------------------- */

/* A child of posix_spawn, known by its id and arguments only. */
void pt_spawned(uint32_t pid, const struct pt_call *call, const char *path, char *const *argv, bool awaited)
{
    struct pt_process *p;
    uint32_t id;
    if (!pt_process_enter(PT_START_SPAWN, pt_call_id(call), pid, pt.process_id, &p, &id))
        return;
    p->begin = call->begin; /* it may have joined before the call returned */
    p->awaited = awaited;
    pt_process_describe(p, path, argv);
}

static void describe_executable(struct pt_process *p, const char *path)
{
    p->executable[pt_redact(PT_REDACT_URL, path, strlen(path), p->executable, sizeof p->executable - 1)] = 0;
}

void pt_process_describe(struct pt_process *p, const char *path, char *const *argv)
{
    if (p == &pt_unlisted_process)
        return;
    if (path)
        describe_executable(p, path);
    p->argv_length = pt_redact_argv(argv, p->argv, sizeof p->argv);
}

void pt_process_found(uint32_t pid, uint32_t ppid, uint64_t start_time, const char *executable, const char *argv,
                      uint32_t argv_length)
{
    if ((pt.gate & PT_GATE_OFF) || !pt.process_id)
        return;
    struct pt_process *p = pt_process_find(pid), *parent = ppid == pt.pid ? pt.process : pt_process_find(ppid);
    uint32_t id;
    if ((p && !pt_process_has_ended(p)) || pid == pt.header->sampler_pid)
        return;
    if (!pt_process_enter(PT_START_FOUND, 0, pid, parent ? pt_id_of(parent) : 0, &p, &id))
        return;
    p->ppid = ppid;
    p->start_time = start_time;
    describe_executable(p, executable);
    p->argv_length = pt_redact_block(argv, argv_length, p->argv, sizeof p->argv);
}

static uint32_t string_or_none(const char *text)
{
    return text && *text ? pt_string(text, strlen(text), 0) : 0;
}

/* Fills the entry from the options. */
void pt_process_describe_self(const struct pt_options *o)
{
    struct pt_process *p = pt.process;
    p->stack_state = o->stacks;
    if (o->version)
        strncpy(p->version, o->version, sizeof p->version - 1);
    if (o->executable)
        describe_executable(p, o->executable);
    p->argv_length = o->argv ? pt_redact_block(o->argv, o->argv_length, p->argv, sizeof p->argv) : 0;
    p->global_rank = o->global_rank;
    p->local_rank = o->local_rank;
    p->world_size = o->world_size;
    p->node = string_or_none(o->node);
    p->job = string_or_none(o->job);
    p->step = string_or_none(o->step);
    p->job_run = string_or_none(o->job_run);
}

/* What a person calls this process, such as "DataLoader 0, worker 1", and its kind, "DataLoader worker".  The last name
 * counts. */
void pt_process_name(const char *kind, const char *name)
{
    if (!pt.process_id || (pt.gate & PT_GATE_OFF))
        return;
    __atomic_store_n(&pt.process->kind, pt_string(kind, strlen(kind), 0), __ATOMIC_RELAXED);
    __atomic_store_n(&pt.process->name, pt_command(name), __ATOMIC_RELEASE);
}

void pt_process_program(const char *packages)
{
    if (pt.process_id && pt.process != &pt_unlisted_process)
        __atomic_store_n(&pt.process->program, pt_string(packages, strlen(packages), 0), __ATOMIC_RELEASE);
}

void pt_process_setup_once(void)
{
    static bool done;
    if (done)
        return;
    done = true;
    pt_atfork(before_fork, after_fork_in_parent, in_forked_child);
    pt_last_in_exit_setup();
}

/* A program that had already begun has become this one.  If it gave the number of stderr to another file, that file is
 * no stderr of ours.  What a forked child does to its descriptors before its first exec is how it starts that program. */
static void take_over(const struct pt_process *from)
{
    if (from->end_kind == PT_END_EXEC && from->end_status == PT_EXEC_OTHER_STDERR &&
        (from->start == PT_START_TOP || from->start == PT_START_JOINED))
        pt_stderr_give_up();
}

/* Enters this process when tracing starts. */
void pt_process_begin(const struct pt_options *o)
{
    uint32_t start = pt.owns_run ? PT_START_TOP : PT_START_JOINED;
    struct pt_process *from = pt.owns_run ? NULL : entry_it_came_from();
    uint32_t started_by = 0;
    bool same = from && from->pid == pt.pid; /* an exec, or a spawn that already has an entry */
    if (same)
        take_over(from);
    if (!pt_is_owner())
        pt_stderr_give_up();
    if (same)
        started_by = from->exec_by;
    else if (from)
        started_by = pt_shell_of(from, o);
    pt_process_enter(start, started_by, pt.pid, from ? pt_id_of(from) : 0, &pt.process, &pt.process_id);
    struct pt_process *p = pt.process;
    pt.counters = p == &pt_unlisted_process ? (struct pt_counter *)(pt.base + PT_OVERFLOW_OFFSET)
                                            : (struct pt_counter *)((char *)p + PT_COUNTERS_OFFSET);
    if (p != &pt_unlisted_process) {
        struct pt_own_stat own = pt_own_stat();
        p->start_time = own.start_time;
        /* Must come before this process claims room in the log: join/processes/own_pages.py relies on it. */
        pt_account_begins(p, false, own.threads == 1);
        p->followed = 1;
    }
    /* What it was before an exec may have named another reader, which stays. */
    if (!same || from->end_kind != PT_END_EXEC || from->start == PT_START_VFORK)
        pt_sampler_name();
    if (same)
        from->awaited = 0;
    if (!o->create)
        pt_log_joined();
    if (p == &pt_unlisted_process)
        return;
    pt_cwd_refresh_slow();
    p->cwd = pt.cwd;
    pt_process_describe_self(o);
}
