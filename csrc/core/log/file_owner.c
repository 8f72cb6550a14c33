/* Who owns a log, and whether a new one may take its name: this machine and container, locks, the file at a name. */
#include "log/file_inner.h"
#include "base/proc.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define OVERLAYFS 0x794c7630l
#define MOST_ENTRIES 4096u /* process entries that are read; if there are more, some process counts as alive */
#define LOCKS_TRIED 100    /* one a millisecond: a look at a log locks it for a moment */

/* ---- this machine and this container ------------------------------------ */

static void read_text(const char *path, char *out, size_t room)
{
    long fd = pt_sys(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    long n = pt_sys(SYS_read, fd, out, room - 1);
    pt_sys(SYS_close, fd);
    for (long i = 0; i < n; i++)
        if (out[i] == '\n')
            out[i] = 0;
}

void pt_file_find_place(struct pt_file_place *p)
{
    struct stat st;
    memset(p, 0, sizeof *p);
    read_text("/proc/sys/kernel/random/boot_id", p->boot_id, sizeof p->boot_id);
    if (stat("/proc/self/ns/pid", &st) == 0) {
        p->namespace_device = st.st_dev;
        p->namespace_inode = st.st_ino;
    }
}

/* 0 if process ids and clocks mean the same here as in the log; else why not. */
int pt_file_same_place(const struct pt_header *head)
{
    struct pt_file_place here;
    pt_file_find_place(&here);
    if (!here.boot_id[0] || memcmp(here.boot_id, head->boot_id, sizeof here.boot_id) != 0)
        return -PT_LOG_OTHER_BOOT;
    if (!here.namespace_inode || here.namespace_device != head->namespace_device ||
        here.namespace_inode != head->namespace_inode)
        return -PT_LOG_OTHER_NAMESPACE;
    return 0;
}

/* /proc may belong to another pid namespace; its process ids are then useless here. */
static bool proc_is_ours(void)
{
    char text[16] = "", own[16];
    long n = pt_sys(SYS_readlinkat, AT_FDCWD, "/proc/self", text, sizeof text - 1);
    snprintf(own, sizeof own, "%d", (int)getpid());
    return n > 0 && strcmp(text, own) == 0;
}

enum process_state { PROCESS_UNKNOWN, PROCESS_GONE, PROCESS_LIVES, PROCESS_IS_US };

/* Of a process of this boot and pid namespace.  pid 0: it is not known. */
static enum process_state state_of(uint32_t pid, uint64_t start_time)
{
    if (pid == 0 || pid > INT32_MAX)
        return PROCESS_UNKNOWN;
    if (pt_sys(SYS_kill, pid, 0) == -ESRCH)
        return PROCESS_GONE;
    uint64_t start = proc_is_ours() ? pt_process_start_time(pid) : 0;
    if (!start || !start_time)
        return PROCESS_UNKNOWN;
    if (start != start_time)
        return PROCESS_GONE; /* the id now belongs to another process */
    return pid == (uint32_t)getpid() ? PROCESS_IS_US : PROCESS_LIVES;
}

static enum process_state owner_of(const struct pt_header *head)
{
    return pt_file_same_place(head) == 0 ? state_of(head->owner_pid, head->owner_start) : PROCESS_UNKNOWN;
}

/* Does another process still write to this log?  The log must be of this boot and pid namespace.  A forked child is
 * counted as pending until it has entered itself in the table, so the count is read first. */
static bool others_live(int fd)
{
    struct pt_process p;
    uint32_t pending, id;
    if (pread(fd, &pending, sizeof pending, offsetof(struct pt_header, forks_pending)) != sizeof pending || pending)
        return true;
    if (pread(fd, &id, sizeof id, offsetof(struct pt_header, processes)) != sizeof id)
        return true;
    for (unsigned i = 0; id; i++, id = p.previous) {
        if (i == MOST_ENTRIES)
            return true;
        if (pread(fd, &p, sizeof p, (off_t)id << PT_ID_SHIFT) != sizeof p)
            return false; /* a damaged log */
        if (p.followed != 1 || p.end_kind != PT_END_UNKNOWN)
            continue;
        enum process_state state = state_of(p.namespace_inode ? p.outer_pid : p.pid, p.start_time);
        if (state == PROCESS_LIVES || state == PROCESS_UNKNOWN)
            return true;
    }
    return false;
}

/* ---- locks ---------------------------------------------------------------- */

/* 0; -EWOULDBLOCK: somebody else holds it; another error: no locks here. */
static int lock(int fd, int how)
{
    while (flock(fd, how | LOCK_NB) != 0)
        if (errno != EINTR)
            return -errno;
    return 0;
}

/* 0, also if there are no locks; -PT_LOG_HELD: it is being replaced. */
int pt_file_lock_shared(int fd)
{
    for (int tries = 0; lock(fd, LOCK_SH) == -EWOULDBLOCK; tries++) {
        if (tries == LOCKS_TRIED)
            return -PT_LOG_HELD;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return 0;
}

/* A mapping keeps its file open, and so locked.  On overlayfs it keeps a file of the layer below open instead, and
 * close() releases the lock. */
static bool mappings_keep_locks(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) != 0 || fs.f_type != OVERLAYFS;
}

/* Is no other process using this log, which was not cut?  Asked where its lock says nothing. */
static bool is_abandoned(int fd, const struct pt_header *head)
{
    enum process_state owner = owner_of(head);
    return (owner == PROCESS_GONE || owner == PROCESS_IS_US) && !others_live(fd);
}

/* May a new log replace this file? If so, takes the lock, so that it stays so. 0, -PT_LOG_HELD or -PT_LOG_FOREIGN.
 *
 * Locks decide, with three exceptions: overlayfs, a process that execs and so maps nothing for a moment, and a network
 * file system that may show a lock only to the host that took it. */
static int try_to_replace(int fd, const struct stat *st)
{
    struct pt_header head;
    memset(&head, 0, sizeof head);
    ssize_t n = pread(fd, &head, sizeof head, 0);
    bool is_log = n > 8 && memcmp(head.magic, PT_LOG_MAGIC, 8) == 0;
    if (st->st_size && !is_log)
        return -PT_LOG_FOREIGN;
    bool finished = is_log && (uint64_t)st->st_size < head.budget; /* it was cut */
    int locked = lock(fd, LOCK_EX);
    /* This process has released its own earlier log, but a page fault in another thread may keep the description
     * alive for a moment. */
    for (int tries = 0; locked == -EWOULDBLOCK && tries < LOCKS_TRIED && is_log && owner_of(&head) == PROCESS_IS_US;
         tries++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        locked = lock(fd, LOCK_EX);
    }
    if (locked == -EWOULDBLOCK)
        return -PT_LOG_HELD;
    if (finished)
        return 0;
    if (!is_log) /* empty */
        return locked ? -PT_LOG_HELD : 0;
    struct utsname names;
    bool other_boot = pt_file_same_place(&head) == -PT_LOG_OTHER_BOOT;
    bool other_host = other_boot && (uname(&names) != 0 || strncmp(names.nodename, head.host, sizeof head.host) != 0);
    if (locked || (!mappings_keep_locks(fd) && !other_boot))
        return is_abandoned(fd, &head) ? 0 : -PT_LOG_HELD;
    return owner_of(&head) == PROCESS_LIVES || other_host ? -PT_LOG_HELD : 0;
}

bool pt_file_is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool pt_file_is_named(const char *path, const struct stat *file)
{
    struct stat named;
    return lstat(path, &named) == 0 && pt_file_is_same(&named, file);
}

/* ---- what has a name now ------------------------------------------------ */

/* Our own link to a log, or to nothing, may go. The system's links (/dev/stdout) and those of other users stay. */
static int way_of_link(const char *path, const struct stat *link, bool remove)
{
    struct stat st;
    bool systems =
        (strncmp(path, "/dev/", 5) == 0 && strncmp(path, "/dev/shm/", 9) != 0) || strncmp(path, "/proc/", 6) == 0;
    if (systems || (stat(path, &st) == 0 && !S_ISREG(st.st_mode)))
        return -EEXIST;
    if (link->st_uid != geteuid())
        return -PT_LOG_FOREIGN;
    return !remove || unlink(path) == 0 || errno == ENOENT ? 0 : -errno;
}

/* Returns 0 if a new log may take this name; with `remove`, also removes what has the name.  Refuses anything but a
 * regular file of this user that is an unused log.  pyio_trace/existing_files.py makes most of these checks earlier, to
 * give better messages. */
int pt_file_make_way(const char *path, bool remove)
{
    struct stat named, st;
    if (lstat(path, &named) != 0)
        return errno == ENOENT ? 0 : -errno;
    if (S_ISDIR(named.st_mode))
        return -EISDIR;
    if (S_ISLNK(named.st_mode))
        return way_of_link(path, &named, remove);
    if (!S_ISREG(named.st_mode))
        return -EEXIST;
    if (named.st_uid != geteuid())
        return -PT_LOG_FOREIGN;
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : errno == EACCES ? -PT_LOG_FOREIGN : -errno;
    int error = 0;
    if (fstat(fd, &st) == 0 && pt_file_is_same(&st, &named))
        error = try_to_replace(fd, &st);
    else
        remove = false; /* it has just been replaced: the caller will notice */
    if (!error && remove && pt_file_is_named(path, &st) && unlink(path) != 0 && errno != ENOENT)
        error = -errno;
    close(fd);
    return error;
}
