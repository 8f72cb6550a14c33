/* Hooks of the calls by which libc itself starts processes: system, popen, daemon, forkpty, clone, pidfd_spawn.
 *
 * What libc does inside (fork, exec, the pipe, closing 0, 1 and 2) goes through no table of ours, so its effects are
 * applied here. */
#include "hooks/hooks.h"
#include "process/process.h"

#include <sched.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

/* A shell command, not a path. True: its shell is counted as a child that is not followed. */
static bool begin_command(struct pt_call *c, unsigned op, const char *command)
{
    struct pt_thread *t = pt_enter();
    c->thread = NULL;
    c->left_out = 0;
    if (!t)
        return false;
    pt_begin(c, t, op, pt_command(command), 0, -1, PT_SIZE_NONE);
    if (pt_names_run(environ))
        return false;
    __atomic_fetch_add(&pt.header->unfollowed, 1, __ATOMIC_RELAXED);
    return true;
}

static void end_command(struct pt_call *c, bool unfollowed, bool started)
{
    if (unfollowed && !started)
        __atomic_fetch_sub(&pt.header->unfollowed, 1, __ATOMIC_RELAXED);
    pt_end_int(c, started ? 0 : -1);
}

PT_HOOK_DECLARE(int, system, const char *);
int hook_system(const char *command)
{
    if (!command)
        return real_system(command); /* only asks whether there is a shell */
    struct pt_call c;
    struct pt_shell shell;
    bool unfollowed = begin_command(&c, PT_OP_SYSTEM, command);
    pt_shell_starts(&shell, &c);
    int status = real_system(command);
    pt_shell_ended(&shell, status);
    end_command(&c, unfollowed, status != -1);
    return status;
}

PT_HOOK_DECLARE(FILE *, popen, const char *, const char *);
FILE *hook_popen(const char *command, const char *mode)
{
    struct pt_call c;
    struct pt_shell shell;
    bool unfollowed = begin_command(&c, PT_OP_POPEN, command);
    pt_shell_starts(&shell, &c);
    FILE *f = real_popen(command, mode);
    if (f) {
        pt_fd_reused(fileno(f));
        pt_shell_attach(&shell, f);
    } else {
        pt_shell_ended(&shell, -1);
    }
    end_command(&c, unfollowed, f);
    return f;
}

/* Waits for the command: its time is that of the wait. */
PT_HOOK_DECLARE(int, pclose, FILE *);
int hook_pclose(FILE *f)
{
    struct pt_call c = {0};
    struct pt_shell shell;
    struct pt_thread *t = pt_enter();
    int saved = errno;
    int fd = fileno(f);
    errno = saved;
    if (t)
        pt_begin(&c, t, PT_OP_PCLOSE, 0, 0, -1, PT_SIZE_NONE);
    pt_fd_reused(fd); /* before the call: then the number is free at once */
    pt_shell_detach(&shell, f);
    int status = real_pclose(f);
    pt_shell_ended(&shell, status);
    pt_end_int(&c, status == -1 ? -1 : 0);
    return status;
}

/* ---- forks that libc makes ------------------------------------------------------------ */

static void standard_streams_replaced(void)
{
    for (int fd = 0; fd < 3; fd++)
        pt_fd_reused(fd);
}

/* The child finds here what started it. The record is complete, since what follows runs in two processes. */
static struct pt_thread *record_fork(unsigned op)
{
    struct pt_thread *t = pt_enter();
    if (t) {
        struct pt_call c;
        pt_begin(&c, t, op, 0, 0, -1, PT_SIZE_NONE);
        t->forking = pt_call_id(&c);
        pt_end(&c, -1, 0);
    }
    return t;
}

struct termios;
struct winsize;
PT_HOOK_DECLARE(int, forkpty, int *, char *, const struct termios *, const struct winsize *);
int hook_forkpty(int *terminal, char *name, const struct termios *settings, const struct winsize *size)
{
    struct pt_thread *t = record_fork(PT_OP_FORKPTY);
    int pid = real_forkpty(terminal, name, settings, size);
    if (pid == 0) {
        standard_streams_replaced();
    } else if (pid > 0) {
        pt_fd_reused(*terminal);
        pt_forked((uint32_t)pid, t ? t->forking : 0, true);
    }
    return pid;
}

