/* Hooks of the calls on paths: creating, renaming, resolving and removing names, and the working directory, where
 * relative paths start. */
#include "hooks/hooks.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <string.h>

/* ---- names ---------------------------------------------------------------------- */

PT_HOOK_DECLARE(int, rename, const char *, const char *);
int hook_rename(const char *from, const char *to)
{
    struct pt_call c;
    pt_begin_paths_at(&c, PT_OP_RENAME, AT_FDCWD, from, AT_FDCWD, to);
    return pt_end_int(&c, real_rename(from, to));
}

PT_HOOK_DECLARE(int, renameat, int, const char *, int, const char *);
int hook_renameat(int dir1, const char *from, int dir2, const char *to)
{
    struct pt_call c;
    pt_begin_paths_at(&c, PT_OP_RENAMEAT, dir1, from, dir2, to);
    return pt_end_int(&c, real_renameat(dir1, from, dir2, to));
}

PT_HOOK_DECLARE(int, renameat2, int, const char *, int, const char *, unsigned);
int hook_renameat2(int dir1, const char *from, int dir2, const char *to, unsigned flags)
{
    struct pt_call c;
    pt_begin_paths_at(&c, PT_OP_RENAMEAT, dir1, from, dir2, to);
    return pt_end_int(&c, real_renameat2(dir1, from, dir2, to, flags));
}

PT_HOOK_DECLARE(int, link, const char *, const char *);
int hook_link(const char *from, const char *to)
{
    struct pt_call c;
    pt_begin_paths_at(&c, PT_OP_LINK, AT_FDCWD, from, AT_FDCWD, to);
    return pt_end_int(&c, real_link(from, to));
}

#define EMPTY_PATH 0x1000 /* AT_EMPTY_PATH: the file is the descriptor's own */

/* A file without a name gets one from its descriptor, given as such or as a path in /proc. */
static void begin_linkat(struct pt_call *c, int dir1, const char *from, int dir2, const char *to, int flags)
{
    pt_begin_paths_at(c, PT_OP_LINKAT, dir1, from, dir2, to);
    if (!c->thread || c->disposition != PT_RECORDED || !from)
        return;
    if (flags & EMPTY_PATH && !*from) {
        pt_fd_entry e = pt_fd_get(c->thread, dir1);
        c->record->desc = pt_desc_path(pt_entry_id(e));
    } else if (flags & AT_SYMLINK_FOLLOW) {
        c->record->desc = pt_name_behind_fd_path(from, c->record->desc);
    }
}

PT_HOOK_DECLARE(int, linkat, int, const char *, int, const char *, int);
int hook_linkat(int dir1, const char *from, int dir2, const char *to, int flags)
{
    struct pt_call c;
    begin_linkat(&c, dir1, from, dir2, to, flags);
    return pt_end_int(&c, real_linkat(dir1, from, dir2, to, flags));
}

#define LONGEST_JOINED 1024u

/* The call concerns the new name only.  The target is just a text in it, relative to the folder of the name. */
static void begin_symlink(struct pt_call *c, unsigned op, const char *target, int dirfd, const char *path)
{
    char joined[LONGEST_JOINED];
    const char *slash = path && target && *target != '/' ? strrchr(path, '/') : NULL;
    size_t folder = slash ? (size_t)(slash - path) + 1 : 0, length = folder ? strnlen(target, LONGEST_JOINED) : 0;
    if (folder && folder + length < LONGEST_JOINED) {
        memcpy(joined, path, folder);
        memcpy(joined + folder, target, length + 1);
        target = joined;
    }
    pt_begin_paths_at(c, op, dirfd, path, dirfd, target);
}

PT_HOOK_DECLARE(int, symlink, const char *, const char *);
int hook_symlink(const char *target, const char *path)
{
    struct pt_call c;
    begin_symlink(&c, PT_OP_SYMLINK, target, AT_FDCWD, path);
    return pt_end_int(&c, real_symlink(target, path));
}

