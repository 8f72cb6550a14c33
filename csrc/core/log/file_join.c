/* Joins the log of a running program. */
#include "log/file_inner.h"
#include "log/chunks.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_MOST (1ull << 36) /* ids reach no further */

/* Opens a regular file of our own that nobody else may write to. Never waits. Returns a descriptor or -errno. */
static int open_own(const char *path, struct stat *st)
{
    struct stat named;
    if (lstat(path, &named) != 0)
        return -errno;
    if (S_ISLNK(named.st_mode))
        return -PT_LOG_IS_LINK;
    if (!S_ISREG(named.st_mode))
        return -PT_LOG_NO_FILE;
    if (named.st_uid != geteuid()) /* even root joins only its own */
        return -PT_LOG_NOT_OURS;
    if (named.st_mode & 022)
        return -PT_LOG_OPEN_TO_OTHERS;
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int error = fstat(fd, st) != 0 ? -errno : 0;
    if (!error && (!pt_file_is_same(st, &named) || !S_ISREG(st->st_mode)))
        error = -PT_LOG_NO_FILE;
    else if (!error && st->st_uid != geteuid())
        error = -PT_LOG_NOT_OURS;
    else if (!error && st->st_mode & 022)
        error = -PT_LOG_OPEN_TO_OTHERS;
    if (!error)
        return fd;
    close(fd);
    return error;
}

/* 0 if this is a live log that the process may join. */
static int check_header(int fd, const struct stat *st, struct pt_header *head)
{
    if (pread(fd, head, sizeof *head, 0) != (ssize_t)sizeof *head || memcmp(head->magic, PT_LOG_MAGIC, 8) != 0 ||
        head->version != PT_LOG_VERSION || head->first_chunk != PT_FIRST_CHUNK)
        return -EPROTO;
    if (head->budget < PT_FIRST_CHUNK + PT_PROCESS_CHUNK || head->budget > LOG_MOST)
        return -PT_LOG_DAMAGED;
    int error = pt_file_same_place(head);
    if (!error && (uint64_t)st->st_size < head->budget)
        error = -ESTALE; /* the run is finished: its file was cut */
    return error;
}

/* The run of a log of another host or container; 0: there is none to join. */
uint64_t pt_log_run_of(const char *path)
{
    struct stat st;
    struct pt_header head;
    int fd = open_own(path, &st);
    if (fd < 0)
        return 0;
    int error = check_header(fd, &st, &head);
    close(fd);
    return !error || error == -PT_LOG_OTHER_BOOT || error == -PT_LOG_OTHER_NAMESPACE ? head.run_id : 0;
}

static bool is_gone(int fd, uint64_t budget)
{
    struct stat st;
    return fstat(fd, &st) != 0 || (uint64_t)st.st_size < budget || st.st_nlink == 0;
}

/* Until this process has its entry (pt_log_joined), nobody may take the run for ended and cut the file: so it counts
 * as a fork in progress. */
int pt_log_join(const char *path)
{
    struct pt_header head;
    struct stat st;
    char *base_before = pt.base;
    uint64_t mapped_before = pt.mapped, extent_before = pt.extent;
    int fd = open_own(path, &st);
    if (fd < 0)
        return fd;
    int error = check_header(fd, &st, &head);
    if (!error)
        error = pt_file_lock_shared(fd);
    if (!error)
        error = pt_file_map(fd, head.budget);
    if (!error) {
        pt_file_identify(&st);
        __atomic_fetch_add(&pt.header->forks_pending, 1, __ATOMIC_SEQ_CST);
        if (is_gone(fd, head.budget)) { /* it was cut or removed just now */
            pt_log_joined();
            pt_file_unmap(base_before, mapped_before, extent_before);
            error = -ESTALE;
        }
    }
    close(fd);
    if (!error && !pt_log_read_control(&head)) {
        pt_log_joined();
        pt_file_unmap(base_before, mapped_before, extent_before);
        error = -PT_LOG_DAMAGED;
    }
    return error;
}

void pt_log_joined(void)
{
    __atomic_fetch_sub(&pt.header->forks_pending, 1, __ATOMIC_ACQ_REL);
}
