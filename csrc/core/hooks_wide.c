/* Hooks of C streams of wide characters.
 *
 * Bytes are counted as UTF-8, whatever the stream's encoding, as they are for
 * Python's text files; fwprintf tells only how many characters it printed. */
#include "streams.h"

#include <stdarg.h>
#include <wchar.h>

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

static wint_t end_character(struct pt_run_call *c, FILE *f, wint_t ch)
{
    pt_end_tiny(c, f, ch == WEOF ? 0 : bytes_of(ch), ch == WEOF);
    return ch;
}

PT_HOOK_DECLARE(wint_t, fgetwc, FILE *);
wint_t hook_fgetwc(FILE *f)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FGETWC, f, PT_SIZE_NONE);
    return end_character(&c, f, real_fgetwc(f));
}

PT_HOOK_DECLARE(wint_t, getwchar, void);
wint_t hook_getwchar(void)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FGETWC, stdin, PT_SIZE_NONE);
    return end_character(&c, stdin, real_getwchar());
}

PT_HOOK_DECLARE(wint_t, fputwc, wchar_t, FILE *);
wint_t hook_fputwc(wchar_t ch, FILE *f)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FPUTWC, f, PT_SIZE_NONE);
    return end_character(&c, f, real_fputwc(ch, f));
}

PT_HOOK_DECLARE(wint_t, putwchar, wchar_t);
wint_t hook_putwchar(wchar_t ch)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FPUTWC, stdout, PT_SIZE_NONE);
    return end_character(&c, stdout, real_putwchar(ch));
}

PT_HOOK_DECLARE(wint_t, fgetwc_unlocked, FILE *);
wint_t hook_fgetwc_unlocked(FILE *f)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FGETWC, f, PT_SIZE_NONE);
    return end_character(&c, f, real_fgetwc_unlocked(f));
}

PT_HOOK_DECLARE(wint_t, getwchar_unlocked, void);
wint_t hook_getwchar_unlocked(void)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FGETWC, stdin, PT_SIZE_NONE);
    return end_character(&c, stdin, real_getwchar_unlocked());
}

PT_HOOK_DECLARE(wint_t, fputwc_unlocked, wchar_t, FILE *);
wint_t hook_fputwc_unlocked(wchar_t ch, FILE *f)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FPUTWC, f, PT_SIZE_NONE);
    return end_character(&c, f, real_fputwc_unlocked(ch, f));
}

PT_HOOK_DECLARE(wint_t, putwchar_unlocked, wchar_t);
wint_t hook_putwchar_unlocked(wchar_t ch)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FPUTWC, stdout, PT_SIZE_NONE);
    return end_character(&c, stdout, real_putwchar_unlocked(ch));
}

/* ---- lines ------------------------------------------------------------------------ */

static wchar_t *end_line(struct pt_run_call *c, FILE *f, wchar_t *line)
{
    pt_end_tiny(c, f, line ? (int64_t)text_bytes(line) : 0, !line);
    return line;
}

PT_HOOK_DECLARE(wchar_t *, fgetws, wchar_t *, int, FILE *);
wchar_t * hook_fgetws(wchar_t *out, int n, FILE *f)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FGETWS, f, PT_SIZE_NONE);
    return end_line(&c, f, real_fgetws(out, n, f));
}

PT_HOOK_DECLARE(wchar_t *, fgetws_chk, wchar_t *, size_t, int, FILE *);
wchar_t * hook_fgetws_chk(wchar_t *out, size_t room, int n, FILE *f)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FGETWS, f, PT_SIZE_NONE);
    return end_line(&c, f, real_fgetws_chk(out, room, n, f));
}

PT_HOOK_DECLARE(wchar_t *, fgetws_unlocked, wchar_t *, int, FILE *);
wchar_t * hook_fgetws_unlocked(wchar_t *out, int n, FILE *f)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FGETWS, f, PT_SIZE_NONE);
    return end_line(&c, f, real_fgetws_unlocked(out, n, f));
}

