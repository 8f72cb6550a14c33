/* The first process becomes the stub (csrc/stub), or, where that cannot be, waits for the finisher itself.
 *
 * Once exec has begun to replace the program, a failure kills the process, and its status is lost.  So nothing is tried
 * that could fail late: no filter of system calls, no limit that the stub does not fit in. */
#include "base/messages.h"
#include "base/sys.h"
#include "finisher/finisher.h"
#include "log/file.h"
#include "process/ending.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
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
#define PT_CLOSE_RANGE_CLOEXEC 4
#define MOST_MARKED (1u << 20) /* where descriptors are marked one by one */
#define ROOM (16u << 20)       /* more than exec and the stub need */

/* ---- can it be? -------------------------------------------------------------- */

static bool has_room(int which)
{
    struct rlimit limit;
    return pt_sys(SYS_prlimit64, 0, which, 0, &limit) == 0 && limit.rlim_max >= ROOM;
}

static bool is_possible(void)
{
    return pt.finish_stub && pt.finish_environment && pt_sys6(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0, 0) == 0 &&
           has_room(RLIMIT_AS) && has_room(RLIMIT_DATA) && has_room(RLIMIT_STACK);
}

/* ---- what must be put back if it fails --------------------------------------- */

static const int timers[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};
static const int limits[] = {RLIMIT_AS, RLIMIT_DATA, RLIMIT_STACK};
#define COUNT(array) (sizeof(array) / sizeof *(array))

struct before {
    struct itimerval timers[COUNT(timers)];
    struct rlimit limits[COUNT(limits)];
};

/* A pending alarm would end the stub with another status.  Nothing of the program is left that it could end. */
static void disarm_timers(struct itimerval before[COUNT(timers)])
{
    const struct itimerval never = {{0, 0}, {0, 0}};
    for (unsigned i = 0; i < COUNT(timers); i++)
        if (pt_sys(SYS_setitimer, timers[i], &never, &before[i]) != 0)
            before[i] = never;
}

static void arm_timers(const struct itimerval before[COUNT(timers)])
{
    for (unsigned i = 0; i < COUNT(timers); i++)
        if (before[i].it_value.tv_sec || before[i].it_value.tv_usec)
            pt_sys(SYS_setitimer, timers[i], &before[i], 0);
}

static void raise_limits(struct rlimit before[COUNT(limits)])
{
    for (unsigned i = 0; i < COUNT(limits); i++) {
        pt_sys(SYS_prlimit64, 0, limits[i], 0, &before[i]);
        pt_raise_limit(limits[i], RLIM_INFINITY);
    }
}

static void lower_limits(const struct rlimit before[COUNT(limits)])
{
    for (unsigned i = 0; i < COUNT(limits); i++)
        pt_sys(SYS_prlimit64, 0, limits[i], &before[i], 0);
}

/* ---- descriptors ---------------------------------------------------------------- */

/* The kernel closes them when the process has become the stub.  Marked, not closed: if exec fails, nothing is lost. */
static void mark_from(unsigned first)
{
    if (pt_sys(SYS_close_range, first, ~0u, PT_CLOSE_RANGE_CLOEXEC) == 0)
        return;
    struct rlimit limit = {0, 0}; /* before Linux 5.11 */
    pt_sys(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, &limit);
    for (unsigned fd = first; fd < limit.rlim_cur && fd < MOST_MARKED; fd++)
        pt_sys(SYS_fcntl, fd, F_SETFD, FD_CLOEXEC);
}

/* The stub keeps the socket to the launcher, if the program has not closed it. */
static void keep_launcher(void)
{
    struct stat st;
    int fd = pt.launcher_socket;
    if (fd && pt_sys(SYS_fstat, fd, &st) == 0 && st.st_dev == pt.launcher_device && st.st_ino == pt.launcher_inode)
        pt_sys(SYS_fcntl, fd, F_SETFD, 0);
}

/* Where the finisher writes: to the program's stderr, or if another file has its number, to one in memory; with -q
 * nowhere (-1). */
static int heard_at(void)
{
    if (pt.finish_quiet)
        return -1;
    return pt_stderr_is_kept() ? STDERR_FILENO : (int)pt_sys(SYS_memfd_create, "pyio-trace", MFD_CLOEXEC);
}

