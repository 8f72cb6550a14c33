/* Positions of descriptors, tracked where only sums are kept. */
#ifndef PYIO_TRACE_POSITIONS_H
#define PYIO_TRACE_POSITIONS_H

#include "state/descriptors.h"

extern bool pt_ever_forked;                     /* this process, or one that it is a fork of */
extern bool pt_positions_followed;              /* atomic: has any descriptor a tracked position? */
void pt_position_new(int fd);                   /* the number now stands for another descriptor */
void pt_position_set(int fd, int64_t position); /* -1: not known */
void pt_position_shared(int fd);
void pt_positions_all_shared(void);
void pt_positions_forget(void); /* other modes do not track them */

/* Instead of a position: not tracked, because the open file description has other descriptors, or appends move it. */
#define PT_POSITION_SHARED (-1)
extern PT_INNER int64_t *pt_position_leaves[1u << PT_FD_TOP_BITS]; /* position + 1; 0: not known */

/* NULL: its leaf does not exist. */
static inline int64_t *pt_position_at(int fd)
{
    if ((uint32_t)fd >= 1u << (PT_FD_LEAF_BITS + PT_FD_TOP_BITS))
        return NULL;
    int64_t *leaf = __atomic_load_n(&pt_position_leaves[(uint32_t)fd >> PT_FD_LEAF_BITS], __ATOMIC_ACQUIRE);
    return leaf ? &leaf[(uint32_t)fd & ((1u << PT_FD_LEAF_BITS) - 1)] : NULL;
}

/* Moves the position on by a transfer.  Returns where the transfer began, or -1.  Of two threads that use one
 * descriptor at the same time, one may see the other's position. */
static inline int64_t pt_position_move(int fd, int64_t moved)
{
    int64_t *at = pt_position_at(fd), before = at ? __atomic_load_n(at, __ATOMIC_RELAXED) - 1 : -1;
    if (before < 0)
        return -1;
    if (moved > 0)
        __atomic_store_n(at, before + 1 + moved, __ATOMIC_RELAXED);
    return before;
}

#endif