/* On success it returns in the child only: the parent has left by an _exit of libc. */
PT_HOOK_DECLARE(int, daemon, int, int);
int hook_daemon(int stay, int keep)
{
    struct pt_thread *t = record_fork(PT_OP_DAEMON);
    struct pt_process *parent = t && t->process_id ? t->process : NULL;
    if (parent)
        pt_process_end(parent, PT_END_EXIT, 0);
    int result = real_daemon(stay, keep);
    int saved = errno;
    if (result < 0 && parent && (uint32_t)getpid() == parent->pid) {
        parent->end = 0;
        __atomic_store_n(&parent->end_kind, PT_END_UNKNOWN, __ATOMIC_RELEASE);
    }
    if (result == 0 && !stay)
        pt_cwd_changed();
    if (result == 0 && !keep)
        standard_streams_replaced();
    errno = saved;
    return result;
}

/* ---- clone: a thread, a vfork or a fork, by its flags ------------------------------------ */

struct start {
    int (*function)(void *);
    void *argument;
};

/* Runs in the child, whose memory is a copy that includes its parent's stack. */
static int start_forked(void *data)
{
    struct start start = *(struct start *)data;
    pt_enter_forked_child(false);
    return start.function(start.argument);
}

PT_HOOK_DECLARE(int, clone, int (*)(void *), void *, int, void *, ...);
int hook_clone(int (*function)(void *), void *stack, int flags, void *argument, ...)
{
    va_list ap;
    va_start(ap, argument);
    void *parent_tid = va_arg(ap, void *), *tls = va_arg(ap, void *), *child_tid = va_arg(ap, void *);
    va_end(ap);
    struct start start = {function, argument};
    if (flags & CLONE_VM) {
        if (flags & CLONE_VFORK)
            pt_before_vfork();
        return real_clone(function, stack, flags, argument, parent_tid, tls, child_tid);
    }
    struct pt_thread *t = record_fork(PT_OP_CLONE);
    int pid = real_clone(function ? start_forked : NULL, stack, flags, &start, parent_tid, tls, child_tid);
    if (pid > 0)
        pt_forked((uint32_t)pid, t ? t->forking : 0, false);
    return pid;
}

/* ---- glibc 2.39: a child known by a descriptor ---------------------------------------------- */

typedef int pidfd_spawn_function(int *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                                 char *const *, char *const *);

static int spawn(pidfd_spawn_function *real, int *pidfd, const char *path, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const *argv, char *const *env)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_SPAWN, path, 0);
    int error = real(pidfd, path, actions, attributes, argv, env);
    if (error == 0)
        pt_fd_reused(*pidfd);
    if (error == 0 && c.thread && !pt_names_run(env))
        __atomic_fetch_add(&pt.header->unfollowed, 1, __ATOMIC_RELAXED);
    return pt_end_error(&c, error);
}

PT_HOOK_DECLARE(int, pidfd_spawn, int *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                char *const *, char *const *);
int hook_pidfd_spawn(int *pidfd, const char *path, const posix_spawn_file_actions_t *actions,
                     const posix_spawnattr_t *attributes, char *const *argv, char *const *env)
{
    return spawn((pidfd_spawn_function *)real_pidfd_spawn, pidfd, path, actions, attributes, argv, env);
}

PT_HOOK_DECLARE(int, pidfd_spawnp, int *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                char *const *, char *const *);
int hook_pidfd_spawnp(int *pidfd, const char *path, const posix_spawn_file_actions_t *actions,
                      const posix_spawnattr_t *attributes, char *const *argv, char *const *env)
{
    return spawn((pidfd_spawn_function *)real_pidfd_spawnp, pidfd, path, actions, attributes, argv, env);
}