/* The live log, for a note: it must still be the file that this process maps. */
static long open_log(void)
{
    struct stat st;
    long fd = pt_sys(SYS_openat, AT_FDCWD, pt.path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
    uint64_t device, inode;
    pt_log_file(&device, &inode);
    if (fd >= 0 && (pt_sys(SYS_fstat, fd, &st) != 0 || st.st_dev != device || st.st_ino != inode)) {
        pt_sys(SYS_close, fd);
        fd = -1;
    }
    return fd;
}

static const char *word_of(long fd, char digits[static PT_DIGITS])
{
    if (fd < 0)
        return "-";
    pt_sys(SYS_fcntl, fd, F_SETFD, 0);
    return pt_digits((uint64_t)fd, digits);
}

/* ---- exec ---------------------------------------------------------------------------- */

/* Executes the stub by a descriptor, after checking that it is the file that had this name when the run began. */
static void execute(const char *const *words)
{
    struct stat st;
    long fd = pt_sys(SYS_openat, AT_FDCWD, pt.finish_stub, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (pt_sys(SYS_fstat, fd, &st) == 0 && st.st_dev == pt.finish_stub_device && st.st_ino == pt.finish_stub_inode &&
        pt_sys(SYS_execveat, fd, "", words, pt.finish_environment, AT_EMPTY_PATH) == -ENOSYS)
        pt_sys(SYS_execve, pt.finish_stub, words, pt.finish_environment);
    pt_sys(SYS_close, fd);
}

struct places {
    int heard_at;
    long log; /* -1: not needed */
};

/* false: there would be no place for a message. */
static bool find_places(struct places *p)
{
    p->heard_at = heard_at();
    p->log = p->heard_at > STDERR_FILENO && pt.process_id ? open_log() : -1;
    return pt.finish_quiet || p->heard_at == STDERR_FILENO || p->log >= 0;
}

static void leave_places(const struct places *p)
{
    if (p->heard_at > STDERR_FILENO)
        pt_sys(SYS_close, p->heard_at);
    if (p->log >= 0)
        pt_sys(SYS_close, p->log);
}

static void execute_with(const struct pt_exit *end, const char *const *argv, const struct places *p)
{
    char number[PT_DIGITS], heard[PT_DIGITS], log[PT_DIGITS], at[PT_DIGITS], room[PT_DIGITS];
    char path[sizeof pt.path];
    const char **words = (const char **)argv - PT_STUB_WORDS; /* pt_finish_with has left room for them */
    size_t length = strnlen(pt.process->note, sizeof pt.process->note - 1);
    words[PT_STUB_NAME] = "pyio-trace-end";
    words[PT_STUB_KIND] = end->kind == PT_END_SIGNAL ? "signal" : "exit";
    words[PT_STUB_NUMBER] = pt_digits((unsigned)end->number, number);
    words[PT_STUB_HEARD_AT] = word_of(p->heard_at, heard);
    words[PT_STUB_LOG] = word_of(p->log, log);
    words[PT_STUB_NOTE_AT] = pt_digits((uint64_t)(pt.process->note + length - pt.base), at);
    words[PT_STUB_NOTE_ROOM] = pt_digits(sizeof pt.process->note - 1 - length, room);
    words[PT_STUB_SEPARATOR] = length ? "; " : "";
    words[PT_STUB_PATH] = pt_printable(pt.path, path);
    execute(words);
}

bool pt_stub_become(const struct pt_exit *end, const char *const *argv)
{
    struct before before;
    struct places places;
    if (!is_possible())
        return false;
    mark_from(STDERR_FILENO + 1);
    keep_launcher();
    if (find_places(&places)) {
        disarm_timers(before.timers);
        raise_limits(before.limits);
        execute_with(end, argv, &places);
        lower_limits(before.limits);
        arm_timers(before.timers);
    }
    leave_places(&places);
    return false;
}

void pt_finisher_run_here(const char *const *argv)
{
    struct itimerval before[COUNT(timers)];
    disarm_timers(before);
    pt_finisher_run(argv, pt.finish_environment, heard_at());
    arm_timers(before);
}
