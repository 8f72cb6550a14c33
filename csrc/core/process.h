/* What the process hooks (hooks_process.c) and control.c need of process.c. */
#ifndef PYIO_TRACE_PROCESS_H
#define PYIO_TRACE_PROCESS_H

#include "core.h"

struct pt_process *pt_process_find(uint32_t pid);
void pt_process_begin(const struct pt_options *o);
void pt_process_describe(struct pt_process *p, const char *path, char *const *argv);
void pt_before_vfork(void);
void pt_fork_failed(void);
void pt_enter_forked_child(void);
void pt_spawned(uint32_t pid, uint32_t record, const char *path, char *const *argv);
void pt_run_ends(void);          /* finish.c */
void pt_finish_setup_once(void); /* finish.c */

#endif
