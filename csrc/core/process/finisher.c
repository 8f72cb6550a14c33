/* Starts the finisher from the core, and waits for it: where the process cannot become the stub (end_of_run.c).
 *
 * It is started whatever limits the program has set on itself.  If it fails, one line says where the live log is. */
#include "finisher/finisher.h"
#include "base/messages.h"
#include "base/sys.h"
#include "process/process.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int exec_error; /* set by the child, which has no memory of its own */

static PT_COLD pid_t start(const struct pt_finisher *f)
{
    exec_error = 0;
    pid_t pid = vfork();
    if (pid == 0) {
        exec_error = pt_finisher_become(f);
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
static int start_unlimited(pid_t *pid, const struct pt_finisher *f)
{
    uint64_t all = ~0ull, mask;
    struct rlimit before[FIRST];
    bool known[FIRST];
    pt_sys(SYS_rt_sigprocmask, SIG_SETMASK, &all, &mask, sizeof all);
    for (unsigned i = 0; i < FIRST; i++) {
        known[i] = pt_sys(SYS_prlimit64, 0, first_raised[i], 0, &before[i]) == 0;
        pt_raise_limit(first_raised[i], RLIM_INFINITY);
    }
    *pid = f->env ? start(f) : -1;
    for (unsigned i = 0; i < FIRST; i++)
        if (known[i])
            pt_sys(SYS_prlimit64, 0, first_raised[i], &before[i], 0);
    pt_sys(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, sizeof mask);
    if (*pid > 0 && exec_error)
        waitpid(*pid, NULL, 0);
    return f->env ? exec_error : ENOMEM;
}

/* Puts a message that went to no terminal or file of the user into the process table. */
static void note_unheard(int heard_at)
{
    char text[sizeof pt.process->note + 16];
    if (heard_at == STDERR_FILENO)
        return;
    text[pt_finisher_heard(heard_at, text, sizeof text - 1)] = 0;
    const char *words = text;
    if (*text)
        pt_note(&words, 1);
    if (heard_at >= 0)
        pt_sys(SYS_close, heard_at);
}

/* From now on Ctrl-C is for the finisher, or for nobody: the program's end has been decided. */
static const int from_keyboard[2] = {SIGINT, SIGQUIT};

static uint64_t ignore_keyboard(struct pt_kernel_action before[2])
{
    const struct pt_kernel_action ignored = {.handler = SIG_IGN};
    uint64_t heeded = 0;
    for (int i = 0; i < 2; i++)
        if (pt_sys(SYS_rt_sigaction, from_keyboard[i], &ignored, &before[i], 8) == 0 && before[i].handler != SIG_IGN)
            heeded |= 1ull << (from_keyboard[i] - 1);
    return heeded;
}

static void restore_keyboard(const struct pt_kernel_action before[2])
{
    for (int i = 0; i < 2; i++)
        pt_sys(SYS_rt_sigaction, from_keyboard[i], &before[i], 0, 8);
}

void pt_finisher_run(const char *const *argv, char *const *env, int heard_at)
{
    const struct pt_kernel_action usual = {.handler = SIG_DFL};
    struct pt_kernel_action before, keyboard[2]; /* while SIGCHLD is ignored, nobody can learn how a child ended */
    struct pt_finisher f = {argv, env, heard_at, ignore_keyboard(keyboard)};
    bool set = pt_sys(SYS_rt_sigaction, SIGCHLD, &usual, &before, 8) == 0;
    pid_t pid, waited = -1;
    int status = 0, error = start_unlimited(&pid, &f);
    while (!error && (waited = waitpid(pid, &status, 0)) < 0 && errno == EINTR)
        continue;
    if (set)
        pt_sys(SYS_rt_sigaction, SIGCHLD, &before, 0, 8);
    restore_keyboard(keyboard);
    note_unheard(heard_at);
    char printable[sizeof pt.path], room[PT_DIGITS];
    const char *words[PT_FINISHER_WORDS];
    unsigned count =
        pt_finisher_failure(words, room, error, waited > 0 ? status : 0, argv[0], pt_printable(pt.path, printable));
    if (count && !pt.finish_quiet)
        pt_say(words, count);
}
