/* Hooks of the calls that create, duplicate and close descriptors. */
#include "hooks/hooks.h"
#include "log/chunks.h"
#include "state/summed_descriptors.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <unistd.h>

#if !defined(O_TMPFILE) /* glibc 2.17 */
#define O_TMPFILE (020000000 | O_DIRECTORY)
#endif

static int mode_argument(int flags, va_list ap)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, int) : 0;
}

/* With O_TMPFILE the path is that of the folder; the file itself has only the kernel's name. */
static int end_open(struct pt_call *c, int fd, int flags)
{
    return (flags & O_TMPFILE) == O_TMPFILE ? pt_end_open_unnamed_slow(c, fd) : pt_end_open(c, fd);
}

PT_HOOK_DECLARE(int, open, const char *, int, ...);
int hook_open(const char *path, int flags, ...)
{
    struct pt_call c;
    va_list ap;
    va_start(ap, flags);
    int mode = mode_argument(flags, ap);
    va_end(ap);
    pt_begin_path(&c, PT_OP_OPEN, path, (uint32_t)flags);
    return end_open(&c, real_open(path, flags, mode), flags);
}

PT_HOOK_DECLARE(int, open_2, const char *, int);
int hook_open_2(const char *path, int flags)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_OPEN, path, (uint32_t)flags);
    return pt_end_open(&c, real_open_2(path, flags));
}

PT_HOOK_DECLARE(int, openat, int, const char *, int, ...);
int hook_openat(int dirfd, const char *path, int flags, ...)
{
    struct pt_call c;
    va_list ap;
    va_start(ap, flags);
    int mode = mode_argument(flags, ap);
    va_end(ap);
    pt_begin_path_at(&c, PT_OP_OPENAT, dirfd, path, (uint32_t)flags);
    return end_open(&c, real_openat(dirfd, path, flags, mode), flags);
}

PT_HOOK_DECLARE(int, openat_2, int, const char *, int);
int hook_openat_2(int dirfd, const char *path, int flags)
{
    struct pt_call c;
    pt_begin_path_at(&c, PT_OP_OPENAT, dirfd, path, (uint32_t)flags);
    return pt_end_open(&c, real_openat_2(dirfd, path, flags));
}

PT_HOOK_DECLARE(int, creat, const char *, mode_t);
int hook_creat(const char *path, mode_t mode)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_CREAT, path, O_CREAT | O_WRONLY | O_TRUNC);
    return pt_end_open(&c, real_creat(path, mode));
}

/* The mkstemp family: the path is known only after the call. */
static int end_mkstemp(struct pt_call *c, int fd, const char *path)
{
    if (c->thread && fd >= 0)
        c->record->desc = pt_path(path);
    return pt_end_open(c, fd);
}

PT_HOOK_DECLARE(int, mkstemp, char *);
int hook_mkstemp(char *path)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_MKSTEMP, path, O_CREAT | O_EXCL | O_RDWR);
    return end_mkstemp(&c, real_mkstemp(path), path);
}

PT_HOOK_DECLARE(int, mkstemps, char *, int);
int hook_mkstemps(char *path, int suffix)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_MKSTEMP, path, O_CREAT | O_EXCL | O_RDWR);
    return end_mkstemp(&c, real_mkstemps(path, suffix), path);
}

PT_HOOK_DECLARE(int, mkostemp, char *, int);
int hook_mkostemp(char *path, int flags)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_MKSTEMP, path, (uint32_t)(O_CREAT | O_EXCL | O_RDWR | flags));
    return end_mkstemp(&c, real_mkostemp(path, flags), path);
}

PT_HOOK_DECLARE(int, mkostemps, char *, int, int);
int hook_mkostemps(char *path, int suffix, int flags)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_MKSTEMP, path, (uint32_t)(O_CREAT | O_EXCL | O_RDWR | flags));
    return end_mkstemp(&c, real_mkostemps(path, suffix, flags), path);
}

