/* Runs of like tiny calls on one stream, of characters or of directory entries.
 *
 * fgetc is called once a character, readdir once an entry, while the system
 * call behind them is made once a buffer: a record a call would be hundreds of
 * times what the call itself touches.  So like calls (same stream, descriptor,
 * operation, parent and stack, no pause between) add to one record, flagged
 * PT_COALESCED: how many, and the exact sums of bytes and time. */
#ifndef PYIO_TRACE_RUNS_H
#define PYIO_TRACE_RUNS_H

#include "hooks.h"

/* Larger transfers have a record each. */
#define PT_TINY 4096u

struct pt_run_call {
    struct pt_call call;
    struct pt_record *joined; /* the run's record, if this call adds to one; call is not filled in then */
    struct pt_thread *thread; /* of a call that joins */
    struct pt_stream_run *place; /* where a run may begin with this call; NULL: nowhere */
    uint64_t begin;
    uint64_t asked;
    uint32_t aux;
};

/* asked: bytes, or PT_SIZE_NONE where only the result tells. */
void pt_run_begin_fd(struct pt_run_call *c, unsigned op, const void *stream, int fd, uint64_t asked);
/* The run keeps the name it began with. */
void pt_run_begin_path(struct pt_run_call *c, unsigned op, const void *stream, const char *path);
/* moved: bytes, or -1 where there are none to tell. */
void pt_run_end(struct pt_run_call *c, int64_t moved, int error);
/* What comes next on the stream begins anew: its position has changed, or it is another stream at that address. */
void pt_runs_end(struct pt_thread *t, const void *stream);

#endif
