/* Hooks of the calls by which processes begin, become another program, and end. */
#include "hooks.h"
#include "measure.h"
#include "process.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- beginnings -------------------------------------------------------------- */

PT_HOOK_DECLARE(pid_t, fork, void);
pid_t hook_fork(void)
{
    struct pt_call c = {0};
    struct pt_thread *t = pt_enter();
    if (t) {
        pt_begin(&c, t, PT_OP_FORK, 0, 0, -1, PT_SIZE_NONE);
        t->forking = pt_call_id(&c);
    }
    pid_t pid = real_fork();
    if (pid < 0)
        pt_fork_failed();
    if (pid != 0) /* the record is the parent's */
        pt_end_int(&c, pid < 0 ? -1 : 0);
    return pid;
}

/* _Fork runs no atfork handlers: the child would go on writing where its parent does. */
PT_HOOK_DECLARE(pid_t, fork_only, void);
pid_t hook_fork_only(void)
{
    struct pt_call c = {0};
    struct pt_thread *t = pt_enter();
    if (t) {
        pt_begin(&c, t, PT_OP_FORK, 0, 0, -1, PT_SIZE_NONE);
        t->forking = pt_call_id(&c);
    }
    pt_has_forked();
    pid_t pid = real_fork_only();
    if (pid == 0)
        pt_enter_forked_child();
    else
        pt_end_int(&c, pid < 0 ? -1 : 0);
    return pid;
}

/* vfork returns twice on one stack, so nothing may stand between it and its
 * caller: note the window, then become vfork. */
void *real_vfork;
void hook_vfork(void);
#if defined(__x86_64__)
__asm__(".text\n.globl hook_vfork\n.hidden hook_vfork\n.hidden real_vfork\n.hidden pt_before_vfork\n"
        ".type hook_vfork,@function\nhook_vfork:\n"
        "  endbr64\n  subq $8, %rsp\n  call pt_before_vfork\n  addq $8, %rsp\n  jmp *real_vfork(%rip)\n"
        ".size hook_vfork,.-hook_vfork\n");
#else
__asm__(".text\n.globl hook_vfork\n.hidden hook_vfork\n.hidden real_vfork\n.hidden pt_before_vfork\n"
        ".type hook_vfork,%function\nhook_vfork:\n"
        "  stp x29, x30, [sp, #-16]!\n  bl pt_before_vfork\n  ldp x29, x30, [sp], #16\n"
        "  adrp x16, real_vfork\n  ldr x16, [x16, #:lo12:real_vfork]\n  br x16\n"
        ".size hook_vfork,.-hook_vfork\n");
#endif

typedef int spawn_function(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                           char *const *, char *const *);

/* Are Python children of this environment in the run? */
bool pt_names_run(char *const *env)
{
    for (; env && *env; env++)
        if (strncmp(*env, "PYIO_TRACE_LOG=", 15) == 0)
            return true;
    return false;
}

/* And all others as well? */
bool pt_preloads_us(char *const *env)
{
    if (!pt_names_run(env))
        return false;
    for (; *env; env++)
        if (strncmp(*env, "LD_PRELOAD=", 11) == 0)
            return strstr(*env, "/libpyio_trace.so") != NULL;
    return false;
}

static int spawn(spawn_function *real, pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const *argv, char *const *env)
{
    struct pt_call c;
    pid_t child = 0;
    pt_begin_path(&c, PT_OP_SPAWN, path, 0);
    int error = real(&child, path, actions, attributes, argv, env);
    if (error == 0 && pid)
        *pid = child;
    if (error == 0 && c.thread) {
        pt_spawned((uint32_t)child, &c, path, argv, pt_preloads_us(env));
        if (!pt_names_run(env))
            __atomic_fetch_add(&pt.header->unfollowed, 1, __ATOMIC_RELAXED);
    }
    return pt_end_error(&c, error);
}

