/* Hooks of the calls that create descriptors for things other than files.
 *
 * They have no records.  But if the hooks missed a close (by libc itself, or within a system call), the number that
 * these calls return no longer means what the table says.  Most of these calls also tell what the descriptor is. */
#include "hooks/hooks.h"

#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>

int pt_fd_reused(int fd)
{
    struct pt_thread *t = fd >= 0 ? pt_table_owner() : NULL;
    if (t)
        pt_fd_forget(t, fd);
    return fd;
}

/* The call tells the kind of the descriptor. If that kind is left out, nobody needs to ask the kernel later. */
static int opened_as(uint32_t kind, int fd)
{
    if (!(pt.left_out_kinds >> kind & 1))
        return pt_fd_reused(fd);
    struct pt_thread *t = fd >= 0 ? pt_table_owner() : NULL;
    if (t)
        pt_fd_set(t, fd, pt_left_out_entry(kind));
    return fd;
}

static int both_opened_as(uint32_t kind, int result, const int *fds)
{
    if (result == 0) {
        opened_as(kind, fds[0]);
        opened_as(kind, fds[1]);
    }
    return result;
}

PT_HOOK_DECLARE(int, pipe, int *);
int hook_pipe(int *fds)
{
    return both_opened_as(PT_DESC_PIPE, real_pipe(fds), fds);
}

PT_HOOK_DECLARE(int, pipe2, int *, int);
int hook_pipe2(int *fds, int flags)
{
    return both_opened_as(PT_DESC_PIPE, real_pipe2(fds, flags), fds);
}

/* ---- sockets -------------------------------------------------------------------- */

PT_HOOK_DECLARE(int, socket, int, int, int);
int hook_socket(int domain, int type, int protocol)
{
    return opened_as(PT_DESC_SOCKET, real_socket(domain, type, protocol));
}

PT_HOOK_DECLARE(int, socketpair, int, int, int, int *);
int hook_socketpair(int domain, int type, int protocol, int *fds)
{
    return both_opened_as(PT_DESC_SOCKET, real_socketpair(domain, type, protocol, fds), fds);
}

PT_HOOK_DECLARE(int, accept, int, struct sockaddr *, socklen_t *);
int hook_accept(int fd, struct sockaddr *address, socklen_t *length)
{
    return opened_as(PT_DESC_SOCKET, real_accept(fd, address, length));
}

PT_HOOK_DECLARE(int, accept4, int, struct sockaddr *, socklen_t *, int);
int hook_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
    return opened_as(PT_DESC_SOCKET, real_accept4(fd, address, length, flags));
}

static void all_reused(const struct cmsghdr *m)
{
    const unsigned char *at = CMSG_DATA(m), *end = (const unsigned char *)m + m->cmsg_len;
    for (int fd; at + sizeof fd <= end; at += sizeof fd) {
        memcpy(&fd, at, sizeof fd);
        pt_fd_reused(fd);
    }
}

/* Sockets deliver descriptors too, often of files.  Does without CMSG_NXTHDR, which in glibc may be a function that
 * musl's loader does not find. */
static void received(const struct msghdr *message)
{
    const char *control = message->msg_control;
    size_t all = message->msg_controllen, word = sizeof(size_t);
    for (size_t at = 0; all - at >= sizeof(struct cmsghdr);) {
        const struct cmsghdr *m = (const struct cmsghdr *)(control + at);
        size_t length = m->cmsg_len;
        if (length < sizeof *m || length > all - at)
            return;
        if (m->cmsg_level == SOL_SOCKET && m->cmsg_type == SCM_RIGHTS)
            all_reused(m);
        length = (length + word - 1) / word * word;
        at += length < all - at ? length : all - at;
    }
}

PT_HOOK_DECLARE(ssize_t, recvmsg, int, struct msghdr *, int);
ssize_t hook_recvmsg(int fd, struct msghdr *message, int flags)
{
    ssize_t n = real_recvmsg(fd, message, flags);
    if (n >= 0 && message->msg_controllen)
        received(message);
    return n;
}

struct timespec;
PT_HOOK_DECLARE(int, recvmmsg, int, struct mmsghdr *, unsigned, int, struct timespec *);
int hook_recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout)
{
    int n = real_recvmmsg(fd, messages, count, flags, timeout);
    for (int i = 0; i < n; i++)
        if (messages[i].msg_hdr.msg_controllen)
            received(&messages[i].msg_hdr);
    return n;
}

/* ---- memory, events, timers, signals, processes ------------------------------------ */

PT_HOOK_DECLARE(int, memfd_create, const char *, unsigned);
int hook_memfd_create(const char *name, unsigned flags)
{
    return opened_as(PT_DESC_ANON, real_memfd_create(name, flags));
}

