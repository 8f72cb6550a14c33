/* Creates a log in the order that file.c explains: secret name, header, lock, final name. */
#include "log/file_inner.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/proc.h"
#include "base/sys.h"
#include "log/chunks.h"
#include "format/operations.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define NAMES_TRIED 100

static uint64_t random_word(void)
{
    uint64_t word = 0;
    if (pt_sys(SYS_getrandom, &word, sizeof word, 1 /* GRND_NONBLOCK */) == sizeof word)
        return word;
    long fd = pt_sys(SYS_openat, AT_FDCWD, "/dev/urandom", O_RDONLY | O_CLOEXEC, 0); /* before Linux 3.17 */
    if (fd >= 0) {
        pt_sys(SYS_read, fd, &word, sizeof word);
        pt_sys(SYS_close, fd);
    }
    struct pt_clock_pair now = pt_clock_pair();
    return word ^ pt_hash_bytes(&now, sizeof now, (uint64_t)getpid());
}

/* In the same folder: .pyio-0123456789abcdef.tmp */
static bool name_temporary(const char *path, char out[static sizeof pt.path])
{
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash + 1 - path) : 0;
    int n = snprintf(out, sizeof pt.path, "%.*s.pyio-%016llx.tmp", folder, path, (unsigned long long)random_word());
    return n > 0 && n < (int)sizeof pt.path;
}

/* Makes it readable and writable by its owner only, whatever the umask.  A file system may give all files to one
 * user, or the same mode to all. */
static int make_private(int fd, struct stat *st)
{
    if (fstat(fd, st) != 0)
        return -errno;
    if ((st->st_mode & 07777) != 0600 && (fchmod(fd, 0600) != 0 || fstat(fd, st) != 0))
        return -PT_LOG_NOT_PRIVATE;
    return st->st_uid == geteuid() && (st->st_mode & 0677) == 0600 ? 0 : -PT_LOG_NOT_PRIVATE;
}

/* Those that this process may run on. */
static uint32_t cores(void)
{
    unsigned char mask[1024]; /* the kernel has 8192 processors at most */
    long n = pt_sys(SYS_sched_getaffinity, 0, sizeof mask, mask);
    uint32_t count = 0;
    for (long i = 0; i < n; i++)
        count += (uint32_t)__builtin_popcount(mask[i]);
    return count;
}

static void write_header(uint64_t budget, uint64_t run_id)
{
    struct pt_header *h = pt.header;
    struct utsname names;
    struct pt_file_place here;
    pt_file_find_place(&here);
    memset(h, 0, sizeof *h);
    memcpy(pt.base + PT_OPTABLE_OFFSET, pt_operation_table, sizeof pt_operation_table);
    h->version = PT_LOG_VERSION;
    h->first_chunk = PT_FIRST_CHUNK;
    h->budget = budget;
    h->next = PT_FIRST_CHUNK;
    h->tick_kind = pt.tick_kind;
    h->owner_pid = (uint32_t)getpid();
    h->owner_start = pt_process_start_time(0);
    h->first = pt_clock_pair();
    h->cores = cores();
    h->run_id = run_id ? run_id : random_word();
    h->full_reason = PT_NOT_FULL;
    memcpy(h->boot_id, here.boot_id, sizeof h->boot_id);
    h->namespace_device = here.namespace_device;
    h->namespace_inode = here.namespace_inode;
    if (uname(&names) == 0)
        memcpy(h->host, names.nodename, strnlen(names.nodename, sizeof names.nodename - 1));
    __atomic_thread_fence(__ATOMIC_RELEASE);
    memcpy(h->magic, PT_LOG_MAGIC, 8);
}

static int error_of(uint32_t full_reason)
{
    switch (full_reason) {
    case PT_NOT_FULL: return 0;
    case PT_FULL_DISK: return ENOSPC;
    case PT_FULL_QUOTA: return EDQUOT;
    case PT_FULL_LIMIT: return EFBIG;
    case PT_FULL_MEMORY: return ENOMEM;
    default: return ENOSYS; /* an error that open() never returns */
    }
}

