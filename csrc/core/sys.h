/* Raw system calls for the core's own needs.
 *
 * They return -errno and never touch errno, cannot be interposed, and are
 * async-signal-safe: the slow paths of a hook use nothing else. */
#ifndef PYIO_TRACE_SYS_H
#define PYIO_TRACE_SYS_H

#include <stdint.h>
#include <sys/syscall.h>

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

#define pt_sys(n, ...) PT_SYS_PICK(__VA_ARGS__, 6, 5, 4, 3, 2, 1)(n, __VA_ARGS__)
#define PT_SYS_PICK(a, b, c, d, e, f, count, ...) PT_SYS_CAT(pt_sys_, count)
#define PT_SYS_CAT(a, b) PT_SYS_CAT2(a, b)
#define PT_SYS_CAT2(a, b) a##b
#define pt_sys_1(n, a) pt_sys6(n, (long)(a), 0, 0, 0, 0, 0)
#define pt_sys_2(n, a, b) pt_sys6(n, (long)(a), (long)(b), 0, 0, 0, 0)
#define pt_sys_3(n, a, b, c) pt_sys6(n, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define pt_sys_4(n, a, b, c, d) pt_sys6(n, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define pt_sys_5(n, a, b, c, d, e) pt_sys6(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)
#define pt_sys_6(n, a, b, c, d, e, f) \
    pt_sys6(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

#endif
