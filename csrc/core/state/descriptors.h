/* What each descriptor of the process is. */
#ifndef PYIO_TRACE_DESCRIPTORS_H
#define PYIO_TRACE_DESCRIPTORS_H

#include "base/state.h"

/* An entry: the descriptor's id, its kind, and whether it is left out. */
typedef uint64_t pt_fd_entry;
#define PT_FD_EXCLUDED (1ull << 63)
#define PT_FD_IDENTIFIED (1ull << 62)
#define PT_FD_GAP (1ull << 61)   /* moved while nothing was recorded: the position must be looked up */
#define PT_FD_STALE (1ull << 60) /* a program that shared it has ended: likewise, before the next call that moves it */
static inline uint32_t pt_entry_id(pt_fd_entry e)
{
    return (uint32_t)e;
}
static inline uint32_t pt_entry_kind(pt_fd_entry e)
{
    return (uint32_t)(e >> 32) & 0xff;
}

#define PT_FD_LEAF_BITS 12
#define PT_FD_TOP_BITS 18 /* 2^30 descriptors: the kernel's own limit */
extern PT_DATA pt_fd_entry *pt_fd_leaves[1u << PT_FD_TOP_BITS];
PT_API pt_fd_entry pt_fd_resolve_slow(struct pt_thread *t, int fd);

static inline pt_fd_entry pt_fd_peek(int fd)
{
    if (PT_UNLIKELY((uint32_t)fd >= (1u << (PT_FD_LEAF_BITS + PT_FD_TOP_BITS))))
        return 0;
    pt_fd_entry *leaf = __atomic_load_n(&pt_fd_leaves[(uint32_t)fd >> PT_FD_LEAF_BITS], __ATOMIC_ACQUIRE);
    return PT_LIKELY(leaf) ? __atomic_load_n(&leaf[(uint32_t)fd & ((1u << PT_FD_LEAF_BITS) - 1)], __ATOMIC_ACQUIRE) : 0;
}
static inline pt_fd_entry pt_fd_get(struct pt_thread *t, int fd)
{
    pt_fd_entry e = pt_fd_peek(fd);
    return PT_LIKELY(e != 0 && !t->borrowed_memory) ? e : pt_fd_resolve_slow(t, fd);
}
void pt_fd_set(struct pt_thread *t, int fd, pt_fd_entry e);
void pt_fd_forget(struct pt_thread *t, int fd);
/* Replaces an entry, unless it has changed since it was seen. */
void pt_fd_replace(int fd, pt_fd_entry seen, pt_fd_entry by);
/* For walks: the place of the first entry at *fd or above, whose number is stored in *fd; NULL: there are no more. */
pt_fd_entry *pt_fd_next_place(uint32_t *fd);
uint32_t pt_fd_path_slow(int fd);    /* a string, from /proc; 0: not known */
bool pt_fd_is_left_out_slow(int fd); /* asks the kernel, keeps nothing */
void pt_fd_forget_range(struct pt_thread *t, unsigned first, unsigned last);
void pt_fd_reset(void);
uint32_t pt_fd_opened(struct pt_thread *t, int fd, uint32_t path, uint32_t flags, uint32_t record);
uint32_t pt_fd_duplicated(struct pt_thread *t, int old, int fd, uint32_t record);
struct stat;
void pt_fd_identify(int fd, const struct stat *st);
void pt_fd_identify_before_close(int fd);
void pt_fd_identify_open_ones(void);
static inline pt_fd_entry pt_left_out_entry(uint32_t kind)
{
    return PT_FD_EXCLUDED | PT_FD_IDENTIFIED | (pt_fd_entry)kind << 32;
}

/* ---- position_gaps.c: its position, where it moved while nothing was recorded */
PT_API void pt_position_gap(struct pt_thread *t, int fd);
void pt_position_gap_ended(struct pt_thread *t, int fd);
void pt_positions_stale(void);
/* Call when fcntl has changed a description's flags: setting or clearing O_APPEND changes where it writes. */
void pt_position_flags_set(uint32_t desc, int fd, uint32_t flags);
void pt_position_gap_closed(int fd, pt_fd_entry e);

#endif
