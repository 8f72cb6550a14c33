/* Waiting for children: how they ended, and what the kernel added to our figures for them. */
#include "process/process.h"
#include "state/descriptors.h"
#include "state/kernel_accounting.h"

#include <sys/resource.h>
#include <sys/wait.h>

void pt_before_wait(struct pt_waiting *w)
{
    w->known = false;
    if ((pt.gate & PT_GATE_OFF) || !pt.process_id || !pt_measuring_affordable(PT_MEASURING_ALLOWANCE))
        return;
    int64_t since = pt_thread_cpu_ns();
    w->known = pt_account_now_slow(&w->before);
    pt_measuring_took(since);
}

/* Its own account: it has entered it as its last act.  One that became another program has entered it too early. */
static bool has_own_account(const struct pt_process *child)
{
    return child->accounts & PT_ACCOUNT_END && child->end_kind != PT_END_EXEC;
}

static void account_for(const struct pt_process *child, const struct pt_waiting *w)
{
    static const struct pt_account nothing;
    struct pt_account after;
    if (!pt.process_id)
        return;
    /* The child's own account is exact; the difference includes what other threads did meanwhile. */
    if (child && child->accounts & PT_ACCOUNT_END &&
        (child->end_kind == PT_END_EXIT || child->end_kind == PT_END_UNKNOWN))
        pt_account_of_child(&nothing, &child->end_account);
    else if (w->known && pt_account_now_slow(&after))
        pt_account_of_child(&w->before, &after);
    else
        __atomic_fetch_or(&pt.process->accounts, PT_ACCOUNT_MIXED, __ATOMIC_RELAXED);
}

/* A child that did not exec recorded what it did to shared positions. */
static bool was_another_program(const struct pt_process *p)
{
    return !p || p->start != PT_START_FORK || p->exec_by || p->end_kind == PT_END_EXEC;
}

void pt_process_waited(struct pt_process *p, uint32_t pid, int status, const struct pt_waiting *w,
                       const struct rusage *usage)
{
    if (!(WIFEXITED(status) || WIFSIGNALED(status)))
        return;
    if (!p && pid && pt.process_id)
        p = pt_enter_lost_child(pid);
    if (was_another_program(p))
        pt_positions_stale();
    account_for(p, w);
    if (usage)
        pt_usage_of_child(p && !has_own_account(p) ? p : NULL, usage);
    if (!p || p->end_kind == PT_END_EXIT || p->end_kind == PT_END_SIGNAL)
        return;
    if (WIFSIGNALED(status))
        pt_process_end(p, PT_END_SIGNAL, WTERMSIG(status));
    else
        pt_process_end(p, PT_END_EXIT, WEXITSTATUS(status));
}
