/* What the process hooks (hooks_process.c) and control.c need of process.c. */
#ifndef PYIO_TRACE_PROCESS_H
#define PYIO_TRACE_PROCESS_H

#include "call.h"

struct pt_process *pt_process_find(uint32_t pid);
void pt_process_begin(const struct pt_options *o);
void pt_process_describe_self(const struct pt_options *o);
void pt_process_describe(struct pt_process *p, const char *path, char *const *argv);
void pt_before_vfork(void);
void pt_fork_failed(void);
void pt_enter_forked_child(void);
void pt_has_forked(void);
void pt_spawned(uint32_t pid, const struct pt_call *call, const char *path, char *const *argv, bool awaited);
bool pt_names_run(char *const *env);   /* are Python children of this environment in the run? hooks_process.c */
bool pt_preloads_us(char *const *env); /* and all others as well? */
bool pt_process_others_awaited(void);
struct pt_process *pt_process_started_by(uint32_t record);

/* The account of this process before it waits, for a child that will not leave one of its own. */
struct pt_waiting {
    struct pt_account before;
    bool known;
};
void pt_before_wait(struct pt_waiting *w); /* hooks_process.c */
void pt_process_waited(struct pt_process *p, int status, const struct pt_waiting *w);

/* shells.c: a system() or popen() under way, by which the shell that libc starts is known. */
struct pt_shell {
    int place; /* of its record in the process entry; -1: none */
    uint32_t record;
    struct pt_waiting waiting;
};
void pt_shell_starts(struct pt_shell *s, const struct pt_call *c);
void pt_shell_ended(const struct pt_shell *s, int status); /* -1: it never was, or is not known */
void pt_shell_keep(const struct pt_shell *s, const void *stream);
void pt_shell_take(struct pt_shell *s, const void *stream);
uint32_t pt_shell_of(const struct pt_process *parent, const struct pt_options *child);

#define PT_PATIENCE 50            /* ms */
void pt_run_ends(int milliseconds); /* finish.c; how long others that are ending are waited for */
void pt_signals_itself(struct pt_thread *t, int number); /* finish.c */
void pt_finish_setup_once(void); /* finish.c */
bool pt_preload_taken_over(const struct pt_options *o); /* preload.c */

#endif
