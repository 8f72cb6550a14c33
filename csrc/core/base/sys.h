/* Raw system calls for the core.
 *
 * They return -errno and leave errno alone, cannot be interposed, and are async-signal-safe.  The slow paths of a
 * hook use nothing else. */
#ifndef PYIO_TRACE_SYS_H
#define PYIO_TRACE_SYS_H

#include <stdint.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* System calls and flags that the headers of manylinux2014 (Linux 3.10) lack. */
#if defined(__x86_64__)
#define PT_BY_ARCH(x86_64, aarch64) x86_64
#else
#define PT_BY_ARCH(x86_64, aarch64) aarch64
#endif
#if !defined(SYS_io_uring_setup)
#define SYS_io_uring_setup 425
#endif
#if !defined(MFD_CLOEXEC)
#define MFD_CLOEXEC 1u
#endif
#if !defined(SYS_close_range)
#define SYS_close_range 436
#endif
#if !defined(SYS_clone3)
#define SYS_clone3 435
#endif
#if !defined(SYS_renameat2)
#define SYS_renameat2 PT_BY_ARCH(316, 276)
#endif
#if !defined(SYS_getrandom)
#define SYS_getrandom PT_BY_ARCH(318, 278)
#endif
#if !defined(SYS_copy_file_range)
#define SYS_copy_file_range PT_BY_ARCH(326, 285)
#endif
#if !defined(SYS_memfd_create)
#define SYS_memfd_create PT_BY_ARCH(319, 279)
#endif
#if !defined(SYS_statx)
#define SYS_statx PT_BY_ARCH(332, 291)
#endif

static inline long pt_sys6(long n, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long ret;
    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return ret;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = n;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
#else
#error "pyio_trace's core supports x86-64 and aarch64"
#endif
}

/* glibc only.  Weak: musl's loader cannot resolve these references, and a strong one would end the musl program that
 * we are preloaded into. (control/preload.c starts nothing there.) */
#if defined(__GLIBC__)
extern int on_exit(void (*)(int, void *), void *) __attribute__((weak));
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *) __attribute__((weak));
extern void *__dso_handle;
static inline int pt_atfork(void (*before)(void), void (*parent)(void), void (*child)(void))
{
    return __register_atfork(before, parent, child, __dso_handle);
}
#else
#define pt_atfork pthread_atfork
#endif

#define pt_sys(n, ...) PT_SYS_PICK(__VA_ARGS__, 6, 5, 4, 3, 2, 1)(n, __VA_ARGS__)
#define PT_SYS_PICK(a, b, c, d, e, f, count, ...) PT_SYS_CAT(pt_sys_, count)
#define PT_SYS_CAT(a, b) PT_SYS_CAT2(a, b)
#define PT_SYS_CAT2(a, b) a##b
#define pt_sys_1(n, a) pt_sys6(n, (long)(a), 0, 0, 0, 0, 0)
#define pt_sys_2(n, a, b) pt_sys6(n, (long)(a), (long)(b), 0, 0, 0, 0)
#define pt_sys_3(n, a, b, c) pt_sys6(n, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define pt_sys_4(n, a, b, c, d) pt_sys6(n, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define pt_sys_5(n, a, b, c, d, e) pt_sys6(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)
#define pt_sys_6(n, a, b, c, d, e, f) pt_sys6(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

#endif
