/* Hooks of the calls that move data or the position in a file. */
#include "hooks.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
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

PT_HOOK_DECLARE(ssize_t, pwritev2, int, const struct iovec *, int, off_t, int);
ssize_t hook_pwritev2(int fd, const struct iovec *v, int count, off_t at, int flags)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_PWRITEV2, fd, at, total(v, count));
    return pt_end_bytes(&c, real_pwritev2(fd, v, count, at, flags));
}

PT_HOOK_DECLARE(off_t, lseek, int, off_t, int);
off_t hook_lseek(int fd, off_t at, int whence)
{
    struct pt_call c;
    /* With a distance, the end sought is not the file's: its size does not follow. */
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

/* ---- from one descriptor to another --------------------------------------- */

/* offset: of the input, where the call gives one. */
static void begin_copy(struct pt_call *c, unsigned op, int in, int out, const int64_t *offset, uint64_t size)
{
    struct pt_thread *t = pt_enter();
    c->thread = NULL;
    c->left_out = 0;
    c->op = (uint8_t)op;
    if (!t) {
        pt_passed_by(op, out);
        c->left_out = pt_passed_by(op, in);
        return;
    }
    pt_fd_entry from = pt_fd_get(t, in), to = pt_fd_get(t, out);
    if ((from & PT_FD_EXCLUDED) && (to & PT_FD_EXCLUDED)) {
        c->left_out = from;
        return;
    }
    if (PT_UNLIKELY((from | to) & (PT_FD_GAP | PT_FD_STALE))) {
        pt_position_gap_over(t, op, in, from);
        pt_position_gap_over(t, op, out, to);
    }
    pt_begin(c, t, op, pt_entry_id(from), pt_entry_id(to), offset ? *offset : -1, size);
}

PT_HOOK_DECLARE(ssize_t, sendfile, int, int, off_t *, size_t);
ssize_t hook_sendfile(int out, int in, off_t *offset, size_t n)
{
    struct pt_call c;
    begin_copy(&c, PT_OP_SENDFILE, in, out, offset, n);
    return pt_end_bytes(&c, real_sendfile(out, in, offset, n));
}

PT_HOOK_DECLARE(ssize_t, copy_file_range, int, off_t *, int, off_t *, size_t, unsigned);
ssize_t hook_copy_file_range(int in, off_t *in_offset, int out, off_t *out_offset, size_t n, unsigned flags)
{
    struct pt_call c;
    begin_copy(&c, out_offset ? PT_OP_COPY_FILE_RANGE_AT : PT_OP_COPY_FILE_RANGE, in, out, in_offset, n);
    return pt_end_bytes(&c, real_copy_file_range(in, in_offset, out, out_offset, n, flags));
}

PT_HOOK_DECLARE(ssize_t, splice, int, off_t *, int, off_t *, size_t, unsigned);
ssize_t hook_splice(int in, off_t *in_offset, int out, off_t *out_offset, size_t n, unsigned flags)
{
    struct pt_call c;
    begin_copy(&c, out_offset ? PT_OP_SPLICE_AT : PT_OP_SPLICE, in, out, in_offset, n);
    return pt_end_bytes(&c, real_splice(in, in_offset, out, out_offset, n, flags));
}

PT_HOOK_DECLARE(ssize_t, tee, int, int, size_t, unsigned);
ssize_t hook_tee(int in, int out, size_t n, unsigned flags)
{
    struct pt_call c;
    begin_copy(&c, PT_OP_TEE, in, out, NULL, n);
    return pt_end_bytes(&c, real_tee(in, out, n, flags));
}

PT_HOOK_DECLARE(ssize_t, vmsplice, int, const struct iovec *, size_t, unsigned);
ssize_t hook_vmsplice(int fd, const struct iovec *v, size_t count, unsigned flags)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_VMSPLICE, fd, -1, total(v, (int)count));
    return pt_end_bytes(&c, real_vmsplice(fd, v, count, flags));
}

/* As linux/fs.h has them, which is too old in manylinux2014 and not there at all with Debian's musl-gcc. */
struct clone_range {
    int64_t src_fd;
    uint64_t src_offset, src_length, dest_offset;
};
#define CLONE _IOW(0x94, 9, int)
#define CLONE_RANGE _IOW(0x94, 13, struct clone_range)

/* Files that share their blocks, made by ioctl: no byte moves, so none is counted. */
static void begin_clone(struct pt_call *c, int to, unsigned long request, const void *argument)
{
    if (request == CLONE) {
        begin_copy(c, PT_OP_FICLONE, (int)(intptr_t)argument, to, NULL, PT_SIZE_NONE);
        return;
    }
    const struct clone_range *range = argument;
    int64_t from = (int64_t)range->src_offset;
    begin_copy(c, PT_OP_FICLONERANGE, (int)range->src_fd, to, &from, range->src_length);
}

/* Of all requests these two alone are about a file's data.  The third argument, if any, is passed on as a full word. */
PT_HOOK_DECLARE(int, ioctl, int, unsigned long, ...);
int hook_ioctl(int fd, unsigned long request, ...)
{
    va_list ap;
    va_start(ap, request);
    void *argument = va_arg(ap, void *);
    va_end(ap);
    if (PT_LIKELY((uint32_t)request != CLONE && (uint32_t)request != CLONE_RANGE))
        return real_ioctl(fd, request, argument);
    struct pt_call c;
    begin_clone(&c, fd, (uint32_t)request, argument);
    return pt_end_int(&c, real_ioctl(fd, request, argument));
}

/* ---- the size of a file, and its way to the disk ---------------------------- */

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

/* All file systems: a row that names none of them. */
PT_HOOK_DECLARE(void, sync, void);
void hook_sync(void)
{
    struct pt_call c = {0};
    struct pt_thread *t = pt_enter();
    if (t)
        pt_begin(&c, t, PT_OP_SYNC, 0, (uint32_t)-1, -1, PT_SIZE_NONE);
    real_sync();
    pt_end_int(&c, 0);
}
