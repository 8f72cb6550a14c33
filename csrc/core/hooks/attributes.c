/* Hooks of the calls that change or read attributes: modes, owners, times,
 * extended attributes, locks. */
#include "hooks/hooks.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

PT_HOOK_DECLARE(int, chmod, const char *, mode_t);
int hook_chmod(const char *path, mode_t mode)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_CHMOD, path, mode);
    return pt_end_int(&c, real_chmod(path, mode));
}

PT_HOOK_DECLARE(int, fchmod, int, mode_t);
int hook_fchmod(int fd, mode_t mode)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_FCHMOD, fd, -1, PT_SIZE_NONE);
    return pt_end_int(&c, real_fchmod(fd, mode));
}

PT_HOOK_DECLARE(int, fchmodat, int, const char *, mode_t, int);
int hook_fchmodat(int dirfd, const char *path, mode_t mode, int flags)
{
    struct pt_call c;
    pt_begin_path_at(&c, PT_OP_FCHMODAT, dirfd, path, mode);
    return pt_end_int(&c, real_fchmodat(dirfd, path, mode, flags));
}

PT_HOOK_DECLARE(int, lchmod, const char *, mode_t);
int hook_lchmod(const char *path, mode_t mode)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_CHMOD, path, mode);
    return pt_end_int(&c, real_lchmod(path, mode));
}

PT_HOOK_DECLARE(int, chown, const char *, uid_t, gid_t);
int hook_chown(const char *path, uid_t user, gid_t group)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_CHOWN, path, 0);
    return pt_end_int(&c, real_chown(path, user, group));
}

PT_HOOK_DECLARE(int, lchown, const char *, uid_t, gid_t);
int hook_lchown(const char *path, uid_t user, gid_t group)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_LCHOWN, path, 0);
    return pt_end_int(&c, real_lchown(path, user, group));
}

PT_HOOK_DECLARE(int, fchown, int, uid_t, gid_t);
int hook_fchown(int fd, uid_t user, gid_t group)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_FCHOWN, fd, -1, PT_SIZE_NONE);
    return pt_end_int(&c, real_fchown(fd, user, group));
}

PT_HOOK_DECLARE(int, fchownat, int, const char *, uid_t, gid_t, int);
int hook_fchownat(int dirfd, const char *path, uid_t user, gid_t group, int flags)
{
    struct pt_call c;
    pt_begin_path_at(&c, PT_OP_FCHOWNAT, dirfd, path, (uint32_t)flags);
    return pt_end_int(&c, real_fchownat(dirfd, path, user, group, flags));
}

PT_HOOK_DECLARE(int, utime, const char *, const struct utimbuf *);
int hook_utime(const char *path, const struct utimbuf *times)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_UTIME, path, 0);
    return pt_end_int(&c, real_utime(path, times));
}

PT_HOOK_DECLARE(int, utimes, const char *, const struct timeval *);
int hook_utimes(const char *path, const struct timeval *times)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_UTIME, path, 0);
    return pt_end_int(&c, real_utimes(path, times));
}

PT_HOOK_DECLARE(int, lutimes, const char *, const struct timeval *);
int hook_lutimes(const char *path, const struct timeval *times)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_UTIME, path, 0);
    return pt_end_int(&c, real_lutimes(path, times));
}

PT_HOOK_DECLARE(int, futimes, int, const struct timeval *);
int hook_futimes(int fd, const struct timeval *times)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_FUTIME, fd, -1, PT_SIZE_NONE);
    return pt_end_int(&c, real_futimes(fd, times));
}

PT_HOOK_DECLARE(int, futimens, int, const struct timespec *);
int hook_futimens(int fd, const struct timespec *times)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_FUTIME, fd, -1, PT_SIZE_NONE);
    return pt_end_int(&c, real_futimens(fd, times));
}

PT_HOOK_DECLARE(int, utimensat, int, const char *, const struct timespec *, int);
int hook_utimensat(int dirfd, const char *path, const struct timespec *times, int flags)
{
    struct pt_call c;
    pt_begin_path_at(&c, PT_OP_UTIMENSAT, dirfd, path, (uint32_t)flags);
    return pt_end_int(&c, real_utimensat(dirfd, path, times, flags));
}

PT_HOOK_DECLARE(int, futimesat, int, const char *, const struct timeval *);
int hook_futimesat(int dirfd, const char *path, const struct timeval *times)
{
    struct pt_call c;
    if (path)
        pt_begin_path_at(&c, PT_OP_UTIMENSAT, dirfd, path, 0);
    else
        pt_begin_fd(&c, PT_OP_FUTIME, dirfd, -1, PT_SIZE_NONE);
    return pt_end_int(&c, real_futimesat(dirfd, path, times));
}

