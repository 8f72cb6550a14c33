/* The work of the C row: compiled by benchmarks/hot.py, called through ctypes. */
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
