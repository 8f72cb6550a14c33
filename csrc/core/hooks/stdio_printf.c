/* Hooks of formatted output.
 *
 * The variadic forms call the va_list forms, which the same libc exports; hooks/hooks.def says so (THROUGH).  If
 * somebody has interposed a variadic form, it is left alone (patch/hook_table.c). */
#include "hooks/stdio.h"
#include "hooks/hooks.h"

/* clang-format off */

PT_TINY_HOOK(int, vfprintf, (FILE *f, const char *format, va_list ap),
             (f, format, ap), FPRINTF, f, PT_SIZE_NONE, pt_end_printed)
PT_TINY_HOOK(int, vfprintf_chk, (FILE *f, int flag, const char *format, va_list ap),
             (f, flag, format, ap), FPRINTF, f, PT_SIZE_NONE, pt_end_printed)
PT_THROUGH_HOOK(int, fprintf, (FILE *f, const char *format, ...), vfprintf, (f, format, ap))
PT_THROUGH_HOOK(int, fprintf_chk, (FILE *f, int flag, const char *format, ...), vfprintf_chk, (f, flag, format, ap))

/* ---- to standard output ----------------------------------------------------------- */

PT_TINY_HOOK(int, vprintf, (const char *format, va_list ap), (format, ap), PRINTF, stdout, PT_SIZE_NONE, pt_end_printed)
PT_TINY_HOOK(int, vprintf_chk, (int flag, const char *format, va_list ap),
             (flag, format, ap), PRINTF, stdout, PT_SIZE_NONE, pt_end_printed)
PT_THROUGH_HOOK(int, printf, (const char *format, ...), vprintf, (format, ap))
PT_THROUGH_HOOK(int, printf_chk, (int flag, const char *format, ...), vprintf_chk, (flag, format, ap))

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

PT_THROUGH_HOOK(int, dprintf, (int fd, const char *format, ...), vdprintf, (fd, format, ap))
PT_THROUGH_HOOK(int, dprintf_chk, (int fd, int flag, const char *format, ...), vdprintf_chk, (fd, flag, format, ap))
