/* What every hook function is built from.
 *
 * A hook is declared with PT_HOOK_DECLARE, listed in hooks.def under each of
 * its spellings, and written out as
 *     begin (tells what is known) -> the original -> end (result, errno kept)
 * All functions here are async-signal-safe, take no lock and need no GIL. */
#ifndef PYIO_TRACE_HOOKS_H
#define PYIO_TRACE_HOOKS_H

#include "core.h"

#include <errno.h>
#include <sys/types.h>

#define PT_HOOK_DECLARE(ret, family, ...)     \
    extern ret (*real_##family)(__VA_ARGS__); \
    ret hook_##family(__VA_ARGS__);           \
    ret (*real_##family)(__VA_ARGS__)

/* Whose descriptor table a call changes, also where the call itself is not
 * recorded (suppress()): the table must stay right.  NULL: not tracing. */
static inline struct pt_thread *pt_table_owner(void)
{
    struct pt_thread *t = pt_enter();
    if (PT_LIKELY(t != NULL) || pt.gate || !pt_self)
        return t;
    return pt_self->gate & PT_GATE_VFORK ? pt_self->vfork_child : pt_self; /* the child of a suppressed vfork is not its parent */
}

/* An operation on a path.  path: a string id. */
static inline void pt_begin_path(struct pt_call *c, unsigned op, const char *path, uint32_t aux)
{
    struct pt_thread *t = pt_enter();
    c->thread = NULL;
    c->left_out = 0;
    if (PT_LIKELY(t != NULL))
        pt_begin(c, t, op, pt_path(path), aux, -1, PT_SIZE_NONE);
}

static inline void pt_begin_path_at(struct pt_call *c, unsigned op, int dirfd, const char *path, uint32_t aux)
{
    struct pt_thread *t = pt_enter();
    c->thread = NULL;
    c->left_out = 0;
    if (PT_LIKELY(t != NULL))
        pt_begin(c, t, op, pt_path_at(dirfd, path), aux, -1, PT_SIZE_NONE);
}

static inline void pt_begin_paths_at(struct pt_call *c, unsigned op, int dir1, const char *path1, int dir2, const char *path2)
{
    struct pt_thread *t = pt_enter();
    c->thread = NULL;
    c->left_out = 0;
    if (PT_LIKELY(t != NULL))
        pt_begin(c, t, op, pt_path_at(dir1, path1), pt_path_at(dir2, path2), -1, PT_SIZE_NONE);
}

/* An operation on a descriptor.  offset: -1 where the call gives none. */
static inline void pt_begin_fd(struct pt_call *c, unsigned op, int fd, int64_t offset, uint64_t size)
{
    struct pt_thread *t = pt_enter();
    c->thread = NULL;
    c->left_out = 0;
    if (PT_UNLIKELY(t == NULL))
        return;
    pt_fd_entry e = pt_fd_get(t, fd);
    if (PT_UNLIKELY(e & PT_FD_EXCLUDED)) {
        c->left_out = e;
        return;
    }
    pt_begin(c, t, op, pt_entry_id(e), (uint32_t)fd, offset, size);
}

static inline void pt_end_untraced(struct pt_call *c, int64_t moved)
{
    if (c->left_out && pt_self)
        pt_count_excluded(pt_self, c->left_out, moved);
}

/* For calls that return 0 or -1 with errno. */
static inline int pt_end_int(struct pt_call *c, int result)
{
    if (PT_LIKELY(c->thread != NULL))
        pt_end(c, -1, result < 0 ? errno : 0);
    else
        pt_end_untraced(c, 0);
    return result;
}

/* For calls that return bytes moved or -1 with errno. */
static inline ssize_t pt_end_bytes(struct pt_call *c, ssize_t result)
{
    if (PT_LIKELY(c->thread != NULL))
        pt_end(c, result, result < 0 ? errno : 0);
    else
        pt_end_untraced(c, result);
    return result;
}

/* For calls that return an error number themselves (posix_fallocate). */
static inline int pt_end_error(struct pt_call *c, int error)
{
    if (PT_LIKELY(c->thread != NULL))
        pt_end(c, -1, error);
    else
        pt_end_untraced(c, 0);
    return error;
}

/* For calls that open: the record learns the new descriptor. */
static inline int pt_end_open(struct pt_call *c, int fd)
{
    if (PT_UNLIKELY(c->thread == NULL)) {
        struct pt_thread *t = fd >= 0 ? pt_table_owner() : NULL;
        if (t)
            pt_fd_forget(t, fd); /* suppressed: whatever it is, it is new */
        return fd;
    }
    if (fd >= 0) {
        struct pt_record *r = c->record;
        uint32_t desc = pt_fd_opened(c->thread, fd, r ? r->desc : 0, r ? r->aux : 0, r ? pt_id_of(r) : 0);
        if (r)
            r->offset = desc;
    }
    pt_end(c, fd, fd < 0 ? errno : 0);
    return fd;
}

#endif
