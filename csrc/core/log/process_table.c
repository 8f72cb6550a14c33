/* The process table: one entry in the log for each process of the run, found by process id. */
#include "log/process_table.h"
#include "base/clock.h"
#include "base/sys.h"
#include "log/chunks.h"
#include "log/file.h"
#include "log/ids.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

struct pt_process pt_unlisted_process;

/* Buckets by process id. With thousands of processes, a walk of the whole list would cost a page fault for each. */
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
    p->ppid =
        start == PT_START_VFORK || start == PT_START_SPAWN ? pt.pid : (uint32_t)pt_sys6(SYS_getppid, 0, 0, 0, 0, 0, 0);
    p->parent = parent;
    p->started_by = started_by;
    p->start = start;
    p->begin = pt_ticks();
    p->cwd = pt.cwd;
    push(&pt.header->processes, &p->previous, id);
    push(bucket_of(pid), &p->bucket_next, id);
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
    struct walk walk = {.most = MOST_IN_BUCKET};
    for (struct pt_process *p = step(&walk, bucket_of(pid)); p; p = step(&walk, &p->bucket_next))
        if (p->pid == pid)
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
    int pid = (int)__atomic_load_n(&p->pid, __ATOMIC_RELAXED);
    return pid > 0 && pt_sys(SYS_kill, pid, 0) != -ESRCH; /* -EPERM: it now belongs to another user */
}

/* Is another process of the run still writing to the log? */
bool pt_process_others_live(void)
{
    if (__atomic_load_n(&pt.header->forks_pending, __ATOMIC_ACQUIRE) && !pt_log_is_private())
        return true;
    PT_EACH_PROCESS(p)
    if (p->pid != pt.pid && p->followed == 1 && p->end_kind == PT_END_UNKNOWN && pt_process_exists(p))
        return true;
    return walk.next != 0; /* the list goes on beyond what this process maps */
}

/* Has a program been started with all it needs to join the run, and not joined yet? */
bool pt_process_others_awaited(void)
{
    uint32_t checked = 0; /* each check is another walk */
    PT_EACH_PROCESS(p)
    if (p->awaited && p->pid != pt.pid && !pt_process_has_ended(p) && checked++ < 1000 &&
        pt_process_find(p->pid) == p && pt_process_exists(p))
        return true;
    return false;
}