PT_HOOK_DECLARE(int, posix_spawn, pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                char *const *, char *const *);
int hook_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                     const posix_spawnattr_t *attributes, char *const *argv, char *const *env)
{
    return spawn((spawn_function *)real_posix_spawn, pid, path, actions, attributes, argv, env);
}

PT_HOOK_DECLARE(int, posix_spawnp, pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                char *const *, char *const *);
int hook_posix_spawnp(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                      const posix_spawnattr_t *attributes, char *const *argv, char *const *env)
{
    return spawn((spawn_function *)real_posix_spawnp, pid, path, actions, attributes, argv, env);
}

/* ---- another program in this process -------------------------------------------- */

struct exec_call {
    struct pt_call call;
    bool unfollowed;
    uint32_t followed_before;
};

/* What is known goes into the log before, since a success never returns. */
static void exec_begins_at(struct exec_call *e, int dirfd, const char *path, char *const *argv, char *const *env)
{
    pt_begin_path_at(&e->call, PT_OP_EXEC, dirfd, path, 0);
    struct pt_thread *t = e->call.thread;
    if (!t)
        return;
    e->unfollowed = !pt_names_run(env);
    if (e->unfollowed)
        __atomic_fetch_add(&pt.header->unfollowed, 1, __ATOMIC_RELAXED);
    if (t->process_id) {
        if (t->process->start != PT_START_TOP && t->process->start != PT_START_JOINED)
            pt_process_describe(t->process, path, argv);
        e->followed_before = t->process->followed;
        if (t->process->followed)
            t->process->followed = 2;
        t->process->exec_by = e->call.record ? pt_id_of(e->call.record) : 0;
        t->process->awaited = pt_preloads_us(env);
        pt_process_end(t->process, PT_END_EXEC, 0);
    }
}

static void exec_begins(struct exec_call *e, const char *path, char *const *argv, char *const *env)
{
    exec_begins_at(e, AT_FDCWD, path, argv, env);
}

static int exec_failed(struct exec_call *e, int result)
{
    int error = errno;
    struct pt_thread *t = e->call.thread;
    if (t) {
        if (t->process_id) {
            t->process->end = 0;
            t->process->followed = e->followed_before; /* it is still what it was */
            t->process->awaited = 0;
            __atomic_store_n(&t->process->end_kind, PT_END_UNKNOWN, __ATOMIC_RELEASE);
        }
        if (e->unfollowed)
            __atomic_fetch_sub(&pt.header->unfollowed, 1, __ATOMIC_RELAXED);
    }
    errno = error;
    return pt_end_int(&e->call, result);
}

PT_HOOK_DECLARE(int, execve, const char *, char *const *, char *const *);
int hook_execve(const char *path, char *const *argv, char *const *env)
{
    struct exec_call e;
    exec_begins(&e, path, argv, env);
    return exec_failed(&e, real_execve(path, argv, env));
}

PT_HOOK_DECLARE(int, execv, const char *, char *const *);
int hook_execv(const char *path, char *const *argv)
{
    struct exec_call e;
    exec_begins(&e, path, argv, environ);
    return exec_failed(&e, real_execv(path, argv));
}

PT_HOOK_DECLARE(int, execvp, const char *, char *const *);
int hook_execvp(const char *path, char *const *argv)
{
    struct exec_call e;
    exec_begins(&e, path, argv, environ);
    return exec_failed(&e, real_execvp(path, argv));
}

PT_HOOK_DECLARE(int, execvpe, const char *, char *const *, char *const *);
int hook_execvpe(const char *path, char *const *argv, char *const *env)
{
    struct exec_call e;
    exec_begins(&e, path, argv, env);
    return exec_failed(&e, real_execvpe(path, argv, env));
}

/* The variadic forms: their arguments as an array (the macro declares it, the
 * NULL at its end read already), then on as the call they stand for. */
