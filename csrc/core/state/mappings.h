/* The files that this process has mapped. */
#ifndef PYIO_TRACE_MAPPINGS_H
#define PYIO_TRACE_MAPPINGS_H

#include "base/state.h"

struct pt_mapping_place;
struct pt_mapping_place *pt_mapping_lookup(const void *address); /* the one that begins there; NULL: none */
struct pt_mapping_place *pt_mapping_around(const void *address); /* the one that has the address in it; NULL: none */
bool pt_mapping_is_whole(const struct pt_mapping_place *m, const void *address, uint64_t length);
uint32_t pt_mapping_desc_of(const struct pt_mapping_place *m);
/* A successful mmap of a file. */
struct pt_new_mapping {
    void *address;
    uint64_t length, offset;
    int protection, flags, fd; /* as mmap got them */
    uint32_t desc, record;     /* ids; 0: none */
};
void pt_mapping_made(struct pt_thread *t, const struct pt_new_mapping *made);
void pt_mapping_moved(struct pt_mapping_place *m, void *address, uint64_t length);
struct pt_moved_part {
    uintptr_t from, to;
    uint64_t old_length, length;
};
void pt_mapping_part_moved(struct pt_mapping_place *m, const struct pt_moved_part *part);
void pt_mapping_dropped(struct pt_mapping_place *m, uintptr_t address, uint64_t length); /* before its pages go */
void pt_mappings_before_sync(const void *address, uint64_t length);
void pt_mappings_after_sync(const void *address, uint64_t length);
void pt_mapping_measure(struct pt_mapping_place *m, uint32_t how);
void pt_mapping_forget(struct pt_mapping_place *m);
void pt_mappings_end(bool all);
void pt_mappings_forked(void);
void pt_mappings_reset(void);
PT_API uint32_t pt_mapping_desc(const void *address); /* 0: no file is mapped there */

#endif
