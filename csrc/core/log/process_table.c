/* The process table: one entry in the log for each process of the run, found by process id. */
#include "log/process_table.h"
#include "base/clock.h"
#include "base/proc.h"
#include "base/sys.h"
#include "log/chunks.h"
#include "log/file.h"
#include "log/ids.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

struct pt_process pt_unlisted_process;

/* ---- pid namespaces ---------------------------------------------------------------------------
 *
 * After unshare() or setns(), the next children of a process count their ids in another namespace, so the same number
 * may stand for several processes of the run.  A number means what it means in the namespace of its entry.  Processes
 * of the log's own namespace also know the others by their numbers there (outer_pid), as kill() and wait() have them. */

#define OTHER_NAMESPACE UINT64_MAX /* another one, of unknown inode */

/* The number by which this process knows another; 0: it has none, or that is not known. */
static uint32_t number_here(const struct pt_process *p)
{
    if (p->namespace_inode == pt.namespace_inode && p->namespace_inode != OTHER_NAMESPACE)
        return p->pid;
    return pt.namespace_inode ? 0 : p->outer_pid;
}

bool pt_process_is_us(const struct pt_process *p)
{
    return p == pt.process || (p->pid == pt.pid && number_here(p) == pt.pid);
}

/* The namespace of the calling process, as entries have it. */
static uint64_t namespace_of_caller(void)
{
    uint64_t inode = pt_pid_namespace();
    if (inode)
        return inode == pt.log_namespace ? 0 : inode;
    /* /proc cannot tell.  A parent outside the namespace shows as 0. */
    return pt_sys6(SYS_getppid, 0, 0, 0, 0, 0, 0) == 0 ? OTHER_NAMESPACE : pt.namespace_inode;
}

/* Its number in the log's namespace: /proc's, if /proc belongs there.  There, the parent's number is the one that the
 * log has. */
static uint32_t outer_pid(const struct pt_process *parent, uint64_t parents_namespace)
{
    uint32_t here = pt_pid_in_proc(), known = parent ? (parents_namespace ? parent->outer_pid : parent->pid) : 0;
    return here && known && pt_process_parent(here) == known ? here : 0;
}

void pt_namespace_forked(uint32_t parent)
{
    uint64_t parents = pt.namespace_inode;
    pt.namespace_inode = namespace_of_caller();
    pt.outer_pid = pt.namespace_inode ? outer_pid(pt_process_at(parent), parents) : 0;
}

/* ---- entries ----------------------------------------------------------------------------------- */

/* Buckets by process id, where it is known in the log's namespace. With thousands of processes, a walk of the whole list would cost a page fault for each. */
static uint32_t *bucket_of(uint32_t pid)
{
    return (uint32_t *)(pt.base + PT_PROCESS_INDEX_OFFSET) + pid % PT_PROCESS_BUCKETS;
}

static void push(uint32_t *newest, uint32_t *next, uint32_t id)
{
    uint32_t head = __atomic_load_n(newest, __ATOMIC_ACQUIRE);
    do
        __atomic_store_n(next, head, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(newest, &head, id, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE));
}

bool pt_process_enter(uint32_t start, uint32_t started_by, uint32_t pid, uint32_t parent, struct pt_process **process,
                      uint32_t *process_id)
{
    uint64_t size = PT_PROCESS_CHUNK;
    struct pt_chunk *c = pt_chunk_claim_slow(&(struct pt_chunk_request){.kind = PT_CHUNK_PROCESS}, &size);
    if (!c) {
        *process = &pt_unlisted_process;
        *process_id = 0;
        return false;
    }
    struct pt_process *p = (struct pt_process *)c;
    uint32_t id = pt_id_of(c);
    c->process = id;
    p->pid = pid;
    p->namespace_inode = pt.namespace_inode;
    p->outer_pid = pid == pt.pid ? pt.outer_pid : 0;
    if (start == PT_START_VFORK && pt_sys6(SYS_getppid, 0, 0, 0, 0, 0, 0) == 0) { /* the child asks */
        p->namespace_inode = namespace_of_caller();
        p->outer_pid = outer_pid(pt.process, pt.namespace_inode);
    }
    p->ppid = pid == pt.pid ? (uint32_t)pt_sys6(SYS_getppid, 0, 0, 0, 0, 0, 0) : pt.pid;
    p->parent = parent;
    p->started_by = started_by;
    p->start = start;
    p->begin = pt_ticks();
    p->cwd = pt.cwd;
    push(&pt.header->processes, &p->previous, id);
    push(bucket_of(p->outer_pid ? p->outer_pid : pid), &p->bucket_next, id);
    *process = p;
    *process_id = id;
    return true;
}