/* ---- extended attributes ---------------------------------------------------------- */

static ssize_t end_xattr(struct pt_call *c, ssize_t n)
{
    pt_end_int(c, n < 0 ? -1 : 0); /* the bytes are not data of the file */
    return n;
}

PT_HOOK_DECLARE(ssize_t, getxattr, const char *, const char *, void *, size_t);
ssize_t hook_getxattr(const char *path, const char *name, void *value, size_t size)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_GETXATTR, path, 0);
    return end_xattr(&c, real_getxattr(path, name, value, size));
}

PT_HOOK_DECLARE(ssize_t, lgetxattr, const char *, const char *, void *, size_t);
ssize_t hook_lgetxattr(const char *path, const char *name, void *value, size_t size)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_GETXATTR, path, 0);
    return end_xattr(&c, real_lgetxattr(path, name, value, size));
}

PT_HOOK_DECLARE(ssize_t, fgetxattr, int, const char *, void *, size_t);
ssize_t hook_fgetxattr(int fd, const char *name, void *value, size_t size)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_FGETXATTR, fd, -1, PT_SIZE_NONE);
    return end_xattr(&c, real_fgetxattr(fd, name, value, size));
}

PT_HOOK_DECLARE(int, setxattr, const char *, const char *, const void *, size_t, int);
int hook_setxattr(const char *path, const char *name, const void *value, size_t size, int flags)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_SETXATTR, path, 0);
    return pt_end_int(&c, real_setxattr(path, name, value, size, flags));
}

PT_HOOK_DECLARE(int, lsetxattr, const char *, const char *, const void *, size_t, int);
int hook_lsetxattr(const char *path, const char *name, const void *value, size_t size, int flags)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_SETXATTR, path, 0);
    return pt_end_int(&c, real_lsetxattr(path, name, value, size, flags));
}

PT_HOOK_DECLARE(int, fsetxattr, int, const char *, const void *, size_t, int);
int hook_fsetxattr(int fd, const char *name, const void *value, size_t size, int flags)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_FSETXATTR, fd, -1, PT_SIZE_NONE);
    return pt_end_int(&c, real_fsetxattr(fd, name, value, size, flags));
}

PT_HOOK_DECLARE(ssize_t, listxattr, const char *, char *, size_t);
ssize_t hook_listxattr(const char *path, char *list, size_t size)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_LISTXATTR, path, 0);
    return end_xattr(&c, real_listxattr(path, list, size));
}

PT_HOOK_DECLARE(ssize_t, llistxattr, const char *, char *, size_t);
ssize_t hook_llistxattr(const char *path, char *list, size_t size)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_LISTXATTR, path, 0);
    return end_xattr(&c, real_llistxattr(path, list, size));
}

PT_HOOK_DECLARE(ssize_t, flistxattr, int, char *, size_t);
ssize_t hook_flistxattr(int fd, char *list, size_t size)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_FLISTXATTR, fd, -1, PT_SIZE_NONE);
    return end_xattr(&c, real_flistxattr(fd, list, size));
}

PT_HOOK_DECLARE(int, removexattr, const char *, const char *);
int hook_removexattr(const char *path, const char *name)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_REMOVEXATTR, path, 0);
    return pt_end_int(&c, real_removexattr(path, name));
}

PT_HOOK_DECLARE(int, lremovexattr, const char *, const char *);
int hook_lremovexattr(const char *path, const char *name)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_REMOVEXATTR, path, 0);
    return pt_end_int(&c, real_lremovexattr(path, name));
}

PT_HOOK_DECLARE(int, fremovexattr, int, const char *);
int hook_fremovexattr(int fd, const char *name)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_FREMOVEXATTR, fd, -1, PT_SIZE_NONE);
    return pt_end_int(&c, real_fremovexattr(fd, name));
}

/* ---- locks --------------------------------------------------------------------------- */

PT_HOOK_DECLARE(int, flock, int, int);
int hook_flock(int fd, int operation)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_FLOCK, fd, -1, (unsigned)operation);
    return pt_end_int(&c, real_flock(fd, operation));
}

PT_HOOK_DECLARE(int, lockf, int, int, off_t);
int hook_lockf(int fd, int command, off_t length)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_LOCKF, fd, -1, (unsigned)command);
    return pt_end_int(&c, real_lockf(fd, command, length));
}
