/* Hooks of the calls that ask what a file is, what file system it is on, and what may be done with it. */
#include "hooks/hooks.h"

#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- stat, in every spelling -------------------------------------------------- */

PT_HOOK_DECLARE(int, stat, const char *, struct stat *);
int hook_stat(const char *path, struct stat *st)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_STAT, path, 0);
    return pt_end_int(&c, real_stat(path, st));
}

PT_HOOK_DECLARE(int, lstat, const char *, struct stat *);
int hook_lstat(const char *path, struct stat *st)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_LSTAT, path, 0);
    return pt_end_int(&c, real_lstat(path, st));
}

static int end_fstat(struct pt_call *c, int fd, const struct stat *st, int result)
{
    if (c->thread && result == 0)
        pt_fd_identify(fd, st);
    return pt_end_int(c, result);
}

PT_HOOK_DECLARE(int, fstat, int, struct stat *);
int hook_fstat(int fd, struct stat *st)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_FSTAT, fd, -1, PT_SIZE_NONE);
    return end_fstat(&c, fd, st, real_fstat(fd, st));
}

PT_HOOK_DECLARE(int, fstatat, int, const char *, struct stat *, int);
int hook_fstatat(int dirfd, const char *path, struct stat *st, int flags)
{
    struct pt_call c;
    pt_begin_path_at(&c, PT_OP_FSTATAT, dirfd, path, (uint32_t)flags);
    return pt_end_int(&c, real_fstatat(dirfd, path, st, flags));
}

/* glibc before 2.33: the functions called by its inline stat family. */
PT_HOOK_DECLARE(int, xstat, int, const char *, struct stat *);
int hook_xstat(int version, const char *path, struct stat *st)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_STAT, path, 0);
    return pt_end_int(&c, real_xstat(version, path, st));
}

PT_HOOK_DECLARE(int, lxstat, int, const char *, struct stat *);
int hook_lxstat(int version, const char *path, struct stat *st)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_LSTAT, path, 0);
    return pt_end_int(&c, real_lxstat(version, path, st));
}

PT_HOOK_DECLARE(int, fxstat, int, int, struct stat *);
int hook_fxstat(int version, int fd, struct stat *st)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_FSTAT, fd, -1, PT_SIZE_NONE);
    return end_fstat(&c, fd, st, real_fxstat(version, fd, st));
}

PT_HOOK_DECLARE(int, fxstatat, int, int, const char *, struct stat *, int);
int hook_fxstatat(int version, int dirfd, const char *path, struct stat *st, int flags)
{
    struct pt_call c;
    pt_begin_path_at(&c, PT_OP_FSTATAT, dirfd, path, (uint32_t)flags);
    return pt_end_int(&c, real_fxstatat(version, dirfd, path, st, flags));
}

struct statx;
PT_HOOK_DECLARE(int, statx, int, const char *, int, unsigned, struct statx *);
int hook_statx(int dirfd, const char *path, int flags, unsigned mask, struct statx *st)
{
    struct pt_call c;
    pt_begin_path_at(&c, PT_OP_STATX, dirfd, path, (uint32_t)flags);
    return pt_end_int(&c, real_statx(dirfd, path, flags, mask, st));
}

/* ---- file systems ---------------------------------------------------------------------- */

PT_HOOK_DECLARE(int, statfs, const char *, struct statfs *);
int hook_statfs(const char *path, struct statfs *st)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_STATFS, path, 0);
    return pt_end_int(&c, real_statfs(path, st));
}

PT_HOOK_DECLARE(int, fstatfs, int, struct statfs *);
int hook_fstatfs(int fd, struct statfs *st)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_FSTATFS, fd, -1, PT_SIZE_NONE);
    return pt_end_int(&c, real_fstatfs(fd, st));
}

PT_HOOK_DECLARE(int, statvfs, const char *, struct statvfs *);
int hook_statvfs(const char *path, struct statvfs *st)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_STATFS, path, 0);
    return pt_end_int(&c, real_statvfs(path, st));
}

PT_HOOK_DECLARE(int, fstatvfs, int, struct statvfs *);
int hook_fstatvfs(int fd, struct statvfs *st)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_FSTATFS, fd, -1, PT_SIZE_NONE);
    return pt_end_int(&c, real_fstatvfs(fd, st));
}

/* ---- limits, and what one may do ---------------------------------------------------------- */

PT_HOOK_DECLARE(long, pathconf, const char *, int);
long hook_pathconf(const char *path, int name)
{
    struct pt_call c;
    int saved = errno;
    pt_begin_path(&c, PT_OP_PATHCONF, path, (uint32_t)name);
    errno = 0; /* -1 may also mean: no limit */
    long result = real_pathconf(path, name);
    pt_end_error(&c, result < 0 ? errno : 0);
    errno = errno ? errno : saved;
    return result;
}

PT_HOOK_DECLARE(long, fpathconf, int, int);
long hook_fpathconf(int fd, int name)
{
    struct pt_call c;
    int saved = errno;
    pt_begin_fd(&c, PT_OP_FPATHCONF, fd, -1, PT_SIZE_NONE);
    errno = 0;
    long result = real_fpathconf(fd, name);
    pt_end_error(&c, result < 0 ? errno : 0);
    errno = errno ? errno : saved;
    return result;
}

PT_HOOK_DECLARE(int, access, const char *, int);
int hook_access(const char *path, int mode)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_ACCESS, path, (uint32_t)mode);
    return pt_end_int(&c, real_access(path, mode));
}

PT_HOOK_DECLARE(int, euidaccess, const char *, int);
int hook_euidaccess(const char *path, int mode)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_ACCESS, path, (uint32_t)mode);
    return pt_end_int(&c, real_euidaccess(path, mode));
}

PT_HOOK_DECLARE(int, faccessat, int, const char *, int, int);
int hook_faccessat(int dirfd, const char *path, int mode, int flags)
{
    struct pt_call c;
    pt_begin_path_at(&c, PT_OP_FACCESSAT, dirfd, path, (uint32_t)mode);
    return pt_end_int(&c, real_faccessat(dirfd, path, mode, flags));
}
