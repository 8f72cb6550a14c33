/* Ids: how records and objects refer to each other, by their place in the log. */
#ifndef PYIO_TRACE_IDS_H
#define PYIO_TRACE_IDS_H

#include "base/state.h"

/* 0 for what is not in the log, such as a scratch record on the stack. */
static inline uint32_t pt_id_of(const void *at)
{
    uintptr_t offset = (uintptr_t)at - (uintptr_t)pt.base;
    return offset < pt.mapped ? (uint32_t)(offset >> PT_ID_SHIFT) : 0;
}
/* For ids read from the log, where others can write. NULL: 0, or the object does not lie within the log. */
static inline void *pt_checked(uint32_t id, uint64_t size)
{
    uint64_t at = (uint64_t)id << PT_ID_SHIFT, mapped = pt.mapped;
    return id && size <= mapped && at <= mapped - size ? pt.base + at : NULL;
}
/* For ids of this process's own objects, from a table in its memory.  NULL: the id is 0, or lies beyond what this process
 * uses of the log.  Such an id comes from an earlier log: the thread was in a hook while tracing restarted.  Base and end
 * belong to the same log, and what lies below the end is never unmapped, so a thread may be preempted here for any time. */
static inline void *pt_owned(uint32_t id, uint64_t size)
{
    const struct pt_kept *kept = __atomic_load_n(&pt.kept, __ATOMIC_ACQUIRE);
    uint64_t at = (uint64_t)id << PT_ID_SHIFT, end = kept ? __atomic_load_n(&kept->end, __ATOMIC_RELAXED) : 0;
    return id && size <= end && at <= end - size ? kept->base + at : NULL;
}
/* NULL: as pt_owned, or it is no descriptor. */
static inline struct pt_desc *pt_desc_at(uint32_t id)
{
    struct pt_desc *d = pt_owned(id, sizeof *d);
    return d && __atomic_load_n(&d->heap.kind, __ATOMIC_RELAXED) == PT_HEAP_DESC ? d : NULL;
}
/* An id that is stored in the log, read once: the one that is checked must be the one that is used. */
static inline uint32_t pt_read_id(const uint32_t *at)
{
    return __atomic_load_n(at, __ATOMIC_RELAXED);
}
/* The string of a descriptor's path; 0: it has none. */
static inline uint32_t pt_desc_path(uint32_t id)
{
    const struct pt_desc *d = pt_desc_at(id);
    return d ? pt_read_id(&d->path) : 0;
}
/* The open file description that it shares with its duplicates. */
static inline struct pt_desc *pt_desc_root(const struct pt_desc *d)
{
    return pt_desc_at(pt_read_id(&d->root));
}
/* Its descriptor number; -1: there is no such descriptor. */
static inline int pt_desc_fd(uint32_t id)
{
    const struct pt_desc *d = pt_desc_at(id);
    return d ? d->fd : -1;
}

#define PT_LONGEST_STRING (1u << 20) /* longer than any path or sensible detail; longer strings are cut */

/* The string of an id that may be forged, or from an earlier log (a thread in a hook while tracing stops and starts).
 * NULL: it does not lie within the log.  Use the returned length: others may be writing there. */
static inline const char *pt_string_at(uint32_t id, uint32_t *length, uint32_t *base)
{
    const char *start = __atomic_load_n(&pt.base, __ATOMIC_RELAXED);
    uint64_t mapped = __atomic_load_n(&pt.mapped, __ATOMIC_RELAXED), at = (uint64_t)id << PT_ID_SHIFT;
    if (!id || at + sizeof(struct pt_string) > mapped)
        return NULL;
    const struct pt_string *s = (const struct pt_string *)(start + at);
    *length = __atomic_load_n(&s->length, __ATOMIC_RELAXED);
    *base = __atomic_load_n(&s->base, __ATOMIC_RELAXED);
    return *length <= PT_LONGEST_STRING && *length <= mapped - at - sizeof *s ? (const char *)(s + 1) : NULL;
}

#endif