#define PT_GATHER(argv, ap, first)                                \
    size_t gathered = 0;                                          \
    va_start(ap, first);                                          \
    for (const char *at = first; at; at = va_arg(ap, const char *)) \
        gathered++;                                               \
    va_end(ap);                                                   \
    char *argv[gathered + 1];                                     \
    va_start(ap, first);                                          \
    argv[0] = (char *)first;                                      \
    for (size_t i = 1; i <= gathered; i++)                        \
        argv[i] = va_arg(ap, char *)

PT_HOOK_DECLARE(int, execl, const char *, const char *, ...);
int hook_execl(const char *path, const char *first, ...)
{
    va_list ap;
    PT_GATHER(argv, ap, first);
    va_end(ap);
    return hook_execv(path, argv);
}

PT_HOOK_DECLARE(int, execlp, const char *, const char *, ...);
int hook_execlp(const char *path, const char *first, ...)
{
    va_list ap;
    PT_GATHER(argv, ap, first);
    va_end(ap);
    return hook_execvp(path, argv);
}

PT_HOOK_DECLARE(int, execle, const char *, const char *, ...);
int hook_execle(const char *path, const char *first, ...)
{
    va_list ap;
    PT_GATHER(argv, ap, first);
    char *const *env = va_arg(ap, char *const *);
    va_end(ap);
    return hook_execve(path, argv, env);
}

PT_HOOK_DECLARE(int, fexecve, int, char *const *, char *const *);
int hook_fexecve(int fd, char *const *argv, char *const *env)
{
    struct exec_call e;
    exec_begins(&e, argv && argv[0] ? argv[0] : "", argv, env);
    return exec_failed(&e, real_fexecve(fd, argv, env));
}

PT_HOOK_DECLARE(int, execveat, int, const char *, char *const *, char *const *, int);
int hook_execveat(int dirfd, const char *path, char *const *argv, char *const *env, int flags)
{
    struct exec_call e;
    exec_begins_at(&e, dirfd, path, argv, env);
    return exec_failed(&e, real_execveat(dirfd, path, argv, env, flags));
}

/* ---- ends ------------------------------------------------------------------------- */

PT_HOOK_DECLARE(void, exit_now, int);
void hook_exit_now(int status)
{
    struct pt_thread *t = pt_table_owner();
    if (t && t->process_id) {
        pt_process_end(t->process, PT_END_EXIT, status & 0xff);
        if (!t->borrowed_memory)
            pt_run_ends(PT_PATIENCE);
    }
    real_exit_now(status);
    __builtin_unreachable();
}

PT_HOOK_DECLARE(int, kill, pid_t, int);
int hook_kill(pid_t pid, int number)
{
    /* pt.pid is the parent's in a vfork child: that may end its parent, which is not its own end. */
    if (pid > 0 && (uint32_t)pid == pt.pid && (uint32_t)pt_sys6(SYS_getpid, 0, 0, 0, 0, 0, 0) == pt.pid) {
        struct pt_thread *t = pt_table_owner();
        if (t && t->process_id)
            pt_signals_itself(t, number);
    }
    return real_kill(pid, number);
}

PT_HOOK_DECLARE(int, raise, int);
int hook_raise(int number)
{
    struct pt_thread *t = pt_table_owner();
    if (t && t->process_id)
        pt_signals_itself(t, number);
    return real_raise(number);
}

void pt_before_wait(struct pt_waiting *w)
{
    w->known = false;
    if ((pt.gate & PT_GATE_OFF) || !pt.process_id || !pt_measuring_affordable(PT_MEASURING_ALLOWANCE))
        return;
    int64_t since = pt_now_ns();
    w->known = pt_account_now_slow(&w->before);
    pt_measuring_took(since);
}

