/* What the hooks of C streams share: which file a stream is, and how its calls
 * begin and end.  Calls that move little and come often are runs (runs.h); the
 * others have a record each. */
#ifndef PYIO_TRACE_STREAMS_H
#define PYIO_TRACE_STREAMS_H

#include "runs.h"

#include <stdarg.h>
#include <stdio.h>

/* -1: no file of the system (open_memstream, fmemopen, fopencookie). */
static inline int pt_stream_fd(FILE *f)
{
    int saved = errno;
    int fd = f ? fileno(f) : -1;
    errno = saved;
    return fd;
}

/* Counted as anonymous descriptors are, not recorded. */
static inline pt_fd_entry pt_no_file(void)
{
    return pt_enter() ? PT_FD_EXCLUDED | (pt_fd_entry)PT_DESC_ANON << 32 : 0;
}

static inline void pt_begin_stream(struct pt_call *c, unsigned op, FILE *f, int64_t offset, uint64_t size)
{
    int fd = pt_stream_fd(f);
    struct pt_thread *t = pt_enter();
    if (t)
        pt_runs_end(t, f);
    if (PT_LIKELY(fd >= 0)) {
        pt_begin_fd(c, op, fd, offset, size);
        return;
    }
    c->thread = NULL;
    c->left_out = pt_no_file();
}

static inline void pt_begin_tiny(struct pt_run_call *c, unsigned op, FILE *f, uint64_t asked)
{
    int fd = pt_stream_fd(f);
    if (PT_LIKELY(fd >= 0)) {
        pt_run_begin_fd(c, op, f, fd, asked);
        return;
    }
    c->joined = NULL;
    c->call.thread = NULL;
    c->call.left_out = pt_no_file();
}

/* A result that may be the end of the file or an error: the stream knows.  Not
 * the locking forms: who uses unlocked calls may have given the lock to another. */
static inline int pt_stream_error(FILE *f)
{
    return ferror_unlocked(f) || !feof_unlocked(f) ? errno : 0;
}

/* For calls that return what they moved, or less at the end of the file. */
static inline void pt_end_tiny(struct pt_run_call *c, FILE *f, int64_t moved, bool ended)
{
    pt_run_end(c, moved, PT_UNLIKELY(ended) ? pt_stream_error(f) : 0);
}

/* For calls that return how much they printed, or a negative number. */
static inline int pt_end_printed(struct pt_run_call *c, FILE *f, int n)
{
    (void)f; /* as those that can meet the end of the file */
    pt_run_end(c, n < 0 ? -1 : n, n < 0 ? errno : 0);
    return n;
}

/* For calls that write so many bytes, or return a negative number. */
static inline int pt_end_put(struct pt_run_call *c, int result, uint64_t bytes)
{
    pt_run_end(c, result < 0 ? 0 : (int64_t)bytes, result < 0 ? errno : 0);
    return result;
}

/* Hooks that differ in no more than a line can tell: libc has each of these calls in up to eight spellings.
 *
 * The call may join a run.  It is of so many bytes (asked, or PT_SIZE_NONE), and
 * end(&c, stream, its result, what else stands in the line) completes it and returns the result. */
#define PT_TINY_HOOK(type, family, parameters, arguments, op, stream, asked, end, ...) \
    PT_HOOK_DECLARE(type, family, PT_LIST parameters);                                 \
    type hook_##family parameters                                                      \
    {                                                                                  \
        struct pt_run_call c;                                                          \
        pt_begin_tiny(&c, PT_OP_##op, stream, asked);                                  \
        return end(&c, stream, real_##family arguments, ##__VA_ARGS__);                \
    }

/* A variadic form, which goes on to the hook of the va_list form (ap); its last parameter is format. */
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
