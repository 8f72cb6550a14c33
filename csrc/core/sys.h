/* Raw system calls for the core's own needs.
 *
 * They return -errno and never touch errno, cannot be interposed, and are
 * async-signal-safe: the slow paths of a hook use nothing else. */
#ifndef PYIO_TRACE_SYS_H
#define PYIO_TRACE_SYS_H

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* Younger than the headers of manylinux2014 (Linux 3.10). */
#if defined(__x86_64__)
#define PT_BY_ARCH(x86_64, aarch64) x86_64
#else
#define PT_BY_ARCH(x86_64, aarch64) aarch64
#endif
#if !defined(SYS_io_uring_setup)
#define SYS_io_uring_setup 425
#endif
#if !defined(SYS_clone3)
#define SYS_clone3 435
#endif
#if !defined(SYS_renameat2)
#define SYS_renameat2 PT_BY_ARCH(316, 276)
#endif
#if !defined(SYS_copy_file_range)
#define SYS_copy_file_range PT_BY_ARCH(326, 285)
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

/* glibc's own, which no other libc has.  Weak: a reference that musl's loader
 * cannot resolve would end the musl program that we are preloaded into.
 * (preload.c starts nothing there.) */
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
#define pt_sys_6(n, a, b, c, d, e, f) \
    pt_sys6(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

/* Memory of the core's own, zeroed, of which no more is taken than is touched; NULL: there is none.  For what is too
 * large for a stack, which may be a signal handler's of 8 KiB, where malloc may be what the signal interrupted.
 *
 * ThreadSanitizer is told by libc's mmap: it sees no system calls, and would take a page that the kernel gives first
 * to one thread and then to another for one that both use at once. */
static inline void *pt_memory(size_t bytes)
{
    const int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
#ifdef __SANITIZE_THREAD__
    void *at = mmap(NULL, bytes, protection, flags, -1, 0);
    return at == MAP_FAILED ? NULL : at;
#else
    long at = pt_sys(SYS_mmap, 0, bytes, protection, flags, -1, 0);
    return at < 0 && at > -4096 ? NULL : (void *)at;
#endif
}

static inline void pt_memory_back(void *at, size_t bytes)
{
#ifdef __SANITIZE_THREAD__
    munmap(at, bytes);
#else
    pt_sys(SYS_munmap, at, bytes);
#endif
}

#endif
