/* Hooks of C streams (layer stdio).
 *
 * libc's own system calls beneath a stream do not go through any table, so
 * these records stand for them: docs/limits.md says so. */
#include "hooks.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void begin_stream(struct pt_call *c, unsigned op, FILE *f, int64_t offset, uint64_t size)
{
    int saved = errno;
    int fd = f ? fileno(f) : -1; /* -1 and errno for a stream that is no file */
    errno = saved;
    pt_begin_fd(c, op, fd, offset, size);
}

static uint32_t flags_of(const char *mode)
{
    uint32_t update = strchr(mode, '+') ? O_RDWR : 0;
    switch (mode[0]) {
    case 'w': return O_CREAT | O_TRUNC | (update ? update : O_WRONLY);
    case 'a': return O_CREAT | O_APPEND | (update ? update : O_WRONLY);
    default: return update;
    }
}

PT_HOOK_DECLARE(FILE *, fopen, const char *, const char *);
FILE *hook_fopen(const char *path, const char *mode)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_FOPEN, path, flags_of(mode));
    FILE *f = real_fopen(path, mode);
    pt_end_open(&c, f ? fileno(f) : -1);
    return f;
}

PT_HOOK_DECLARE(FILE *, freopen, const char *, const char *, FILE *);
FILE *hook_freopen(const char *path, const char *mode, FILE *stream)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_FREOPEN, path, flags_of(mode));
    FILE *f = real_freopen(path, mode, stream);
    pt_end_open(&c, f ? fileno(f) : -1);
    return f;
}

PT_HOOK_DECLARE(FILE *, tmpfile, void);
FILE *hook_tmpfile(void)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_TMPFILE, "(tmpfile)", O_CREAT | O_EXCL | O_RDWR);
    FILE *f = real_tmpfile();
    pt_end_open(&c, f ? fileno(f) : -1);
    return f;
}

PT_HOOK_DECLARE(FILE *, fdopen, int, const char *);
FILE *hook_fdopen(int fd, const char *mode)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_FDOPEN, fd, -1, PT_SIZE_NONE);
    FILE *f = real_fdopen(fd, mode);
    pt_end_int(&c, f ? 0 : -1);
    return f;
}

/* A short count is an end of file unless the stream says error. */
static size_t end_items(struct pt_call *c, FILE *f, size_t items, size_t asked, size_t size)
{
    if (c->thread)
        pt_end(c, (int64_t)(items * size), items < asked && ferror(f) ? errno : 0);
    else
        pt_end_untraced(c, (int64_t)(items * size));
    return items;
}

PT_HOOK_DECLARE(size_t, fread, void *, size_t, size_t, FILE *);
size_t hook_fread(void *out, size_t size, size_t count, FILE *f)
{
    struct pt_call c;
    begin_stream(&c, PT_OP_FREAD, f, -1, (uint64_t)size * count);
    return end_items(&c, f, real_fread(out, size, count, f), count, size);
}

PT_HOOK_DECLARE(size_t, fread_chk, void *, size_t, size_t, size_t, FILE *);
size_t hook_fread_chk(void *out, size_t room, size_t size, size_t count, FILE *f)
{
    struct pt_call c;
    begin_stream(&c, PT_OP_FREAD, f, -1, (uint64_t)size * count);
    return end_items(&c, f, real_fread_chk(out, room, size, count, f), count, size);
}

PT_HOOK_DECLARE(size_t, fread_unlocked, void *, size_t, size_t, FILE *);
size_t hook_fread_unlocked(void *out, size_t size, size_t count, FILE *f)
{
    struct pt_call c;
    begin_stream(&c, PT_OP_FREAD, f, -1, (uint64_t)size * count);
    return end_items(&c, f, real_fread_unlocked(out, size, count, f), count, size);
}

PT_HOOK_DECLARE(size_t, fwrite, const void *, size_t, size_t, FILE *);
size_t hook_fwrite(const void *data, size_t size, size_t count, FILE *f)
{
    struct pt_call c;
    begin_stream(&c, PT_OP_FWRITE, f, -1, (uint64_t)size * count);
    return end_items(&c, f, real_fwrite(data, size, count, f), count, size);
}

PT_HOOK_DECLARE(size_t, fwrite_unlocked, const void *, size_t, size_t, FILE *);
size_t hook_fwrite_unlocked(const void *data, size_t size, size_t count, FILE *f)
{
    struct pt_call c;
    begin_stream(&c, PT_OP_FWRITE, f, -1, (uint64_t)size * count);
    return end_items(&c, f, real_fwrite_unlocked(data, size, count, f), count, size);
}

PT_HOOK_DECLARE(char *, fgets, char *, int, FILE *);
char *hook_fgets(char *out, int n, FILE *f)
{
    struct pt_call c;
    begin_stream(&c, PT_OP_FGETS, f, -1, n > 0 ? (uint64_t)n - 1 : 0);
    char *line = real_fgets(out, n, f);
    pt_end_bytes(&c, line ? (ssize_t)strlen(line) : 0);
    return line;
}

