/* The table of file mappings, for state/mappings.c. */
#ifndef PYIO_TRACE_MAPPING_PLACES_H
#define PYIO_TRACE_MAPPING_PLACES_H

#include "state/kernel_accounting.h"
#include "state/mappings.h"

struct pt_mapping_place {
    uintptr_t address; /* atomic; 0: never used, 1: free again */
    uint32_t desc;
    uint32_t object;  /* its struct pt_mapping; 0: none (yet, in a forked child) */
    uint32_t process; /* whose object that is */
    uint32_t flags;
    uint32_t protection;
    uint32_t record;
    uint64_t length, offset;
    struct pt_resident gone;                   /* of pages that are gone (MADV_DONTNEED, mremap) */
    uint64_t dirty_before;                     /* of the file, at the time of mmap */
    uint64_t synced;                           /* bytes that msync has made clean */
    uint64_t dirty;                            /* while areas are examined */
    uint64_t dirty_own, dirty_cached;          /* before an msync: of this mapping, and of the file, all writers' */
    uint64_t others_cleaned;                   /* by msync, of what others have written */
    uint64_t dirty_at_fork[PT_MAPPING_SHARES]; /* of each share of an inherited mapping: bytes dirty in the file */
};

/* Another thread may be checking whether the place is free. */
static inline uintptr_t pt_place_address(const struct pt_mapping_place *m)
{
    return __atomic_load_n(&m->address, __ATOMIC_RELAXED);
}

void pt_place_record(uintptr_t address, const struct pt_mapping_place *what);
struct pt_mapping_place *pt_place_next(const struct pt_mapping_place *m); /* NULL: the first; returns NULL at the end */
void pt_places_reset(void);

#endif
