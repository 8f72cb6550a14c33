/* A library that calls hooked functions, each through a slot, and keeps the address of one in its data. */
#include <fcntl.h>
#include <unistd.h>

int (*kept_open)(const char *, int, ...) = open;

int write_there(const char *path, const void *data, unsigned size)
{
    int fd = kept_open(path, O_WRONLY | O_CREAT, 0644);
    int done = (int)write(fd, data, size);
    return close(fd) == 0 ? done : -1;
}
