/* Hooks of C streams (layer stdio): opening, closing, seeking, buffering.
 *
 * libc's own system calls beneath a stream go through no table, so these records stand for them: docs/explanation/limits.md. */
#include "hooks/stdio.h"
#include "hooks/hooks.h"

#include <fcntl.h>
#include <string.h>

static uint32_t flags_of(const char *mode)
{
    size_t length = strcspn(mode, ","); /* the name of a character set follows */
    uint32_t update = memchr(mode, '+', length) ? O_RDWR : 0, only_new = memchr(mode, 'x', length) ? O_EXCL : 0;
    switch (mode[0]) {
    case 'w': return O_CREAT | O_TRUNC | only_new | (update ? update : O_WRONLY);
    case 'a': return O_CREAT | O_APPEND | only_new | (update ? update : O_WRONLY);
    default: return update;
    }
}

/* ---- opening ------------------------------------------------------------------ */

PT_HOOK_DECLARE(FILE *, fopen, const char *, const char *);
FILE *hook_fopen(const char *path, const char *mode)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_FOPEN, path, flags_of(mode));
    FILE *f = real_fopen(path, mode);
    pt_end_open(&c, f ? fileno(f) : -1);
    return f;
}

/* The descriptor of the stream is closed in any case; the new one may have the same number. */
PT_HOOK_DECLARE(FILE *, freopen, const char *, const char *, FILE *);
FILE *hook_freopen(const char *path, const char *mode, FILE *stream)
{
    struct pt_call c;
    struct pt_thread *t = pt_table_owner();
    int before = pt_stream_fd(stream);
    if (t && before >= 0)
        pt_fd_identify_before_close(before);
    pt_begin_path(&c, PT_OP_FREOPEN, path, flags_of(mode));
    if (!path && c.thread && c.record) /* the same file in another mode */
        c.record->desc = pt_desc_path(pt_entry_id(pt_fd_peek(before)));
    if (t) {
        pt_series_break(t, stream);
        pt_fd_forget(t, before);
    }
    FILE *f = real_freopen(path, mode, stream);
    pt_end_open(&c, f ? fileno(f) : -1);
    return f;
}

