/* Hooks of the calls that wait for children: wait, waitpid, wait3, wait4, waitid.
 *
 * A wait is an operation, and the parent learns by it what a child could not store itself: which signal ended it, and
 * what it used. */
#include "hooks/hooks.h"
#include "patch/patch.h"
#include "process/process.h"

#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>

struct wait {
    struct pt_call call;
    struct pt_waiting before;
    int status;
    struct rusage usage; /* of the child */
};

/* wait() and waitpid() are wait4() without the child's figures, and the kernel has only this one call.  False: a
 * preloaded library has functions of its own for some of them. */
static bool wait4_does_all;

PT_HOOK_DECLARE(pid_t, waitpid, pid_t, int *, int);
PT_HOOK_DECLARE(pid_t, wait, int *);
PT_HOOK_DECLARE(pid_t, wait3, int *, int, struct rusage *);
PT_HOOK_DECLARE(pid_t, wait4, pid_t, int *, int, struct rusage *);
PT_HOOK_DECLARE(int, waitid, idtype_t, id_t, siginfo_t *, int);

void pt_waits_begin(void)
{
    wait4_does_all = pt_hooks_are_of_one_library("wait4", "waitpid") && pt_hooks_are_of_one_library("wait4", "wait");
}

static void begin(struct wait *w, unsigned op, int options)
{
    pt_before_wait(&w->before);
    struct pt_thread *t = pt_enter();
    w->call.thread = NULL;
    w->call.left_out = 0;
    w->status = 0;
    if (t)
        pt_begin(&w->call, t, op, 0, 0, -1, (unsigned)options);
}

/* child: 0: none has ended; -1: an error.  usage: of the child; NULL: not known. */
static void end(struct wait *w, pid_t child, int status, const struct rusage *usage)
{
    if (w->call.thread)
        pt_end(&w->call, child > 0 ? child : -1, child < 0 ? errno : 0);
    if (child <= 0 || pt.gate & PT_GATE_OFF)
        return;
    int saved = errno;
    pt_process_waited(pt_process_find((uint32_t)child), (uint32_t)child, status, &w->before, usage);
    errno = saved;
}

pid_t hook_waitpid(pid_t pid, int *status, int options)
{
    struct wait w;
    begin(&w, PT_OP_WAITPID, options);
    int *at = status ? status : &w.status;
    pid_t child = wait4_does_all ? real_wait4(pid, at, options, &w.usage) : real_waitpid(pid, at, options);
    end(&w, child, child > 0 ? *at : 0, wait4_does_all ? &w.usage : NULL);
    return child;
}

pid_t hook_wait(int *status)
{
    struct wait w;
    begin(&w, PT_OP_WAIT, 0);
    int *at = status ? status : &w.status;
    pid_t child = wait4_does_all ? real_wait4(-1, at, 0, &w.usage) : real_wait(at);
    end(&w, child, child > 0 ? *at : 0, wait4_does_all ? &w.usage : NULL);
    return child;
}

pid_t hook_wait3(int *status, int options, struct rusage *usage)
{
    struct wait w;
    begin(&w, PT_OP_WAIT3, options);
    int *at = status ? status : &w.status;
    struct rusage *used = usage ? usage : &w.usage;
    pid_t child = real_wait3(at, options, used);
    end(&w, child, child > 0 ? *at : 0, used);
    return child;
}

pid_t hook_wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
    struct wait w;
    begin(&w, PT_OP_WAIT4, options);
    int *at = status ? status : &w.status;
    struct rusage *used = usage ? usage : &w.usage;
    pid_t child = real_wait4(pid, at, options, used);
    end(&w, child, child > 0 ? *at : 0, used);
    return child;
}

/* The status that the other calls would have given; 0x7f, of a stopped child: it has not ended. */
static int status_of(const siginfo_t *info)
{
    switch (info->si_code) {
    case CLD_EXITED: return (info->si_status & 0xff) << 8;
    case CLD_KILLED:
    case CLD_DUMPED: return info->si_status & 0x7f;
    default: return 0x7f;
    }
}

int hook_waitid(idtype_t kind, id_t id, siginfo_t *info, int options)
{
    struct wait w;
    begin(&w, PT_OP_WAITID, options);
    siginfo_t own = {0}, *at = info ? info : &own;
    int result = real_waitid(kind, id, at, options);
    pid_t child = result < 0 ? -1 : at->si_pid;
    end(&w, child, child > 0 && !(options & WNOWAIT) ? status_of(at) : 0x7f, NULL);
    return result;
}
