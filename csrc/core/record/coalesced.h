/* Series of small calls on one stream, of characters or of directory entries.
 *
 * A program calls fgetc once a character and readdir once an entry, but libc makes a system call only once a buffer.
 * A record for each call would be hundreds of times larger than what the call touches.  So similar calls (same
 * stream, descriptor, operation, parent and stack, no pause between them) add to one record, flagged PT_COALESCED:
 * their number, and the exact sums of bytes and time. */
#ifndef PYIO_TRACE_RUNS_H
#define PYIO_TRACE_RUNS_H

#include "record/operation.h"

/* Larger transfers get a record each. */
#define PT_TINY 4096u

struct pt_series_call {
    struct pt_call call;
    struct pt_record *joined;       /* the record of the series that this call joins; call is not filled in then */
    struct pt_thread *thread;       /* of a call that joins */
    struct pt_stream_series *place; /* where a series may begin with this call; NULL: nowhere */
    uint64_t begin;
    uint64_t requested;
    uint32_t aux;
};

/* requested: bytes, or PT_SIZE_NONE if only the result tells. */
void pt_series_begin_fd(struct pt_series_call *c, unsigned op, const void *stream, int fd, uint64_t requested);
/* The series keeps the path that it began with. */
void pt_series_begin_path(struct pt_series_call *c, unsigned op, const void *stream, const char *path);
/* moved: bytes, or -1 if the call moves none. */
void pt_series_end(struct pt_series_call *c, int64_t moved, int error);
/* Ends the series of a stream: its position has changed, or another stream has its address. */
void pt_series_break(struct pt_thread *t, const void *stream);

#endif
