/* Operations that have no record of their own. */
#ifndef PYIO_TRACE_UNRECORDED_H
#define PYIO_TRACE_UNRECORDED_H

#include "record/call.h"

PT_API void pt_count_left_out(struct pt_thread *t, uint32_t kind, int64_t moved);
void pt_count_unrecorded(const struct pt_call *c, int64_t moved);
PT_API pt_fd_entry pt_begin_paused(unsigned op, int fd);
PT_API void pt_end_paused(pt_fd_entry left_out);
PT_API void pt_position_found_slow(struct pt_thread *t, int fd, pt_fd_entry e);
PT_API void pt_switch(uint32_t mode); /* enum pt_mode */
PT_API void pt_pause(bool on);

#endif