/* Makes the file sparse at its full budget, maps it, writes the header and takes the lock. 0 or -errno. */
static int set_up(int fd, uint64_t budget, uint64_t run_id, struct stat *st)
{
    struct rlimit limit;
    /* Growing past RLIMIT_FSIZE would raise SIGXFSZ; a mapping within it never does. */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && budget > limit.rlim_cur)
        budget = limit.rlim_cur / PT_PAGE * PT_PAGE;
    if (budget < PT_FIRST_CHUNK + PT_PROCESS_CHUNK)
        return -EFBIG;
    int error = make_private(fd, st);
    if (error)
        return error;
    if ((!pt_blocks_begin(fd, budget) && ftruncate(fd, 0) != 0) || ftruncate(fd, (off_t)budget) != 0)
        return -errno;
    error = pt_file_map(fd, budget);
    if (error)
        return error;
    pt_file_identify(st);
    error = error_of(pt_blocks_reserve(pt.base, PT_FIRST_CHUNK));
    if (error)
        return -error;
    write_header(budget, run_id);
    pt_spare_set_aside(fd);
    return pt_file_lock_shared(fd);
}

/* Gives the file its final name, without ever replacing anything. 0; -EEXIST: the name is taken.  renamed: it was
 * simply renamed; otherwise the temporary name may still be there, and the mapping may be known by it. */
static int put_at(const char *temporary, const char *path, const struct stat *made, bool *renamed)
{
    /* Rename is tried first: the mapping then has the final name in /proc/PID/maps, where doctor and debuggers look
     * for it. */
    long r = pt_sys(SYS_renameat2, AT_FDCWD, temporary, AT_FDCWD, path, 1 /* RENAME_NOREPLACE */);
    *renamed = r == 0;
    if (r == 0)
        return 0;
    if (r != -EEXIST && link(temporary, path) == 0) /* NFS and kernels before 3.15 have no RENAME_NOREPLACE */
        return 0;
    if (r == -EEXIST || errno == EEXIST) /* NFS also returns this when the reply to a first, successful try was lost */
        return pt_file_is_named(path, made) ? 0 : -EEXIST;
    /* FAT and some FUSE file systems support neither: an empty file of ours reserves the name until the log replaces
     * it. */
    struct stat st;
    int error = 0, fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    if (pt_file_lock_shared(fd) != 0 || fstat(fd, &st) != 0 || !pt_file_is_named(path, &st))
        error = -EEXIST; /* another run found it empty and took it */
    else if (rename(temporary, path) != 0)
        error = -errno;
    close(fd);
    return error;
}

/* replace: an earlier log that no run uses makes way. */
static int take_name(const char *temporary, const char *path, const struct stat *made, bool replace, bool *renamed)
{
    for (int tries = 0; tries < NAMES_TRIED; tries++) {
        int error = put_at(temporary, path, made, renamed);
        if (error != -EEXIST)
            return error;
        error = replace ? pt_file_make_way(path, true) : -PT_LOG_HELD;
        if (error)
            return error;
    }
    return -PT_LOG_HELD;
}

int pt_log_create(const char *path, uint64_t budget, uint64_t run_id, bool replace)
{
    char *base_before = pt.base;
    uint64_t mapped_before = pt.mapped, extent_before = pt.extent;
    struct stat made;
    bool renamed = false;
    int error = pt_file_make_way(path, false);
    if (error)
        return error;
    if (!name_temporary(path, pt.path)) /* the name until the final one: log/blocks.c opens it by pt.path */
        return -ENAMETOOLONG;
    int fd = open(pt.path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    error = set_up(fd, budget, run_id, &made);
    if (!error)
        error = take_name(pt.path, path, &made, replace, &renamed);
    if (!renamed)
        unlink(pt.path);
    close(fd);
    if (error) {
        pt_file_unmap(base_before, mapped_before, extent_before);
        return error;
    }
    strcpy(pt.path, path);
    if (!renamed)
        pt_file_map_by_name(true);
    return pt_log_read_control(pt.header) ? 0 : -PT_LOG_DAMAGED;
}
