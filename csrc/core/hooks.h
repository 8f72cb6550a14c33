/* What every hook function is built from.
 *
 * A hook is declared with PT_HOOK_DECLARE, listed in hooks.def under each of
 * its spellings, and written out as
 *     begin (tells what is known) -> the original -> end (result, errno kept)
 * All functions here are async-signal-safe, take no lock and need no GIL. */
#ifndef PYIO_TRACE_HOOKS_H
#define PYIO_TRACE_HOOKS_H

#include "call.h"

#include <errno.h>
#include <sys/types.h>

#define PT_HOOK_DECLARE(ret, family, ...)     \
    extern ret (*real_##family)(__VA_ARGS__); \
    ret hook_##family(__VA_ARGS__);           \
    ret (*real_##family)(__VA_ARGS__)

/* Takes off the parentheses in which parameters and arguments stand in a table. */
#define PT_LIST(...) __VA_ARGS__

/* Whose descriptor table a call changes, also where the call itself is not
 * recorded (suppress()): the table must stay right.  NULL: not tracing. */
static inline struct pt_thread *pt_table_owner(void)
{
    struct pt_thread *t = pt_enter();
    if (PT_LIKELY(t != NULL) || (pt.gate & PT_GATE_OFF) || !pt_self)
        return t;
    return pt_self->gate & PT_GATE_VFORK ? pt_self->vfork_child : pt_self; /* the child of a suppressed vfork is not its parent */
}

static inline void pt_begin_named(struct pt_call *c, struct pt_thread *t, unsigned op, const char *path,
                                  struct pt_named name, uint32_t aux)
{
    if (PT_UNLIKELY(name.left_out) && pt_op_row(op)->klass == PT_OPEN)
        name = pt_name_behind_slow(path, name);
    else if (PT_UNLIKELY(name.left_out) && pt_op_row(op)->klass == PT_PROCESS)
        name.left_out = 0; /* rules about files: where processes come from is always recorded */
    if (PT_LIKELY(!name.left_out))
        pt_begin(c, t, op, name.id, aux, -1, PT_SIZE_NONE);
    else
        c->left_out = pt_left_out_entry(name.left_out);
}

/* An operation on a path. */
static inline void pt_begin_path(struct pt_call *c, unsigned op, const char *path, uint32_t aux)
{
    struct pt_thread *t = pt_enter();
    c->thread = NULL;
    c->left_out = 0;
    if (PT_LIKELY(t != NULL))
        pt_begin_named(c, t, op, path, pt_name(path), aux);
    else
        c->left_out = pt_passed_by(op, -1);
}

static inline void pt_begin_path_at(struct pt_call *c, unsigned op, int dirfd, const char *path, uint32_t aux)
{
    struct pt_thread *t = pt_enter();
    c->thread = NULL;
    c->left_out = 0;
    if (PT_LIKELY(t != NULL))
        pt_begin_named(c, t, op, path, pt_name_at(dirfd, path), aux);
    else
        c->left_out = pt_passed_by(op, -1);
}

static inline void pt_begin_paths_at(struct pt_call *c, unsigned op, int dir1, const char *path1, int dir2, const char *path2)
{
    struct pt_thread *t = pt_enter();
    c->thread = NULL;
    c->left_out = 0;
    if (PT_LIKELY(t != NULL)) {
        struct pt_named one = pt_name_at(dir1, path1), two = pt_name_at(dir2, path2);
        if (PT_LIKELY(!one.left_out || !two.left_out))
            pt_begin(c, t, op, one.id, two.id, -1, PT_SIZE_NONE);
        else
            c->left_out = pt_left_out_entry(one.left_out);
    } else {
        c->left_out = pt_passed_by(op, -1);
    }
}

/* The first recorded call after a gap finds out where the position is; the first that moves it, where another program
 * may have moved it. */
static inline void pt_position_gap_over(struct pt_thread *t, unsigned op, int fd, pt_fd_entry e)
{
    bool due = (e & PT_FD_GAP) || ((e & PT_FD_STALE) && pt_op_moves_position(op));
    if (due && !(e & PT_FD_EXCLUDED) && (pt.apart[op] == PT_RECORDED || pt.apart[op] == PT_BY_SIZE))
        pt_position_found_slow(t, fd, e);
}

/* An operation on a descriptor.  offset: -1 where the call gives none. */
static inline void pt_begin_fd(struct pt_call *c, unsigned op, int fd, int64_t offset, uint64_t size)
{
    struct pt_thread *t = pt_enter();
    c->thread = NULL;
    c->left_out = 0;
    c->op = (uint8_t)op;
    if (PT_UNLIKELY(t == NULL)) {
        c->left_out = pt_passed_by(op, fd);
        return;
    }
    pt_fd_entry e = pt_fd_get(t, fd);
    if (PT_UNLIKELY(e & (PT_FD_EXCLUDED | PT_FD_GAP | PT_FD_STALE))) {
        if (e & PT_FD_EXCLUDED) {
            c->left_out = e;
            return;
        }
        pt_position_gap_over(t, op, fd, e);
    }
    pt_begin(c, t, op, pt_entry_id(e), (uint32_t)fd, offset, size);
}

static inline void pt_end_untraced(struct pt_call *c, int64_t moved)
{
    if (c->left_out && pt_self) {
        pt_count_left_out(pt_self, pt_entry_kind(c->left_out), moved);
        if (pt_entry_kind(c->left_out) == PT_LEFT_PAUSED)
            pt_has_passed_by(c->left_out);
    }
    if (moved > 0 && pt_self)
        pt_count_unrecorded(c, moved);
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
        if (t && c->left_out && pt_entry_kind(c->left_out) != PT_LEFT_PAUSED)
            pt_fd_set(t, fd, c->left_out);
        else if (t)
            pt_fd_forget(t, fd); /* suppressed: whatever it is, it is new */
        pt_end_untraced(c, 0);
        return fd;
    }
    if (fd >= 0 && c->apart == PT_LEFT_OUT && c->why == PT_LEFT_IMPORT)
        pt_fd_set(c->thread, fd, pt_left_out_entry(PT_LEFT_IMPORT));
    else if (fd >= 0)
        c->record->offset = pt_fd_opened(c->thread, fd, c->record->desc, c->record->aux, pt_call_id(c));
    pt_end(c, fd, fd < 0 ? errno : 0);
    return fd;
}

/* For calls that open what no path names: the kernel's name for it is asked for. */
int pt_end_open_unnamed_slow(struct pt_call *c, int fd);
/* A number that a call has given out may stand for something else in the table, whose close has escaped us. */
int pt_fd_taken(int fd);
/* The working directory may be another one. */
void pt_cwd_changed(void);

#endif