/* ---- files that no path names, or another kind of name ------------------------- */

int pt_end_open_unnamed_slow(struct pt_call *c, int fd)
{
    if (!c->thread || fd < 0)
        return pt_end_open(c, fd);
    pt_fd_forget(c->thread, fd);
    uint32_t desc = pt_entry_id(pt_fd_resolve_slow(c->thread, fd));
    if (desc && c->record) {
        struct pt_desc *d = pt_desc_at(desc);
        if (d) {
            d->opened_by = pt_call_id(c);
            if (pt_profiling())
                pt_summed_desc_opened(d);
            c->record->desc = d->path;
            c->record->offset = desc;
        }
    }
    pt_end(c, fd, 0);
    return fd;
}

struct file_handle;
PT_HOOK_DECLARE(int, open_by_handle_at, int, struct file_handle *, int);
int hook_open_by_handle_at(int mount, struct file_handle *handle, int flags)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_OPEN_BY_HANDLE, NULL, (uint32_t)flags);
    return pt_end_open_unnamed_slow(&c, real_open_by_handle_at(mount, handle, flags));
}

PT_HOOK_DECLARE(int, name_to_handle_at, int, const char *, struct file_handle *, int *, int);
int hook_name_to_handle_at(int dirfd, const char *path, struct file_handle *handle, int *mount, int flags)
{
    struct pt_call c;
    pt_begin_path_at(&c, PT_OP_NAME_TO_HANDLE, dirfd, path, (uint32_t)flags);
    return pt_end_int(&c, real_name_to_handle_at(dirfd, path, handle, mount, flags));
}

/* glibc 2.43. `how` begins with the flags. */
PT_HOOK_DECLARE(int, openat2, int, const char *, const uint64_t *, size_t);
int hook_openat2(int dirfd, const char *path, const uint64_t *how, size_t size)
{
    struct pt_call c;
    pt_begin_path_at(&c, PT_OP_OPENAT, dirfd, path, how && size >= sizeof *how ? (uint32_t)*how : 0);
    return end_open(&c, real_openat2(dirfd, path, how, size), how && size >= sizeof *how ? (int)*how : 0);
}

/* A shared memory object is a file in /dev/shm. */
static void begin_shm(struct pt_call *c, unsigned op, const char *name, uint32_t flags)
{
    char path[9 + NAME_MAX + 1] = "/dev/shm/";
    size_t n = 9;
    while (*name == '/')
        name++;
    while (*name && n < sizeof path - 1)
        path[n++] = *name++;
    path[n] = 0;
    pt_begin_path(c, op, path, flags);
}

PT_HOOK_DECLARE(int, shm_open, const char *, int, mode_t);
int hook_shm_open(const char *name, int flags, mode_t mode)
{
    struct pt_call c;
    begin_shm(&c, PT_OP_SHM_OPEN, name, (uint32_t)flags);
    return pt_end_open(&c, real_shm_open(name, flags, mode));
}

PT_HOOK_DECLARE(int, shm_unlink, const char *);
int hook_shm_unlink(const char *name)
{
    struct pt_call c;
    begin_shm(&c, PT_OP_UNLINK, name, 0);
    return pt_end_int(&c, real_shm_unlink(name));
}

/* ---- closing: the entry goes first, since the number is free at once -------- */

static void begin_close(struct pt_call *c, int fd)
{
    struct pt_thread *t = pt_table_owner();
    if (t)
        pt_fd_identify_before_close(fd);
    pt_begin_fd(c, PT_OP_CLOSE, fd, -1, PT_SIZE_NONE);
    if (t)
        pt_fd_forget(t, fd);
}

PT_HOOK_DECLARE(int, close, int);
int hook_close(int fd)
{
    struct pt_call c;
    begin_close(&c, fd);
    return pt_end_int(&c, real_close(fd));
}

PT_HOOK_DECLARE(int, posix_close, int, int); /* musl's */
int hook_posix_close(int fd, int flags)
{
    struct pt_call c;
    begin_close(&c, fd);
    return pt_end_int(&c, real_posix_close(fd, flags));
}

