/* Hooks of the calls that move bytes, characters and lines through a C stream.
 *
 * Little and often is their way, so like ones make one record of a run. */
#include "streams.h"

#include <string.h>

/* ---- blocks ------------------------------------------------------------------- */

static size_t end_items(struct pt_run_call *c, FILE *f, size_t items, size_t asked, size_t size)
{
    pt_end_tiny(c, f, (int64_t)(items * size), items < asked);
    return items;
}

PT_HOOK_DECLARE(size_t, fread, void *, size_t, size_t, FILE *);
size_t hook_fread(void *out, size_t size, size_t count, FILE *f)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FREAD, f, (uint64_t)size * count);
    return end_items(&c, f, real_fread(out, size, count, f), count, size);
}

PT_HOOK_DECLARE(size_t, fread_chk, void *, size_t, size_t, size_t, FILE *);
size_t hook_fread_chk(void *out, size_t room, size_t size, size_t count, FILE *f)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FREAD, f, (uint64_t)size * count);
    return end_items(&c, f, real_fread_chk(out, room, size, count, f), count, size);
}

PT_HOOK_DECLARE(size_t, fread_unlocked, void *, size_t, size_t, FILE *);
size_t hook_fread_unlocked(void *out, size_t size, size_t count, FILE *f)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FREAD, f, (uint64_t)size * count);
    return end_items(&c, f, real_fread_unlocked(out, size, count, f), count, size);
}

PT_HOOK_DECLARE(size_t, fread_unlocked_chk, void *, size_t, size_t, size_t, FILE *);
size_t hook_fread_unlocked_chk(void *out, size_t room, size_t size, size_t count, FILE *f)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FREAD, f, (uint64_t)size * count);
    return end_items(&c, f, real_fread_unlocked_chk(out, room, size, count, f), count, size);
}

PT_HOOK_DECLARE(size_t, fwrite, const void *, size_t, size_t, FILE *);
size_t hook_fwrite(const void *data, size_t size, size_t count, FILE *f)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FWRITE, f, (uint64_t)size * count);
    return end_items(&c, f, real_fwrite(data, size, count, f), count, size);
}

PT_HOOK_DECLARE(size_t, fwrite_unlocked, const void *, size_t, size_t, FILE *);
size_t hook_fwrite_unlocked(const void *data, size_t size, size_t count, FILE *f)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FWRITE, f, (uint64_t)size * count);
    return end_items(&c, f, real_fwrite_unlocked(data, size, count, f), count, size);
}

/* ---- lines ---------------------------------------------------------------------- */

static uint64_t room_for(int n) { return n > 0 ? (uint64_t)n - 1 : 0; }

static char *end_line(struct pt_run_call *c, FILE *f, char *line)
{
    pt_end_tiny(c, f, line ? (int64_t)strlen(line) : 0, !line);
    return line;
}

PT_HOOK_DECLARE(char *, fgets, char *, int, FILE *);
char *hook_fgets(char *out, int n, FILE *f)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FGETS, f, room_for(n));
    return end_line(&c, f, real_fgets(out, n, f));
}

PT_HOOK_DECLARE(char *, fgets_chk, char *, size_t, int, FILE *);
char *hook_fgets_chk(char *out, size_t room, int n, FILE *f)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FGETS, f, room_for(n));
    return end_line(&c, f, real_fgets_chk(out, room, n, f));
}

PT_HOOK_DECLARE(char *, fgets_unlocked, char *, int, FILE *);
char *hook_fgets_unlocked(char *out, int n, FILE *f)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FGETS, f, room_for(n));
    return end_line(&c, f, real_fgets_unlocked(out, n, f));
}

PT_HOOK_DECLARE(char *, fgets_unlocked_chk, char *, size_t, int, FILE *);
char *hook_fgets_unlocked_chk(char *out, size_t room, int n, FILE *f)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FGETS, f, room_for(n));
    return end_line(&c, f, real_fgets_unlocked_chk(out, room, n, f));
}

/* The end of the line it takes away is not told: one byte that may be missing. */
PT_HOOK_DECLARE(char *, gets, char *);
char *hook_gets(char *out)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FGETS, stdin, PT_SIZE_NONE);
    return end_line(&c, stdin, real_gets(out));
}

PT_HOOK_DECLARE(char *, gets_chk, char *, size_t);
char *hook_gets_chk(char *out, size_t room)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FGETS, stdin, PT_SIZE_NONE);
    return end_line(&c, stdin, real_gets_chk(out, room));
}

PT_HOOK_DECLARE(ssize_t, getdelim, char **, size_t *, int, FILE *);
ssize_t hook_getdelim(char **line, size_t *room, int delimiter, FILE *f)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_GETLINE, f, PT_SIZE_NONE);
    ssize_t n = real_getdelim(line, room, delimiter, f);
    pt_end_tiny(&c, f, n < 0 ? 0 : n, n < 0);
    return n;
}

PT_HOOK_DECLARE(ssize_t, getline, char **, size_t *, FILE *);
ssize_t hook_getline(char **line, size_t *room, FILE *f)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_GETLINE, f, PT_SIZE_NONE);
    ssize_t n = real_getline(line, room, f);
    pt_end_tiny(&c, f, n < 0 ? 0 : n, n < 0);
    return n;
}

/* BSD's, in musl: a line that belongs to the stream. */
PT_HOOK_DECLARE(char *, fgetln, FILE *, size_t *);
char *hook_fgetln(FILE *f, size_t *length)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_GETLINE, f, PT_SIZE_NONE);
    char *line = real_fgetln(f, length);
    pt_end_tiny(&c, f, line ? (int64_t)*length : 0, !line);
    return line;
}

