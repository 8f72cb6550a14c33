/* Hooks of the calls that change the size of a file, and that bring it to the disk. */
#include "hooks/hooks.h"

#include <fcntl.h>
#include <unistd.h>

PT_HOOK_DECLARE(int, ftruncate, int, off_t);
int hook_ftruncate(int fd, off_t length)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_FTRUNCATE, fd, length, PT_SIZE_NONE);
    return pt_end_int(&c, real_ftruncate(fd, length));
}

PT_HOOK_DECLARE(int, truncate, const char *, off_t);
int hook_truncate(const char *path, off_t length)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_TRUNCATE, path, 0);
    if (c.thread && c.record)
        c.record->offset = length;
    return pt_end_int(&c, real_truncate(path, length));
}

PT_HOOK_DECLARE(int, fallocate, int, int, off_t, off_t);
int hook_fallocate(int fd, int mode, off_t offset, off_t length)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_FALLOCATE, fd, offset, (uint64_t)length);
    return pt_end_int(&c, real_fallocate(fd, mode, offset, length));
}

PT_HOOK_DECLARE(int, posix_fallocate, int, off_t, off_t);
int hook_posix_fallocate(int fd, off_t offset, off_t length)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_POSIX_FALLOCATE, fd, offset, (uint64_t)length);
    return pt_end_error(&c, real_posix_fallocate(fd, offset, length));
}

PT_HOOK_DECLARE(int, posix_fadvise, int, off_t, off_t, int);
int hook_posix_fadvise(int fd, off_t offset, off_t length, int advice)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_FADVISE, fd, offset, (uint64_t)length);
    return pt_end_error(&c, real_posix_fadvise(fd, offset, length, advice));
}

PT_HOOK_DECLARE(ssize_t, readahead, int, off_t, size_t);
ssize_t hook_readahead(int fd, off_t offset, size_t n)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_READAHEAD, fd, offset, n);
    return pt_end_int(&c, (int)real_readahead(fd, offset, n));
}

PT_HOOK_DECLARE(int, fsync, int);
int hook_fsync(int fd)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_FSYNC, fd, -1, PT_SIZE_NONE);
    return pt_end_int(&c, real_fsync(fd));
}

PT_HOOK_DECLARE(int, fdatasync, int);
int hook_fdatasync(int fd)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_FDATASYNC, fd, -1, PT_SIZE_NONE);
    return pt_end_int(&c, real_fdatasync(fd));
}

PT_HOOK_DECLARE(int, syncfs, int);
int hook_syncfs(int fd)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_SYNCFS, fd, -1, PT_SIZE_NONE);
    return pt_end_int(&c, real_syncfs(fd));
}

PT_HOOK_DECLARE(int, sync_file_range, int, off_t, off_t, unsigned);
int hook_sync_file_range(int fd, off_t offset, off_t n, unsigned flags)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_SYNC_FILE_RANGE, fd, offset, (uint64_t)n);
    return pt_end_int(&c, real_sync_file_range(fd, offset, n, flags));
}

PT_HOOK_DECLARE(void, sync, void);
void hook_sync(void)
{
    struct pt_call c;
    pt_begin_pathless(&c, PT_OP_SYNC);
    real_sync();
    pt_end_int(&c, 0);
}
