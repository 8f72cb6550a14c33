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
#include "log/chunks.h"
#include "process/ending.h"
#include "process/process.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

enum { RUN_GOES_ON, RUN_ENDS, RUN_HAS_ENDED };
static uint32_t state; /* atomic */

static bool ends_run(void)
{
    return pt.owner_pid == pt.pid && !pt.namespace_inode;
}

/* Another thread ends the run: waits until it has become the stub, and so ended this one, or could not. */
static void wait_for_end(void)
{
    while (__atomic_load_n(&state, __ATOMIC_ACQUIRE) == RUN_ENDS)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void finish(const struct pt_exit *end)
{
    const char *const *argv = pt.finish;
    pt.gate = 1;
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
    uint32_t goes_on = RUN_GOES_ON;
    pt_sys(SYS_rt_sigprocmask, SIG_SETMASK, &all, &mask, sizeof all);
    bool ours = __atomic_compare_exchange_n(&state, &goes_on, RUN_ENDS, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    if (ours) {
        pt_process_end(pt.process, end->kind, end->number);
        finish(end);
        __atomic_store_n(&state, RUN_HAS_ENDED, __ATOMIC_RELEASE);
    }
    pt_sys(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, sizeof mask);
    wait_for_end();
}

/* The first process has ended before: the last one that writes to the log cuts it. */
static void cut_if_last(void)
{
    const struct pt_process *first = pt.namespace_inode ? NULL : pt_process_find(pt.owner_pid);
    if (!first || !pt_process_has_ended(first) || pt_process_others_live() || pt_process_others_awaited())
        return;
    pt.gate = 1;
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
