/* Starts the sampler (csrc/sampler): a process beside the run that looks from outside at what its threads do.
 *
 * The program must neither wait for the sampler nor get a SIGCHLD from it.  So a child of ours starts it and ends at
 * once, and process 1 adopts it.  That child shares our memory and sends no signal when it ends (clone with exit signal
 * 0), so only we know of it.
 *
 * A program that adopts orphans itself (process 1 of a container, a subreaper) would become the sampler's parent again.
 * There the sampler stays a child with exit signal 0, which wait() without __WALL or __WCLONE does not see.  An exec
 * would reset that signal, so program.c loads the program into the child without one. */
#include "base/memory.h"
#include "base/proc.h"
#include "base/sys.h"
#include "finisher/finisher.h"
#include "log/file.h"
#include "log/process_table.h"
#include "process/process.h"
#include "process/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if !defined(AT_EMPTY_PATH)
#define AT_EMPTY_PATH 0x1000
#endif
#if !defined(O_PATH)
#define O_PATH 010000000
#endif
#if !defined(SYS_execveat)
#define SYS_execveat PT_BY_ARCH(322, 281)
#endif
#if !defined(PR_GET_CHILD_SUBREAPER)
#define PR_GET_CHILD_SUBREAPER 37
#endif
#if !defined(PR_SET_PTRACER)
#define PR_SET_PTRACER 0x59616d61
#endif
#if !defined(SYS_pidfd_send_signal)
#define SYS_pidfd_send_signal 424
#endif
#if !defined(SYS_pidfd_open)
#define SYS_pidfd_open 434
#endif
#define PT_CLOSE_RANGE_CLOEXEC 4
#define STACK (32u << 10)    /* of each of the two children; they make system calls, and look up the log */
#define ITS_STACK (1u << 20) /* of a sampler that is started without exec */
#define FIRST_FD 3           /* of the log: main.c gives the others to /dev/null */
#define LETS_GO_WITHIN 100   /* waits of 10 ms for the child that has copies of our memory and descriptors */
#define SAMPLING_MOST 1000u  /* times a second */
#define ENDS_WITHIN 1        /* s: how long we wait for it to be gone */

struct launch {
    const char *program;
    char *stack;  /* of the second child */
    uint32_t pid; /* of the sampler */
    int error;    /* both set by the children, which share our memory */
};

/* The sampler that this process, or a parent of it, has started; pid 0: none.  The log names it too, but may be forged. */
static struct {
    uint32_t pid;
    uint64_t start_time;
} started;

static long open_log(void)
{
    long fd = pt_log_reopen_slow(0);
    if (fd < 0 || fd >= FIRST_FD)
        return fd;
    return pt_sys(SYS_fcntl, fd, F_DUPFD_CLOEXEC, FIRST_FD);
}

/* In the second child.  It has a table of descriptors of its own, so nothing here touches the program's. */
static _Noreturn int become_sampler(void *argument)
{
    struct launch *l = argument;
    char number[PT_DIGITS];
    long log = open_log();
    long program = pt_sys(SYS_openat, AT_FDCWD, l->program, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0);
    l->error = log < 0 ? (int)-log : program < 0 ? (int)-program : 0;
    if (!l->error) {
        pt_sys(SYS_close_range, 3, ~0u, PT_CLOSE_RANGE_CLOEXEC); /* the sampler closes what is left, on an old kernel */
        pt_sys(SYS_fcntl, log, F_SETFD, 0);
        const char *const argv[] = {"pyio-trace-sample", pt_digits((uint64_t)log, number), NULL};
        const char *const environment[] = {NULL};
        long failed = pt_sys(SYS_execveat, program, "", argv, environment, AT_EMPTY_PATH);
        if (failed == -ENOSYS)
            failed = pt_sys(SYS_execve, l->program, argv, environment);
        l->error = (int)-failed;
    }
    for (;;)
        pt_sys(SYS_exit_group, 127);
}

/* In the first child. */
static _Noreturn int start_second(void *argument)
{
    struct launch *l = argument;
    int pid = clone(become_sampler, l->stack + STACK, CLONE_VM | CLONE_VFORK, l);
    if (pid < 0)
        l->error = errno;
    else
        l->pid = (uint32_t)pid;
    for (;;)
        pt_sys(SYS_exit_group, 0);
}

static int launch_orphan(struct launch *l)
{
    char *stacks = pt_memory(2 * STACK);
    if (!stacks)
        return ENOMEM;
    l->stack = stacks + STACK;
    int child = clone(start_second, stacks + STACK, CLONE_VM | CLONE_VFORK, l);
    if (child < 0)
        l->error = errno;
    while (child > 0 && pt_sys(SYS_wait4, child, 0, __WALL, 0) == -EINTR)
        continue;
    pt_memory_back(stacks, 2 * STACK);
    return l->error;
}

/* ---- as a child -------------------------------------------------------------------------- */

/* In the child, which has a copy of our memory.  Its status is an errno. */
static _Noreturn int become_sampler_here(void *argument)
{
    const struct launch *l = argument;
    const uintptr_t stack = (uintptr_t)l->stack, log_at = (uintptr_t)pt.base;
    struct pt_program p = {.stack = {stack, stack + ITS_STACK}};
    char number[PT_DIGITS];
    long log = open_log();
    int error = log < 0 ? (int)-log : pt_program_map(l->program, &p);
    if (!error) {
        pt_sys(SYS_close_range, 0, log - 1, 0); /* the sampler closes them, on an old kernel */
        pt_sys(SYS_close_range, log + 1, ~0u, 0);
        pt_program_arguments(&p, "pyio-trace-sample", pt_digits((uint64_t)log, number));
        uintptr_t page = pt_kernel_page(), end = log_at + pt.extent;
        pt_program_become(&p, (struct pt_range){log_at, (end + page - 1) / page * page}, &pt.header->sampler_pid,
                          (uint32_t)pt_sys(SYS_getpid, 0));
    }
    for (;;)
        pt_sys(SYS_exit_group, error);
}

