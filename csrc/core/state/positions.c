/* Positions of descriptors, tracked where only sums are kept.
 *
 * With records, the reader computes positions from their order.  Sums have no order, so the offset of a transfer must
 * be known when it is added. */
#include "state/positions.h"
#include "base/memory.h"
#include "state/descriptors.h"

#include <string.h>

#define SHARED_BYTE 0xff
PT_TABLE int64_t *pt_position_leaves[1u << PT_FD_TOP_BITS];
static uint32_t highest_leaf;
bool pt_positions_followed, pt_ever_forked;

/* The position of a descriptor, whose leaf is allocated if needed. */
static int64_t *make_slow(int fd)
{
    if ((uint32_t)fd >= 1u << (PT_FD_LEAF_BITS + PT_FD_TOP_BITS))
        return NULL;
    int64_t **top = &pt_position_leaves[(uint32_t)fd >> PT_FD_LEAF_BITS];
    int64_t *leaf = __atomic_load_n(top, __ATOMIC_ACQUIRE);
    if (!leaf) {
        size_t bytes = sizeof *leaf << PT_FD_LEAF_BITS;
        int64_t *fresh = pt_memory(bytes);
        if (!fresh)
            return NULL;
        if (pt_ever_forked) /* older descriptors are shared with a child */
            memset(fresh, SHARED_BYTE, bytes);
        __atomic_store_n(&pt_positions_followed, true, __ATOMIC_RELAXED);
        uint32_t index = (uint32_t)fd >> PT_FD_LEAF_BITS, seen = __atomic_load_n(&highest_leaf, __ATOMIC_RELAXED);
        while (index > seen &&
               !__atomic_compare_exchange_n(&highest_leaf, &seen, index, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            continue;
        if (__atomic_compare_exchange_n(top, &leaf, fresh, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
            leaf = fresh;
        else
            pt_memory_back(fresh, bytes);
    }
    return &leaf[(uint32_t)fd & ((1u << PT_FD_LEAF_BITS) - 1)];
}

static int64_t *find_or_make(int fd, bool make)
{
    int64_t *at = pt_position_at(fd);
    return at || !make ? at : make_slow(fd);
}

void pt_position_set(int fd, int64_t position)
{
    int64_t *at = find_or_make(fd, position >= 0);
    if (at && __atomic_load_n(at, __ATOMIC_RELAXED) != PT_POSITION_SHARED)
        __atomic_store_n(at, position + 1, __ATOMIC_RELAXED);
}

/* The number now stands for another descriptor. */
void pt_position_new(int fd)
{
    int64_t *at = find_or_make(fd, pt_ever_forked);
    if (at)
        __atomic_store_n(at, 0, __ATOMIC_RELAXED);
}

void pt_position_shared(int fd)
{
    int64_t *at = fd < 0 ? NULL : find_or_make(fd, true);
    if (at)
        __atomic_store_n(at, PT_POSITION_SHARED, __ATOMIC_RELAXED);
}

void pt_positions_all_shared(void)
{
    for (uint32_t i = 0; i <= highest_leaf; i++)
        if (pt_position_leaves[i])
            memset(pt_position_leaves[i], SHARED_BYTE, sizeof(int64_t) << PT_FD_LEAF_BITS);
}

/* Other modes do not track positions. */
void pt_positions_forget(void)
{
    for (uint32_t i = 0; i <= highest_leaf; i++)
        for (uint32_t fd = 0; pt_position_leaves[i] && fd < 1u << PT_FD_LEAF_BITS; fd++)
            if (pt_position_leaves[i][fd] > 0)
                pt_position_leaves[i][fd] = 0;
}
