/* Hooks of the calls that read, write and seek. */
#include "hooks/hooks.h"

#include <sys/uio.h>
#include <unistd.h>

static uint64_t total(const struct iovec *v, int count)
{
    uint64_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += v[i].iov_len;
    return sum;
}

PT_HOOK_DECLARE(ssize_t, read, int, void *, size_t);
ssize_t hook_read(int fd, void *buf, size_t n)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_READ, fd, -1, n);
    return pt_end_bytes(&c, real_read(fd, buf, n));
}

PT_HOOK_DECLARE(ssize_t, read_chk, int, void *, size_t, size_t);
ssize_t hook_read_chk(int fd, void *buf, size_t n, size_t room)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_READ, fd, -1, n);
    return pt_end_bytes(&c, real_read_chk(fd, buf, n, room));
}

PT_HOOK_DECLARE(ssize_t, write, int, const void *, size_t);
ssize_t hook_write(int fd, const void *buf, size_t n)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_WRITE, fd, -1, n);
    return pt_end_bytes(&c, real_write(fd, buf, n));
}

PT_HOOK_DECLARE(ssize_t, pread, int, void *, size_t, off_t);
ssize_t hook_pread(int fd, void *buf, size_t n, off_t at)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_PREAD, fd, at, n);
    return pt_end_bytes(&c, real_pread(fd, buf, n, at));
}

PT_HOOK_DECLARE(ssize_t, pread_chk, int, void *, size_t, off_t, size_t);
ssize_t hook_pread_chk(int fd, void *buf, size_t n, off_t at, size_t room)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_PREAD, fd, at, n);
    return pt_end_bytes(&c, real_pread_chk(fd, buf, n, at, room));
}

PT_HOOK_DECLARE(ssize_t, pwrite, int, const void *, size_t, off_t);
ssize_t hook_pwrite(int fd, const void *buf, size_t n, off_t at)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_PWRITE, fd, at, n);
    return pt_end_bytes(&c, real_pwrite(fd, buf, n, at));
}

PT_HOOK_DECLARE(ssize_t, readv, int, const struct iovec *, int);
ssize_t hook_readv(int fd, const struct iovec *v, int count)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_READV, fd, -1, total(v, count));
    return pt_end_bytes(&c, real_readv(fd, v, count));
}

PT_HOOK_DECLARE(ssize_t, writev, int, const struct iovec *, int);
ssize_t hook_writev(int fd, const struct iovec *v, int count)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_WRITEV, fd, -1, total(v, count));
    return pt_end_bytes(&c, real_writev(fd, v, count));
}

PT_HOOK_DECLARE(ssize_t, preadv, int, const struct iovec *, int, off_t);
ssize_t hook_preadv(int fd, const struct iovec *v, int count, off_t at)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_PREADV, fd, at, total(v, count));
    return pt_end_bytes(&c, real_preadv(fd, v, count, at));
}

PT_HOOK_DECLARE(ssize_t, pwritev, int, const struct iovec *, int, off_t);
ssize_t hook_pwritev(int fd, const struct iovec *v, int count, off_t at)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_PWRITEV, fd, at, total(v, count));
    return pt_end_bytes(&c, real_pwritev(fd, v, count, at));
}

PT_HOOK_DECLARE(ssize_t, preadv2, int, const struct iovec *, int, off_t, int);
ssize_t hook_preadv2(int fd, const struct iovec *v, int count, off_t at, int flags)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_PREADV2, fd, at, total(v, count));
    return pt_end_bytes(&c, real_preadv2(fd, v, count, at, flags));
}

#define APPENDS 0x10 /* RWF_APPEND and RWF_NOAPPEND, which libc's headers may lack */
#define APPENDS_NOT 0x20

/* What a record has as its offset. */
static int64_t place_by_flags(off_t at, int flags)
{
    if (flags & APPENDS)
        return at == -1 ? PT_TO_END : PT_AT_END;
    if (flags & APPENDS_NOT)
        return at == -1 ? PT_AT_POSITION : PT_AT_PLACE - at;
    return at;
}

PT_HOOK_DECLARE(ssize_t, pwritev2, int, const struct iovec *, int, off_t, int);
ssize_t hook_pwritev2(int fd, const struct iovec *v, int count, off_t at, int flags)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_PWRITEV2, fd, place_by_flags(at, flags), total(v, count));
    return pt_end_bytes(&c, real_pwritev2(fd, v, count, at, flags));
}

PT_HOOK_DECLARE(ssize_t, vmsplice, int, const struct iovec *, size_t, unsigned);
ssize_t hook_vmsplice(int fd, const struct iovec *v, size_t count, unsigned flags)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_VMSPLICE, fd, -1, total(v, (int)count));
    return pt_end_bytes(&c, real_vmsplice(fd, v, count, flags));
}

PT_HOOK_DECLARE(off_t, lseek, int, off_t, int);
off_t hook_lseek(int fd, off_t at, int whence)
{
    struct pt_call c;
    /* With a distance from the end, the result is not the size of the file. */
    unsigned from_end = whence == SEEK_END && at != 0 ? PT_SEEK_DISTANCE : 0;
    pt_begin_fd(&c, PT_OP_LSEEK, fd, at, (uint64_t)(unsigned)whence | from_end);
    off_t result = real_lseek(fd, at, whence);
    if (c.thread && c.record && result >= 0)
        c.record->offset = result;
    if (PT_LIKELY(c.thread != NULL))
        pt_end(&c, -1, result < 0 ? errno : 0);
    else
        pt_end_untraced(&c, 0);
    return result;
}
