/* Hooks of formatted input.
 *
 * libc does not tell how many bytes these calls take, so their rows have none.  Each of the three dialects (what %as
 * and 0b10 mean) has its own functions.  The variadic forms call the va_list forms, as in hooks/stdio_printf.c. */
#include "hooks/stdio.h"

#include <wchar.h>

/* clang-format off */

static int end_scanned(struct pt_stream_call *c, FILE *f, int fields)
{
    pt_end_tiny(c, f, -1, fields == EOF);
    return fields;
}

/* ---- characters -------------------------------------------------------- */

PT_TINY_HOOK(int, vfscanf, (FILE *f, const char *format, va_list ap),
             (f, format, ap), FSCANF, f, PT_SIZE_NONE, end_scanned)
PT_TINY_HOOK(int, vscanf, (const char *format, va_list ap), (format, ap), SCANF, stdin, PT_SIZE_NONE, end_scanned)
PT_THROUGH_HOOK(int, fscanf, (FILE *f, const char *format, ...), vfscanf, (f, format, ap))
PT_THROUGH_HOOK(int, scanf, (const char *format, ...), vscanf, (format, ap))

PT_TINY_HOOK(int, isoc99_vfscanf, (FILE *f, const char *format, va_list ap),
             (f, format, ap), FSCANF, f, PT_SIZE_NONE, end_scanned)
PT_TINY_HOOK(int, isoc99_vscanf, (const char *format, va_list ap),
             (format, ap), SCANF, stdin, PT_SIZE_NONE, end_scanned)
PT_THROUGH_HOOK(int, isoc99_fscanf, (FILE *f, const char *format, ...), isoc99_vfscanf, (f, format, ap))
PT_THROUGH_HOOK(int, isoc99_scanf, (const char *format, ...), isoc99_vscanf, (format, ap))

PT_TINY_HOOK(int, isoc23_vfscanf, (FILE *f, const char *format, va_list ap),
             (f, format, ap), FSCANF, f, PT_SIZE_NONE, end_scanned)
PT_TINY_HOOK(int, isoc23_vscanf, (const char *format, va_list ap),
             (format, ap), SCANF, stdin, PT_SIZE_NONE, end_scanned)
PT_THROUGH_HOOK(int, isoc23_fscanf, (FILE *f, const char *format, ...), isoc23_vfscanf, (f, format, ap))
PT_THROUGH_HOOK(int, isoc23_scanf, (const char *format, ...), isoc23_vscanf, (format, ap))

/* ---- wide characters -------------------------------------------------------- */

PT_TINY_HOOK(int, vfwscanf, (FILE *f, const wchar_t *format, va_list ap),
             (f, format, ap), FWSCANF, f, PT_SIZE_NONE, end_scanned)
PT_TINY_HOOK(int, vwscanf, (const wchar_t *format, va_list ap), (format, ap), FWSCANF, stdin, PT_SIZE_NONE, end_scanned)
PT_THROUGH_HOOK(int, fwscanf, (FILE *f, const wchar_t *format, ...), vfwscanf, (f, format, ap))
PT_THROUGH_HOOK(int, wscanf, (const wchar_t *format, ...), vwscanf, (format, ap))

PT_TINY_HOOK(int, isoc99_vfwscanf, (FILE *f, const wchar_t *format, va_list ap),
             (f, format, ap), FWSCANF, f, PT_SIZE_NONE, end_scanned)
PT_TINY_HOOK(int, isoc99_vwscanf, (const wchar_t *format, va_list ap),
             (format, ap), FWSCANF, stdin, PT_SIZE_NONE, end_scanned)
PT_THROUGH_HOOK(int, isoc99_fwscanf, (FILE *f, const wchar_t *format, ...), isoc99_vfwscanf, (f, format, ap))
PT_THROUGH_HOOK(int, isoc99_wscanf, (const wchar_t *format, ...), isoc99_vwscanf, (format, ap))

PT_TINY_HOOK(int, isoc23_vfwscanf, (FILE *f, const wchar_t *format, va_list ap),
             (f, format, ap), FWSCANF, f, PT_SIZE_NONE, end_scanned)
PT_TINY_HOOK(int, isoc23_vwscanf, (const wchar_t *format, va_list ap),
             (format, ap), FWSCANF, stdin, PT_SIZE_NONE, end_scanned)
PT_THROUGH_HOOK(int, isoc23_fwscanf, (FILE *f, const wchar_t *format, ...), isoc23_vfwscanf, (f, format, ap))
PT_THROUGH_HOOK(int, isoc23_wscanf, (const wchar_t *format, ...), isoc23_vwscanf, (format, ap))
