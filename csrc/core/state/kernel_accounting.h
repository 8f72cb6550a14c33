/* The kernel's own figures: resident and dirty pages, bytes and faults of a process.  Never on a usual path. */
#ifndef PYIO_TRACE_KERNEL_ACCOUNTING_H
#define PYIO_TRACE_KERNEL_ACCOUNTING_H

#include "base/state.h"

/* What the page tables say about a range, in bytes. */
struct pt_resident {
    uint64_t touched;  /* of pages that are there */
    uint64_t at_least; /* of the fewest pages whose faults explain them */
    bool sampled;      /* estimated from a part of the range */
};

bool pt_resident_slow(uintptr_t address, uint64_t length, struct pt_resident *out);
typedef void pt_dirty_seen(uintptr_t start, uintptr_t end, uint64_t dirty, void *data);
bool pt_dirty_each_slow(uintptr_t until, pt_dirty_seen *seen,
                        void *data); /* for each area of memory, up to an address */
uint64_t pt_dirty_cached_slow(int fd, uint64_t offset, uint64_t length);
#define PT_MEASURING_ALLOWANCE 20000000 /* ns of processor time; beyond it, the share of the process's time counts */
bool pt_measuring_affordable(int64_t allowance_ns);
void pt_measuring_took(int64_t since_cpu_ns); /* adds the calling thread's processor time since then */
int64_t pt_thread_cpu_ns(void);
int64_t pt_now_ns(void);
/* For the calling process.  alone: it has one thread, so nothing else can do I/O before the hooks are in place. */
void pt_account_begins(struct pt_process *p, bool forked, bool alone);
void pt_account_opened(struct pt_process *p); /* once the hooks are in place */
void pt_account_stops(struct pt_process *p);  /* just before the hooks go */
void pt_account_ends(struct pt_process *p);
bool pt_account_now_slow(struct pt_account *out);
void pt_account_of_child(const struct pt_account *before, const struct pt_account *after);
struct rusage;
/* What the kernel told when a child was waited for.  child: its entry, if that lacks an account; else NULL. */
void pt_usage_of_child(struct pt_process *child, const struct rusage *usage);
bool pt_ring_open_slow(void); /* an io_uring, however it was made */

#endif
