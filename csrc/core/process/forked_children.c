/* Children of fork() that may be killed before they have entered themselves in the log: the parent that waits for one
 * enters it then.
 *
 * Only the latest are remembered.  A signal handler may fork or wait at any moment, so no lock is taken; of two that
 * take the same place, one is forgotten. */
#include "base/clock.h"
#include "base/sys.h"
#include "process/process.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>

#define REMEMBERED 64u

static struct forked {
    uint32_t pid; /* atomic; 0: the place is free */
    uint32_t record;
    uint64_t begin;
    bool pending; /* counted in header.forks_pending */
} children[REMEMBERED];
static uint32_t newest, parent; /* parent: whose children these are; a forked child inherits them */

void pt_forked(uint32_t pid, uint32_t record, bool pending)
{
    if (!pt.base || (pt.gate & PT_GATE_OFF) || !pt.process_id)
        return;
    if (parent != pt.pid) {
        memset(children, 0, sizeof children);
        parent = pt.pid;
    }
    struct forked *child = &children[__atomic_fetch_add(&newest, 1, __ATOMIC_RELAXED) % REMEMBERED];
    __atomic_store_n(&child->pid, 0, __ATOMIC_RELAXED);
    child->record = record;
    child->begin = pt_ticks();
    child->pending = pending;
    __atomic_store_n(&child->pid, pid, __ATOMIC_RELEASE);
}

struct pt_process *pt_enter_lost_child(uint32_t pid)
{
    for (uint32_t i = 0; i < REMEMBERED && parent == pt.pid; i++) {
        struct forked *child = &children[i];
        uint32_t wanted = pid;
        if (!__atomic_compare_exchange_n(&child->pid, &wanted, 0, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue;
        struct pt_process *p;
        uint32_t id;
        if (!pt_process_enter(PT_START_FORK, child->record, pid, pt.process_id, &p, &id))
            return NULL; /* the log is full, which the child may have found as well */
        if (child->pending)
            pt_fork_is_entered();
        p->begin = child->begin;
        p->followed = 1; /* it has done nothing that is not here */
        pt_process_describe_like(p, pt.process);
        return p;
    }
    return NULL;
}

/* Those that have ended and were never waited for.  This looks at them without waiting for them. */
void pt_lost_children_end(void)
{
    for (uint32_t i = 0; i < REMEMBERED && parent == pt.pid && pt.process_id; i++) {
        uint32_t pid = __atomic_load_n(&children[i].pid, __ATOMIC_ACQUIRE);
        struct pt_process *p = pid ? pt_process_find(pid) : NULL;
        if (!pid || (p && pt_process_has_ended(p)))
            continue;
        siginfo_t info = {0};
        long result = pt_sys6(SYS_waitid, P_PID, pid, (long)&info, WEXITED | WNOHANG | WNOWAIT, 0, 0);
        bool ended = result == 0 && info.si_pid == (pid_t)pid;
        if (!p && (ended || result == -ECHILD))
            p = pt_enter_lost_child(pid);
        if (p &&
            ended) /* if not, the kernel or a call that is not hooked has waited for it: nobody tells how it ended */
            pt_process_end(p, info.si_code == CLD_EXITED ? PT_END_EXIT : PT_END_SIGNAL, info.si_status);
    }
}

/* Another log begins: its header counts no forks of before. */
void pt_forked_children_forget(void)
{
    memset(children, 0, sizeof children);
}
