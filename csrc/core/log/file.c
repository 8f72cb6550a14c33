/* The live log's file and its mapping. file_create.c makes it, file_join.c joins it, file_owner.c finds out whose it
 * is.
 *
 * A log is created under a secret name, gets its header and a lock, and takes its own name last: a file with that
 * name is a whole log.  Every process of the run holds a shared lock.  The lock belongs to the open file description,
 * which the mapping keeps alive: it lasts as long as the log is mapped, forked children have it too, and no
 * descriptor stays in the program.  A run that wants to replace a log needs the exclusive lock.
 *
 * The file at a log's name may be anybody's.  Only regular files of our own user are opened, no link is followed, and
 * only a log that no run holds is removed. */
#include "log/file_inner.h"
#include "base/memory.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* The identity of the mapped file. */
static dev_t file_device;
static ino_t file_number;
static uid_t file_owner;

void pt_log_file(uint64_t *device, uint64_t *inode)
{
    *device = file_device;
    *inode = file_number;
}

/* ---- its mapping ---------------------------------------------------------- */

void pt_file_identify(const struct stat *st)
{
    file_device = st->st_dev;
    file_number = st->st_ino;
    file_owner = st->st_uid;
}

/* 0 or -errno: ENOMEM if the process may not map so much; others if the file system has no shared mappings. */
int pt_file_map(int fd, uint64_t size)
{
    /* A program with a limited address space keeps most of it. */
    struct rlimit limit;
    uint64_t room = size;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && room > limit.rlim_cur / 8)
        room = limit.rlim_cur / 8 / PT_PAGE * PT_PAGE;
    for (; room >= PT_FIRST_CHUNK + PT_PROCESS_CHUNK; room = room / 2 / PT_PAGE * PT_PAGE) {
        void *at = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
        if (at == MAP_FAILED && errno == ENOMEM)
            continue;
        if (at == MAP_FAILED)
            return -ENODEV;
        madvise(at, room, MADV_DONTDUMP); /* the log is not wanted in core files */
        pt.base = at;
        pt.mapped = pt.extent = room;
        pt.header = at;
        return 0;
    }
    return -ENOMEM;
}

/* Restores the previous log. */
void pt_file_unmap(char *base_before, uint64_t mapped_before, uint64_t extent_before)
{
    char *base = pt.base;
    uint64_t extent = pt.extent;
    pt.base = base_before;
    pt.mapped = mapped_before;
    pt.extent = extent_before;
    pt.header = (struct pt_header *)base_before;
    if (base != base_before)
        munmap(base, extent);
}

/* Maps the same pages again at the same place, through the file that now has the log's name.  If that is another
 * file, or none, nothing changes. */
void pt_file_map_by_name(bool locked)
{
    uint64_t page = pt_kernel_page(), size = (pt.extent + page - 1) / page * page;
    int fd = (int)pt_log_reopen_slow(0);
    if (fd < 0)
        return;
    if (!locked || pt_file_lock_shared(fd) == 0)
        mmap(pt.base, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0);
    close(fd);
}

/* ---- coming back to it ---------------------------------------------------- */

/* A descriptor of the mapped file, opened by its name because none was kept; -errno: the name now belongs to another
 * file, or the file is shorter. */
long pt_log_reopen_slow(uint64_t at_least)
{
    struct stat st;
    long fd = pt_sys(SYS_openat, AT_FDCWD, pt.path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    if (pt_sys(SYS_fstat, fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_dev == file_device &&
        st.st_ino == file_number && st.st_uid == file_owner && (uint64_t)st.st_size >= at_least)
        return fd;
    pt_sys(SYS_close, fd);
    return -ESTALE;
}

/* Cuts the file to its used part. */
void pt_log_cut(uint64_t used)
{
    int fd = (int)pt_log_reopen_slow(used);
    if (fd < 0)
        return;
    if (ftruncate(fd, (off_t)used) != 0)
        pt.header->fault_count++; /* it stays sparse: harmless */
    close(fd);
}

/* This process goes on without the log, but another thread may still store in it: maps the same pages through a
 * description that has no lock. */
void pt_log_unlock(void)
{
    pt_file_map_by_name(false);
}
