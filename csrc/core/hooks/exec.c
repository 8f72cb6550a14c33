/* Hooks of the calls by which a process becomes another program. */
#include "hooks/hooks.h"
#include "base/messages.h"
#include "log/file.h"
#include "process/process.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

/* What a process entry says of its program. */
struct program {
    bool kept;
    uint32_t argv_length;
    char executable[sizeof((struct pt_process *)0)->executable];
    char argv[sizeof((struct pt_process *)0)->argv];
};

static void keep(struct program *kept, const struct pt_process *p)
{
    kept->kept = true;
    memcpy(kept->executable, p->executable, sizeof kept->executable);
    kept->argv_length = p->argv_length < sizeof kept->argv ? p->argv_length : sizeof kept->argv;
    memcpy(kept->argv, p->argv, kept->argv_length);
}

static void restore(struct pt_process *p, const struct program *kept)
{
    memcpy(p->executable, kept->executable, sizeof kept->executable);
    p->argv_length = kept->argv_length;
    memcpy(p->argv, kept->argv, kept->argv_length);
}

struct exec_call {
    struct pt_call call;
    bool unfollowed;
    uint32_t followed_before, exec_by_before;
    struct program before; /* of a child that is described anew */
};

/* Everything is stored before the call, since a successful exec never returns. */
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
        e->before.kept = false;
        if (t->process->start != PT_START_TOP && t->process->start != PT_START_JOINED) {
            keep(&e->before, t->process);
            pt_process_describe(t->process, path, argv);
        }
        e->followed_before = t->process->followed;
        if (t->process->followed)
            t->process->followed = 2;
        e->exec_by_before = t->process->exec_by;
        t->process->exec_by = e->call.record ? pt_id_of(e->call.record) : 0;
        t->process->awaited = pt_preloads_us(env);
        pt_process_end(t->process, PT_END_EXEC, pt_stderr_is_kept() ? 0 : PT_EXEC_OTHER_STDERR);
    } else if (!t->borrowed_memory) {
        pt_spare_end_slow(t->process, false);
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
            if (e->before.kept) /* a program that is not there leaves no trace */
                restore(t->process, &e->before);
            t->process->end = 0;
            t->process->end_status = 0;
            t->process->followed = e->followed_before; /* it is still the same program */
            t->process->exec_by = e->exec_by_before;
            t->process->awaited = 0;
            __atomic_fetch_and(&t->process->accounts, ~(uint32_t)PT_ACCOUNT_END, __ATOMIC_RELAXED);
            __atomic_store_n(&t->process->end_kind, PT_END_UNKNOWN, __ATOMIC_RELEASE);
        }
        if (e->unfollowed)
            __atomic_fetch_sub(&pt.header->unfollowed, 1, __ATOMIC_RELAXED);
    }
    errno = error;
    return pt_end_int(&e->call, result);
}

/* Declares `given`: env, but without our library if the loader could not open it, because it would complain. */
#define PT_GIVEN_ENVIRONMENT(given, env)                                                    \
    size_t words = 0, lost = (pt.gate & PT_GATE_OFF) ? 0 : pt_preload_is_lost(env, &words); \
    char *kept[lost ? words + 1 : 1], variable[lost ? lost : 1];                            \
    if (lost)                                                                               \
        pt_without_preload(env, kept, variable);                                            \
    char *const *given = lost ? kept : (char *const *)(env)

PT_HOOK_DECLARE(int, execve, const char *, char *const *, char *const *);
int hook_execve(const char *path, char *const *argv, char *const *env)
{
    struct exec_call e;
    PT_GIVEN_ENVIRONMENT(given, env);
    exec_begins(&e, path, argv, given);
    return exec_failed(&e, real_execve(path, argv, given));
}

PT_HOOK_DECLARE(int, execv, const char *, char *const *);
int hook_execv(const char *path, char *const *argv)
{
    struct exec_call e;
    PT_GIVEN_ENVIRONMENT(given, environ);
    exec_begins(&e, path, argv, given);
    return exec_failed(&e, lost ? real_execve(path, argv, given) : real_execv(path, argv));
}

PT_HOOK_DECLARE(int, execvpe, const char *, char *const *, char *const *);
int hook_execvpe(const char *path, char *const *argv, char *const *env)
{
    struct exec_call e;
    PT_GIVEN_ENVIRONMENT(given, env);
    exec_begins(&e, path, argv, given);
    return exec_failed(&e, real_execvpe(path, argv, given));
}

PT_HOOK_DECLARE(int, execvp, const char *, char *const *);
int hook_execvp(const char *path, char *const *argv)
{
    struct exec_call e;
    PT_GIVEN_ENVIRONMENT(given, environ);
    exec_begins(&e, path, argv, given);
    return exec_failed(&e, lost ? real_execvpe(path, argv, given) : real_execvp(path, argv));
}

/* The variadic forms collect their arguments in an array (which the macro declares, with the NULL at its end) and go
 * on as the call they stand for. */
#define PT_GATHER(argv, ap, first)                                  \
    size_t gathered = 0;                                            \
    va_start(ap, first);                                            \
    for (const char *at = first; at; at = va_arg(ap, const char *)) \
        gathered++;                                                 \
    va_end(ap);                                                     \
    char *argv[gathered + 1];                                       \
    va_start(ap, first);                                            \
    argv[0] = (char *)first;                                        \
    for (size_t i = 1; i <= gathered; i++)                          \
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
    PT_GIVEN_ENVIRONMENT(given, env);
    exec_begins(&e, argv && argv[0] ? argv[0] : "", argv, given);
    return exec_failed(&e, real_fexecve(fd, argv, given));
}

PT_HOOK_DECLARE(int, execveat, int, const char *, char *const *, char *const *, int);
int hook_execveat(int dirfd, const char *path, char *const *argv, char *const *env, int flags)
{
    struct exec_call e;
    PT_GIVEN_ENVIRONMENT(given, env);
    exec_begins_at(&e, dirfd, path, argv, given);
    return exec_failed(&e, real_execveat(dirfd, path, argv, given, flags));
}
