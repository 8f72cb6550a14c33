/* Hooks of wide-character streams.
 *
 * Bytes are counted as UTF-8, whatever the encoding of the stream, as for Python's text files; fwprintf tells only
 * the number of characters. */
#include "hooks/stdio.h"
#include "hooks/hooks.h"

#include <wchar.h>

/* clang-format off */

static int64_t bytes_of(wint_t ch)
{
    return ch < 0x80 ? 1 : ch < 0x800 ? 2 : ch < 0x10000 ? 3 : 4;
}

static uint64_t text_bytes(const wchar_t *text)
{
    uint64_t bytes = 0;
    for (; *text; text++)
        bytes += (uint64_t)bytes_of((wint_t)*text);
    return bytes;
}

/* ---- characters ----------------------------------------------------------------- */

static wint_t end_character(struct pt_stream_call *c, FILE *f, wint_t ch)
{
    pt_end_tiny(c, f, ch == WEOF ? 0 : bytes_of(ch), ch == WEOF);
    return ch;
}

PT_TINY_HOOK(wint_t, fgetwc, (FILE *f), (f), FGETWC, f, PT_SIZE_NONE, end_character)
PT_TINY_HOOK(wint_t, getwchar, (void), (), FGETWC, stdin, PT_SIZE_NONE, end_character)
PT_TINY_HOOK(wint_t, fputwc, (wchar_t ch, FILE *f), (ch, f), FPUTWC, f, PT_SIZE_NONE, end_character)
PT_TINY_HOOK(wint_t, putwchar, (wchar_t ch), (ch), FPUTWC, stdout, PT_SIZE_NONE, end_character)
PT_TINY_HOOK(wint_t, fgetwc_unlocked, (FILE *f), (f), FGETWC, f, PT_SIZE_NONE, end_character)
PT_TINY_HOOK(wint_t, getwchar_unlocked, (void), (), FGETWC, stdin, PT_SIZE_NONE, end_character)
PT_TINY_HOOK(wint_t, fputwc_unlocked, (wchar_t ch, FILE *f), (ch, f), FPUTWC, f, PT_SIZE_NONE, end_character)
PT_TINY_HOOK(wint_t, putwchar_unlocked, (wchar_t ch), (ch), FPUTWC, stdout, PT_SIZE_NONE, end_character)

/* ---- lines ------------------------------------------------------------------------ */

static wchar_t *end_line(struct pt_stream_call *c, FILE *f, wchar_t *line)
{
    pt_end_tiny(c, f, line ? (int64_t)text_bytes(line) : 0, !line);
    return line;
}

PT_TINY_HOOK(wchar_t *, fgetws, (wchar_t *out, int n, FILE *f), (out, n, f), FGETWS, f, PT_SIZE_NONE, end_line)
PT_TINY_HOOK(wchar_t *, fgetws_chk, (wchar_t *out, size_t room, int n, FILE *f),
             (out, room, n, f), FGETWS, f, PT_SIZE_NONE, end_line)
PT_TINY_HOOK(wchar_t *, fgetws_unlocked, (wchar_t *out, int n, FILE *f), (out, n, f), FGETWS, f, PT_SIZE_NONE, end_line)
PT_TINY_HOOK(wchar_t *, fgetws_unlocked_chk, (wchar_t *out, size_t room, int n, FILE *f),
             (out, room, n, f), FGETWS, f, PT_SIZE_NONE, end_line)

PT_PUT_HOOK(fputws, (const wchar_t *text, FILE *f), (text, f), FPUTWS, f, text_bytes(text))
PT_PUT_HOOK(fputws_unlocked, (const wchar_t *text, FILE *f), (text, f), FPUTWS, f, text_bytes(text))

/* ---- by a format: through the va_list forms, as in hooks/stdio_printf.c ------------------------ */

PT_TINY_HOOK(int, vfwprintf, (FILE *f, const wchar_t *format, va_list ap),
             (f, format, ap), FWPRINTF, f, PT_SIZE_NONE, pt_end_printed)
PT_THROUGH_HOOK(int, fwprintf, (FILE *f, const wchar_t *format, ...), vfwprintf, (f, format, ap))
PT_TINY_HOOK(int, vfwprintf_chk, (FILE *f, int flag, const wchar_t *format, va_list ap),
             (f, flag, format, ap), FWPRINTF, f, PT_SIZE_NONE, pt_end_printed)
PT_THROUGH_HOOK(int, fwprintf_chk, (FILE *f, int flag, const wchar_t *format, ...),
                vfwprintf_chk, (f, flag, format, ap))
PT_TINY_HOOK(int, vwprintf, (const wchar_t *format, va_list ap),
             (format, ap), FWPRINTF, stdout, PT_SIZE_NONE, pt_end_printed)
PT_THROUGH_HOOK(int, wprintf, (const wchar_t *format, ...), vwprintf, (format, ap))
PT_TINY_HOOK(int, vwprintf_chk, (int flag, const wchar_t *format, va_list ap),
             (flag, format, ap), FWPRINTF, stdout, PT_SIZE_NONE, pt_end_printed)
PT_THROUGH_HOOK(int, wprintf_chk, (int flag, const wchar_t *format, ...), vwprintf_chk, (flag, format, ap))
