/* How the core gets control last in an exit: after all exit handlers, library destructors and flushes.
 *
 * glibc.  A handler of on_exit that is registered while handlers run is the next to run.  Our destructor registers one,
 * which so runs once the loader has called the destructors of all objects; it only notes the status, because handlers
 * that a preloaded library registered before main are still to come.  After all of them exit() flushes the streams,
 * and makes those that were read unbuffered: it seeks back what was read ahead.  We have such a stream, of our own
 * making, and so its seek function is called.
 *
 * musl.  exit() calls the write function of a stream with unwritten bytes, after all destructors, but tells nobody the
 * status. */
#include "base/sys.h"
#include "process/ending.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

static FILE *last;
static char room[64];

/* Flushes streams that are older than ours, which exit() would reach after it.  Never fflush(NULL): it waits for the
 * lock of every stream, and a thread may hold stdin's in fgets for ever. */
static void flush_stream(FILE *stream)
{
    if (ftrylockfile(stream) == 0) {
        fflush_unlocked(stream);
        funlockfile(stream);
    }
}

#if defined(__GLIBC__)
static struct pt_exit noted;
static bool is_noted, is_gone;

static ssize_t read_ahead(void *cookie, char *out, size_t n)
{
    (void)cookie;
    n = n < sizeof room ? n : sizeof room;
    memset(out, 0, n);
    return (ssize_t)n;
}

/* fcloseall() calls it too, long before the end. */
static int seek_back(void *cookie, off64_t *at, int whence)
{
    (void)cookie;
    (void)whence;
    *at = 0;
    if (!is_noted) {
        is_gone = true;
        return 0;
    }
    for (FILE *stream = last->_chain; stream; stream = stream->_chain)
        flush_stream(stream);
    pt_exit_ends(&noted);
    return 0;
}

static int close_last(void *cookie)
{
    (void)cookie;
    is_gone = true;
    return 0;
}

static void after_destructors(int status, void *unused)
{
    (void)unused;
    noted = (struct pt_exit){PT_END_EXIT, status & 0xff};
    is_noted = true;
    if (last && !is_gone)
        return;
    flush_stream(stdout);
    flush_stream(stderr);
    pt_exit_ends(&noted);
}

static void begins(int status, void *unused)
{
    (void)unused;
    pt_exit_begins(&(struct pt_exit){PT_END_EXIT, status & 0xff});
}

/* libc passes the status to functions that it knows from C++ destructors. */
static void quick(void *unused, int status)
{
    (void)unused;
    pt_exits_now(status);
}

extern int __cxa_at_quick_exit(void (*)(void *, int), void *) __attribute__((weak));

static bool is_set_up;

__attribute__((destructor)) static void destructor(void)
{
    if (is_set_up)
        on_exit(after_destructors, NULL);
}

void pt_last_in_exit_setup(void)
{
    static const cookie_io_functions_t functions = {.read = read_ahead, .seek = seek_back, .close = close_last};
    on_exit(begins, NULL);
    if (__cxa_at_quick_exit)
        __cxa_at_quick_exit(quick, NULL);
    is_set_up = true;
    if (pt.owns_run && (last = fopencookie(NULL, "r", functions))) {
        setvbuf(last, room, _IOFBF, sizeof room);
        fgetc(last);
    }
}
#else
static const struct pt_exit unknown = {PT_END_UNKNOWN, 0};
static bool is_last;

static ssize_t write_last(void *cookie, const char *bytes, size_t n)
{
    (void)cookie;
    (void)bytes;
    if (is_last) {
        is_last = false;
        flush_stream(stdin);
        flush_stream(stdout);
        flush_stream(stderr);
        pt_exit_ends(&unknown);
    }
    return (ssize_t)n;
}

static void begins(void)
{
    pt_exit_begins(&unknown);
}

__attribute__((destructor)) static void destructor(void)
{
    if (!last)
        return;
    is_last = true;
    fputc(0, last);
}

void pt_last_in_exit_setup(void)
{
    static const cookie_io_functions_t functions = {.write = write_last};
    atexit(begins);
    if ((last = fopencookie(NULL, "w", functions)))
        setvbuf(last, room, _IOFBF, sizeof room);
}
#endif