PT_HOOK_DECLARE(char *, fgets_chk, char *, size_t, int, FILE *);
char *hook_fgets_chk(char *out, size_t room, int n, FILE *f)
{
    struct pt_call c;
    begin_stream(&c, PT_OP_FGETS, f, -1, n > 0 ? (uint64_t)n - 1 : 0);
    char *line = real_fgets_chk(out, room, n, f);
    pt_end_bytes(&c, line ? (ssize_t)strlen(line) : 0);
    return line;
}

PT_HOOK_DECLARE(int, fputs, const char *, FILE *);
int hook_fputs(const char *text, FILE *f)
{
    struct pt_call c;
    size_t n = strlen(text);
    begin_stream(&c, PT_OP_FPUTS, f, -1, n);
    int result = real_fputs(text, f);
    pt_end_bytes(&c, result < 0 ? -1 : (ssize_t)n);
    return result;
}

static int end_printed(struct pt_call *c, int n)
{
    if (c->thread && c->record && n >= 0)
        c->record->size = (uint32_t)n;
    pt_end_bytes(c, n);
    return n;
}

PT_HOOK_DECLARE(int, vfprintf, FILE *, const char *, va_list);
int hook_vfprintf(FILE *f, const char *format, va_list ap)
{
    struct pt_call c;
    begin_stream(&c, PT_OP_FPRINTF, f, -1, PT_SIZE_NONE);
    return end_printed(&c, real_vfprintf(f, format, ap));
}

PT_HOOK_DECLARE(int, vfprintf_chk, FILE *, int, const char *, va_list);
int hook_vfprintf_chk(FILE *f, int flag, const char *format, va_list ap)
{
    struct pt_call c;
    begin_stream(&c, PT_OP_FPRINTF, f, -1, PT_SIZE_NONE);
    return end_printed(&c, real_vfprintf_chk(f, flag, format, ap));
}

/* The variadic forms go on to the va_list forms, which the same libc exports. */
PT_HOOK_DECLARE(int, fprintf, FILE *, const char *, ...);
int hook_fprintf(FILE *f, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = hook_vfprintf(f, format, ap);
    va_end(ap);
    return n;
}

PT_HOOK_DECLARE(int, fprintf_chk, FILE *, int, const char *, ...);
int hook_fprintf_chk(FILE *f, int flag, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = hook_vfprintf_chk(f, flag, format, ap);
    va_end(ap);
    return n;
}

PT_HOOK_DECLARE(ssize_t, getdelim, char **, size_t *, int, FILE *);
ssize_t hook_getdelim(char **line, size_t *room, int delimiter, FILE *f)
{
    struct pt_call c;
    begin_stream(&c, PT_OP_GETLINE, f, -1, PT_SIZE_NONE);
    ssize_t n = real_getdelim(line, room, delimiter, f);
    pt_end_bytes(&c, n < 0 ? 0 : n); /* -1 is the usual end of the file */
    return n;
}

PT_HOOK_DECLARE(ssize_t, getline, char **, size_t *, FILE *);
ssize_t hook_getline(char **line, size_t *room, FILE *f)
{
    struct pt_call c;
    begin_stream(&c, PT_OP_GETLINE, f, -1, PT_SIZE_NONE);
    ssize_t n = real_getline(line, room, f);
    pt_end_bytes(&c, n < 0 ? 0 : n);
    return n;
}

static int end_seek(struct pt_call *c, FILE *f, int result)
{
    if (c->thread && c->record && result == 0)
        c->record->offset = ftello(f);
    return pt_end_int(c, result);
}

PT_HOOK_DECLARE(int, fseek, FILE *, long, int);
int hook_fseek(FILE *f, long at, int whence)
{
    struct pt_call c;
    begin_stream(&c, PT_OP_FSEEK, f, at, (uint64_t)(unsigned)whence);
    return end_seek(&c, f, real_fseek(f, at, whence));
}

PT_HOOK_DECLARE(int, fseeko, FILE *, off_t, int);
int hook_fseeko(FILE *f, off_t at, int whence)
{
    struct pt_call c;
    begin_stream(&c, PT_OP_FSEEK, f, at, (uint64_t)(unsigned)whence);
    return end_seek(&c, f, real_fseeko(f, at, whence));
}

PT_HOOK_DECLARE(void, rewind, FILE *);
void hook_rewind(FILE *f)
{
    struct pt_call c;
    begin_stream(&c, PT_OP_FSEEK, f, 0, SEEK_SET);
    real_rewind(f);
    pt_end_int(&c, 0);
}

PT_HOOK_DECLARE(int, fflush, FILE *);
int hook_fflush(FILE *f)
{
    if (!f)
        return real_fflush(f); /* all streams: each one's file is not told here */
    struct pt_call c;
    begin_stream(&c, PT_OP_FFLUSH, f, -1, PT_SIZE_NONE);
    return pt_end_int(&c, real_fflush(f));
}

PT_HOOK_DECLARE(int, fclose, FILE *);
int hook_fclose(FILE *f)
{
    struct pt_call c;
    struct pt_thread *t = pt_table_owner();
    int saved = errno;
    int fd = fileno(f);
    errno = saved;
    if (t && fd >= 0)
        pt_fd_identify_before_close(fd);
    pt_begin_fd(&c, PT_OP_FCLOSE, fd, -1, PT_SIZE_NONE);
    if (t && fd >= 0)
        pt_fd_forget(t, fd);
    return pt_end_int(&c, real_fclose(f));
}