static void account_for(const struct pt_process *child, const struct pt_waiting *w)
{
    static const struct pt_account nothing;
    struct pt_account after;
    if (!pt.process_id)
        return;
    /* Its own account is exact; the other way takes in what other threads did meanwhile. */
    if (child && child->accounts & PT_ACCOUNT_END && (child->end_kind == PT_END_EXIT || child->end_kind == PT_END_UNKNOWN))
        pt_account_of_child(&nothing, &child->end_account);
    else if (w->known && pt_account_now_slow(&after))
        pt_account_of_child(&w->before, &after);
    else
        __atomic_fetch_or(&pt.process->accounts, PT_ACCOUNT_MIXED, __ATOMIC_RELAXED);
}

/* The parent learns what the child could not write: which signal ended it. */
static void waited(pid_t pid, int status, const struct pt_waiting *w)
{
    if (!(pt.gate & PT_GATE_OFF) && pid > 0)
        pt_process_waited(pt_process_find((uint32_t)pid), status, w);
}

/* What a child did without exec is in the log, on the descriptions that it shares. */
static bool was_another_program(const struct pt_process *p)
{
    return !p || p->start != PT_START_FORK || p->exec_by || p->end_kind == PT_END_EXEC;
}

void pt_process_waited(struct pt_process *p, int status, const struct pt_waiting *w)
{
    if (!(WIFEXITED(status) || WIFSIGNALED(status)))
        return;
    if (was_another_program(p))
        pt_positions_stale();
    account_for(p, w);
    if (!p || p->end_kind == PT_END_EXIT || p->end_kind == PT_END_SIGNAL)
        return;
    if (WIFSIGNALED(status))
        pt_process_end(p, PT_END_SIGNAL, WTERMSIG(status));
    else
        pt_process_end(p, PT_END_EXIT, WEXITSTATUS(status));
}

PT_HOOK_DECLARE(pid_t, waitpid, pid_t, int *, int);
pid_t hook_waitpid(pid_t pid, int *status, int options)
{
    int own = 0;
    struct pt_waiting w;
    pt_before_wait(&w);
    pid_t ended = real_waitpid(pid, status ? status : &own, options);
    if (ended > 0)
        waited(ended, status ? *status : own, &w);
    return ended;
}

PT_HOOK_DECLARE(pid_t, wait, int *);
pid_t hook_wait(int *status)
{
    int own = 0;
    struct pt_waiting w;
    pt_before_wait(&w);
    pid_t ended = real_wait(status ? status : &own);
    if (ended > 0)
        waited(ended, status ? *status : own, &w);
    return ended;
}

PT_HOOK_DECLARE(pid_t, wait3, int *, int, struct rusage *);
pid_t hook_wait3(int *status, int options, struct rusage *usage)
{
    int own = 0;
    struct pt_waiting w;
    pt_before_wait(&w);
    pid_t ended = real_wait3(status ? status : &own, options, usage);
    if (ended > 0)
        waited(ended, status ? *status : own, &w);
    return ended;
}

PT_HOOK_DECLARE(pid_t, wait4, pid_t, int *, int, struct rusage *);
pid_t hook_wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
    int own = 0;
    struct pt_waiting w;
    pt_before_wait(&w);
    pid_t ended = real_wait4(pid, status ? status : &own, options, usage);
    if (ended > 0)
        waited(ended, status ? *status : own, &w);
    return ended;
}

PT_HOOK_DECLARE(int, waitid, idtype_t, id_t, siginfo_t *, int);
int hook_waitid(idtype_t kind, id_t id, siginfo_t *info, int options)
{
    struct pt_waiting w;
    pt_before_wait(&w);
    int result = real_waitid(kind, id, info, options);
    if (result == 0 && info && !(options & WNOWAIT)) {
        if (info->si_code == CLD_EXITED)
            waited(info->si_pid, (info->si_status & 0xff) << 8, &w);
        else if (info->si_code == CLD_KILLED || info->si_code == CLD_DUMPED)
            waited(info->si_pid, info->si_status & 0x7f, &w);
    }
    return result;
}
