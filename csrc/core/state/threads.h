/* The states of threads, and of the children of vfork. */
#ifndef PYIO_TRACE_THREADS_H
#define PYIO_TRACE_THREADS_H

#include "base/state.h"
#include "state/descriptors.h"

PT_API struct pt_thread *pt_enter_slow(void);
PT_API struct pt_record *pt_claim_slow(struct pt_thread *t);
struct pt_thread *pt_thread_new_slow(void);
void pt_threads_after_fork(void);
void pt_threads_forget_chunks(void);

/* ---- vfork_children.c */
struct pt_thread *pt_vfork_child_slow(struct pt_thread *t, uint32_t pid);
void pt_vfork_parent_slow(struct pt_thread *t);
void pt_vfork_fd_set(struct pt_thread *t, int fd, pt_fd_entry e);
bool pt_vfork_fd_get(const struct pt_thread *t, int fd, pt_fd_entry *e);
void pt_vfork_fd_forget_range(struct pt_thread *t, unsigned first, unsigned last);

#endif
