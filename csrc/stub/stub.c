/* The stub: what the run's first process becomes at its very end (csrc/core/process/end_of_run.c).
 *
 * Becoming another program ends the process as an exit does: the kernel ends its other threads, frees its memory, and
 * closes its files.  Its number stays, and so whoever waits for it waits until the log is packed.  The stub starts the
 * finisher, waits, and ends with the program's own status or signal.
 *
 * It is static and calls nothing of libc, so that nothing the program has left behind can keep it from starting. */
#include "base/sys.h"
#include "finisher/finisher.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define LAST_SIGNAL 64
#define BIT(number) (1ull << ((number) - 1))

/* The compiler may call these two. */
void *pt_stub_memcpy(void *to, const void *from, size_t n) __asm__("memcpy");
void *pt_stub_memset(void *at, int byte, size_t n) __asm__("memset");

void *pt_stub_memcpy(void *to, const void *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((volatile char *)to)[i] = ((const char *)from)[i];
    return to;
}

void *pt_stub_memset(void *at, int byte, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((volatile char *)at)[i] = (char)byte;
    return at;
}

static size_t length_of(const char *text)
{
    size_t n = 0;
    while (text[n])
        n++;
    return n;
}

/* -1: the word is no number. */
static int64_t number_of(const char *word)
{
    int64_t number = *word ? 0 : -1;
    for (; *word; word++) {
        if (*word < '0' || *word > '9')
            return -1;
        number = number * 10 + (*word - '0');
    }
    return number;
}

/* ---- signals ----------------------------------------------------------------- */

/* Discards pending signals, by ignoring them: they were for the program, which has ended.  Returns the signals that the
 * program did not ignore. */
static uint64_t discard_pending(void)
{
    const struct pt_kernel_action ignored = {.handler = SIG_IGN}, usual = {.handler = SIG_DFL};
    uint64_t heeded = 0;
    for (int number = 1; number <= LAST_SIGNAL; number++) {
        struct pt_kernel_action before;
        if (number == SIGKILL || number == SIGSTOP || pt_sys(SYS_rt_sigaction, number, &ignored, &before, 8) != 0)
            continue;
        if (before.handler == SIG_IGN && number != SIGCHLD)
            continue;
        heeded |= BIT(number);
        pt_sys(SYS_rt_sigaction, number, &usual, 0, 8);
    }
    return heeded;
}

/* Blocks all signals but those of job control. */
static void block_signals(void)
{
    uint64_t blocked = ~(BIT(SIGTSTP) | BIT(SIGTTIN) | BIT(SIGTTOU));
    pt_sys(SYS_rt_sigprocmask, SIG_SETMASK, &blocked, 0, sizeof blocked);
}

/* ---- files ----------------------------------------------------------------------- */

/* Whoever reads the program's output sees its end now, not when the log is packed. */
static void let_go_of_streams(int heard_at)
{
    const int mode = O_RDWR | O_NONBLOCK;
    pt_sys(SYS_close, 0);
    pt_sys(SYS_close, 1);
    if (heard_at != 2)
        pt_sys(SYS_close, 2);
    for (int fd = 0; fd <= 2; fd++)
        if (pt_sys(SYS_fcntl, fd, F_GETFD) < 0 && pt_sys(SYS_openat, AT_FDCWD, "/dev/null", mode, 0) < 0)
            break;
}

/* ---- the finisher ------------------------------------------------------------------ */

struct ended {
    int error; /* errno of the start */
    int status;
};

/* Starts it in a copy of this process, which is small.  error: in memory that both share. */
static long start(const struct pt_finisher *f, volatile int *error)
{
    pt_raise_limit(RLIMIT_NPROC, RLIM_INFINITY);
    pt_raise_limit(RLIMIT_AS, RLIM_INFINITY);
    pt_raise_limit(RLIMIT_DATA, RLIM_INFINITY);
    long pid = pt_sys6(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0);
    if (pid == 0) {
        *error = pt_finisher_become(f);
        for (;;)
            pt_sys(SYS_exit_group, 127);
    }
    if (pid < 0)
        *error = (int)-pid;
    return pid;
}

/* A signal that would have ended the program ends the finisher instead: the first one in good order, the next at once.  A
 * signal from the terminal has already reached it.  SIGINT is passed on as SIGINT, because an early one was meant for the
 * program. */
static void pass_on(long pid, long number, bool from_terminal, bool *asked)
{
    if (from_terminal)
        return;
    pt_sys(SYS_kill, pid, number == SIGINT ? SIGINT : *asked ? SIGKILL : SIGTERM);
    *asked = number != SIGINT;
}

static int wait_for(long pid, uint64_t heeded)
{
    uint64_t heard = BIT(SIGCHLD) | (heeded & (BIT(SIGTERM) | BIT(SIGHUP) | BIT(SIGINT) | BIT(SIGQUIT)));
    bool asked = false;
    for (;;) {
        long ended;
        int status;
        /* Any child: the first process of a container has those of others to wait for. */
        while ((ended = pt_sys(SYS_wait4, -1, &status, WNOHANG, 0)) > 0)
            if (ended == pid)
                return status;
        if (ended == -ECHILD)
            return 0;
        siginfo_t about;
        long number = pt_sys(SYS_rt_sigtimedwait, &heard, &about, 0, 8);
        if (number > 0 && number != SIGCHLD)
            pass_on(pid, number, about.si_code == SI_KERNEL, &asked);
    }
}

