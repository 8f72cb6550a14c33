/* The log's table of the processes in the run. */
#ifndef PYIO_TRACE_PROCESS_TABLE_H
#define PYIO_TRACE_PROCESS_TABLE_H

#include "base/state.h"

extern struct pt_process pt_unlisted_process; /* used when the table is full */
#define PT_EXEC_OTHER_STDERR 1 /* end_status: before the exec, the number of stderr was that of another file */
bool pt_process_enter(uint32_t start, uint32_t started_by, uint32_t pid, uint32_t parent, struct pt_process **process,
                      uint32_t *process_id);
struct pt_process *pt_process_at(uint32_t id);    /* NULL: no entry can be there */
struct pt_process *pt_process_find(uint32_t pid); /* by its number in the namespace of this process */
bool pt_process_is_us(const struct pt_process *p);
void pt_namespace_forked(uint32_t parent); /* finds out the namespace of a forked child; parent: its id in the log */
struct pt_process *pt_process_started_by(uint32_t record);
bool pt_process_exists(const struct pt_process *p); /* is there a process with its id now? */
void pt_process_describe_like(struct pt_process *p, const struct pt_process *other); /* its program is the same */
bool pt_process_has_ended(const struct pt_process *p);
bool pt_process_others_live(void);
bool pt_process_others_awaited(void);

#endif
