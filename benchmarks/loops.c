/* The work of the C rows: compiled by benchmarks/hot.py, called through ctypes. */
#include <stdint.h>
#include <unistd.h>

/* n reads of 4 KiB; -1: one of them failed. */
int loop_pread(int fd, long n)
{
    static char buffer[4096];
    for (long i = 0; i < n; i++)
        if (pread(fd, buffer, sizeof buffer, 0) != (ssize_t)sizeof buffer)
            return -1;
    return 0;
}

/* n readings of the processor's clock, as the core takes them. */
uint64_t loop_clock(long n)
{
    uint64_t sum = 0, now = 0;
    for (long i = 0; i < n; i++) {
#if defined(__x86_64__)
        now = __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
#endif
        sum += now;
    }
    return sum;
}
