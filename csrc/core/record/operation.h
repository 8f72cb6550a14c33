/* How each kind of operation begins and ends: on a path, on a descriptor, with bytes, with a new descriptor.
 *
 * All functions here are async-signal-safe, take no lock and do not need the GIL. */
#ifndef PYIO_TRACE_OPERATION_H
#define PYIO_TRACE_OPERATION_H

#include "format/operations.h"
#include "record/unrecorded.h"
#include "state/path_strings.h"

#include <errno.h>
#include <sys/types.h>

/* The thread whose descriptor table a call changes.  The table must stay right even while calls are not recorded
 * (suppress()).  NULL: not tracing. */
static inline struct pt_thread *pt_table_owner(void)
{
    struct pt_thread *t = pt_enter();
    if (PT_LIKELY(t != NULL) || (pt.gate & PT_GATE_OFF) || !pt_self)
        return t;
    return pt_self->gate & PT_GATE_VFORK ? pt_self->vfork_child
                                         : pt_self; /* a suppressed vfork: its child, not the parent */
}

static inline void pt_begin_named(struct pt_call *c, struct pt_thread *t, unsigned op, const char *path,
                                  struct pt_named name, uint32_t aux)
{
    if (PT_UNLIKELY(name.left_out) && pt_op_row(op)->klass == PT_OPEN)
        name = pt_name_of_fd_path_slow(path, name);
    else if (PT_UNLIKELY(name.left_out) && pt_op_row(op)->klass == PT_PROCESS)
        name.left_out = 0; /* rules are about files; the origin of a process is always recorded */
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
        c->left_out = pt_begin_paused(op, -1);
}

static inline void pt_begin_path_at(struct pt_call *c, unsigned op, int dirfd, const char *path, uint32_t aux)
{
    struct pt_thread *t = pt_enter();
    c->thread = NULL;
    c->left_out = 0;
    if (PT_LIKELY(t != NULL))
        pt_begin_named(c, t, op, path, pt_name_at(dirfd, path), aux);
    else
        c->left_out = pt_begin_paused(op, -1);
}

static inline void pt_begin_paths_at(struct pt_call *c, unsigned op, int dir1, const char *path1, int dir2,
                                     const char *path2)
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
        c->left_out = pt_begin_paused(op, -1);
    }
}

/* An operation on no file, or on all of them: a row without a path. */
static inline void pt_begin_pathless(struct pt_call *c, unsigned op)
{
    struct pt_thread *t = pt_enter();
    c->thread = NULL;
    c->left_out = 0;
    if (t)
        pt_begin(c, t, op, 0, (uint32_t)-1, -1, PT_SIZE_NONE);
}

/* After a gap, the first recorded call looks up the position.  After another program may have moved it, the first
 * call that moves it does. */
static inline void pt_position_gap_over(struct pt_thread *t, unsigned op, int fd, pt_fd_entry e)
{
    bool due = (e & PT_FD_GAP) || ((e & PT_FD_STALE) && pt_op_has(op, PT_MOVES_POSITION));
    if (due && !(e & PT_FD_EXCLUDED) && (pt.disposition[op] == PT_RECORDED || pt.disposition[op] == PT_BY_SIZE))
        pt_position_found_slow(t, fd, e);
}

static inline void pt_begin_untraced(struct pt_call *c, unsigned op, pt_fd_entry left_out)
{
    c->thread = NULL;
    c->op = (uint8_t)op;
    c->left_out = left_out;
}

/* An operation on a descriptor.  offset: -1 where the call gives none. */
static inline void pt_begin_fd(struct pt_call *c, unsigned op, int fd, int64_t offset, uint64_t size)
{
    struct pt_thread *t = pt_enter();
    if (PT_UNLIKELY(t == NULL)) {
        pt_begin_untraced(c, op, pt_begin_paused(op, fd));
        return;
    }
    pt_fd_entry e = pt_fd_get(t, fd);
    if (PT_UNLIKELY(e & (PT_FD_EXCLUDED | PT_FD_GAP | PT_FD_STALE))) {
        if (e & PT_FD_EXCLUDED) {
            pt_begin_untraced(c, op, e);
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
            pt_end_paused(c->left_out);
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

/* For calls that open: puts the new descriptor into the record. */
static inline int pt_end_open(struct pt_call *c, int fd)
{
    if (PT_UNLIKELY(c->thread == NULL)) {
        struct pt_thread *t = fd >= 0 ? pt_table_owner() : NULL;
        if (t && c->left_out && pt_entry_kind(c->left_out) != PT_LEFT_PAUSED)
            pt_fd_set(t, fd, c->left_out);
        else if (t)
            pt_fd_forget(t, fd); /* suppressed: the number stands for something new */
        pt_end_untraced(c, 0);
        return fd;
    }
    if (fd >= 0 && c->disposition == PT_LEFT_OUT && c->left_out_as == PT_LEFT_IMPORT)
        pt_fd_set(c->thread, fd, pt_left_out_entry(PT_LEFT_IMPORT));
    else if (fd >= 0)
        c->record->offset = pt_fd_opened(c->thread, fd, c->record->desc, c->record->aux, pt_call_id(c));
    pt_end(c, fd, fd < 0 ? errno : 0);
    return fd;
}

#endif
