/* The finisher: the process that packs the log and prints the summary.
 *
 * It is started whatever limits the program has set on itself, and waited for.  If it fails, one line says where the
 * live log is.
 *
 * posix_spawn will not do.  It cannot raise limits, and it allocates its list of file actions with malloc, which is
 * unsafe here: a signal handler that interrupted malloc may have called _exit.  So this uses vfork. */
#include "process/process.h"
#include "base/messages.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAST_SIGNAL 64
#define MOST_CLOSED (1u << 20) /* where they are closed one by one */
#define STDERR_KEPT 3          /* the program's stderr in the finisher; --stderr of cli/commands/finish_command.py */

typedef struct { /* the kernel's sigaction; the handler is its first word on all architectures */
    void (*handler)(int);
    unsigned long rest[3];
} kernel_action;

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

static void raise_limit(int which, rlim_t enough)
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

/* Where the finisher writes: to the program's stderr, or if another file has its number, to one in memory. */
static int heard_at; /* -1: nowhere */

/* Sends what the loader, the interpreter and libraries print on failure to a file in memory: the parent has one line
 * for it, and with -q there must be none.  The finisher itself writes to STDERR_KEPT.  No standard descriptor stays
 * closed: the log would get its number, and prints would go into the log. */
static void set_streams(void)
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
static void set_signals(const sigset_t *keyboard)
{
    const kernel_action usual = {.handler = SIG_DFL};
    for (int number = 1; number <= LAST_SIGNAL; number++) {
        kernel_action action;
        if (pt_sys(SYS_rt_sigaction, number, 0, &action, 8) != 0)
            continue;
        bool handled = action.handler != SIG_DFL && action.handler != SIG_IGN;
        /* Until exec, the child shares its parent's memory, so none of the program's signal handlers may run in it. */
        if (handled || number == SIGCHLD || (number < 32 && sigismember(keyboard, number)))
            pt_sys(SYS_rt_sigaction, number, &usual, 0, 8);
    }
    /* Blocks only Ctrl-C, until the finisher can answer it. */
    uint64_t interrupt = 1ull << (SIGINT - 1);
    pt_sys(SYS_rt_sigprocmask, SIG_SETMASK, &interrupt, 0, sizeof interrupt);
}

/* Runs in the child, in the parent's memory: system calls only. Returns errno. */
static int become(const char *const *argv, char *const *env, const sigset_t *keyboard)
{
    const struct rlimit none = {0, 0};
    for (unsigned i = 0; i < sizeof raised / sizeof *raised; i++)
        raise_limit(raised[i].which, raised[i].enough);
    pt_sys(SYS_prlimit64, 0, RLIMIT_CORE, &none,
           0); /* nobody wants a core file of the finisher in the program's folder */
    set_streams();
    set_signals(keyboard);
    return (int)-pt_sys(SYS_execve, argv[0], argv, env);
}

static volatile int exec_error; /* set by the child, which has no memory of its own */

static PT_COLD pid_t start(const char *const *argv, char *const *env, const sigset_t *keyboard)
{
    exec_error = 0;
    pid_t pid = vfork();
    if (pid == 0) {
        exec_error = become(argv, env, keyboard);
        for (;;)
            pt_sys(SYS_exit_group, 127);
    }
    if (pid < 0)
        exec_error = errno;
    return pid;
}

/* Raises the limits that apply before there is a child. */
static const int first_raised[] = {RLIMIT_NPROC, RLIMIT_AS, RLIMIT_DATA};
#define FIRST (sizeof first_raised / sizeof *first_raised)

