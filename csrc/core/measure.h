/* What measure.c and mappings.c offer the hooks of mappings and the lives of processes.  Nothing here is on a usual path. */
#ifndef PYIO_TRACE_MEASURE_H
#define PYIO_TRACE_MEASURE_H

#include "core.h"

/* What the page tables say of a range: bytes. */
struct pt_resident {
    uint64_t touched;  /* of pages that are there */
    uint64_t at_least; /* of the fewest pages whose faults can have brought them */
    bool sampled;      /* scaled up from a part of the range */
};

/* measure.c */
bool pt_resident_slow(uintptr_t address, uint64_t length, struct pt_resident *out);
typedef void pt_dirty_seen(uintptr_t start, uintptr_t end, uint64_t dirty, void *data);
bool pt_dirty_each_slow(uintptr_t until, pt_dirty_seen *seen, void *data); /* areas of memory, up to an address */
uint64_t pt_dirty_cached_slow(int fd, uint64_t offset, uint64_t length);
#define PT_MEASURING_ALLOWANCE 20000000 /* ns that a process may measure before its share of the time is looked at */
bool pt_measuring_affordable(int64_t allowance_ns);
void pt_measuring_took(int64_t since_ns);
int64_t pt_now_ns(void);
void pt_account_begins(struct pt_process *p, bool forked); /* the calling process */
void pt_account_ends(struct pt_process *p);
bool pt_account_now_slow(struct pt_account *out);
void pt_account_of_child(const struct pt_account *before, const struct pt_account *after);
bool pt_ring_open_slow(void); /* an io_uring, however it was made */

/* mappings.c */
struct pt_mapping_place;
struct pt_mapping_place *pt_mapping_lookup(const void *address); /* NULL: no file is mapped there */
uint32_t pt_mapping_desc_of(const struct pt_mapping_place *m);
void pt_mapping_made(struct pt_thread *t, void *address, uint64_t length, int protection, int flags, int fd, uint64_t offset,
                     uint32_t desc, uint32_t record);
void pt_mapping_moved(struct pt_mapping_place *m, void *address, uint64_t length);
void pt_mapping_dropped(struct pt_mapping_place *m, uintptr_t address, uint64_t length); /* before its pages go */
uint64_t pt_mapping_before_sync(struct pt_mapping_place *m);
void pt_mapping_after_sync(struct pt_mapping_place *m, uint64_t dirty_before);
void pt_mapping_measure(struct pt_mapping_place *m, uint32_t how);
void pt_mapping_forget(struct pt_mapping_place *m);
void pt_mappings_end(bool all);
void pt_mappings_forked(void);

#endif
