/* The log's blocks on the disk: there before anything is stored in them.
 *
 * A store into a page that the file system cannot back would be a SIGBUS.
 * Usually the kernel is asked through the mapping; where it does not know how,
 * through a descriptor. */
#include "core.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define BEGINNING (64u * 1024u) /* of the log */
#define LARGE (1024u * 1024u)

/* What of it was reserved before the disk was full goes back: the program may need it, or a smaller chunk. */
static bool give_back(char *at, uint64_t size)
{
    uintptr_t page = pt_kernel_page(), low = ((uintptr_t)at + page - 1) & ~(page - 1);
    uintptr_t high = ((uintptr_t)at + size) & ~(page - 1);
    if (low < high)
        pt_sys(SYS_madvise, low, high - low, MADV_REMOVE);
    return false;
}

/* The file that is mapped, to know it again. */
static dev_t file_device;
static ino_t file_number;

void pt_blocks_of(int fd)
{
    struct stat st;
    bool known = fstat(fd, &st) == 0;
    file_device = known ? st.st_dev : 0;
    file_number = known ? st.st_ino : 0;
}

/* Through a descriptor that lives for this call only, and is of that file.  Where nothing can be allocated (NFS has no
 * fallocate before 4.2) there is room until a store says otherwise (hooks_bus.c). */
static bool allocate(uint64_t at, uint64_t size)
{
    struct rlimit limit;
    struct stat st;
    uint64_t all = ~0ull, before;
    if (pt_sys(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, &limit) != 0 || limit.rlim_cur < at + size)
        return false; /* it would be a SIGXFSZ */
    pt_sys(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all); /* no handler meets the descriptor */
    long fd = pt_sys(SYS_openat, AT_FDCWD, pt.path, O_RDWR | O_CLOEXEC, 0);
    bool done = fd >= 0 && pt_sys(SYS_fstat, fd, &st) == 0 && st.st_dev == file_device && st.st_ino == file_number &&
                (uint64_t)st.st_size >= at + size;
    if (done) {
        long r = pt_sys(SYS_fallocate, fd, 0, (long)at, (long)size);
        done = r == 0 || r == -EOPNOTSUPP || r == -ENOSYS || r == -EINVAL || r == -EPERM || r == -EACCES;
    }
    if (fd >= 0)
        pt_sys(SYS_close, fd);
    pt_sys(SYS_rt_sigprocmask, SIG_SETMASK, &before, 0, sizeof before);
    return done;
}

/* Reserves [at, at+size) of the mapping.  False: there is no room for it.
 *
 * At the touch of a hole the kernel reads ahead in it: on a disk that is set up for large files that is 2 ms for 8 MiB of
 * zeros.  Who fills large chunks comes to use them, and they cost half as much so.  What is small is asked for as it is. */
bool pt_blocks_reserve(char *at, uint64_t size)
{
    uintptr_t page = pt_kernel_page(), low = (uintptr_t)at & ~(page - 1);
    uintptr_t high = ((uintptr_t)at + size + page - 1) & ~(page - 1);
    if (size < LARGE)
        pt_sys(SYS_madvise, low, high - low, MADV_WILLNEED);
    long r = pt_sys(SYS_madvise, low, high - low, MADV_POPULATE_WRITE);
    if (r == 0)
        return true;
    /* Before Linux 5.14, or where a filter forbids it. */
    bool cannot = r == -EINVAL || r == -EPERM || r == -EACCES || r == -ENOSYS;
    return (cannot && allocate((uint64_t)(at - pt.base), size)) || give_back(at, size);
}

/* What every run comes to use is written before it is mapped: at the first touch of a hole the kernel reads ahead in it,
 * which is milliseconds where the disk is set up for large files.  False: there is no room for it. */
bool pt_blocks_begin(int fd, uint64_t budget)
{
    static char zeros[PT_PAGE];
    struct iovec pages[BEGINNING / PT_PAGE];
    int count = 0;
    for (uint64_t end = PT_PAGE; end <= BEGINNING && end <= budget; end += PT_PAGE)
        pages[count++] = (struct iovec){zeros, sizeof zeros};
    return pwritev(fd, pages, count, 0) == (ssize_t)count * PT_PAGE;
}
