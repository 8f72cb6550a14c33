/* What /proc tells about processes. */
#ifndef PYIO_TRACE_PROC_H
#define PYIO_TRACE_PROC_H

#include "base/compiler.h"

uint64_t pt_process_start_time(uint32_t pid);
/* The start time of this process.  *read: how many bytes were read from /proc for it; the kernel counts them too. */
uint64_t pt_own_start_time(uint64_t *read);
/* 0: unreadable. */
uint32_t pt_process_parent(uint32_t pid);
/* st_ino of the pid namespace of this process; 0: unreadable. */
uint64_t pt_pid_namespace(void);
/* The number of this process in the namespace that /proc belongs to; 0: unreadable. */
uint32_t pt_pid_in_proc(void);

#endif
