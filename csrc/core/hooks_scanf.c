/* Hooks of the calls that read by a format.
 *
 * How many bytes they take is not told by libc, so these rows have none.  Its
 * three dialects (what %as and 0b10 mean) are functions of their own.  The
 * variadic forms go on to the va_list forms, as in hooks_printf.c. */
#include "streams.h"

#include <stdarg.h>
#include <wchar.h>

static int end_scanned(struct pt_run_call *c, FILE *f, int fields)
{
    pt_run_end(c, -1, fields == EOF ? pt_stream_error(f) : 0);
    return fields;
}

/* ---- characters -------------------------------------------------------- */

PT_HOOK_DECLARE(int, vfscanf, FILE *, const char *, va_list);
int hook_vfscanf(FILE *f, const char *format, va_list ap)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FSCANF, f, PT_SIZE_NONE);
    return end_scanned(&c, f, real_vfscanf(f, format, ap));
}

PT_HOOK_DECLARE(int, vscanf, const char *, va_list);
int hook_vscanf(const char *format, va_list ap)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_SCANF, stdin, PT_SIZE_NONE);
    return end_scanned(&c, stdin, real_vscanf(format, ap));
}

PT_HOOK_DECLARE(int, fscanf, FILE *, const char *, ...);
int hook_fscanf(FILE *f, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int fields = hook_vfscanf(f, format, ap);
    va_end(ap);
    return fields;
}

PT_HOOK_DECLARE(int, scanf, const char *, ...);
int hook_scanf(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int fields = hook_vscanf(format, ap);
    va_end(ap);
    return fields;
}

PT_HOOK_DECLARE(int, isoc99_vfscanf, FILE *, const char *, va_list);
int hook_isoc99_vfscanf(FILE *f, const char *format, va_list ap)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FSCANF, f, PT_SIZE_NONE);
    return end_scanned(&c, f, real_isoc99_vfscanf(f, format, ap));
}

PT_HOOK_DECLARE(int, isoc99_vscanf, const char *, va_list);
int hook_isoc99_vscanf(const char *format, va_list ap)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_SCANF, stdin, PT_SIZE_NONE);
    return end_scanned(&c, stdin, real_isoc99_vscanf(format, ap));
}

PT_HOOK_DECLARE(int, isoc99_fscanf, FILE *, const char *, ...);
int hook_isoc99_fscanf(FILE *f, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int fields = hook_isoc99_vfscanf(f, format, ap);
    va_end(ap);
    return fields;
}

PT_HOOK_DECLARE(int, isoc99_scanf, const char *, ...);
int hook_isoc99_scanf(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int fields = hook_isoc99_vscanf(format, ap);
    va_end(ap);
    return fields;
}

PT_HOOK_DECLARE(int, isoc23_vfscanf, FILE *, const char *, va_list);
int hook_isoc23_vfscanf(FILE *f, const char *format, va_list ap)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FSCANF, f, PT_SIZE_NONE);
    return end_scanned(&c, f, real_isoc23_vfscanf(f, format, ap));
}

PT_HOOK_DECLARE(int, isoc23_vscanf, const char *, va_list);
int hook_isoc23_vscanf(const char *format, va_list ap)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_SCANF, stdin, PT_SIZE_NONE);
    return end_scanned(&c, stdin, real_isoc23_vscanf(format, ap));
}

PT_HOOK_DECLARE(int, isoc23_fscanf, FILE *, const char *, ...);
int hook_isoc23_fscanf(FILE *f, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int fields = hook_isoc23_vfscanf(f, format, ap);
    va_end(ap);
    return fields;
}

PT_HOOK_DECLARE(int, isoc23_scanf, const char *, ...);
int hook_isoc23_scanf(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int fields = hook_isoc23_vscanf(format, ap);
    va_end(ap);
    return fields;
}

/* ---- wide characters -------------------------------------------------------- */

PT_HOOK_DECLARE(int, vfwscanf, FILE *, const wchar_t *, va_list);
int hook_vfwscanf(FILE *f, const wchar_t *format, va_list ap)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FWSCANF, f, PT_SIZE_NONE);
    return end_scanned(&c, f, real_vfwscanf(f, format, ap));
}

PT_HOOK_DECLARE(int, vwscanf, const wchar_t *, va_list);
int hook_vwscanf(const wchar_t *format, va_list ap)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FWSCANF, stdin, PT_SIZE_NONE);
    return end_scanned(&c, stdin, real_vwscanf(format, ap));
}

PT_HOOK_DECLARE(int, fwscanf, FILE *, const wchar_t *, ...);
int hook_fwscanf(FILE *f, const wchar_t *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int fields = hook_vfwscanf(f, format, ap);
    va_end(ap);
    return fields;
}

PT_HOOK_DECLARE(int, wscanf, const wchar_t *, ...);
int hook_wscanf(const wchar_t *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int fields = hook_vwscanf(format, ap);
    va_end(ap);
    return fields;
}

PT_HOOK_DECLARE(int, isoc99_vfwscanf, FILE *, const wchar_t *, va_list);
int hook_isoc99_vfwscanf(FILE *f, const wchar_t *format, va_list ap)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FWSCANF, f, PT_SIZE_NONE);
    return end_scanned(&c, f, real_isoc99_vfwscanf(f, format, ap));
}

PT_HOOK_DECLARE(int, isoc99_vwscanf, const wchar_t *, va_list);
int hook_isoc99_vwscanf(const wchar_t *format, va_list ap)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FWSCANF, stdin, PT_SIZE_NONE);
    return end_scanned(&c, stdin, real_isoc99_vwscanf(format, ap));
}

PT_HOOK_DECLARE(int, isoc99_fwscanf, FILE *, const wchar_t *, ...);
int hook_isoc99_fwscanf(FILE *f, const wchar_t *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int fields = hook_isoc99_vfwscanf(f, format, ap);
    va_end(ap);
    return fields;
}

PT_HOOK_DECLARE(int, isoc99_wscanf, const wchar_t *, ...);
int hook_isoc99_wscanf(const wchar_t *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int fields = hook_isoc99_vwscanf(format, ap);
    va_end(ap);
    return fields;
}

PT_HOOK_DECLARE(int, isoc23_vfwscanf, FILE *, const wchar_t *, va_list);
int hook_isoc23_vfwscanf(FILE *f, const wchar_t *format, va_list ap)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FWSCANF, f, PT_SIZE_NONE);
    return end_scanned(&c, f, real_isoc23_vfwscanf(f, format, ap));
}

PT_HOOK_DECLARE(int, isoc23_vwscanf, const wchar_t *, va_list);
int hook_isoc23_vwscanf(const wchar_t *format, va_list ap)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FWSCANF, stdin, PT_SIZE_NONE);
    return end_scanned(&c, stdin, real_isoc23_vwscanf(format, ap));
}

PT_HOOK_DECLARE(int, isoc23_fwscanf, FILE *, const wchar_t *, ...);
int hook_isoc23_fwscanf(FILE *f, const wchar_t *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int fields = hook_isoc23_vfwscanf(f, format, ap);
    va_end(ap);
    return fields;
}

PT_HOOK_DECLARE(int, isoc23_wscanf, const wchar_t *, ...);
int hook_isoc23_wscanf(const wchar_t *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int fields = hook_isoc23_vwscanf(format, ap);
    va_end(ap);
    return fields;
}
