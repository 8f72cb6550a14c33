/* Hooks of the calls that print by a format.
 *
 * The variadic forms go on to the va_list forms, which the same libc exports;
 * hooks.def says so (THROUGH), and where somebody has put a variadic form of
 * their own before libc's, it is left to them (got.c). */
#include "streams.h"

#include <stdarg.h>

PT_HOOK_DECLARE(int, vfprintf, FILE *, const char *, va_list);
int hook_vfprintf(FILE *f, const char *format, va_list ap)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FPRINTF, f, PT_SIZE_NONE);
    return pt_end_printed(&c, real_vfprintf(f, format, ap));
}

PT_HOOK_DECLARE(int, vfprintf_chk, FILE *, int, const char *, va_list);
int hook_vfprintf_chk(FILE *f, int flag, const char *format, va_list ap)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_FPRINTF, f, PT_SIZE_NONE);
    return pt_end_printed(&c, real_vfprintf_chk(f, flag, format, ap));
}

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

/* ---- to standard output ----------------------------------------------------------- */

PT_HOOK_DECLARE(int, vprintf, const char *, va_list);
int hook_vprintf(const char *format, va_list ap)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_PRINTF, stdout, PT_SIZE_NONE);
    return pt_end_printed(&c, real_vprintf(format, ap));
}

PT_HOOK_DECLARE(int, vprintf_chk, int, const char *, va_list);
int hook_vprintf_chk(int flag, const char *format, va_list ap)
{
    struct pt_run_call c;
    pt_begin_tiny(&c, PT_OP_PRINTF, stdout, PT_SIZE_NONE);
    return pt_end_printed(&c, real_vprintf_chk(flag, format, ap));
}

PT_HOOK_DECLARE(int, printf, const char *, ...);
int hook_printf(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = hook_vprintf(format, ap);
    va_end(ap);
    return n;
}

PT_HOOK_DECLARE(int, printf_chk, int, const char *, ...);
int hook_printf_chk(int flag, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = hook_vprintf_chk(flag, format, ap);
    va_end(ap);
    return n;
}

/* ---- to a descriptor: no stream, so the layer is POSIX ------------------------------- */

static int end_descriptor(struct pt_call *c, int n)
{
    if (c->thread && c->record && n >= 0)
        c->record->size = (uint32_t)n;
    pt_end_bytes(c, n);
    return n;
}

PT_HOOK_DECLARE(int, vdprintf, int, const char *, va_list);
int hook_vdprintf(int fd, const char *format, va_list ap)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_DPRINTF, fd, -1, PT_SIZE_NONE);
    return end_descriptor(&c, real_vdprintf(fd, format, ap));
}

PT_HOOK_DECLARE(int, vdprintf_chk, int, int, const char *, va_list);
int hook_vdprintf_chk(int fd, int flag, const char *format, va_list ap)
{
    struct pt_call c;
    pt_begin_fd(&c, PT_OP_DPRINTF, fd, -1, PT_SIZE_NONE);
    return end_descriptor(&c, real_vdprintf_chk(fd, flag, format, ap));
}

PT_HOOK_DECLARE(int, dprintf, int, const char *, ...);
int hook_dprintf(int fd, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = hook_vdprintf(fd, format, ap);
    va_end(ap);
    return n;
}

PT_HOOK_DECLARE(int, dprintf_chk, int, int, const char *, ...);
int hook_dprintf_chk(int fd, int flag, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = hook_vdprintf_chk(fd, flag, format, ap);
    va_end(ap);
    return n;
}
