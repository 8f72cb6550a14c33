/* The flight recorder (--mode ring), and copies of the log at a moment. */
#ifndef PYIO_TRACE_RING_H
#define PYIO_TRACE_RING_H

#include "base/state.h"

struct pt_chunk *pt_ring_claim_slow(struct pt_thread *t); /* NULL: all its chunks are in use */
void pt_ring_release(struct pt_thread *t);
void pt_ring_settle(long fd, uint64_t since); /* in the copy that a dump has made */
PT_API int pt_log_dump(const char *path);     /* 0 or -errno */
PT_API int pt_dump_on_signal(int signal);     /* 0: on none from now on */

#endif
