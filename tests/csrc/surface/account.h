/* What a program has done, in its own words: calls, bytes and errors by
 * operation and file, printed at the end as `op file errno calls bytes`.  The
 * log must say the same (tests/capture/test_surface.py). */
#ifndef ACCOUNT_H
#define ACCOUNT_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct account {
    char op[32], file[64];
    int error;
    long calls, bytes; /* bytes: -1 where there are none to tell */
} accounts[200];
static int account_count;

/* For a call that has just returned: its errno is kept. */
__attribute__((unused)) static void did(const char *op, const char *file, long bytes, int failed)
{
    int error = failed ? errno : 0, saved = errno, i;
    for (i = 0; i < account_count; i++)
        if (!strcmp(accounts[i].op, op) && !strcmp(accounts[i].file, file) && accounts[i].error == error)
            break;
    if (i == account_count) {
        strcpy(accounts[i].op, op);
        strcpy(accounts[i].file, file);
        accounts[i].error = error;
        accounts[i].bytes = bytes < 0 ? -1 : 0;
        account_count++;
    }
    accounts[i].calls++;
    if (bytes > 0)
        accounts[i].bytes += bytes;
    errno = saved;
}

/* Every result, so that a traced run can be held against a bare one.  Not through stdio: that is what is tested. */
static char said[1 << 20];
static size_t said_length;

static void say(const char *format, ...)
{
    va_list ap;
    int saved = errno;
    va_start(ap, format);
    said_length += (size_t)vsnprintf(said + said_length, sizeof said - said_length, format, ap);
    va_end(ap);
    errno = saved;
}

#define RESULT(call)                                       \
    do {                                                   \
        long result_ = (long)(call);                       \
        say("%s: %ld, errno %d\n", #call, result_, errno); \
    } while (0)

/* To `to`: what was said, then the account. */
static int tell(const char *to)
{
    say("----\n");
    for (int i = 0; i < account_count; i++)
        say("%s %s %d %ld %ld\n", accounts[i].op, accounts[i].file, accounts[i].error, accounts[i].calls,
            accounts[i].bytes);
    int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ssize_t n = fd < 0 ? -1 : write(fd, said, said_length);
    if (fd >= 0)
        close(fd);
    return n == (ssize_t)said_length ? 0 : __LINE__;
}

#define EXPECT(condition)    \
    do                       \
        if (!(condition))    \
            return __LINE__; \
    while (0)

#endif
