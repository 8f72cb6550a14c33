/* Hooks of the calls that make, copy and end descriptors. */
#include "hooks.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

static int mode_argument(int flags, va_list ap)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, int) : 0;
}

PT_HOOK_DECLARE(int, open, const char *, int, ...);
int hook_open(const char *path, int flags, ...)
{
    struct pt_call c;
    va_list ap;
    va_start(ap, flags);
    int mode = mode_argument(flags, ap);
    va_end(ap);
    pt_begin_path(&c, PT_OP_OPEN, path, (uint32_t)flags);
    return pt_end_open(&c, real_open(path, flags, mode));
}

PT_HOOK_DECLARE(int, open_2, const char *, int);
int hook_open_2(const char *path, int flags)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_OPEN, path, (uint32_t)flags);
    return pt_end_open(&c, real_open_2(path, flags));
}

PT_HOOK_DECLARE(int, openat, int, const char *, int, ...);
int hook_openat(int dirfd, const char *path, int flags, ...)
{
    struct pt_call c;
    va_list ap;
    va_start(ap, flags);
    int mode = mode_argument(flags, ap);
    va_end(ap);
    pt_begin_path_at(&c, PT_OP_OPENAT, dirfd, path, (uint32_t)flags);
    return pt_end_open(&c, real_openat(dirfd, path, flags, mode));
}

PT_HOOK_DECLARE(int, openat_2, int, const char *, int);
int hook_openat_2(int dirfd, const char *path, int flags)
{
    struct pt_call c;
    pt_begin_path_at(&c, PT_OP_OPENAT, dirfd, path, (uint32_t)flags);
    return pt_end_open(&c, real_openat_2(dirfd, path, flags));
}

PT_HOOK_DECLARE(int, creat, const char *, mode_t);
int hook_creat(const char *path, mode_t mode)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_CREAT, path, O_CREAT | O_WRONLY | O_TRUNC);
    return pt_end_open(&c, real_creat(path, mode));
}

/* The mkstemp family: the path is known only afterwards. */
static int end_mkstemp(struct pt_call *c, int fd, const char *path)
{
    if (c->thread && c->record && fd >= 0)
        c->record->desc = pt_path(path);
    return pt_end_open(c, fd);
}

PT_HOOK_DECLARE(int, mkstemp, char *);
int hook_mkstemp(char *path)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_MKSTEMP, path, O_CREAT | O_EXCL | O_RDWR);
    return end_mkstemp(&c, real_mkstemp(path), path);
}

PT_HOOK_DECLARE(int, mkstemps, char *, int);
int hook_mkstemps(char *path, int suffix)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_MKSTEMP, path, O_CREAT | O_EXCL | O_RDWR);
    return end_mkstemp(&c, real_mkstemps(path, suffix), path);
}

PT_HOOK_DECLARE(int, mkostemp, char *, int);
int hook_mkostemp(char *path, int flags)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_MKSTEMP, path, (uint32_t)(O_CREAT | O_EXCL | O_RDWR | flags));
    return end_mkstemp(&c, real_mkostemp(path, flags), path);
}

PT_HOOK_DECLARE(int, mkostemps, char *, int, int);
int hook_mkostemps(char *path, int suffix, int flags)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_MKSTEMP, path, (uint32_t)(O_CREAT | O_EXCL | O_RDWR | flags));
    return end_mkstemp(&c, real_mkostemps(path, suffix, flags), path);
}

/* ---- closing: the entry goes first, since the number is free at once -------- */

PT_HOOK_DECLARE(int, close, int);
int hook_close(int fd)
{
    struct pt_call c;
    struct pt_thread *t = pt_table_owner();
    if (t)
        pt_fd_identify_before_close(fd);
    pt_begin_fd(&c, PT_OP_CLOSE, fd, -1, PT_SIZE_NONE);
    if (t)
        pt_fd_forget(t, fd);
    return pt_end_int(&c, real_close(fd));
}

PT_HOOK_DECLARE(int, close_range, unsigned, unsigned, int);
int hook_close_range(unsigned first, unsigned last, int flags)
{
    struct pt_call c = {0};
    struct pt_thread *t = pt_enter(), *owner = pt_table_owner();
    if (t)
        pt_begin(&c, t, PT_OP_CLOSE_RANGE, 0, first, -1, PT_SIZE_NONE);
    if (owner && !(flags & 4)) /* CLOSE_RANGE_CLOEXEC closes nothing yet */
        pt_fd_forget_range(owner, first, last);
    return pt_end_int(&c, real_close_range(first, last, flags));
}

