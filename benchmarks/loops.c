/* The work of the C row: compiled by benchmarks/hot.py, called through ctypes. */
#include <stdint.h>
#include <time.h>
#include <unistd.h>

/* ns that n reads of 4 KiB took; -1: one of them failed. */
int64_t loop_pread(int fd, long n)
{
    static char buffer[4096];
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (long i = 0; i < n; i++)
        if (pread(fd, buffer, sizeof buffer, 0) != (ssize_t)sizeof buffer)
            return -1;
    clock_gettime(CLOCK_MONOTONIC, &end);
    return (end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec;
}
