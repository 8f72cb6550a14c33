/* The end of the run: its first process exits.
 *
 * What the program has left to end (helper processes, output in libc's buffers) ends first.  Then a fresh interpreter
 * packs the log and prints the summary (pyio_trace/cli/commands/finish_command.py), and this process exits with its
 * own status. */
#include "state/kernel_accounting.h"
#include "base/sys.h"
#include "log/chunks.h"
#include "process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Closes pipes to helper processes (multiprocessing's forkserver and resource tracker) before the log is packed: they
 * end when their pipe does, as at the process's end. */
static void close_pipes(void)
{
    for (int fd = 3; fd < 4096; fd++) {
        struct stat st;
        /* Closes write ends only, and none that children may inherit: a popen()ed stream, which may hold bytes that
         * exit() has yet to write, is inheritable. */
        if (fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) && (pt_sys(SYS_fcntl, fd, F_GETFL) & O_ACCMODE) == O_WRONLY &&
            pt_sys(SYS_fcntl, fd, F_GETFD) == FD_CLOEXEC)
            pt_sys(SYS_close, fd);
    }
}

/* A pending alarm must not end the process with another status while it waits. */
static void disarm_timers(void)
{
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    setitimer(ITIMER_VIRTUAL, &never, NULL);
    setitimer(ITIMER_PROF, &never, NULL);
}

/* From now on Ctrl-C is for the finisher, or for nobody: the program's end has been decided. */
struct keyboard {
    struct sigaction before[2];
    sigset_t heeded; /* those of its signals that the program did not ignore */
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

/* The first process of the run has ended: packs the log and prints the summary, in a fresh interpreter, after this
 * process has written its last byte. */
static void run_finisher(const struct keyboard *k)
{
    const char *const *argv = pt.finish;
    if (!argv)
        return;
    pt.finish = NULL;
    pt_finisher_run(argv, pt.finish_environment, pt.finish_quiet, &k->heeded);
}

/* Waits two more seconds at most: the lists of processes may be forged, and a walk then takes long. */
static void wait_for_others(int milliseconds)
{
    int64_t latest = pt_now_ns() + (milliseconds + 2000) * 1000000ll;
    for (int i = 0; i < milliseconds && pt_now_ns() < latest; i++) {
        if (!pt_process_others_live() && !pt_process_others_awaited())
            return;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

/* The owner's exit ends the run, unless the run goes on in other processes. Helpers that are ending get a moment. */
void pt_run_ends(int milliseconds)
{
    struct keyboard keyboard;
    if (pt.owner_pid != pt.pid || pt.namespace_inode)
        return;
    pt.gate = 1;
    ignore_keyboard(&keyboard);
    disarm_timers();
    if (pt_process_others_live())
        close_pipes();
    wait_for_others(milliseconds);
    run_finisher(&keyboard);
    pt_log_finish();
    restore_keyboard(&keyboard);
}

/* Does a signal that this process sends to itself end it at once? Python ends so after an uncaught KeyboardInterrupt,
 * and so do programs that clean up after such a signal: no exit handler runs then. */
static bool ends_us(int number)
{
    struct { /* the kernel's sigaction; the handler is its first word on all architectures */
        void (*handler)(int);
        unsigned long rest[3];
    } action;
    uint64_t blocked;
    if (number != SIGINT && number != SIGTERM && number != SIGHUP)
        return false;
    return pt_sys6(SYS_getpid, 0, 0, 0, 0, 0, 0) != 1 && /* the kernel spares the first process of a container */
           pt_sys(SYS_rt_sigaction, number, 0, &action, 8) == 0 && action.handler == SIG_DFL &&
           pt_sys(SYS_rt_sigprocmask, SIG_BLOCK, 0, &blocked, 8) == 0 && !(blocked >> (number - 1) & 1);
}

void pt_signals_itself(struct pt_thread *t, int number)
{
    int error = errno;
    if (ends_us(number)) {
        pt_process_end(t->process, PT_END_SIGNAL, number);
        if (!t->borrowed_memory) /* Ctrl-C goes to the whole group: the others are ending too */
            pt_run_ends(number == SIGINT ? 1000 : PT_PATIENCE);
    }
    errno = error;
}

/* Writes what exit() is about to write, so that it comes before the summary.  Never fflush(NULL): it waits for the
 * lock of every stream, and a thread may hold stdin's in fgets for ever. */
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
    if (pt.finish) /* else there is no summary to come before */
        flush_output();
    pt_run_ends(PT_PATIENCE);
}

#if !defined(__GLIBC__)
static void at_exit_plain(void) /* musl has no on_exit: the parent reports the status */
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
