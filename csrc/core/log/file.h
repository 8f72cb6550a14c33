/* The log's file: creating, joining and cutting it, reserving its blocks, and its spare room. */
#ifndef PYIO_TRACE_FILE_H
#define PYIO_TRACE_FILE_H

#include "base/state.h"
#include <errno.h>

/* Why a log is refused: error numbers that no system call here returns. pyio_trace/capture/runtime/start_errors.py has the words. */
#define PT_LOG_NO_FILE ENOTBLK       /* not a regular file */
#define PT_LOG_IS_LINK ELOOP         /* a symbolic link */
#define PT_LOG_NOT_OURS EKEYREJECTED /* another user's */
#define PT_LOG_OPEN_TO_OTHERS EBADE  /* group or others may write to it */
#define PT_LOG_OTHER_BOOT EREMCHG    /* another host's, or from before a boot */
#define PT_LOG_OTHER_NAMESPACE EXDEV /* of another pid namespace, or one that cannot be read */
#define PT_LOG_DAMAGED EBADMSG       /* its header is impossible */
#define PT_LOG_HELD EBUSY            /* create: a run is writing to a log of that name */
#define PT_LOG_FOREIGN ENOTUNIQ      /* create: the file of that name is not a log of ours */
#define PT_LOG_NOT_PRIVATE EBADFD    /* create: the file system keeps neither owner nor mode */
/* 0 or -errno.  run_id 0: a new run.  replace: also a log of this name, if no run uses it. */
int pt_log_create(const char *path, uint64_t budget, uint64_t run_id, bool replace);
int pt_log_join(const char *path);          /* 0 or -errno; -EPROTO: not our log */
void pt_log_joined(void);                   /* after a join: the process has its entry */
uint64_t pt_log_run_of(const char *path);   /* 0: unknown */
long pt_log_reopen_slow(uint64_t at_least); /* a descriptor or -errno */
void pt_log_cut(uint64_t used);
PT_API void pt_log_file(uint64_t *device, uint64_t *inode); /* of the file that is mapped */
void pt_log_unlock(void);                                   /* from now on other runs may replace it */

/* ---- its blocks (log/blocks.c) ------------------------------------------------ */

bool pt_blocks_begin(int fd, uint64_t budget);       /* the first ones, before it is mapped */
uint32_t pt_blocks_reserve(char *at, uint64_t size); /* enum pt_full_reason */

/* ---- room kept for a full disk (log/spare.c) ------------------------------------ */

void pt_spare_set_aside(int fd);                       /* of a new log */
void pt_spare_read_control(const struct pt_header *h); /* with the other control values */
bool pt_spare_begin_slow(void);                        /* after a failed store; true: it may be retried */
bool pt_log_is_private(void);                          /* what this process stores stays in its own memory */
void pt_spare_forked(void);                            /* in the child */
void pt_spare_end_slow(struct pt_process *p, bool listed);

#endif
