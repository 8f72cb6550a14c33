/* What a child does before it becomes the finisher: the program leaves limits, files and signals behind that are not for
 * it.
 *
 * posix_spawn will not do.  It cannot raise limits, and it allocates its list of file actions with malloc, which is
 * unsafe here: a signal handler that interrupted malloc may have called _exit. */
#include "finisher/finisher.h"
#include "base/sys.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#define LAST_SIGNAL 64
#define MOST_CLOSED (1u << 20) /* where they are closed one by one */
#define STDERR_KEPT 3          /* the program's stderr in the finisher; --stderr of cli/commands/finish_command.py */

/* Raises the program's soft limits to its hard ones for the finisher. */
static const struct {
    int which;
    rlim_t enough;
} raised[] = {
    {RLIMIT_NOFILE, RLIM_INFINITY},
    {RLIMIT_FSIZE, RLIM_INFINITY},
    {RLIMIT_CPU, RLIM_INFINITY},
    {RLIMIT_STACK, 8 << 20},
};

void pt_raise_limit(int which, uint64_t enough)
{
    struct rlimit limit;
    if (pt_sys(SYS_prlimit64, 0, which, 0, &limit) != 0 || limit.rlim_cur >= enough)
        return;
    limit.rlim_cur = limit.rlim_max < enough ? limit.rlim_max : enough;
    pt_sys(SYS_prlimit64, 0, which, &limit, 0);
}

/* Closes the program's files from a number on.  Those that children inherit could leave the finisher none. */
static void close_from(unsigned first)
{
    if (pt_sys(SYS_close_range, first, ~0u, 0) == 0)
        return;
    struct rlimit limit = {0, 0}; /* before Linux 5.9, or forbidden */
    pt_sys(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, &limit);
    for (unsigned fd = first; fd < limit.rlim_cur && fd < MOST_CLOSED; fd++)
        pt_sys(SYS_close, fd);
}

/* Sends what the loader, the interpreter and libraries print on failure to a file in memory: the parent says it in
 * one line, or not at all with -q.  The finisher itself writes to STDERR_KEPT.  No standard descriptor stays
 * closed: the log would get its number, and prints would go into the log. */
static void set_streams(int heard_at)
{
    if (heard_at == STDERR_KEPT)
        pt_sys(SYS_fcntl, STDERR_KEPT, F_SETFD, 0);
    else if (heard_at < 0 || pt_sys(SYS_dup3, heard_at, STDERR_KEPT, 0) < 0)
        pt_sys(SYS_close, STDERR_KEPT); /* this number is a file of the program */
    pt_sys(SYS_close, STDERR_FILENO);   /* before the next one is opened: only three may be allowed */
    close_from(STDERR_KEPT + 1);
    long sink = pt_sys(SYS_memfd_create, "pyio-trace", 0);
    if (sink < 0)
        sink = pt_sys(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR | O_NONBLOCK, 0);
    for (int fd = 0; sink >= 0 && fd <= STDERR_KEPT; fd++)
        if (pt_sys(SYS_fcntl, fd, F_GETFD) < 0)
            pt_sys(SYS_dup3, sink, fd, 0);
}

/* Restores SIGCHLD, so that the finisher can wait for its children; Ctrl-C stays as it was before the end of the
 * program. */
static void set_signals(uint64_t heeded)
{
    const struct pt_kernel_action usual = {.handler = SIG_DFL};
    for (int number = 1; number <= LAST_SIGNAL; number++) {
        struct pt_kernel_action action;
        if (pt_sys(SYS_rt_sigaction, number, 0, &action, 8) != 0)
            continue;
        bool handled = action.handler != SIG_DFL && action.handler != SIG_IGN;
        /* Until exec, the child may share its parent's memory, so no signal handler of the program may run in it. */
        if (handled || number == SIGCHLD || (heeded >> (number - 1) & 1))
            pt_sys(SYS_rt_sigaction, number, &usual, 0, 8);
    }
    /* Blocks only Ctrl-C, until the finisher can answer it. */
    uint64_t interrupt = 1ull << (SIGINT - 1);
    pt_sys(SYS_rt_sigprocmask, SIG_SETMASK, &interrupt, 0, sizeof interrupt);
}

int pt_finisher_become(const struct pt_finisher *f)
{
    const struct rlimit none = {0, 0};
    for (unsigned i = 0; i < sizeof raised / sizeof *raised; i++)
        pt_raise_limit(raised[i].which, raised[i].enough);
    /* Nobody wants a core file of the finisher in the program's folder. */
    pt_sys(SYS_prlimit64, 0, RLIMIT_CORE, &none, 0);
    set_streams(f->heard_at);
    set_signals(f->heeded);
    return (int)-pt_sys(SYS_execve, f->argv[0], f->argv, f->env);
}
