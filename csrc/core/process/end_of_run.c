/* The end of a process, and of the run: its first process exits.
 *
 * Nothing of ours waits in a living program.  At the very end of exit, after all exit handlers, destructors and
 * flushes, the first process becomes the stub (csrc/stub): the kernel then ends its threads, frees its memory and
 * closes its files, as at any exit.  The stub lets the finisher pack the log and print the summary
 * (pyio_trace/cli/commands/finish_command.py), and ends with the program's status.  Where that cannot be, the core
 * starts the finisher itself, at the same late place, and waits for it.
 *
 * last_in_exit.c gets control that late. */
#include "base/sys.h"
#include "finisher/finisher.h"
#include "log/chunks.h"
#include "process/ending.h"
#include "process/process.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

/* Atomic: ids of the process that ends its run, and of the one that could not become the stub and goes on.  Those of
 * a parent mean nothing in a forked child. */
static uint32_t ending, ended;

static bool ends_run(void)
{
    return pt.owner_pid == pt.pid && !pt.namespace_inode;
}

/* A child of vfork has its parent's memory, and so its parent's pt.pid. */
void pt_wait_for_end(void)
{
    uint32_t pid = __atomic_load_n(&ending, __ATOMIC_ACQUIRE);
    if (!pid || (uint32_t)pt_sys6(SYS_getpid, 0, 0, 0, 0, 0, 0) != pid)
        return;
    while (__atomic_load_n(&ended, __ATOMIC_ACQUIRE) != pid)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void finish(const struct pt_exit *end)
{
    const char *const *argv = pt.finish;
    pt.gate = 1;
    pt_sampler_end();
    pt_log_finish();
    if (!argv)
        return;
    pt.finish = NULL;
    if (end->kind == PT_END_UNKNOWN || !pt_stub_become(end, argv))
        pt_finisher_run_here(argv);
}

static void end_run(const struct pt_exit *end)
{
    uint64_t all = ~0ull, mask;
    pt_sys(SYS_rt_sigprocmask, SIG_SETMASK, &all, &mask, sizeof all);
    if (__atomic_exchange_n(&ending, pt.pid, __ATOMIC_ACQ_REL) != pt.pid) {
        pt_process_end(pt.process, end->kind, end->number);
        finish(end);
        __atomic_store_n(&ended, pt.pid, __ATOMIC_RELEASE);
    }
    pt_sys(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, sizeof mask);
    pt_wait_for_end();
}

/* The first process has ended before: the last one that writes to the log cuts it. */
static void cut_if_last(void)
{
    const struct pt_process *first = pt.namespace_inode ? NULL : pt_process_find(pt.owner_pid);
    if (!first || !pt_process_has_ended(first) || pt_process_others_live() || pt_process_others_awaited())
        return;
    pt.gate = 1;
    pt_sampler_end();
    pt_log_finish();
}

static bool is_traced(void)
{
    return pt.base && !(pt.gate & PT_GATE_OFF) && pt.process;
}

void pt_exit_begins(const struct pt_exit *end)
{
    if (is_traced() && !ends_run())
        pt_process_end(pt.process, end->kind, end->number);
}

/* In a preloaded library, which registers its exit handler first, the destructor comes before that. */
void pt_exit_ends(const struct pt_exit *end)
{
    int error = errno;
    if (is_traced() && ends_run()) {
        end_run(end);
    } else if (is_traced()) {
        if (pt.process->end_kind == PT_END_UNKNOWN)
            pt_exit_begins(end);
        cut_if_last();
    } else {
        pt_wait_for_end();
    }
    errno = error;
}

void pt_exits_now(int status)
{
    const struct pt_exit end = {PT_END_EXIT, status & 0xff};
    pt_exit_begins(&end);
    pt_exit_ends(&end);
}

/* Does a signal that this process sends to itself end it at once? Python ends so after an uncaught KeyboardInterrupt,
 * and so do programs that clean up after such a signal: no exit handler runs then. */
static bool ends_us(int number)
{
    struct pt_kernel_action action;
    uint64_t blocked;
    if (number != SIGINT && number != SIGTERM && number != SIGHUP)
        return false;
    return pt_sys6(SYS_getpid, 0, 0, 0, 0, 0, 0) != 1 && /* the kernel spares the first process of a container */
           pt_sys(SYS_rt_sigaction, number, 0, &action, 8) == 0 && action.handler == SIG_DFL &&
           pt_sys(SYS_rt_sigprocmask, SIG_BLOCK, 0, &blocked, 8) == 0 && !(blocked >> (number - 1) & 1);
}

void pt_signals_itself(struct pt_thread *t, int number)
{
    const struct pt_exit end = {PT_END_SIGNAL, number};
    int error = errno;
    if (ends_us(number)) {
        if (t->borrowed_memory) {
            pt_process_end(t->process, PT_END_SIGNAL, number);
        } else {
            pt_exit_begins(&end);
            pt_exit_ends(&end);
        }
    }
    errno = error;
}