void pt_process_describe_like(struct pt_process *p, const struct pt_process *other)
{
    if (p == &pt_unlisted_process || other == &pt_unlisted_process)
        return;
    memcpy(p->executable, other->executable, sizeof p->executable);
    p->argv_length = other->argv_length;
    memcpy(p->argv, other->argv, sizeof p->argv);
}

bool pt_process_has_ended(const struct pt_process *p)
{
    return p->end_kind == PT_END_EXIT || p->end_kind == PT_END_SIGNAL;
}

/* An entry is a chunk, and so begins on a page. */
struct pt_process *pt_process_at(uint32_t id)
{
    uint64_t at = (uint64_t)id << PT_ID_SHIFT;
    struct pt_process *p = at >= PT_FIRST_CHUNK && at % PT_PAGE == 0 ? pt_checked(id, PT_PROCESS_CHUNK) : NULL;
    if (p)
        pt_log_keep_mapped(at + PT_PROCESS_CHUNK);
    return p;
}

/* A walk along a list of entries, newest first.  Others can write to the list, so it may have a cycle.  Brent's
 * algorithm notices one: each place is compared with a mark, which moves to the current place after 1, 2, 4, ...
 * steps.  And no list has more entries than the log has room for. */
struct walk {
    uint32_t next, mark, steps, most;
};

static struct pt_process *step(struct walk *w, const uint32_t *next)
{
    w->next = __atomic_load_n(next, __ATOMIC_ACQUIRE);
    if (w->next == w->mark || w->steps == w->most)
        return NULL;
    if ((w->steps & (w->steps + 1)) == 0)
        w->mark = w->next;
    w->steps++;
    return pt_process_at(w->next);
}

#define PT_EACH_PROCESS(p)                                                 \
    struct walk walk = {.most = (uint32_t)(pt.mapped / PT_PROCESS_CHUNK)}; \
    for (struct pt_process *p = step(&walk, &pt.header->processes); p; p = step(&walk, &p->previous))

#define MOST_IN_BUCKET 4096u /* two million processes */

/* The newest entry of a process id. */
struct pt_process *pt_process_find(uint32_t pid)
{
    if (pt.namespace_inode) { /* the buckets do not have its numbers */
        PT_EACH_PROCESS(p)
        if (number_here(p) == pid)
            return p;
        return NULL;
    }
    struct walk walk = {.most = MOST_IN_BUCKET};
    for (struct pt_process *p = step(&walk, bucket_of(pid)); p; p = step(&walk, &p->bucket_next))
        if (number_here(p) == pid)
            return p;
    return NULL;
}

/* The process that an operation started, if it has an entry. */
struct pt_process *pt_process_started_by(uint32_t record)
{
    PT_EACH_PROCESS(p)
    if (p->started_by == record)
        return p;
    return NULL;
}

bool pt_process_exists(const struct pt_process *p)
{
    int pid = (int)number_here(p);
    if (!pid && p->namespace_inode != pt.namespace_inode)
        return true;                                      /* cannot be told from here */
    return pid > 0 && pt_sys(SYS_kill, pid, 0) != -ESRCH; /* -EPERM: it now belongs to another user */
}

/* Is another process of the run still writing to the log? */
bool pt_process_others_live(void)
{
    if (__atomic_load_n(&pt.header->forks_pending, __ATOMIC_ACQUIRE) && !pt_log_is_private())
        return true;
    PT_EACH_PROCESS(p)
    if (!pt_process_is_us(p) && p->followed == 1 && p->end_kind == PT_END_UNKNOWN && pt_process_exists(p))
        return true;
    return walk.next != 0; /* the list goes on beyond what this process maps */
}

/* Has a program been started with all it needs to join the run, and not joined yet? */
bool pt_process_others_awaited(void)
{
    uint32_t checked = 0; /* each check is another walk */
    PT_EACH_PROCESS(p)
    if (p->awaited && !pt_process_is_us(p) && !pt_process_has_ended(p) && number_here(p) && checked++ < 1000 &&
        pt_process_find(number_here(p)) == p && pt_process_exists(p))
        return true;
    return false;
}