PT_HOOK_DECLARE(int, epoll_create, int);
int hook_epoll_create(int size)
{
    return opened_as(PT_DESC_ANON, real_epoll_create(size));
}

PT_HOOK_DECLARE(int, epoll_create1, int);
int hook_epoll_create1(int flags)
{
    return opened_as(PT_DESC_ANON, real_epoll_create1(flags));
}

PT_HOOK_DECLARE(int, eventfd, unsigned, int);
int hook_eventfd(unsigned initial, int flags)
{
    return opened_as(PT_DESC_ANON, real_eventfd(initial, flags));
}

PT_HOOK_DECLARE(int, inotify_init, void);
int hook_inotify_init(void)
{
    return opened_as(PT_DESC_ANON, real_inotify_init());
}

PT_HOOK_DECLARE(int, inotify_init1, int);
int hook_inotify_init1(int flags)
{
    return opened_as(PT_DESC_ANON, real_inotify_init1(flags));
}

PT_HOOK_DECLARE(int, fanotify_init, unsigned, unsigned);
int hook_fanotify_init(unsigned flags, unsigned event_flags)
{
    return opened_as(PT_DESC_ANON, real_fanotify_init(flags, event_flags));
}

PT_HOOK_DECLARE(int, signalfd, int, const void *, int);
int hook_signalfd(int fd, const void *mask, int flags)
{
    int result = real_signalfd(fd, mask, flags);
    return fd == -1 ? opened_as(PT_DESC_ANON, result) : result;
}

PT_HOOK_DECLARE(int, timerfd_create, int, int);
int hook_timerfd_create(int clock, int flags)
{
    return opened_as(PT_DESC_ANON, real_timerfd_create(clock, flags));
}

PT_HOOK_DECLARE(int, pidfd_open, pid_t, unsigned);
int hook_pidfd_open(pid_t pid, unsigned flags)
{
    return pt_fd_reused(real_pidfd_open(pid, flags));
}

PT_HOOK_DECLARE(int, pidfd_getfd, int, int, unsigned);
int hook_pidfd_getfd(int pidfd, int fd, unsigned flags)
{
    return pt_fd_reused(real_pidfd_getfd(pidfd, fd, flags));
}

PT_HOOK_DECLARE(int, mq_open, const char *, int, unsigned, void *);
int hook_mq_open(const char *name, int flags, unsigned mode, void *attributes)
{
    return pt_fd_reused(real_mq_open(name, flags, mode, attributes));
}

PT_HOOK_DECLARE(int, mq_open_2, const char *, int);
int hook_mq_open_2(const char *name, int flags)
{
    return pt_fd_reused(real_mq_open_2(name, flags));
}

/* ---- mounts: what they name is a file system, not a file -------------------------------- */

PT_HOOK_DECLARE(int, fsopen, const char *, unsigned);
int hook_fsopen(const char *name, unsigned flags)
{
    return pt_fd_reused(real_fsopen(name, flags));
}

PT_HOOK_DECLARE(int, fsmount, int, unsigned, unsigned);
int hook_fsmount(int fd, unsigned flags, unsigned attributes)
{
    return pt_fd_reused(real_fsmount(fd, flags, attributes));
}

PT_HOOK_DECLARE(int, fspick, int, const char *, unsigned);
int hook_fspick(int dirfd, const char *path, unsigned flags)
{
    return pt_fd_reused(real_fspick(dirfd, path, flags));
}

PT_HOOK_DECLARE(int, open_tree, int, const char *, unsigned);
int hook_open_tree(int dirfd, const char *path, unsigned flags)
{
    return pt_fd_reused(real_open_tree(dirfd, path, flags));
}

/* ---- terminals ------------------------------------------------------------------------------ */

PT_HOOK_DECLARE(int, posix_openpt, int);
int hook_posix_openpt(int flags)
{
    return pt_fd_reused(real_posix_openpt(flags));
}

PT_HOOK_DECLARE(int, getpt, void);
int hook_getpt(void)
{
    return pt_fd_reused(real_getpt());
}

PT_HOOK_DECLARE(int, openpty, int *, int *, char *, const void *, const void *);
int hook_openpty(int *master, int *slave, char *name, const void *settings, const void *size)
{
    int result = real_openpty(master, slave, name, settings, size);
    if (result == 0) {
        pt_fd_reused(*master);
        pt_fd_reused(*slave);
    }
    return result;
}

/* The terminal becomes descriptors 0, 1 and 2, and its own number is free again. */
PT_HOOK_DECLARE(int, login_tty, int);
int hook_login_tty(int fd)
{
    int result = real_login_tty(fd);
    if (result == 0)
        for (int i = 0; i < 3; i++)
            pt_fd_reused(i);
    if (result == 0 && fd > 2)
        pt_fd_reused(fd);
    return result;
}
