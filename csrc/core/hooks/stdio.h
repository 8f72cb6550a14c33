/* Shared by the hooks of C streams: which file a stream is, and how its calls begin and end.  Frequent small calls
 * form series (record/coalesced.h); the others have a record each. */
#ifndef PYIO_TRACE_STREAMS_H
#define PYIO_TRACE_STREAMS_H

#include "hooks/hooks.h"
#include "record/coalesced.h"

#include <stdarg.h>
#include <stdio.h>

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

static inline void pt_begin_tiny(struct pt_series_call *c, unsigned op, FILE *f, uint64_t requested)
{
    int fd = pt_stream_fd(f);
    if (PT_LIKELY(fd >= 0)) {
        pt_series_begin_fd(c, op, f, fd, requested);
        return;
    }
    c->joined = NULL;
    c->call.thread = NULL;
    c->call.left_out = pt_no_file();
}

/* The result may mean end of file or an error: the stream knows.  Uses the unlocked forms: in a program with unlocked
 * calls, another thread may hold the lock. */
static inline int pt_stream_error(FILE *f)
{
    return ferror_unlocked(f) || !feof_unlocked(f) ? errno : 0;
}

/* For calls that return the bytes moved, or less at the end of the file. */
static inline void pt_end_tiny(struct pt_series_call *c, FILE *f, int64_t moved, bool ended)
{
    pt_series_end(c, moved, PT_UNLIKELY(ended) ? pt_stream_error(f) : 0);
}

/* For calls that return the bytes printed, or a negative number. */
static inline int pt_end_printed(struct pt_series_call *c, FILE *f, int n)
{
    (void)f; /* the same parameters as pt_end_tiny */
    pt_series_end(c, n < 0 ? -1 : n, n < 0 ? errno : 0);
    return n;
}

/* For calls that write a known number of bytes, or return a negative number. */
static inline int pt_end_put(struct pt_series_call *c, int result, uint64_t bytes)
{
    pt_series_end(c, result < 0 ? 0 : (int64_t)bytes, result < 0 ? errno : 0);
    return result;
}

/* Hooks that differ only in one line: libc has each of these calls in up to eight spellings.
 *
 * The call may join a series. requested: its bytes, or PT_SIZE_NONE. end(&c, stream, result, ...) completes the call
 * and returns the result; it also gets the further arguments of the line. */
#define PT_TINY_HOOK(type, family, parameters, arguments, op, stream, requested, end, ...) \
    PT_HOOK_DECLARE(type, family, PT_LIST parameters);                                     \
    type hook_##family parameters                                                          \
    {                                                                                      \
        struct pt_series_call c;                                                           \
        pt_begin_tiny(&c, PT_OP_##op, stream, requested);                                  \
        return end(&c, stream, real_##family arguments, ##__VA_ARGS__);                    \
    }

/* Likewise, for calls that write so many bytes. */
#define PT_PUT_HOOK(family, parameters, arguments, op, stream, bytes) \
    PT_HOOK_DECLARE(int, family, PT_LIST parameters);                 \
    int hook_##family parameters                                      \
    {                                                                 \
        struct pt_series_call c;                                      \
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