PT_HOOK_DECLARE(void, closefrom, int);
void hook_closefrom(int first)
{
    struct pt_call c = {0};
    struct pt_thread *t = pt_enter(), *owner = pt_table_owner();
    if (t)
        pt_begin(&c, t, PT_OP_CLOSE_RANGE, 0, (uint32_t)first, -1, PT_SIZE_NONE);
    if (owner)
        pt_fd_forget_range(owner, (unsigned)first, ~0u);
    real_closefrom(first);
    pt_end_int(&c, 0);
}

/* ---- copies of a descriptor --------------------------------------------------- */

static int end_dup(struct pt_call *c, int old, int fd)
{
    if (!c->thread) {
        struct pt_thread *t = fd >= 0 ? pt_table_owner() : NULL;
        if (t)
            pt_fd_duplicated(t, old, fd, 0); /* suppressed, or of a kind that is left out */
        return fd;
    }
    if (fd >= 0 && fd != old) {
        uint32_t desc = pt_fd_duplicated(c->thread, old, fd, c->record ? pt_id_of(c->record) : 0);
        if (c->record)
            c->record->offset = desc;
    }
    pt_end(c, fd, fd < 0 ? errno : 0);
    return fd;
}

PT_HOOK_DECLARE(int, dup, int);
int hook_dup(int fd)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_DUP, fd, 0, PT_SIZE_NONE);
    return end_dup(&c, fd, real_dup(fd));
}

PT_HOOK_DECLARE(int, dup2, int, int);
int hook_dup2(int fd, int to)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_DUP2, fd, 0, PT_SIZE_NONE);
    return end_dup(&c, fd, real_dup2(fd, to));
}

PT_HOOK_DECLARE(int, dup3, int, int, int);
int hook_dup3(int fd, int to, int flags)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_DUP3, fd, 0, PT_SIZE_NONE);
    return end_dup(&c, fd, real_dup3(fd, to, flags));
}

/* The third argument is an int or a pointer: passed on as a full word. */
PT_HOOK_DECLARE(int, fcntl, int, int, ...);
int hook_fcntl(int fd, int command, ...)
{
    struct pt_call c;
    va_list ap;
    va_start(ap, command);
    void *argument = va_arg(ap, void *);
    va_end(ap);
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) {
        pt_begin_fd(&c, PT_OP_DUP, fd, 0, PT_SIZE_NONE);
        return end_dup(&c, fd, real_fcntl(fd, command, argument));
    }
    pt_begin_fd(&c, PT_OP_FCNTL, fd, -1, (uint64_t)(unsigned)command);
    int result = real_fcntl(fd, command, argument);
    pt_end_int(&c, result);
    return result;
}

/* ---- descriptors that are not files: a number taken by one is no longer what
 * the table says, should its close have escaped us ------------------------------- */

static int taken(int fd)
{
    struct pt_thread *t = fd >= 0 ? pt_table_owner() : NULL;
    if (t)
        pt_fd_forget(t, fd);
    return fd;
}

PT_HOOK_DECLARE(int, pipe, int *);
int hook_pipe(int *fds)
{
    int result = real_pipe(fds);
    if (result == 0) {
        taken(fds[0]);
        taken(fds[1]);
    }
    return result;
}

PT_HOOK_DECLARE(int, pipe2, int *, int);
int hook_pipe2(int *fds, int flags)
{
    int result = real_pipe2(fds, flags);
    if (result == 0) {
        taken(fds[0]);
        taken(fds[1]);
    }
    return result;
}

PT_HOOK_DECLARE(int, socket, int, int, int);
int hook_socket(int domain, int type, int protocol)
{
    return taken(real_socket(domain, type, protocol));
}

PT_HOOK_DECLARE(int, socketpair, int, int, int, int *);
int hook_socketpair(int domain, int type, int protocol, int *fds)
{
    int result = real_socketpair(domain, type, protocol, fds);
    if (result == 0) {
        taken(fds[0]);
        taken(fds[1]);
    }
    return result;
}

PT_HOOK_DECLARE(int, accept, int, struct sockaddr *, socklen_t *);
int hook_accept(int fd, struct sockaddr *address, socklen_t *length)
{
    return taken(real_accept(fd, address, length));
}

PT_HOOK_DECLARE(int, accept4, int, struct sockaddr *, socklen_t *, int);
int hook_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
    return taken(real_accept4(fd, address, length, flags));
}

PT_HOOK_DECLARE(int, memfd_create, const char *, unsigned);
int hook_memfd_create(const char *name, unsigned flags)
{
    return taken(real_memfd_create(name, flags));
}

PT_HOOK_DECLARE(int, epoll_create1, int);
int hook_epoll_create1(int flags)
{
    return taken(real_epoll_create1(flags));
}

PT_HOOK_DECLARE(int, eventfd, unsigned, int);
int hook_eventfd(unsigned initial, int flags)
{
    return taken(real_eventfd(initial, flags));
}