static struct ended run(const struct pt_finisher *f, uint64_t heeded)
{
    struct ended ended = {0, 0};
    long shared = pt_sys6(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared < 0 && shared > -4096) {
        ended.error = (int)-shared;
        return ended;
    }
    volatile int *error = (volatile int *)shared;
    long pid = start(f, error);
    if (pid > 0)
        ended.status = wait_for(pid, heeded);
    ended.error = *error;
    return ended;
}

/* ---- messages ------------------------------------------------------------------------ */

static void tell(const char *const *argv, int heard_at, struct ended ended)
{
    char room[PT_DIGITS];
    const char *words[PT_FINISHER_WORDS];
    unsigned count =
        pt_finisher_failure(words, room, ended.error, ended.status, argv[PT_STUB_WORDS], argv[PT_STUB_PATH]);
    if (!count || heard_at < 0)
        return;
    struct iovec parts[PT_FINISHER_WORDS + 2] = {{.iov_base = (void *)"pyio-trace: ", .iov_len = 12}};
    for (unsigned i = 0; i < count; i++)
        parts[i + 1] = (struct iovec){.iov_base = (void *)words[i], .iov_len = length_of(words[i])};
    parts[count + 1] = (struct iovec){.iov_base = (void *)"\n", .iov_len = 1};
    pt_sys(SYS_writev, heard_at, parts, count + 2);
}

/* Where there is no stderr to write to, the first line goes into the log's process table. */
static void note(const char *const *argv, int heard_at)
{
    char text[256];
    int64_t log = number_of(argv[PT_STUB_LOG]), at = number_of(argv[PT_STUB_NOTE_AT]);
    int64_t room = number_of(argv[PT_STUB_NOTE_ROOM]);
    size_t length = pt_finisher_heard(heard_at, text, sizeof text);
    const char *separator = argv[PT_STUB_SEPARATOR];
    int64_t parted = (int64_t)length_of(separator);
    if (log < 0 || at < 0 || room <= parted || !length)
        return;
    pt_sys(SYS_pwrite64, log, separator, parted, at);
    room -= parted;
    pt_sys(SYS_pwrite64, log, text, (int64_t)length < room ? (int64_t)length : room, at + parted);
}

/* ---- the end --------------------------------------------------------------------------- */

static void end(bool by_signal, int number)
{
    if (by_signal) {
        const struct pt_kernel_action usual = {.handler = SIG_DFL};
        const struct rlimit none = {0, 0}; /* of the stub, a core file would say nothing */
        uint64_t nothing = 0;
        pt_sys(SYS_prlimit64, 0, RLIMIT_CORE, &none, 0);
        pt_sys(SYS_rt_sigaction, number, &usual, 0, 8);
        pt_sys(SYS_rt_sigprocmask, SIG_SETMASK, &nothing, 0, sizeof nothing);
        pt_sys(SYS_kill, pt_sys6(SYS_getpid, 0, 0, 0, 0, 0, 0), number);
        number += 128; /* the kernel spares the first process of a container */
    }
    for (;;)
        pt_sys(SYS_exit_group, number);
}

/* stack: what the kernel has put there: the number of words, the words, NULL, the environment. */
__attribute__((used, noreturn)) static void begin(const long *stack)
{
    const char *const *argv = (const char *const *)(stack + 1);
    if (*stack <= PT_STUB_WORDS) /* somebody has called it by hand */
        for (;;)
            pt_sys(SYS_exit_group, 2);
    block_signals();
    uint64_t heeded = discard_pending();
    pt_sys(SYS_prctl, PR_SET_NAME, "pyio-trace-end");
    int heard_at = (int)number_of(argv[PT_STUB_HEARD_AT]);
    let_go_of_streams(heard_at);
    struct pt_finisher f = {argv + PT_STUB_WORDS, (char *const *)(argv + *stack + 1), heard_at, 0};
    struct ended ended = run(&f, heeded);
    tell(argv, heard_at, ended);
    note(argv, heard_at);
    end(*argv[PT_STUB_KIND] == 's', (int)number_of(argv[PT_STUB_NUMBER]));
    __builtin_unreachable();
}

#if defined(__x86_64__)
__asm__(".text\n.globl _start\n.type _start,@function\n_start:\n"
        "  endbr64\n  xorl %ebp, %ebp\n  movq %rsp, %rdi\n  andq $-16, %rsp\n  call begin\n  hlt\n"
        ".size _start,.-_start\n");
#else
__asm__(".text\n.globl _start\n.type _start,%function\n_start:\n"
        "  mov x29, #0\n  mov x30, #0\n  mov x0, sp\n  bl begin\n  brk #0\n"
        ".size _start,.-_start\n");
#endif
