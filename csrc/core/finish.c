/* The end of the run: its first process has exited.
 *
 * Whatever the program has left to end (helper processes, output in libc's
 * buffers) ends first; then a fresh interpreter packs the log and prints the
 * summary (pyio_trace/cli/commands/finish.py), and this process goes on
 * exiting, with its own status. */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* Where Python finds itself and how it encodes; what else was said to the
 * program's Python (to stay interactive, to be strict) is not for ours. */
static bool kept_for_finisher(const char *variable)
{
    static const char *const python[] = {"PYTHONPATH=", "PYTHONHOME=", "PYTHONUSERBASE=", "PYTHONNOUSERSITE=",
                                         "PYTHONUTF8=", "PYTHONIOENCODING=", "PYTHONCOERCECLOCALE=", "PYTHON_COLORS="};
    if (strncmp(variable, "PYIO_TRACE", 10) == 0)
        return false;
    if (strncmp(variable, "PYTHON", 6) != 0)
        return true;
    for (unsigned i = 0; i < sizeof python / sizeof *python; i++)
        if (strncmp(variable, python[i], strlen(python[i])) == 0)
            return true;
    return false;
}

/* Tracing is switched off, not only unset: a site's own sitecustomize may
 * switch it on for everyone, and the finisher of a finisher would never end. */
static char **environment_without_us(void)
{
    static char off[] = "PYIO_TRACE=0";
    size_t n = 0, kept = 0;
    while (environ && environ[n])
        n++;
    /* Not malloc: _exit may have been called by a signal handler that interrupted it. */
    char **clean = pt_memory((n + 2) * sizeof *clean);
    if (!clean)
        return NULL;
    clean[kept++] = off;
    for (size_t i = 0; i < n; i++)
        if (kept_for_finisher(environ[i]))
            clean[kept++] = environ[i];
    clean[kept] = NULL;
    return clean;
}

/* Helper processes (multiprocessing's forkserver and resource tracker) end when the pipe to them does: so that they have ended
 * when the log is packed, pipes are closed here, as the kernel is about to. */
static void close_pipes(void)
{
    for (int fd = 3; fd < 4096; fd++) {
        struct stat st;
        /* Only ends for writing, and none that children may inherit: a popen()ed
         * stream, which may hold bytes that exit() has yet to write, is one of those. */
        if (fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) &&
            (pt_sys(SYS_fcntl, fd, F_GETFL) & O_ACCMODE) == O_WRONLY && pt_sys(SYS_fcntl, fd, F_GETFD) == FD_CLOEXEC)
            pt_sys(SYS_close, fd);
    }
}

/* Able to wait for children of its own, whatever the program had set.  Nothing is blocked but Ctrl-C, until it can
 * answer that (cli/commands/finish.py).  keyboard: the signals of it that the program did not ignore. */
static int spawn_ordinary(pid_t *pid, const char *const *argv, char **env, const sigset_t *keyboard)
{
    posix_spawnattr_t attributes;
    sigset_t interrupt, usual = *keyboard;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    sigaddset(&usual, SIGCHLD);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &interrupt);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int error = posix_spawn(pid, argv[0], NULL, &attributes, (char *const *)argv, env);
    posix_spawnattr_destroy(&attributes);
    return error;
}

/* An alarm that the program has not lived to see must not end it with another status while it waits for us. */
static void disarm_timers(void)
{
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    setitimer(ITIMER_VIRTUAL, &never, NULL);
    setitimer(ITIMER_PROF, &never, NULL);
}

/* Ctrl-C from now on is for the finisher, or for nobody: how the program ended has been decided. */
struct keyboard {
    struct sigaction before[2];
    sigset_t heeded; /* the signals of it that the program did not ignore */
};
static const int from_keyboard[2] = {SIGINT, SIGQUIT};

static void ignore_keyboard(struct keyboard *k)
{
    struct sigaction ignored = {.sa_handler = SIG_IGN};
    sigemptyset(&k->heeded);
    for (int i = 0; i < 2; i++)
        if (sigaction(from_keyboard[i], &ignored, &k->before[i]) == 0 && k->before[i].sa_handler != SIG_IGN)
            sigaddset(&k->heeded, from_keyboard[i]);
}

