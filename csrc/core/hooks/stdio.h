/* Shared by the hooks of C streams: which file a stream is, and how its calls begin and end.  Frequent small calls
 * form series (record/coalesced.h); the others have a record each. */
#ifndef PYIO_TRACE_STREAMS_H
#define PYIO_TRACE_STREAMS_H

#include "hooks/hooks.h"
#include "record/coalesced.h"

#include <stdarg.h>
#include <stdio.h>

/* A call on a stream. */
struct pt_stream_call {
    struct pt_series_call series;
    int errno_aside; /* what errno was, if the stream had its error flag before; else PT_NOT_ASIDE */
};
#define PT_NOT_ASIDE (-1)

/* -1: not a file of the system (open_memstream, fmemopen, fopencookie). */
static inline int pt_stream_fd(FILE *f)
{
    int saved = errno;
    int fd = f ? fileno(f) : -1;
    errno = saved;
    return fd;
}

/* Counted like anonymous descriptors, not recorded. */
static inline pt_fd_entry pt_no_file(void)
{
    return pt_enter() ? PT_FD_EXCLUDED | (pt_fd_entry)PT_DESC_ANON << 32 : 0;
}

static inline void pt_begin_stream(struct pt_call *c, unsigned op, FILE *f, int64_t offset, uint64_t size)
{
    int fd = pt_stream_fd(f);
    struct pt_thread *t = pt_enter();
    if (t)
        pt_series_break(t, f);
    if (PT_LIKELY(fd >= 0)) {
        pt_begin_fd(c, op, fd, offset, size);
        return;
    }
    c->thread = NULL;
    c->left_out = pt_no_file();
}

/* A stream keeps its error flag, so the flag does not say that this call has failed.  Where it is set before the call,
 * errno is set aside: then what errno is afterwards is the call's own. */
static inline void pt_begin_tiny(struct pt_stream_call *c, unsigned op, FILE *f, uint64_t requested)
{
    int fd = pt_stream_fd(f);
    c->errno_aside = PT_NOT_ASIDE;
    if (PT_UNLIKELY(fd < 0)) {
        c->series.joined = NULL;
        c->series.call.thread = NULL;
        c->series.call.left_out = pt_no_file();
        return;
    }
    pt_series_begin_fd(&c->series, op, f, fd, requested);
    if (PT_UNLIKELY(ferror_unlocked(f))) {
        c->errno_aside = errno;
        errno = 0;
    }
}

/* errno, if this call has set it; else 0, and errno is as it was before the call. */
static inline int pt_own_errno(const struct pt_stream_call *c)
{
    int own = errno;
    if (PT_UNLIKELY(c->errno_aside != PT_NOT_ASIDE) && !own)
        errno = c->errno_aside;
    return own;
}

/* The result may mean end of file or an error: the stream knows.  Uses the unlocked forms: in a program with unlocked
 * calls, another thread may hold the lock. */
static inline int pt_stream_error(FILE *f, int own)
{
    return ferror_unlocked(f) || !feof_unlocked(f) ? own : 0;
}

/* Puts errno back after a call that has not failed. */
static inline void pt_errno_back(const struct pt_stream_call *c)
{
    if (PT_UNLIKELY(c->errno_aside != PT_NOT_ASIDE))
        pt_own_errno(c);
}

/* For calls that return the bytes moved, or less at the end of the file. */
static inline void pt_end_tiny(struct pt_stream_call *c, FILE *f, int64_t moved, bool ended)
{
    int error = 0;
    if (PT_UNLIKELY(ended))
        error = pt_stream_error(f, pt_own_errno(c));
    else
        pt_errno_back(c);
    pt_series_end(&c->series, moved, error);
}

/* For calls that return a negative number after an error.  moved: the bytes if there was none; -1: not known. */
static inline int pt_end_signed(struct pt_stream_call *c, int result, int64_t moved, int64_t moved_by_failure)
{
    int error = 0;
    if (PT_UNLIKELY(result < 0))
        error = pt_own_errno(c);
    else
        pt_errno_back(c);
    pt_series_end(&c->series, result < 0 ? moved_by_failure : moved, error);
    return result;
}

/* For calls that return the bytes printed, or a negative number. */
static inline int pt_end_printed(struct pt_stream_call *c, FILE *f, int n)
{
    (void)f; /* the same parameters as pt_end_tiny */
    return pt_end_signed(c, n, n, -1);
}

/* For calls that write a known number of bytes, or return a negative number. */
static inline int pt_end_put(struct pt_stream_call *c, int result, uint64_t bytes)
{
    return pt_end_signed(c, result, (int64_t)bytes, 0);
}

/* Hooks that differ only in one line: libc has each of these calls in up to eight spellings.
 *
 * The call may join a series. requested: its bytes, or PT_SIZE_NONE. end(&c, stream, result, ...) completes the call
 * and returns the result; it also gets the further arguments of the line. */
#define PT_TINY_HOOK(type, family, parameters, arguments, op, stream, requested, end, ...) \
    PT_HOOK_DECLARE(type, family, PT_LIST parameters);                                     \
    type hook_##family parameters                                                          \
    {                                                                                      \
        struct pt_stream_call c;                                                           \
        pt_begin_tiny(&c, PT_OP_##op, stream, requested);                                  \
        return end(&c, stream, real_##family arguments, ##__VA_ARGS__);                    \
    }

/* Likewise, for calls that write so many bytes. */
#define PT_PUT_HOOK(family, parameters, arguments, op, stream, bytes) \
    PT_HOOK_DECLARE(int, family, PT_LIST parameters);                 \
    int hook_##family parameters                                      \
    {                                                                 \
        struct pt_stream_call c;                                      \
        uint64_t n = bytes;                                           \
        pt_begin_tiny(&c, PT_OP_##op, stream, n);                     \
        return pt_end_put(&c, real_##family arguments, n);            \
    }

/* A variadic form, which calls the hook of the va_list form (ap); its last parameter is named format. */
#define PT_THROUGH_HOOK(type, family, parameters, through, arguments) \
    PT_HOOK_DECLARE(type, family, PT_LIST parameters);                \
    type hook_##family parameters                                     \
    {                                                                 \
        va_list ap;                                                   \
        va_start(ap, format);                                         \
        type result = hook_##through arguments;                       \
        va_end(ap);                                                   \
        return result;                                                \
    }

#endif
