/* Room in the log: chunks, and objects in them. */
#ifndef PYIO_TRACE_CHUNKS_H
#define PYIO_TRACE_CHUNKS_H

#include "base/state.h"

bool pt_log_read_control(const struct pt_header *h); /* false: it was not written by this version of the core */
void pt_log_damaged(const char *consequence);        /* another program wrote to the header; reported once */
void pt_log_keep_mapped(uint64_t end);               /* what lies below stays mapped */
void pt_log_shrink(uint64_t limit);                  /* the program has limited its address space */
void pt_log_close_claims(uint32_t full_reason);      /* this process claims no more chunks */
/* True if only sums are kept: files are then told apart by path, not by each opening. */
static inline bool pt_profiling(void)
{
    return pt.mode == PT_MODE_PROFILE || __atomic_load_n(&pt.header->full_reason, __ATOMIC_RELAXED);
}
void pt_log_finish(void);    /* returns the unused part */
void pt_log_leave(bool cut); /* likewise; cut: nobody else needs the file's unused part */
/* What a chunk is claimed for. */
struct pt_chunk_request {
    uint32_t kind; /* enum pt_chunk_kind */
    uint32_t process, tid, sequence;
};
/* size: the wanted size; on return, the chunk's.  Use this value: others can write to the chunk's own. */
struct pt_chunk *pt_chunk_claim_slow(const struct pt_chunk_request *wanted, uint64_t *size);
PT_API void *pt_heap_alloc_slow(uint32_t size); /* NULL: the log is full */
PT_API void pt_heap_publish(void *object, uint32_t kind);
struct pt_profile *pt_sums_alloc_slow(bool data); /* NULL: the log is full */

#endif