PT_HOOK_DECLARE(wchar_t *, fgetws_unlocked_chk, wchar_t *, size_t, int, FILE *);
wchar_t * hook_fgetws_unlocked_chk(wchar_t *out, size_t room, int n, FILE *f)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FGETWS, f, PT_SIZE_NONE);
    return end_line(&c, f, real_fgetws_unlocked_chk(out, room, n, f));
}

PT_HOOK_DECLARE(int, fputws, const wchar_t *, FILE *);
int hook_fputws(const wchar_t *text, FILE *f)
{
    struct pt_run_call c;
    uint64_t n = text_bytes(text);
    pt_begin_tiny(&c, PT_OP_FPUTWS, f, n);
    int result = real_fputws(text, f);
    pt_run_end(&c, result < 0 ? 0 : (int64_t)n, result < 0 ? errno : 0);
    return result;
}

PT_HOOK_DECLARE(int, fputws_unlocked, const wchar_t *, FILE *);
int hook_fputws_unlocked(const wchar_t *text, FILE *f)
{
    struct pt_run_call c;
    uint64_t n = text_bytes(text);
    pt_begin_tiny(&c, PT_OP_FPUTWS, f, n);
    int result = real_fputws_unlocked(text, f);
    pt_run_end(&c, result < 0 ? 0 : (int64_t)n, result < 0 ? errno : 0);
    return result;
}

/* ---- by a format: through the va_list forms, as in hooks_printf.c ------------------------ */

PT_HOOK_DECLARE(int, vfwprintf, FILE *, const wchar_t *, va_list);
int hook_vfwprintf(FILE *f, const wchar_t *format, va_list ap)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FWPRINTF, f, PT_SIZE_NONE);
    return pt_end_printed(&c, real_vfwprintf(f, format, ap));
}

PT_HOOK_DECLARE(int, fwprintf, FILE *, const wchar_t *, ...);
int hook_fwprintf(FILE *f, const wchar_t *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = hook_vfwprintf(f, format, ap);
    va_end(ap);
    return n;
}

PT_HOOK_DECLARE(int, vfwprintf_chk, FILE *, int, const wchar_t *, va_list);
int hook_vfwprintf_chk(FILE *f, int flag, const wchar_t *format, va_list ap)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FWPRINTF, f, PT_SIZE_NONE);
    return pt_end_printed(&c, real_vfwprintf_chk(f, flag, format, ap));
}

PT_HOOK_DECLARE(int, fwprintf_chk, FILE *, int, const wchar_t *, ...);
int hook_fwprintf_chk(FILE *f, int flag, const wchar_t *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = hook_vfwprintf_chk(f, flag, format, ap);
    va_end(ap);
    return n;
}

PT_HOOK_DECLARE(int, vwprintf, const wchar_t *, va_list);
int hook_vwprintf(const wchar_t *format, va_list ap)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FWPRINTF, stdout, PT_SIZE_NONE);
    return pt_end_printed(&c, real_vwprintf(format, ap));
}

PT_HOOK_DECLARE(int, wprintf, const wchar_t *, ...);
int hook_wprintf(const wchar_t *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = hook_vwprintf(format, ap);
    va_end(ap);
    return n;
}

PT_HOOK_DECLARE(int, vwprintf_chk, int, const wchar_t *, va_list);
int hook_vwprintf_chk(int flag, const wchar_t *format, va_list ap)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FWPRINTF, stdout, PT_SIZE_NONE);
    return pt_end_printed(&c, real_vwprintf_chk(flag, format, ap));
}

PT_HOOK_DECLARE(int, wprintf_chk, int, const wchar_t *, ...);
int hook_wprintf_chk(int flag, const wchar_t *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = hook_vwprintf_chk(flag, format, ap);
    va_end(ap);
    return n;
}
