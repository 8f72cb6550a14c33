/* Forked children that are killed before they can enter themselves in the process table.  The parent does it for them
 * when it waits for them, or at its own end.
 *
 * Only the latest forks are remembered.  One that has to make room for another is looked at once more.  There is no
 * lock, since a signal handler may fork or wait at any moment: of two forks that take the same slot, one is forgotten. */
#include "base/clock.h"
#include "base/sys.h"
#include "process/process.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>

#define REMEMBERED 64u

static struct forked {
    uint32_t pid; /* atomic; 0: the slot is free */
    uint32_t record;
    uint64_t begin;
    bool pending; /* counted in header.forks_pending */
} children[REMEMBERED];
static uint32_t newest, parent; /* parent: the pid that forked them; a forked child inherits the table */

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
            return NULL; /* the log is full, and the child may have run into that itself */
        if (child->pending)
            pt_fork_is_entered();
        p->begin = child->begin;
        p->followed = 1; /* it did nothing, so nothing of it is missing */
        pt_process_describe_like(p, pt.process);
        return p;
    }
    return NULL;
}

/* Records the end of a child that nobody has waited for.  WNOWAIT leaves the child for the program to reap. */
static void enter_end(uint32_t pid)
{
    struct pt_process *p = pt_process_find(pid);
    if (p && pt_process_has_ended(p))
        return;
    siginfo_t info = {0};
    long result = pt_sys6(SYS_waitid, P_PID, pid, (long)&info, WEXITED | WNOHANG | WNOWAIT, 0, 0);
    bool ended = result == 0 && info.si_pid == (pid_t)pid;
    if (!p && (ended || result == -ECHILD))
        p = pt_enter_lost_child(pid);
    if (p && ended) /* otherwise the program waited for it in a call that was not seen */
        pt_process_end(p, info.si_code == CLD_EXITED ? PT_END_EXIT : PT_END_SIGNAL, info.si_status);
}

void pt_lost_children_end(void)
{
    for (uint32_t i = 0; i < REMEMBERED && parent == pt.pid && pt.process_id; i++) {
        uint32_t pid = __atomic_load_n(&children[i].pid, __ATOMIC_ACQUIRE);
        if (pid)
            enter_end(pid);
    }
}

void pt_forked(uint32_t pid, uint32_t record, bool pending)
{
    if (!pt.base || (pt.gate & PT_GATE_OFF) || !pt.process_id)
        return;
    if (parent != pt.pid) {
        memset(children, 0, sizeof children);
        parent = pt.pid;
    }
    struct forked *child = &children[__atomic_fetch_add(&newest, 1, __ATOMIC_RELAXED) % REMEMBERED];
    uint32_t before = __atomic_load_n(&child->pid, __ATOMIC_ACQUIRE);
    if (before)
        enter_end(before); /* it makes room */
    __atomic_store_n(&child->pid, 0, __ATOMIC_RELAXED);
    child->record = record;
    child->begin = pt_ticks();
    child->pending = pending;
    __atomic_store_n(&child->pid, pid, __ATOMIC_RELEASE);
}

/* Called for a new log, whose header does not count earlier forks. */
void pt_forked_children_forget(void)
{
    memset(children, 0, sizeof children);
}
