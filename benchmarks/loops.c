/* The work of the C rows.  benchmarks/hot.py compiles it and calls it through ctypes. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#endif

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Reads 4 KiB n times.  Returns -1 if a read fails. */
int loop_pread(int fd, long n)
{
    static char buffer[4096];
    for (long i = 0; i < n; i++)
        if (pread(fd, buffer, sizeof buffer, 0) != (ssize_t)sizeof buffer)
            return -1;
    return 0;
}

static inline uint64_t ticks(void)
{
    uint64_t now = 0;
#if defined(__x86_64__)
    now = __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
#endif
    return now;
}

/* Reads the processor's clock n times, as the core does. */
uint64_t loop_clock(long n)
{
    uint64_t sum = 0;
    for (long i = 0; i < n; i++)
        sum += ticks();
    return sum;
}

/* Fills size bytes of a new file, reserved and mapped as the log is (csrc/core/log/blocks.c), with records of 48 bytes, and
 * reads the clock twice for each.  Returns the ns that this takes; -1: the file cannot be mapped or reserved. */
int64_t loop_floor(const char *path, uint64_t size)
{
    struct timespec begin, end;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)size) != 0)
        return -1;
    uint64_t *at = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED)
        return -1;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    int reserved = madvise(at, size, MADV_POPULATE_WRITE);
    for (uint64_t *record = at; record + 6 <= at + size / 8; record += 6) {
        record[1] = ticks();
        record[2] = record[3] = record[4] = 1;
        *(volatile uint64_t *)record = 1; /* begun */
        record[5] = ticks() - record[1];
        *(volatile uint64_t *)record = 2; /* done */
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    munmap(at, size);
    if (reserved != 0)
        return -1;
    return (end.tv_sec - begin.tv_sec) * 1000000000ll + end.tv_nsec - begin.tv_nsec;
}

/* Callgrind writes down what it has counted since the last mark (benchmarks/instructions.py).  -1: not built with it. */
int mark(void)
{
#if __has_include(<valgrind/callgrind.h>)
    CALLGRIND_DUMP_STATS;
    return 0;
#else
    return -1;
#endif
}