/* A file without a name: uses the kernel's name for it. */
PT_HOOK_DECLARE(FILE *, tmpfile, void);
FILE *hook_tmpfile(void)
{
    struct pt_call c;
    pt_begin_path(&c, PT_OP_TMPFILE, NULL, O_CREAT | O_EXCL | O_RDWR);
    FILE *f = real_tmpfile();
    pt_end_open_unnamed_slow(&c, f ? fileno(f) : -1);
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

/* ---- the position --------------------------------------------------------------- */

static int end_seek(struct pt_call *c, FILE *f, int result)
{
    if (c->thread && c->record && result == 0) {
        int saved = errno;
        c->record->offset = ftello(f);
        errno = saved;
    }
    return pt_end_int(c, result);
}

PT_HOOK_DECLARE(int, fseek, FILE *, long, int);
int hook_fseek(FILE *f, long at, int whence)
{
    struct pt_call c;
    pt_begin_stream(&c, PT_OP_FSEEK, f, at, (uint64_t)(unsigned)whence);
    return end_seek(&c, f, real_fseek(f, at, whence));
}

PT_HOOK_DECLARE(int, fseeko, FILE *, off_t, int);
int hook_fseeko(FILE *f, off_t at, int whence)
{
    struct pt_call c;
    pt_begin_stream(&c, PT_OP_FSEEK, f, at, (uint64_t)(unsigned)whence);
    return end_seek(&c, f, real_fseeko(f, at, whence));
}

PT_HOOK_DECLARE(void, rewind, FILE *);
void hook_rewind(FILE *f)
{
    struct pt_call c;
    pt_begin_stream(&c, PT_OP_FSEEK, f, 0, SEEK_SET);
    real_rewind(f);
    pt_end_int(&c, 0);
}

PT_HOOK_DECLARE(int, fsetpos, FILE *, const fpos_t *);
int hook_fsetpos(FILE *f, const fpos_t *at)
{
    struct pt_call c;
    pt_begin_stream(&c, PT_OP_FSEEK, f, -1, SEEK_SET);
    return end_seek(&c, f, real_fsetpos(f, at));
}

/* Asking for the position changes nothing, so it does not end a series. */
static int64_t end_tell(struct pt_call *c, int64_t at)
{
    if (c->thread && c->record && at >= 0)
        c->record->offset = at;
    pt_end_int(c, at < 0 ? -1 : 0);
    return at;
}

static void begin_tell(struct pt_call *c, FILE *f)
{
    int fd = pt_stream_fd(f);
    c->thread = NULL;
    if (fd >= 0)
        pt_begin_fd(c, PT_OP_FTELL, fd, -1, SEEK_CUR);
    else
        c->left_out = pt_no_file();
}

PT_HOOK_DECLARE(long, ftell, FILE *);
long hook_ftell(FILE *f)
{
    struct pt_call c;
    begin_tell(&c, f);
    return (long)end_tell(&c, real_ftell(f));
}

PT_HOOK_DECLARE(off_t, ftello, FILE *);
off_t hook_ftello(FILE *f)
{
    struct pt_call c;
    begin_tell(&c, f);
    return end_tell(&c, real_ftello(f));
}

PT_HOOK_DECLARE(int, fgetpos, FILE *, fpos_t *);
int hook_fgetpos(FILE *f, fpos_t *at)
{
    struct pt_call c;
    begin_tell(&c, f);
    return (int)end_tell(&c, real_fgetpos(f, at));
}

/* ---- the buffer, and the end ------------------------------------------------------ */

/* NULL: all streams. */
static void begin_flush(struct pt_call *c, FILE *f)
{
    if (f)
        pt_begin_stream(c, PT_OP_FFLUSH, f, -1, PT_SIZE_NONE);
    else
        pt_begin_pathless(c, PT_OP_FFLUSH);
}

PT_HOOK_DECLARE(int, fflush, FILE *);
int hook_fflush(FILE *f)
{
    struct pt_call c;
    begin_flush(&c, f);
    return pt_end_int(&c, real_fflush(f));
}

PT_HOOK_DECLARE(int, fflush_unlocked, FILE *);
int hook_fflush_unlocked(FILE *f)
{
    struct pt_call c;
    begin_flush(&c, f);
    return pt_end_int(&c, real_fflush_unlocked(f));
}

PT_HOOK_DECLARE(int, flush_all, void);
int hook_flush_all(void)
{
    struct pt_call c;
    begin_flush(&c, NULL);
    return pt_end_int(&c, real_flush_all());
}

PT_HOOK_DECLARE(void, flush_lines, void);
void hook_flush_lines(void)
{
    struct pt_call c;
    begin_flush(&c, NULL);
    real_flush_lines();
    pt_end_int(&c, 0);
}

/* Flushes all streams and makes them unbuffered; their descriptors stay open. */
PT_HOOK_DECLARE(int, fcloseall, void);
int hook_fcloseall(void)
{
    struct pt_call c;
    pt_begin_pathless(&c, PT_OP_FCLOSEALL);
    return pt_end_int(&c, real_fcloseall());
}

PT_HOOK_DECLARE(int, fclose, FILE *);
int hook_fclose(FILE *f)
{
    struct pt_call c;
    struct pt_thread *t = pt_table_owner();
    int fd = pt_stream_fd(f);
    if (t && fd >= 0)
        pt_fd_identify_before_close(fd);
    pt_begin_stream(&c, PT_OP_FCLOSE, f, -1, PT_SIZE_NONE);
    if (t && fd >= 0)
        pt_fd_forget(t, fd);
    return pt_end_int(&c, real_fclose(f));
}
