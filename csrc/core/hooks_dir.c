/* Hooks of directory streams.
 *
 * readdir is called once an entry, while the system call behind it is made once
 * a few hundred entries: a stream's calls make one record of a run. */
#include "hooks.h"

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

/* The descriptor too: another thread may have closed that stream, and a new one taken its place. */
static bool run_goes_on(const struct pt_thread *t, DIR *stream)
{
    const struct pt_record *r = t->readdir_record;
    return t->readdir_stream == stream && r->parent == t->parent && r->aux < UINT32_MAX &&
           r->desc == pt_entry_id(pt_fd_peek(dirfd(stream)));
}

PT_HOOK_DECLARE(struct dirent *, readdir, DIR *);
struct dirent *hook_readdir(DIR *stream)
{
    struct pt_thread *t = pt_enter();
    if (!t)
        return real_readdir(stream);
    if (run_goes_on(t, stream)) {
        struct pt_record *r = t->readdir_record;
        uint64_t begin = pt_ticks();
        struct dirent *entry = real_readdir(stream);
        uint64_t end = pt_ticks();
        uint64_t duration = ((uint64_t)r->duration_hi << 32 | r->duration_lo) + (end - begin);
        r->duration_lo = (uint32_t)duration;
        r->duration_hi = (uint16_t)(duration >> 32);
        r->offset = (int64_t)(end - r->begin);
        r->aux++;
        return entry;
    }
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_READDIR, dirfd(stream), 0, PT_SIZE_NONE);
    struct dirent *entry = real_readdir(stream);
    if (c.thread && c.record) {
        c.flags |= PT_COALESCED;
        c.record->aux = 1;
        c.record->offset = (int64_t)(pt_ticks() - c.begin);
        t->readdir_stream = stream;
        t->readdir_record = c.record;
    }
    pt_end_int(&c, 0); /* NULL is the usual end; errno tells only if it was 0 before */
    return entry;
}

PT_HOOK_DECLARE(void, rewinddir, DIR *);
void hook_rewinddir(DIR *stream)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_REWINDDIR, dirfd(stream), -1, PT_SIZE_NONE);
    real_rewinddir(stream);
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
        t->readdir_stream = NULL;
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

PT_HOOK_DECLARE(ssize_t, getdents, int, void *, size_t);
ssize_t hook_getdents(int fd, void *out, size_t size)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_GETDENTS, fd, -1, PT_SIZE_NONE);
    ssize_t n = real_getdents(fd, out, size);
    pt_end_int(&c, n < 0 ? -1 : 0);
    return n;
}