/* Returns when the child has given back all that it had of ours, so that nothing of it shows later. */
static int launch_child(struct launch *l)
{
    const struct timespec a_moment = {.tv_nsec = 10000000};
    int status = 0;
    l->stack = pt_memory(ITS_STACK);
    if (!l->stack)
        return ENOMEM;
    int child = clone(become_sampler_here, l->stack + STACK, 0, l);
    if (child < 0)
        l->error = errno;
    for (int i = 0; child > 0 && !l->error && i < LETS_GO_WITHIN; i++) {
        if (__atomic_load_n(&pt.header->sampler_pid, __ATOMIC_ACQUIRE))
            break;
        pt_sys(SYS_futex, &pt.header->sampler_pid, PT_FUTEX_WAIT, 0, &a_moment, 0, 0);
        if (pt_sys(SYS_wait4, child, &status, WNOHANG | __WALL, 0) == child)
            l->error = WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : ECHILD;
    }
    pt_memory_back(l->stack, ITS_STACK);
    if (child > 0)
        l->pid = (uint32_t)child;
    return l->error;
}

/* ---- choosing ---------------------------------------------------------------------------- */

/* Whether orphans become children of this process. */
static bool adopts_orphans(void)
{
    int reaper = 0;
    return pt.pid == 1 || (pt_sys(SYS_prctl, PR_GET_CHILD_SUBREAPER, &reaper) == 0 && reaper);
}

/* 0 or an errno.  No signal is handled meanwhile: a handler would run in a child, on the program's memory. */
static int launch(struct launch *l)
{
    uint64_t all = ~0ull, before;
    pt_sys(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
    int error = adopts_orphans() ? launch_child(l) : launch_orphan(l);
    pt_sys(SYS_rt_sigprocmask, SIG_SETMASK, &before, 0, sizeof before);
    return error;
}

/* Whether Yama lets a process be read by its ancestors only, and by whom it names. */
static bool must_be_named(void)
{
    char scope = 0;
    long fd = pt_sys(SYS_openat, AT_FDCWD, "/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return false;
    pt_sys(SYS_read, fd, &scope, 1);
    pt_sys(SYS_close, fd);
    return scope == '1';
}

void pt_sampler_name(void)
{
    uint32_t pid = __atomic_load_n(&pt.header->sampler_pid, __ATOMIC_ACQUIRE);
    if (pid && !pt.namespace_inode && __atomic_load_n(&pt.header->names_sampler, __ATOMIC_RELAXED))
        pt_sys(SYS_prctl, PR_SET_PTRACER, pid, 0, 0, 0);
}

/* Stores what is wanted in the log.  False: a sampler was started before an exec, and is still there. */
static bool ask_for(struct pt_sampling wanted)
{
    uint32_t none = 0;
    uint64_t never = 0;
    uint32_t hz = wanted.hz < SAMPLING_MOST ? wanted.hz : SAMPLING_MOST;
    if (hz &&
        !__atomic_compare_exchange_n(&pt.header->sampling_hz, &none, hz, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return false;
    return !wanted.system_period || __atomic_compare_exchange_n(&pt.header->system_period, &never, wanted.system_period,
                                                                false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

void pt_sampler_start(const char *program, struct pt_sampling wanted, bool late)
{
    uint32_t allowed = 0;
    struct launch l = {.program = program};
    int saved = errno;
    if ((pt.gate & PT_GATE_OFF) || !pt.process_id || pt.namespace_inode || pt.mode == PT_MODE_RING ||
        (!wanted.hz && !wanted.system_period) || !ask_for(wanted))
        return;
    __atomic_store_n(&pt.header->names_sampler, must_be_named(), __ATOMIC_RELEASE);
    int error = launch(&l);
    if (error)
        __atomic_compare_exchange_n(&pt.header->sampler_refused, &allowed, (uint32_t)error, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
    __atomic_store_n(&pt.header->sampler_pid, error ? 0 : l.pid, __ATOMIC_RELEASE);
    started.pid = error ? 0 : l.pid;
    started.start_time = error ? 0 : pt_process_start_time(l.pid);
    if (!late)
        pt_sampler_name();
    errno = saved;
}

/* ---- its end ------------------------------------------------------------------------------ */

/* Kills the sampler if this is the run's last process.  It would end by itself a moment later, but until then its open
 * log would keep the file system busy. */
void pt_sampler_end(void)
{
    if (!started.pid || pt_process_others_live() || pt_process_others_awaited() ||
        pt_sys6(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0, 0) != 0) /* a filter could kill us for these calls */
        return;
    int process = (int)pt_sys(SYS_pidfd_open, started.pid, 0);
    if (process < 0)
        return;
    if (started.start_time && pt_process_start_time(started.pid) == started.start_time &&
        pt_sys(SYS_pidfd_send_signal, process, SIGKILL, 0, 0) == 0) { /* a stopped process ignores other signals */
        struct pollfd ended = {.fd = process, .events = POLLIN};
        const struct timespec patience = {.tv_sec = ENDS_WITHIN};
        pt_sys(SYS_ppoll, &ended, 1, &patience, 0, 8);
    }
    pt_sys(SYS_close, process);
    started.pid = 0;
}
