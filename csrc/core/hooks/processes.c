/* Hooks of the calls by which processes start and end. */
#include "hooks/hooks.h"
#include "log/file.h"
#include "process/process.h"

#include <spawn.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* ---- beginnings -------------------------------------------------------------- */

static void begin_fork(struct pt_call *c)
{
    struct pt_thread *t = pt_enter();
    c->thread = NULL;
    c->left_out = 0;
    if (t) {
        pt_begin(c, t, PT_OP_FORK, 0, 0, -1, PT_SIZE_NONE);
        t->forking = pt_call_id(c);
    }
}

PT_HOOK_DECLARE(pid_t, fork, void);
pid_t hook_fork(void)
{
    struct pt_call c;
    begin_fork(&c);
    pid_t pid = real_fork();
    if (pid < 0)
        pt_fork_failed();
    if (pid > 0)
        pt_forked((uint32_t)pid, c.thread ? pt_call_id(&c) : 0, true);
    if (pid != 0) /* the record belongs to the parent */
        pt_end_int(&c, pid < 0 ? -1 : 0);
    return pid;
}

/* _Fork runs no atfork handlers: without this, the child would write where its parent does. */
PT_HOOK_DECLARE(pid_t, fork_only, void);
pid_t hook_fork_only(void)
{
    struct pt_call c;
    begin_fork(&c);
    pt_has_forked();
    pid_t pid = real_fork_only();
    if (pid == 0)
        pt_enter_forked_child(false);
    if (pid > 0)
        pt_forked((uint32_t)pid, c.thread ? pt_call_id(&c) : 0, false);
    if (pid != 0)
        pt_end_int(&c, pid < 0 ? -1 : 0);
    return pid;
}

/* vfork returns twice on the same stack, so nothing may stand between it and its caller: this notes that a child is
 * to come, then jumps to vfork. */
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

/* ---- ends ------------------------------------------------------------------------- */

PT_HOOK_DECLARE(void, exit_now, int);
void hook_exit_now(int status)
{
    struct pt_thread *t = pt_table_owner();
    if (t && t->process_id) {
        if (t->borrowed_memory) {
            t->process->followed = 1; /* it has not become another program: all it did was seen */
            pt_process_end(t->process, PT_END_EXIT, status & 0xff);
        } else {
            pt_exits_now(status);
        }
    } else if (t && !t->borrowed_memory) {
        pt_spare_end_slow(t->process, false);
    } else if (!t) { /* tracing is off: perhaps another thread is at this place too */
        pt_wait_for_end();
    }
    real_exit_now(status);
    __builtin_unreachable();
}

PT_HOOK_DECLARE(int, kill, pid_t, int);
int hook_kill(pid_t pid, int number)
{
    /* In a vfork child, pt.pid is the parent's: the child may end its parent, which is not its own end. */
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
