/* The lives of processes, as hooks and control need them. */
#ifndef PYIO_TRACE_PROCESS_H
#define PYIO_TRACE_PROCESS_H

#include "base/options.h"
#include "log/process_table.h"
#include "record/call.h"

#include <signal.h>

void pt_process_begin(const struct pt_options *o);
void pt_process_describe_self(const struct pt_options *o);
PT_API void pt_process_name(const char *kind, const char *name);
PT_API void pt_process_program(const char *packages);
void pt_process_describe(struct pt_process *p, const char *path, char *const *argv);
void pt_before_vfork(void);
void pt_fork_failed(void);
void pt_fork_is_entered(void); /* a forked child now has its entry */
/* In the parent, after a fork.  record: the fork's, or 0.  pending: header.forks_pending counts the child. */
void pt_forked(uint32_t pid, uint32_t record, bool pending);
/* Makes the entry of a forked child that ended without one; NULL if the fork is not remembered. */
struct pt_process *pt_enter_lost_child(uint32_t pid);
void pt_lost_children_end(void); /* when their parent ends */
void pt_forked_children_forget(void);
void pt_enter_forked_child(bool pending);
void pt_has_forked(void);
void pt_process_setup_once(void);
void pt_process_end(struct pt_process *p, uint32_t kind, int status);
PT_API bool pt_is_owner(void);
void pt_spawned(uint32_t pid, const struct pt_call *call, const char *path, char *const *argv, bool awaited);
/* Enters a process of the program that does not trace itself, if it has no entry; argv: NUL-separated. */
PT_API void pt_process_found(uint32_t pid, uint32_t ppid, uint64_t start_time, const char *executable, const char *argv,
                             uint32_t argv_length);
bool pt_names_run(char *const *env);   /* do Python children with this environment join the run? */
bool pt_preloads_us(char *const *env); /* do all other children join too? */
/* Would the loader of a program with this environment complain that it cannot open our library (another root folder,
 * another user)?  Returns the bytes of LD_PRELOAD with its name, 0: no; words: how many variables there are. */
size_t pt_preload_is_lost(char *const *env, size_t *words);
/* Copies the environment without our library.  copy has room for the words and a NULL, variable for those bytes. */
void pt_without_preload(char *const *env, char **copy, char *variable);

/* The account of this process before it waits, for children that leave none of their own. */
struct pt_waiting {
    struct pt_account before;
    bool known;
};
void pt_before_wait(struct pt_waiting *w);
struct rusage;
/* p: the child's entry, or NULL.  usage: the kernel's figures for the child and for the children it waited for; NULL if
 * unknown. */
void pt_process_waited(struct pt_process *p, uint32_t pid, int status, const struct pt_waiting *w,
                       const struct rusage *usage);

/* A system() or popen() under way, by which the shell that libc starts is recognised (shells.c). */
struct pt_shell {
    int place; /* index of its record in the process entry; -1: none */
    uint32_t record;
    struct pt_waiting waiting;
};
void pt_shell_starts(struct pt_shell *s, const struct pt_call *c);
void pt_shell_ended(const struct pt_shell *s, int status); /* -1: it did not start, or is not known */
void pt_shell_attach(const struct pt_shell *s, const void *stream);
void pt_shell_detach(struct pt_shell *s, const void *stream);
uint32_t pt_shell_of(const struct pt_process *parent, const struct pt_options *child);

void pt_exits_now(int status); /* end_of_run.c: no exit handler runs; may not return */
/* end_of_run.c: if another thread ends the run, waits until it has become the stub, and so ended this one, or could not. */
void pt_wait_for_end(void);
/* Starts the sampler beside the run, once for each log.  program: the path of what it becomes.  late: the program runs
 * already. */
struct pt_sampling {
    uint32_t hz;            /* looks at each thread a second; 0: none */
    uint64_t system_period; /* ns between two looks at the system; 0: none */
};
PT_API void pt_sampler_start(const char *program, struct pt_sampling wanted, bool late);
/* Lets the sampler read this process, where the kernel wants that: only before any code of the program has run, which
 * may name a reader of its own. */
void pt_sampler_name(void);
/* Ends the sampler and waits until it has ended, unless another process of the run is left. */
void pt_sampler_end(void);
void pt_signals_itself(struct pt_thread *t, int number); /* end_of_run.c; may not return */
/* finisher_environment.c: a copy of the environment as it is now; NULL: no memory.  Allocates: at the start only. */
char **pt_finisher_environment(const char *const *argv);

#endif
