/* Survives a log that is truncated under its writers: a store into the missing part raises SIGBUS.
 *
 * If another program opens the log for writing, or copies a file over it, no call of ours fails, but the next store
 * into a record does.  So SIGBUS has a handler.  A fault within the log puts anonymous memory in its place: the store
 * goes there, this process is no longer traced, and one line says so.  Every other SIGBUS is the program's, and has
 * the same effect as without us.  For this signal, sigaction and signal are answered here, so that the program finds
 * the disposition it has set.  Its handler is called after ours, with its flags and mask, which the kernel applies. */
#include "hooks/hooks.h"
#include "log/chunks.h"
#include "log/file.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

PT_HOOK_DECLARE(int, sigaction, int, const struct sigaction *, struct sigaction *);
PT_HOOK_DECLARE(sighandler_t, signal, int, sighandler_t);

/* The dispositions that the program has set. One of the two is valid, because the handler may run at any time. */
static struct sigaction theirs[2];
static uint32_t valid; /* atomic: which */

static void set_disposition(const struct sigaction *action)
{
    uint32_t other = 1 - __atomic_load_n(&valid, __ATOMIC_RELAXED);
    theirs[other] = *action;
    __atomic_store_n(&valid, other, __ATOMIC_RELEASE);
}

/* Ends tracing: what other threads are in the middle of goes to memory that nobody reads. */
static bool give_up(void)
{
    bool first = !(__atomic_fetch_or(&pt.gate, PT_GATE_OFF, __ATOMIC_SEQ_CST) & PT_GATE_OFF);
    long at = pt_sys(SYS_mmap, pt.base, pt.mapped, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (at < 0 && at > -4096)
        return false;
    if (first)
        pt_log_damaged("the log was cut short by another program, or its disk is full; what follows is not traced: ");
    return true;
}

static void on_bus_error(int number, siginfo_t *info, void *context);

static void install(const struct sigaction *wanted)
{
    struct sigaction action = *wanted;
    action.sa_sigaction = on_bus_error;
    action.sa_flags = (action.sa_flags & ~(int)SA_RESETHAND) | SA_SIGINFO;
    if (wanted->sa_handler == SIG_DFL)
        action.sa_flags |= SA_ONSTACK | SA_RESTART;
    real_sigaction(SIGBUS, &action, NULL);
}

/* The default action: the fault is repeated without our handler; a signal that was sent is sent again. */
static void by_default(int number, siginfo_t *info)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    real_sigaction(number, &action, NULL);
    if (info->si_code <= 0 || info->si_code == BUS_MCEERR_AO)
        pt_sys(SYS_rt_tgsigqueueinfo, pt_sys6(SYS_getpid, 0, 0, 0, 0, 0, 0), pt_sys6(SYS_gettid, 0, 0, 0, 0, 0, 0),
               number, info);
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    uintptr_t at = (uintptr_t)info->si_addr, log = (uintptr_t)pt.base;
    if (info->si_code > 0 && at >= log && at < log + pt.mapped && (pt_spare_begin_slow() || give_up()))
        return;
    struct sigaction action = theirs[__atomic_load_n(&valid, __ATOMIC_ACQUIRE)];
    if (action.sa_handler == SIG_DFL) {
        by_default(number, info);
        return;
    }
    if (action.sa_flags & SA_RESETHAND) {
        struct sigaction none = {.sa_handler = SIG_DFL};
        set_disposition(&none);
        install(&none);
    }
    if (action.sa_flags & SA_SIGINFO)
        action.sa_sigaction(number, info, context);
    else
        action.sa_handler(number);
}

static bool is_installed(void)
{
    struct sigaction now;
    return real_sigaction(SIGBUS, NULL, &now) == 0 && now.sa_sigaction == on_bus_error;
}

void pt_bus_guard(void)
{
    struct sigaction now;
    if (real_sigaction(SIGBUS, NULL, &now) != 0 || now.sa_handler == SIG_IGN || now.sa_sigaction == on_bus_error)
        return; /* ignored: it stays so, and a fault in the log will end the program */
    set_disposition(&now);
    install(&now);
}

void pt_bus_release(void)
{
    struct sigaction action = theirs[__atomic_load_n(&valid, __ATOMIC_ACQUIRE)];
    if (is_installed())
        real_sigaction(SIGBUS, &action, NULL);
}

/* Our handler stays first, unless the program ignores the signal.  A vfork child has dispositions of its own, but its
 * parent's memory: it gets the kernel's answer. */
int hook_sigaction(int number, const struct sigaction *wanted, struct sigaction *before)
{
    if (PT_LIKELY(number != SIGBUS) || !is_installed() ||
        (pt_self && pt_self->gate & PT_GATE_VFORK && (uint32_t)pt_sys6(SYS_getpid, 0, 0, 0, 0, 0, 0) != pt.pid))
        return real_sigaction(number, wanted, before);
    struct sigaction was = theirs[__atomic_load_n(&valid, __ATOMIC_ACQUIRE)];
    if (wanted && wanted->sa_handler == SIG_IGN) {
        if (real_sigaction(number, wanted, NULL) != 0)
            return -1;
    } else if (wanted) {
        struct sigaction now = *wanted; /* it may be the same object as `before` */
        set_disposition(&now);
        install(&now);
    }
    if (before)
        *before = was;
    return 0;
}

sighandler_t hook_signal(int number, sighandler_t handler)
{
    if (PT_LIKELY(number != SIGBUS) || handler == SIG_ERR)
        return real_signal(number, handler);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, before;
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, number);
    return hook_sigaction(number, &action, &before) == 0 ? before.sa_handler : SIG_ERR;
}