/* 0, or errno. */
static int start_unlimited(pid_t *pid, const char *const *argv, char *const *env, const sigset_t *keyboard)
{
    uint64_t all = ~0ull, mask;
    struct rlimit before[FIRST];
    bool known[FIRST];
    pt_sys(SYS_rt_sigprocmask, SIG_SETMASK, &all, &mask, sizeof all);
    for (unsigned i = 0; i < FIRST; i++) {
        known[i] = pt_sys(SYS_prlimit64, 0, first_raised[i], 0, &before[i]) == 0;
        raise_limit(first_raised[i], RLIM_INFINITY);
    }
    *pid = env ? start(argv, env, keyboard) : -1;
    for (unsigned i = 0; i < FIRST; i++)
        if (known[i])
            pt_sys(SYS_prlimit64, 0, first_raised[i], &before[i], 0);
    pt_sys(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, sizeof mask);
    if (*pid > 0 && exec_error)
        waitpid(*pid, NULL, 0);
    return env ? exec_error : ENOMEM;
}

/* Writes a number from 0 to 999 at the end of the room given. */
static const char *digits(int number, char room[4])
{
    char *at = room + 3;
    *at = 0;
    do
        *--at = (char)('0' + number % 10);
    while ((number /= 10) && at > room);
    return at;
}

static void tell(const char *reason, const char *detail)
{
    char printable[sizeof pt.path];
    const char *path = pt_printable(pt.path, printable);
    const char *const words[] = {"the summary could not be made (", reason, detail, "); the live log is ", path,
                                 "; pyio-trace summary ",           path};
    pt_say(words, sizeof words / sizeof *words);
}

/* strerror() may allocate. */
static void tell_error(int error, const char *python)
{
    char room[4];
    switch (error) {
    case ENOENT: tell("there is no ", python); break;
    case EACCES:
    case EPERM: tell("not permitted: ", python); break;
    case EAGAIN: tell("no further process is allowed: ulimit -u", ""); break;
    case ENOMEM: tell("no memory", ""); break;
    default: tell("error ", digits(error, room));
    }
}

static void tell_status(int status)
{
    char room[4];
    if (WIFSIGNALED(status))
        tell("it was ended by signal ", digits(WTERMSIG(status), room));
    else if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
        tell("it ended with status ", digits(WEXITSTATUS(status), room));
}

static void set_heard_at(bool quiet)
{
    if (pt_stderr_is_kept())
        heard_at = STDERR_FILENO;
    else
        heard_at = quiet ? -1 : (int)pt_sys(SYS_memfd_create, "pyio-trace", MFD_CLOEXEC);
}

/* Keeps what nobody has heard in the process table: the line that begins the text, not a summary. */
static void note_unheard(void)
{
    static const char ours[] = "pyio-trace: ";
    char text[sizeof pt.process->note + sizeof ours];
    if (heard_at == STDERR_FILENO && pt_stderr_is_kept())
        return;
    long n = heard_at < 0 ? 0 : pt_sys(SYS_pread64, heard_at, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    text[strcspn(text, "\n")] = 0;
    const char *words = text + sizeof ours - 1;
    if (strncmp(text, ours, sizeof ours - 1) == 0)
        pt_note(&words, 1);
    if (heard_at >= 0)
        pt_sys(SYS_close, heard_at);
}

void pt_finisher_run(const char *const *argv, char *const *env, bool quiet, const sigset_t *keyboard)
{
    const kernel_action usual = {.handler = SIG_DFL};
    kernel_action before; /* while SIGCHLD is ignored, nobody can learn how a child ended */
    bool set = pt_sys(SYS_rt_sigaction, SIGCHLD, &usual, &before, 8) == 0;
    pid_t pid, waited = -1;
    set_heard_at(quiet);
    int status = 0, error = start_unlimited(&pid, argv, env, keyboard);
    while (!error && (waited = waitpid(pid, &status, 0)) < 0 && errno == EINTR)
        continue;
    if (set)
        pt_sys(SYS_rt_sigaction, SIGCHLD, &before, 0, 8);
    note_unheard();
    if (error && !quiet)
        tell_error(error, argv[0]);
    else if (waited > 0 && !quiet)
        tell_status(status);
}
