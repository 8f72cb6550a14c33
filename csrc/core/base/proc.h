/* What /proc tells about processes. */
#ifndef PYIO_TRACE_PROC_H
#define PYIO_TRACE_PROC_H

#include "base/compiler.h"

uint64_t pt_process_start_time(uint32_t pid);
/* What /proc/self/stat says of this process; zeros if it cannot be read. */
struct pt_own_stat {
    uint64_t start_time;
    uint64_t threads;
    uint64_t read; /* size of that text, which the kernel counts as read by the program */
};
struct pt_own_stat pt_own_stat(void);
/* 0: unreadable. */
uint32_t pt_process_parent(uint32_t pid);
/* st_ino of the pid namespace of this process; 0: unreadable. */
uint64_t pt_pid_namespace(void);
/* The number of this process in the namespace that /proc belongs to; 0: unreadable. */
uint32_t pt_pid_in_proc(void);

#endif