PT_HOOK_DECLARE(int, symlinkat, const char *, int, const char *);
int hook_symlinkat(const char *target, int dirfd, const char *path)
{
    struct pt_call c;
    begin_symlink(&c, PT_OP_SYMLINKAT, target, dirfd, path);
    return pt_end_int(&c, real_symlinkat(target, dirfd, path));
}

/* What it read is a name, not data of the file. */
static ssize_t end_link(struct pt_call *c, ssize_t n)
{
    pt_end_int(c, n < 0 ? -1 : 0);
    return n;
}

PT_HOOK_DECLARE(ssize_t, readlink, const char *, char *, size_t);
ssize_t hook_readlink(const char *path, char *out, size_t room)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_READLINK, path, 0);
    return end_link(&c, real_readlink(path, out, room));
}

PT_HOOK_DECLARE(ssize_t, readlinkat, int, const char *, char *, size_t);
ssize_t hook_readlinkat(int dirfd, const char *path, char *out, size_t room)
{
    struct pt_call c;
    pt_begin_path_at(&c, PT_OP_READLINKAT, dirfd, path, 0);
    return end_link(&c, real_readlinkat(dirfd, path, out, room));
}

PT_HOOK_DECLARE(ssize_t, readlink_chk, const char *, char *, size_t, size_t);
ssize_t hook_readlink_chk(const char *path, char *out, size_t room, size_t size)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_READLINK, path, 0);
    return end_link(&c, real_readlink_chk(path, out, room, size));
}

PT_HOOK_DECLARE(ssize_t, readlinkat_chk, int, const char *, char *, size_t, size_t);
ssize_t hook_readlinkat_chk(int dirfd, const char *path, char *out, size_t room, size_t size)
{
    struct pt_call c;
    pt_begin_path_at(&c, PT_OP_READLINKAT, dirfd, path, 0);
    return end_link(&c, real_readlinkat_chk(dirfd, path, out, room, size));
}

static char *end_resolved(struct pt_call *c, char *path)
{
    pt_end_int(c, path ? 0 : -1);
    return path;
}

PT_HOOK_DECLARE(char *, realpath, const char *, char *);
char *hook_realpath(const char *path, char *out)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_REALPATH, path, 0);
    return end_resolved(&c, real_realpath(path, out));
}

PT_HOOK_DECLARE(char *, canonicalize_file_name, const char *);
char *hook_canonicalize_file_name(const char *path)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_REALPATH, path, 0);
    return end_resolved(&c, real_canonicalize_file_name(path));
}

PT_HOOK_DECLARE(char *, realpath_chk, const char *, char *, size_t);
char *hook_realpath_chk(const char *path, char *out, size_t room)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_REALPATH, path, 0);
    return end_resolved(&c, real_realpath_chk(path, out, room));
}

PT_HOOK_DECLARE(int, unlink, const char *);
int hook_unlink(const char *path)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_UNLINK, path, 0);
    return pt_end_int(&c, real_unlink(path));
}

PT_HOOK_DECLARE(int, unlinkat, int, const char *, int);
int hook_unlinkat(int dirfd, const char *path, int flags)
{
    struct pt_call c;
    pt_begin_path_at(&c, PT_OP_UNLINKAT, dirfd, path, (uint32_t)flags);
    return pt_end_int(&c, real_unlinkat(dirfd, path, flags));
}

PT_HOOK_DECLARE(int, remove, const char *);
int hook_remove(const char *path)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_REMOVE, path, 0);
    return pt_end_int(&c, real_remove(path));
}

PT_HOOK_DECLARE(int, mkdir, const char *, mode_t);
int hook_mkdir(const char *path, mode_t mode)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_MKDIR, path, mode);
    return pt_end_int(&c, real_mkdir(path, mode));
}

