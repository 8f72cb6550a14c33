/* Hooks of the calls that move bytes, characters and lines through a C stream.
 *
 * Most are small and frequent, so they form series. */
#include "hooks/stdio.h"
#include "hooks/hooks.h"

#include <string.h>

/* clang-format off */

/* ---- blocks ------------------------------------------------------------------- */

static size_t end_items(struct pt_stream_call *c, FILE *f, size_t items, size_t requested, size_t size)
{
    pt_end_tiny(c, f, (int64_t)(items * size), items < requested && size);
    return items;
}

PT_TINY_HOOK(size_t, fread, (void *out, size_t size, size_t count, FILE *f),
             (out, size, count, f), FREAD, f, (uint64_t)size * count, end_items, count, size)
PT_TINY_HOOK(size_t, fread_chk, (void *out, size_t room, size_t size, size_t count, FILE *f),
             (out, room, size, count, f), FREAD, f, (uint64_t)size * count, end_items, count, size)
PT_TINY_HOOK(size_t, fread_unlocked, (void *out, size_t size, size_t count, FILE *f),
             (out, size, count, f), FREAD, f, (uint64_t)size * count, end_items, count, size)
PT_TINY_HOOK(size_t, fread_unlocked_chk, (void *out, size_t room, size_t size, size_t count, FILE *f),
             (out, room, size, count, f), FREAD, f, (uint64_t)size * count, end_items, count, size)
PT_TINY_HOOK(size_t, fwrite, (const void *data, size_t size, size_t count, FILE *f),
             (data, size, count, f), FWRITE, f, (uint64_t)size * count, end_items, count, size)
PT_TINY_HOOK(size_t, fwrite_unlocked, (const void *data, size_t size, size_t count, FILE *f),
             (data, size, count, f), FWRITE, f, (uint64_t)size * count, end_items, count, size)

/* ---- lines ---------------------------------------------------------------------- */

static uint64_t room_for(int n) { return n > 0 ? (uint64_t)n - 1 : 0; }

static char *end_line(struct pt_stream_call *c, FILE *f, char *line)
{
    pt_end_tiny(c, f, line ? (int64_t)strlen(line) : 0, !line);
    return line;
}

PT_TINY_HOOK(char *, fgets, (char *out, int n, FILE *f), (out, n, f), FGETS, f, room_for(n), end_line)
PT_TINY_HOOK(char *, fgets_chk, (char *out, size_t room, int n, FILE *f),
             (out, room, n, f), FGETS, f, room_for(n), end_line)
PT_TINY_HOOK(char *, fgets_unlocked, (char *out, int n, FILE *f), (out, n, f), FGETS, f, room_for(n), end_line)
PT_TINY_HOOK(char *, fgets_unlocked_chk, (char *out, size_t room, int n, FILE *f),
             (out, room, n, f), FGETS, f, room_for(n), end_line)

/* The newline that it removes is not reported: one byte may be missing. */
PT_TINY_HOOK(char *, gets, (char *out), (out), FGETS, stdin, PT_SIZE_NONE, end_line)
PT_TINY_HOOK(char *, gets_chk, (char *out, size_t room), (out, room), FGETS, stdin, PT_SIZE_NONE, end_line)

static ssize_t end_delimited(struct pt_stream_call *c, FILE *f, ssize_t n)
{
    pt_end_tiny(c, f, n < 0 ? 0 : n, n < 0);
    return n;
}

PT_TINY_HOOK(ssize_t, getdelim, (char **line, size_t *room, int delimiter, FILE *f),
             (line, room, delimiter, f), GETLINE, f, PT_SIZE_NONE, end_delimited)
PT_TINY_HOOK(ssize_t, getline, (char **line, size_t *room, FILE *f),
             (line, room, f), GETLINE, f, PT_SIZE_NONE, end_delimited)

/* From BSD, in musl: returns a line that belongs to the stream. */
PT_HOOK_DECLARE(char *, fgetln, FILE *, size_t *);
char *hook_fgetln(FILE *f, size_t *length)
{
    struct pt_stream_call c;
    pt_begin_tiny(&c, PT_OP_GETLINE, f, PT_SIZE_NONE);
    char *line = real_fgetln(f, length);
    pt_end_tiny(&c, f, line ? (int64_t)*length : 0, !line);
    return line;
}

PT_PUT_HOOK(fputs, (const char *text, FILE *f), (text, f), FPUTS, f, strlen(text))
PT_PUT_HOOK(fputs_unlocked, (const char *text, FILE *f), (text, f), FPUTS, f, strlen(text))
PT_PUT_HOOK(puts, (const char *text), (text), PUTS, stdout, strlen(text) + 1)

/* ---- characters --------------------------------------------------------------------- */

static int end_character(struct pt_stream_call *c, FILE *f, int character)
{
    pt_end_tiny(c, f, character == EOF ? 0 : 1, character == EOF);
    return character;
}

PT_TINY_HOOK(int, fgetc, (FILE *f), (f), FGETC, f, 1, end_character)
PT_TINY_HOOK(int, getc_unlocked, (FILE *f), (f), FGETC, f, 1, end_character)
PT_TINY_HOOK(int, getchar, (void), (), FGETC, stdin, 1, end_character)
PT_TINY_HOOK(int, getchar_unlocked, (void), (), FGETC, stdin, 1, end_character)
PT_TINY_HOOK(int, fputc, (int character, FILE *f), (character, f), FPUTC, f, 1, end_character)
PT_TINY_HOOK(int, putc_unlocked, (int character, FILE *f), (character, f), FPUTC, f, 1, end_character)
PT_TINY_HOOK(int, putchar, (int character), (character), FPUTC, stdout, 1, end_character)
PT_TINY_HOOK(int, putchar_unlocked, (int character), (character), FPUTC, stdout, 1, end_character)

/* Returns words, and -1 is a word: only the stream knows whether it was the end. */
PT_HOOK_DECLARE(int, getw, FILE *);
int hook_getw(FILE *f)
{
    struct pt_stream_call c;
    pt_begin_tiny(&c, PT_OP_FREAD, f, sizeof(int));
    int word = real_getw(f);
    bool ended = word == EOF && (feof_unlocked(f) || (ferror_unlocked(f) && errno));
    pt_end_tiny(&c, f, ended ? 0 : (int64_t)sizeof(int), ended);
    return word;
}

PT_HOOK_DECLARE(int, putw, int, FILE *);
int hook_putw(int word, FILE *f)
{
    struct pt_stream_call c;
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
    struct pt_stream_call c;
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
    struct pt_stream_call c;
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
