/* Hooks of directory streams.
 *
 * A program calls readdir once an entry, but libc makes a system call only once every few hundred entries.  So the
 * calls on a stream form one series (record/coalesced.h). */
#include "record/coalesced.h"
#include "hooks/hooks.h"

#include <dirent.h>
#include <fcntl.h>

static DIR *end_opendir(struct pt_call *c, DIR *stream)
{
    pt_end_open(c, stream ? dirfd(stream) : -1);
    return stream;
}

PT_HOOK_DECLARE(DIR *, opendir, const char *);
DIR *hook_opendir(const char *path)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_OPENDIR, path, O_RDONLY | O_DIRECTORY);
    return end_opendir(&c, real_opendir(path));
}

PT_HOOK_DECLARE(DIR *, fdopendir, int);
DIR *hook_fdopendir(int fd)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_FDOPENDIR, fd, -1, PT_SIZE_NONE);
    DIR *stream = real_fdopendir(fd);
    pt_end_int(&c, stream ? 0 : -1);
    return stream;
}

/* NULL is the usual end; it is an error only if errno was 0 before. */
PT_HOOK_DECLARE(struct dirent *, readdir, DIR *);
struct dirent *hook_readdir(DIR *stream)
{
    struct pt_series_call c;
    pt_series_begin_fd(&c, PT_OP_READDIR, stream, dirfd(stream), PT_SIZE_NONE);
    struct dirent *entry = real_readdir(stream);
    pt_series_end(&c, -1, 0);
    return entry;
}

PT_HOOK_DECLARE(int, readdir_r, DIR *, struct dirent *, struct dirent **);
int hook_readdir_r(DIR *stream, struct dirent *entry, struct dirent **result)
{
    struct pt_series_call c;
    pt_series_begin_fd(&c, PT_OP_READDIR, stream, dirfd(stream), PT_SIZE_NONE);
    int error = real_readdir_r(stream, entry, result);
    pt_series_end(&c, -1, error);
    return error;
}

static void begin_moving(struct pt_call *c, unsigned op, DIR *stream, int64_t offset)
{
    struct pt_thread *t = pt_enter();
    if (t)
        pt_series_break(t, stream);
    pt_begin_fd(c, op, dirfd(stream), offset, PT_SIZE_NONE);
}

PT_HOOK_DECLARE(void, rewinddir, DIR *);
void hook_rewinddir(DIR *stream)
{
    struct pt_call c;
    begin_moving(&c, PT_OP_REWINDDIR, stream, -1);
    real_rewinddir(stream);
    pt_end_int(&c, 0);
}

/* at: a cookie from telldir, made up by the file system; not an offset in bytes. */
PT_HOOK_DECLARE(void, seekdir, DIR *, long);
void hook_seekdir(DIR *stream, long at)
{
    struct pt_call c;
    begin_moving(&c, PT_OP_SEEKDIR, stream, -1);
    real_seekdir(stream, at);
    pt_end_int(&c, 0);
}

PT_HOOK_DECLARE(int, closedir, DIR *);
int hook_closedir(DIR *stream)
{
    struct pt_call c;
    struct pt_thread *t = pt_table_owner();
    int fd = stream ? dirfd(stream) : -1;
    if (t)
        pt_fd_identify_before_close(fd);
    pt_begin_fd(&c, PT_OP_CLOSEDIR, fd, -1, PT_SIZE_NONE);
    if (t) {
        pt_series_break(t, stream);
        pt_fd_forget(t, fd);
    }
    return pt_end_int(&c, real_closedir(stream));
}

PT_HOOK_DECLARE(int, scandir, const char *, struct dirent ***, int (*)(const struct dirent *),
                int (*)(const struct dirent **, const struct dirent **));
int hook_scandir(const char *path, struct dirent ***names, int (*filter)(const struct dirent *),
                 int (*compare)(const struct dirent **, const struct dirent **))
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_SCANDIR, path, 0);
    return pt_end_int(&c, real_scandir(path, names, filter, compare));
}

PT_HOOK_DECLARE(int, scandirat, int, const char *, struct dirent ***, int (*)(const struct dirent *),
                int (*)(const struct dirent **, const struct dirent **));
int hook_scandirat(int dirfd, const char *path, struct dirent ***names, int (*filter)(const struct dirent *),
                   int (*compare)(const struct dirent **, const struct dirent **))
{
    struct pt_call c;
    pt_begin_path_at(&c, PT_OP_SCANDIR, dirfd, path, 0);
    return pt_end_int(&c, real_scandirat(dirfd, path, names, filter, compare));
}

PT_HOOK_DECLARE(ssize_t, getdirentries, int, char *, size_t, off_t *);
ssize_t hook_getdirentries(int fd, char *out, size_t size, off_t *base)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_GETDENTS, fd, -1, PT_SIZE_NONE);
    ssize_t n = real_getdirentries(fd, out, size, base);
    pt_end_int(&c, n < 0 ? -1 : 0);
    return n;
}

PT_HOOK_DECLARE(ssize_t, getdents, int, void *, size_t);
ssize_t hook_getdents(int fd, void *out, size_t size)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_GETDENTS, fd, -1, PT_SIZE_NONE);
    ssize_t n = real_getdents(fd, out, size);
    pt_end_int(&c, n < 0 ? -1 : 0);
    return n;
}