PT_HOOK_DECLARE(int, mkdirat, int, const char *, mode_t);
int hook_mkdirat(int dirfd, const char *path, mode_t mode)
{
    struct pt_call c;
    pt_begin_path_at(&c, PT_OP_MKDIRAT, dirfd, path, mode);
    return pt_end_int(&c, real_mkdirat(dirfd, path, mode));
}

PT_HOOK_DECLARE(int, rmdir, const char *);
int hook_rmdir(const char *path)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_RMDIR, path, 0);
    return pt_end_int(&c, real_rmdir(path));
}

PT_HOOK_DECLARE(char *, mkdtemp, char *);
char *hook_mkdtemp(char *path)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_MKDTEMP, path, 0);
    char *result = real_mkdtemp(path);
    if (c.thread && c.record && result)
        c.record->desc = pt_path(result);
    pt_end_int(&c, result ? 0 : -1);
    return result;
}

PT_HOOK_DECLARE(int, mkfifo, const char *, mode_t);
int hook_mkfifo(const char *path, mode_t mode)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_MKFIFO, path, mode);
    return pt_end_int(&c, real_mkfifo(path, mode));
}

PT_HOOK_DECLARE(int, mkfifoat, int, const char *, mode_t);
int hook_mkfifoat(int dirfd, const char *path, mode_t mode)
{
    struct pt_call c;
    pt_begin_path_at(&c, PT_OP_MKFIFO, dirfd, path, mode);
    return pt_end_int(&c, real_mkfifoat(dirfd, path, mode));
}

PT_HOOK_DECLARE(int, mknod, const char *, mode_t, dev_t);
int hook_mknod(const char *path, mode_t mode, dev_t device)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_MKNOD, path, mode);
    return pt_end_int(&c, real_mknod(path, mode, device));
}

PT_HOOK_DECLARE(int, mknodat, int, const char *, mode_t, dev_t);
int hook_mknodat(int dirfd, const char *path, mode_t mode, dev_t device)
{
    struct pt_call c;
    pt_begin_path_at(&c, PT_OP_MKNOD, dirfd, path, mode);
    return pt_end_int(&c, real_mknodat(dirfd, path, mode, device));
}

/* glibc before 2.33: called by its inline mknod. */
PT_HOOK_DECLARE(int, xmknod, int, const char *, mode_t, dev_t *);
int hook_xmknod(int version, const char *path, mode_t mode, dev_t *device)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_MKNOD, path, mode);
    return pt_end_int(&c, real_xmknod(version, path, mode, device));
}

PT_HOOK_DECLARE(int, xmknodat, int, int, const char *, mode_t, dev_t *);
int hook_xmknodat(int version, int dirfd, const char *path, mode_t mode, dev_t *device)
{
    struct pt_call c;
    pt_begin_path_at(&c, PT_OP_MKNOD, dirfd, path, mode);
    return pt_end_int(&c, real_xmknodat(version, dirfd, path, mode, device));
}

/* ---- the working directory: relative names start there --------------------------- */

void pt_cwd_changed(void)
{
    struct pt_thread *t = pt_table_owner();
    if (t && !t->borrowed_memory)
        pt_cwd_refresh_slow();
}

static int end_chdir(struct pt_call *c, int result)
{
    if (result == 0)
        pt_cwd_changed();
    return pt_end_int(c, result);
}

PT_HOOK_DECLARE(int, chdir, const char *);
int hook_chdir(const char *path)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_CHDIR, path, 0);
    return end_chdir(&c, real_chdir(path));
}

PT_HOOK_DECLARE(int, fchdir, int);
int hook_fchdir(int fd)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_FCHDIR, fd, -1, PT_SIZE_NONE);
    return end_chdir(&c, real_fchdir(fd));
}

/* Absolute paths start elsewhere too: docs/explanation/limits.md. */
PT_HOOK_DECLARE(int, chroot, const char *);
int hook_chroot(const char *path)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_CHROOT, path, 0);
    return end_chdir(&c, real_chroot(path));
}