PT_HOOK_DECLARE(int, close_range, unsigned, unsigned, int);
int hook_close_range(unsigned first, unsigned last, int flags)
{
    struct pt_call c = {0};
    struct pt_thread *t = pt_enter(), *owner = pt_table_owner();
    if (t)
        pt_begin(&c, t, PT_OP_CLOSE_RANGE, 0, first, -1, PT_SIZE_NONE);
    if (owner && !(flags & 4)) /* CLOSE_RANGE_CLOEXEC closes nothing yet */
        pt_fd_forget_range(owner, first, last);
    return pt_end_int(&c, real_close_range(first, last, flags));
}

PT_HOOK_DECLARE(void, closefrom, int);
void hook_closefrom(int first)
{
    struct pt_call c = {0};
    struct pt_thread *t = pt_enter(), *owner = pt_table_owner();
    if (t)
        pt_begin(&c, t, PT_OP_CLOSE_RANGE, 0, (uint32_t)first, -1, PT_SIZE_NONE);
    if (owner)
        pt_fd_forget_range(owner, (unsigned)first, ~0u);
    real_closefrom(first);
    pt_end_int(&c, 0);
}

/* ---- copies of a descriptor --------------------------------------------------- */

static int end_dup(struct pt_call *c, int old, int fd)
{
    if (!c->thread) {
        struct pt_thread *t = fd >= 0 ? pt_table_owner() : NULL;
        if (t)
            pt_fd_duplicated(t, old, fd, 0); /* suppressed, or a kind that is left out */
        pt_end_untraced(c, 0);
        return fd;
    }
    if (fd >= 0 && fd != old) {
        c->record->offset = pt_fd_duplicated(c->thread, old, fd, pt_call_id(c));
    }
    pt_end(c, fd, fd < 0 ? errno : 0);
    return fd;
}

PT_HOOK_DECLARE(int, dup, int);
int hook_dup(int fd)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_DUP, fd, 0, PT_SIZE_NONE);
    return end_dup(&c, fd, real_dup(fd));
}

/* The old descriptor `to` is closed without a call of close. */
static void begin_dup_over(struct pt_call *c, unsigned op, int fd, int to)
{
    if (fd != to && pt_table_owner())
        pt_fd_identify_before_close(to);
    pt_begin_fd(c, op, fd, 0, PT_SIZE_NONE);
}

PT_HOOK_DECLARE(int, dup2, int, int);
int hook_dup2(int fd, int to)
{
    struct pt_call c;
    begin_dup_over(&c, PT_OP_DUP2, fd, to);
    return end_dup(&c, fd, real_dup2(fd, to));
}

PT_HOOK_DECLARE(int, dup3, int, int, int);
int hook_dup3(int fd, int to, int flags)
{
    struct pt_call c;
    begin_dup_over(&c, PT_OP_DUP3, fd, to);
    return end_dup(&c, fd, real_dup3(fd, to, flags));
}

/* The third argument is an int or a pointer; passes it on as a full word. */
PT_HOOK_DECLARE(int, fcntl, int, int, ...);
int hook_fcntl(int fd, int command, ...)
{
    struct pt_call c;
    va_list ap;
    va_start(ap, command);
    void *argument = va_arg(ap, void *);
    va_end(ap);
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) {
        pt_begin_fd(&c, PT_OP_DUP, fd, 0, PT_SIZE_NONE);
        return end_dup(&c, fd, real_fcntl(fd, command, argument));
    }
    pt_begin_fd(&c, PT_OP_FCNTL, fd, -1, (uint64_t)(unsigned)command);
    int result = real_fcntl(fd, command, argument);
    if (command == F_SETFL && result == 0 && c.thread)
        pt_position_flags_set(c.record->desc, fd, (uint32_t)(uintptr_t)argument);
    pt_end_int(&c, result);
    return result;
}