PT_HOOK_DECLARE(int, fputs, const char *, FILE *);
int hook_fputs(const char *text, FILE *f)
{
    struct pt_run_call c;
    size_t n = strlen(text);
    pt_begin_tiny(&c, PT_OP_FPUTS, f, n);
    int result = real_fputs(text, f);
    pt_run_end(&c, result < 0 ? 0 : (int64_t)n, result < 0 ? errno : 0);
    return result;
}

PT_HOOK_DECLARE(int, fputs_unlocked, const char *, FILE *);
int hook_fputs_unlocked(const char *text, FILE *f)
{
    struct pt_run_call c;
    size_t n = strlen(text);
    pt_begin_tiny(&c, PT_OP_FPUTS, f, n);
    int result = real_fputs_unlocked(text, f);
    pt_run_end(&c, result < 0 ? 0 : (int64_t)n, result < 0 ? errno : 0);
    return result;
}

PT_HOOK_DECLARE(int, puts, const char *);
int hook_puts(const char *text)
{
    struct pt_run_call c;
    size_t n = strlen(text) + 1;
    pt_begin_tiny(&c, PT_OP_PUTS, stdout, n);
    int result = real_puts(text);
    pt_run_end(&c, result < 0 ? 0 : (int64_t)n, result < 0 ? errno : 0);
    return result;
}

/* ---- characters --------------------------------------------------------------------- */

static int end_character(struct pt_run_call *c, FILE *f, int character)
{
    pt_end_tiny(c, f, character == EOF ? 0 : 1, character == EOF);
    return character;
}

PT_HOOK_DECLARE(int, fgetc, FILE *);
int hook_fgetc(FILE *f)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FGETC, f, 1);
    return end_character(&c, f, real_fgetc(f));
}

PT_HOOK_DECLARE(int, getc_unlocked, FILE *);
int hook_getc_unlocked(FILE *f)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FGETC, f, 1);
    return end_character(&c, f, real_getc_unlocked(f));
}

PT_HOOK_DECLARE(int, getchar, void);
int hook_getchar(void)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FGETC, stdin, 1);
    return end_character(&c, stdin, real_getchar());
}

PT_HOOK_DECLARE(int, getchar_unlocked, void);
int hook_getchar_unlocked(void)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FGETC, stdin, 1);
    return end_character(&c, stdin, real_getchar_unlocked());
}

PT_HOOK_DECLARE(int, fputc, int, FILE *);
int hook_fputc(int character, FILE *f)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FPUTC, f, 1);
    return end_character(&c, f, real_fputc(character, f));
}

PT_HOOK_DECLARE(int, putc_unlocked, int, FILE *);
int hook_putc_unlocked(int character, FILE *f)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FPUTC, f, 1);
    return end_character(&c, f, real_putc_unlocked(character, f));
}

PT_HOOK_DECLARE(int, putchar, int);
int hook_putchar(int character)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FPUTC, stdout, 1);
    return end_character(&c, stdout, real_putchar(character));
}

PT_HOOK_DECLARE(int, putchar_unlocked, int);
int hook_putchar_unlocked(int character)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FPUTC, stdout, 1);
    return end_character(&c, stdout, real_putchar_unlocked(character));
}

/* Words: -1 is one too, so only the stream knows whether it was the end. */
PT_HOOK_DECLARE(int, getw, FILE *);
int hook_getw(FILE *f)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FREAD, f, sizeof(int));
    int word = real_getw(f);
    bool ended = word == EOF && (feof_unlocked(f) || ferror_unlocked(f));
    pt_end_tiny(&c, f, ended ? 0 : (int64_t)sizeof(int), ended);
    return word;
}

PT_HOOK_DECLARE(int, putw, int, FILE *);
int hook_putw(int word, FILE *f)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FWRITE, f, sizeof(int));
    int result = real_putw(word, f);
    pt_end_tiny(&c, f, result ? 0 : (int64_t)sizeof(int), result != 0);
    return result;
}

/* ---- where glibc's header has getc_unlocked and putc_unlocked inline ------------------ *
 * They take from the buffer themselves, and call only when it is empty or full:
 * a row a buffer, whose bytes are what was fetched into it, or what left it. */

PT_HOOK_DECLARE(int, uflow, FILE *);
int hook_uflow(FILE *f)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_UFLOW, f, PT_SIZE_NONE);
    int character = real_uflow(f);
    int64_t fetched = character == EOF ? 0 : 1;
#if defined(__GLIBC__)
    if (character != EOF)
        fetched += f->_IO_read_end - f->_IO_read_ptr;
#endif
    pt_end_tiny(&c, f, fetched, character == EOF);
    return character;
}

PT_HOOK_DECLARE(int, overflow, FILE *, int);
int hook_overflow(FILE *f, int character)
{
    struct pt_run_call c;
    int64_t left = character == EOF ? 0 : 1;
    pt_begin_tiny(&c, PT_OP_OVERFLOW, f, PT_SIZE_NONE);
#if defined(__GLIBC__)
    left += f->_IO_write_ptr - f->_IO_write_base;
#endif
    int result = real_overflow(f, character);
#if defined(__GLIBC__)
    left -= f->_IO_write_ptr - f->_IO_write_base;
#endif
    pt_end_tiny(&c, f, result == EOF || left < 0 ? 0 : left, result == EOF);
    return result;
}