static void restore_keyboard(const struct keyboard *k)
{
    for (int i = 0; i < 2; i++)
        sigaction(from_keyboard[i], &k->before[i], NULL);
}

/* The run's first process has ended: pack the log, print the summary.  In a
 * fresh interpreter, after this one has written its last byte. */
static void run_finisher(const struct keyboard *k)
{
    const char *const *argv = pt.finish;
    if (!argv)
        return;
    pt.finish = NULL;
    char **env = environment_without_us();
    pid_t pid;
    if (!env || spawn_ordinary(&pid, argv, env, &k->heeded) != 0)
        return;
    int status;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
}

/* The owner's exit is the run's end, unless it runs on in other processes;
 * helpers that are ending get a moment to do so. */
void pt_run_ends(int milliseconds)
{
    struct keyboard keyboard;
    if (pt.header->owner_pid != pt.pid)
        return;
    pt.gate = 1;
    ignore_keyboard(&keyboard);
    disarm_timers();
    if (pt_process_others_live())
        close_pipes();
    for (int i = 0; i < milliseconds && (pt_process_others_live() || pt_process_others_awaited()); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    run_finisher(&keyboard);
    pt_log_finish();
    restore_keyboard(&keyboard);
}

/* Whether a signal that this process sends itself ends it here and now.  Python ends so after a KeyboardInterrupt that
 * nobody caught, and programs that have cleaned up after one of these: no exit handler runs then. */
static bool ends_us(int number)
{
    struct { /* the kernel's, whose first word it is on all architectures */
        void (*handler)(int);
        unsigned long rest[3];
    } action;
    uint64_t blocked;
    if (number != SIGINT && number != SIGTERM && number != SIGHUP)
        return false;
    return pt_sys6(SYS_getpid, 0, 0, 0, 0, 0, 0) != 1 && /* a container's first process: the kernel spares it */
           pt_sys(SYS_rt_sigaction, number, 0, &action, 8) == 0 && action.handler == SIG_DFL &&
           pt_sys(SYS_rt_sigprocmask, SIG_BLOCK, 0, &blocked, 8) == 0 && !(blocked >> (number - 1) & 1);
}

void pt_signals_itself(struct pt_thread *t, int number)
{
    int error = errno;
    if (ends_us(number)) {
        pt_process_end(t->process, PT_END_SIGNAL, number);
        if (!t->borrowed_memory) /* Ctrl-C is for the whole group: the others are ending too */
            pt_run_ends(number == SIGINT ? 1000 : PT_PATIENCE);
    }
    errno = error;
}

/* What exit() is about to write comes before our summary.  Never fflush(NULL): it waits for the lock of every
 * stream, and a thread may sit in fgets(stdin) with that one for ever. */
static void flush_output(void)
{
    FILE *const streams[] = {stdout, stderr};
    for (int i = 0; i < 2; i++)
        if (ftrylockfile(streams[i]) == 0) {
            fflush_unlocked(streams[i]);
            funlockfile(streams[i]);
        }
}

static void at_exit_with_status(int status, void *unused)
{
    (void)unused;
    if (!pt.base || (pt.gate & PT_GATE_OFF) || !pt.process)
        return;
    pt_process_end(pt.process, PT_END_EXIT, status & 0xff);
    if (pt.finish) /* else nothing of ours is to come; what stdout is now, only a Python would know */
        flush_output();
    pt_run_ends(PT_PATIENCE);
}

#if !defined(__GLIBC__)
static void at_exit_plain(void) /* musl has no on_exit: the status stays for the parent to tell */
{
    if (!pt.base || (pt.gate & PT_GATE_OFF) || !pt.process)
        return;
    pt_process_end(pt.process, PT_END_UNKNOWN, 0);
    if (pt.finish)
        flush_output();
    pt_run_ends(PT_PATIENCE);
}
#endif

void pt_finish_setup_once(void)
{
#if defined(__GLIBC__)
    on_exit(at_exit_with_status, NULL);
#else
    (void)at_exit_with_status;
    atexit(at_exit_plain);
#endif
}
