/* Starts the sampler (csrc/sampler): a process beside the run that looks from outside at what its threads do.
 *
 * It must not be a child that the program could wait for, find among its children or be told of by SIGCHLD.  So a child
 * of ours starts it and ends at once, and the system's first process adopts it.  That child shares our memory and sends
 * no signal at its end (clone with exit signal 0), so only we know of it.  A program that adopts orphans itself gets no
 * sampler: it is process 1 of a container, or a subreaper. */
#include "base/memory.h"
#include "base/sys.h"
#include "finisher/finisher.h"
#include "log/file.h"
#include "process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
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
#define PT_CLOSE_RANGE_CLOEXEC 4
#define STACK (32u << 10)   /* of each of the two children; they make system calls, and look up the log */
#define SAMPLING_MOST 1000u /* times a second */

struct launch {
    const char *program;
    char *stack; /* of the second child */
    int error;   /* set by the children, which share our memory */
};

/* In the second child.  It has a table of descriptors of its own, so nothing here touches the program's. */
static _Noreturn int become_sampler(void *argument)
{
    struct launch *l = argument;
    char number[PT_DIGITS];
    long log = pt_log_reopen_slow(0);
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
    if (clone(become_sampler, l->stack + STACK, CLONE_VM | CLONE_VFORK, l) < 0)
        l->error = errno;
    for (;;)
        pt_sys(SYS_exit_group, 0);
}

/* 0 or an errno.  No signal is handled meanwhile: a handler would run in a child, on the program's memory. */
static int launch(const char *program)
{
    uint64_t all = ~0ull, before;
    struct launch l = {.program = program};
    char *stacks = pt_memory(2 * STACK);
    if (!stacks)
        return ENOMEM;
    l.stack = stacks + STACK;
    pt_sys(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
    int child = clone(start_second, stacks + STACK, CLONE_VM | CLONE_VFORK, &l);
    if (child < 0)
        l.error = errno;
    while (child > 0 && pt_sys(SYS_wait4, child, 0, __WALL, 0) == -EINTR)
        continue;
    pt_sys(SYS_rt_sigprocmask, SIG_SETMASK, &before, 0, sizeof before);
    pt_memory_back(stacks, 2 * STACK);
    return l.error;
}

/* Whether orphans become children of this process. */
static bool adopts_orphans(void)
{
    int reaper = 0;
    return pt.pid == 1 || (pt_sys(SYS_prctl, PR_GET_CHILD_SUBREAPER, &reaper) == 0 && reaper);
}

void pt_sampler_start(const char *program, uint32_t hz)
{
    uint32_t none = 0;
    int saved = errno;
    if ((pt.gate & PT_GATE_OFF) || !pt.process_id || pt.namespace_inode || pt.mode == PT_MODE_RING || !hz)
        return;
    hz = hz < SAMPLING_MOST ? hz : SAMPLING_MOST;
    if (!__atomic_compare_exchange_n(&pt.header->sampling_hz, &none, hz, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return; /* this program was another one before (exec), and its sampler goes on */
    int error = adopts_orphans() ? ECHILD : launch(program);
    uint32_t allowed = 0;
    if (error)
        __atomic_compare_exchange_n(&pt.header->sampler_refused, &allowed, (uint32_t)error, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
    errno = saved;
}
