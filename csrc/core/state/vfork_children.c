/* Children of vfork, until they exec.
 *
 * Such a child shares its parent's memory.  Its records go to a thread state of its own, and it leaves the parent's
 * tables alone: descriptors that it creates are in a small table of its own.  A hook tells by the process id in which
 * of the two it runs. */
#include "base/memory.h"
#include "base/sys.h"
#include "log/process_table.h"
#include "state/threads.h"

#include <signal.h>

/* Descriptors of the child whose numbers mean something else, or nothing, in the parent. */
#define OWN_FDS 64
struct pt_own_fds {
    uint32_t count; /* > OWN_FDS: some did not fit */
    int fd[OWN_FDS];
    pt_fd_entry entry[OWN_FDS]; /* 0: not known yet */
};

/* A hook in the parent after a vfork.  Usually the child has ended and was seen doing so: it ends by exec or _exit, and
 * both have hooks.  If it has not been seen, this may be a signal handler that ran just before the vfork, and the child is
 * still to come.  A child that never shows up (it could not be created, or used bare system calls) is not waited for
 * forever. */
#define MOST_HOOKS 1000

void pt_vfork_parent_slow(struct pt_thread *t)
{
    if (t->vfork_seen || ++t->vfork_hooks >= MOST_HOOKS)
        t->gate &= ~(uint32_t)PT_GATE_VFORK;
}

static struct pt_thread *vfork_child(struct pt_thread *t, uint32_t pid)
{
    struct pt_thread *child = t->vfork_child;
    if (!child) {
        child = t->vfork_child = pt_thread_new_slow();
        if (!child)
            return NULL;
        child->tid = 0; /* not entered yet */
    }
    if (!t->vfork_seen || child->tid != pid) {
        child->next = child->end = 0;
        child->sequence = 0;
        child->tid = pid;
        child->gate = t->gate & PT_GATE_SUPPRESSED;
        child->epoch = pt.epoch;
        child->parent = t->parent;
        child->link = t->link;
        child->borrowed_memory = true;
        if (!child->own_fds)
            child->own_fds = pt_memory(sizeof *child->own_fds);
        if (child->own_fds)
            child->own_fds->count = 0;
        pt_process_enter(PT_START_VFORK, t->forking, pid, pt.process_id, &child->process, &child->process_id);
        if (pt.process)
            pt_process_describe_like(child->process, pt.process);
    }
    t->vfork_seen = true;
    return child;
}

PT_COLD struct pt_thread *pt_vfork_child_slow(struct pt_thread *t, uint32_t pid)
{
    uint64_t all = ~0ull, before;
    if (t->vfork_seen && t->vfork_child && t->vfork_child->tid == pid)
        return t->vfork_child;
    pt_sys(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all); /* no signal handler may see it half entered */
    struct pt_thread *child = vfork_child(t, pid);
    pt_sys(SYS_rt_sigprocmask, SIG_SETMASK, &before, 0, sizeof before);
    return child;
}

static pt_fd_entry *own(const struct pt_thread *t, int fd)
{
    struct pt_own_fds *o = t->own_fds;
    for (uint32_t i = 0; o && i < o->count && i < OWN_FDS; i++)
        if (o->fd[i] == fd)
            return &o->entry[i];
    return NULL;
}

void pt_vfork_fd_set(struct pt_thread *t, int fd, pt_fd_entry e)
{
    struct pt_own_fds *o = t->own_fds;
    pt_fd_entry *there = own(t, fd);
    if (there)
        *there = e;
    else if (o && o->count < OWN_FDS) {
        o->fd[o->count] = fd;
        o->entry[o->count++] = e;
    } else if (o)
        o->count = OWN_FDS + 1;
}

/* False: the kernel must be asked. */
bool pt_vfork_fd_get(const struct pt_thread *t, int fd, pt_fd_entry *e)
{
    const pt_fd_entry *there = own(t, fd);
    bool whole = t->own_fds && t->own_fds->count <= OWN_FDS;
    *e = there ? *there : whole ? pt_fd_peek(fd) : 0;
    return *e != 0;
}

/* Forgets only descriptors that the child created.  A number of its parent's that the child closed counts as the
 * child's once the child opens something under it. */
void pt_vfork_fd_forget_range(struct pt_thread *t, unsigned first, unsigned last)
{
    struct pt_own_fds *o = t->own_fds;
    for (uint32_t i = 0; o && i < o->count && i < OWN_FDS; i++)
        if ((unsigned)o->fd[i] >= first && (unsigned)o->fd[i] <= last)
            o->entry[i] = 0;
}
