/* The children of vfork, until they exec.
 *
 * Such a child shares its parent's memory: its records go to a state of its own
 * and the parent's tables are left alone; descriptors that it makes are in a
 * small one of its own.  Which of the two a hook runs in is told by the process
 * id. */
#include "process.h"

#include <signal.h>

/* What a child has under numbers that in its parent's table are something else, or nothing. */
#define OWN_FDS 64
struct pt_own_fds {
    uint32_t count; /* beyond OWN_FDS: some had no room */
    int fd[OWN_FDS];
    pt_fd_entry entry[OWN_FDS]; /* 0: to be found out */
};

/* Runs in the parent just before the real vfork, which is then jumped to. */
void pt_before_vfork(void)
{
    struct pt_thread *t = pt_enter();
    if (t) {
        struct pt_call c;
        pt_begin(&c, t, PT_OP_VFORK, 0, 0, -1, PT_SIZE_NONE);
        pt_end(&c, -1, 0); /* what follows happens in two processes at once */
        t->forking = pt_call_id(&c);
    } else if ((pt.gate & PT_GATE_OFF) || !(t = pt_self)) {
        return;
    } else {
        t->forking = 0; /* suppressed: not recorded, but its child must not be taken for us */
    }
    t->vfork_seen = false;
    t->vfork_doubts = 0;
    t->gate |= PT_GATE_VFORK;
}

/* A hook in the parent while a vfork is noted.  Usually the child is gone: it has been in a hook itself, since it ends by
 * exec or _exit.  If not, this may be the handler of a signal that came just before the vfork, and the child is yet to
 * be.  A child that is never seen (it could not be made, or ended by bare system calls) is not expected for ever. */
#define DOUBTS 1000

void pt_vfork_parent_slow(struct pt_thread *t)
{
    if (t->vfork_seen || ++t->vfork_doubts >= DOUBTS)
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
    }
    t->vfork_seen = true;
    return child;
}

PT_COLD struct pt_thread *pt_vfork_child_slow(struct pt_thread *t, uint32_t pid)
{
    uint64_t all = ~0ull, before;
    if (t->vfork_seen && t->vfork_child && t->vfork_child->tid == pid)
        return t->vfork_child;
    pt_sys(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all); /* no handler meets it half entered */
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

/* False: the kernel is to be asked. */
bool pt_vfork_fd_get(const struct pt_thread *t, int fd, pt_fd_entry *e)
{
    const pt_fd_entry *there = own(t, fd);
    bool whole = t->own_fds && t->own_fds->count <= OWN_FDS;
    *e = there ? *there : whole ? pt_fd_peek(fd) : 0;
    return *e != 0;
}

/* Of what the child made itself: a number of its parent's that it closed is found here once it is something else. */
void pt_vfork_fd_forget_range(struct pt_thread *t, unsigned first, unsigned last)
{
    struct pt_own_fds *o = t->own_fds;
    for (uint32_t i = 0; o && i < o->count && i < OWN_FDS; i++)
        if ((unsigned)o->fd[i] >= first && (unsigned)o->fd[i] <= last)
            o->entry[i] = 0;
}
