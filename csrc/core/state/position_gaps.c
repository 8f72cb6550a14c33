/* Marks descriptors whose position changed while nothing was recorded, so that it is looked up again. */
#include "log/ids.h"
#include "state/descriptors.h"
#include "state/positions.h"
#include "state/threads.h"

#include <fcntl.h>

/* The open file description of an entry; NULL: it has none. */
static struct pt_desc *root_of(pt_fd_entry e)
{
    const struct pt_desc *d = pt_desc_at(pt_entry_id(e));
    return d ? pt_desc_root(d) : NULL;
}

static void lost(pt_fd_entry e, uint32_t process)
{
    struct pt_desc *root = root_of(e);
    if (!root)
        return;
    /* Another process or descriptor may continue from the new position, and there is only one mark for each
     * descriptor. */
    bool own = pt_id_of(root) == pt_entry_id(e) && root->process == process;
    uint32_t gap = own && !pt_ever_forked ? PT_GAP_RESUMED : PT_GAP_LOST;
    if (__atomic_load_n(&root->gap, __ATOMIC_RELAXED) < gap)
        __atomic_store_n(&root->gap, gap, __ATOMIC_RELAXED);
}

void pt_position_gap(struct pt_thread *t, int fd)
{
    pt_fd_entry e = pt_fd_peek(fd);
    if (!pt_entry_id(e) || (e & (PT_FD_EXCLUDED | PT_FD_GAP)))
        return;
    lost(e, t->process_id);
    if (t->borrowed_memory)
        return;
    pt_fd_replace(fd, e, e | PT_FD_GAP);
}

/* After a call that was marked in advance: a thread may have looked the position up meanwhile, too early. */
void pt_position_gap_ended(struct pt_thread *t, int fd)
{
    pt_fd_entry e = pt_fd_peek(fd);
    if (!pt_entry_id(e) || (e & (PT_FD_EXCLUDED | PT_FD_GAP)))
        return;
    struct pt_desc *root = root_of(e);
    if (root && __atomic_load_n(&root->gap, __ATOMIC_RELAXED) < PT_GAP_LOST)
        __atomic_store_n(&root->gap, PT_GAP_LOST, __ATOMIC_RELAXED);
    pt_position_gap(t, fd);
}

/* A program that this process started has ended.  It may have had any descriptor and moved its position unseen.
 * (Close-on-exec proves nothing: a duplicate has the same description.) */
void pt_positions_stale(void)
{
    pt_fd_entry *at;
    for (uint32_t fd = 0; (at = pt_fd_next_place(&fd)); fd++) {
        pt_fd_entry e = __atomic_load_n(at, __ATOMIC_RELAXED);
        uint32_t kind = pt_entry_kind(e);
        if (pt_entry_id(e) && !(e & PT_FD_EXCLUDED) && (kind == PT_DESC_REGULAR || kind == PT_DESC_UNKNOWN))
            __atomic_compare_exchange_n(at, &e, e | PT_FD_STALE, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
}

void pt_position_flags_set(uint32_t desc, int fd, uint32_t flags)
{
    const struct pt_desc *d = pt_desc_at(desc);
    if (!d || !((d->open_flags ^ flags) & O_APPEND))
        return;
    struct pt_desc *root = pt_desc_root(d);
    if (root && __atomic_load_n(&root->gap, __ATOMIC_RELAXED) < PT_GAP_LOST)
        __atomic_store_n(&root->gap, PT_GAP_LOST, __ATOMIC_RELAXED);
    pt_position_shared(fd);
}

void pt_position_gap_closed(int fd, pt_fd_entry e)
{
    pt_fd_replace(fd, e, e & ~(PT_FD_GAP | PT_FD_STALE));
}
