/* Reserves disk blocks for the log before the core writes to its pages.
 *
 * On a full disk, a store into a page without blocks would kill the program with SIGBUS.  The blocks are reserved
 * through the mapping (madvise) where the kernel supports it, otherwise through a descriptor (fallocate). */
#include "base/memory.h"
#include "base/sys.h"
#include "log/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define LARGE (1024u * 1024u)

/* Gives back what was reserved before the disk was full: the program, or a smaller chunk, may need it. */
static void give_back(char *at, uint64_t size)
{
    uintptr_t page = pt_kernel_page(), low = ((uintptr_t)at + page - 1) & ~(page - 1);
    uintptr_t high = ((uintptr_t)at + size) & ~(page - 1);
    if (low < high)
        pt_sys(SYS_madvise, low, high - low, MADV_REMOVE);
}

/* The reason that a result of fallocate stands for. */
static uint32_t reason_of(long result)
{
    switch (result) {
    case -ENOSPC: return PT_FULL_DISK;
    case -EDQUOT: return PT_FULL_QUOTA;
    case -EFBIG: return PT_FULL_LIMIT;
    case -ENOMEM: return PT_FULL_MEMORY;
    case -EIO:
    case -EINTR: return PT_FULL_REFUSED;
    default: return PT_NOT_FULL; /* it succeeded, or is not supported here */
    }
}

/* Through a descriptor that is open for this call only, and is checked to be of that file.  Where nothing can be
 * allocated (NFS before 4.2 has no fallocate), room is assumed until a store fails (hooks/sigbus.c). */
static uint32_t allocate(uint64_t at, uint64_t size)
{
    struct rlimit limit;
    uint64_t all = ~0ull, before;
    if (pt_sys(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, &limit) != 0)
        return PT_FULL_REFUSED;
    if (limit.rlim_cur < at + size)
        return PT_FULL_LIMIT;                                           /* it would raise SIGXFSZ */
    pt_sys(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all); /* no signal handler may see the descriptor */
    long fd = pt_log_reopen_slow(at + size);
    uint32_t failed = PT_FULL_REFUSED;
    if (fd >= 0)
        failed = reason_of(pt_sys(SYS_fallocate, fd, 0, (long)at, (long)size));
    else if (fd == -ENOENT || fd == -ENOTDIR || fd == -ESTALE || fd == -ELOOP)
        failed = PT_FULL_MOVED;
    if (fd >= 0)
        pt_sys(SYS_close, fd);
    pt_sys(SYS_rt_sigprocmask, SIG_SETMASK, &before, 0, sizeof before);
    return failed;
}

/* Reserves [at, at+size) of the mapping.  Returns PT_NOT_FULL, or why that failed (enum pt_full_reason).
 *
 * When a hole is first touched, the kernel reads ahead in it; on a disk that is set up for large files, that means 8
 * MiB of zeros and 2 ms.  A thread that fills large chunks will use those pages anyway, and gets them at half the
 * price.  For small chunks, MADV_WILLNEED limits the read to the chunk. */
uint32_t pt_blocks_reserve(char *at, uint64_t size)
{
    uintptr_t page = pt_kernel_page(), low = (uintptr_t)at & ~(page - 1);
    uintptr_t high = ((uintptr_t)at + size + page - 1) & ~(page - 1);
    if (size < LARGE)
        pt_sys(SYS_madvise, low, high - low, MADV_WILLNEED);
    long r = pt_sys(SYS_madvise, low, high - low, MADV_POPULATE_WRITE);
    if (r == 0)
        return PT_NOT_FULL;
    uint32_t failed = r == -ENOMEM ? PT_FULL_MEMORY : PT_FULL_DISK;
    if (r != -EFAULT && r != -ENOMEM) /* not supported: Linux before 5.14, or a seccomp filter */
        failed = allocate((uint64_t)(at - pt.base), size);
    if (failed)
        give_back(at, size);
    return failed;
}

/* Writes zeros to the part that every run uses, before the file is mapped: the first touch of a hole makes the kernel
 * read ahead, which takes milliseconds on a disk that is set up for large files.  False: there is no room for it. */
bool pt_blocks_begin(int fd, uint64_t budget)
{
    static char zeros[PT_PAGE];
    struct iovec pages[PT_BEGINNING / PT_PAGE];
    int count = 0;
    for (uint64_t end = PT_PAGE; end <= PT_BEGINNING && end <= budget; end += PT_PAGE)
        pages[count++] = (struct iovec){zeros, sizeof zeros};
    return pwritev(fd, pages, count, 0) == (ssize_t)count * PT_PAGE;
}
