/* A program that is not Python: copies and reads files in the ways that programs do.
 *
 *   child stdio FROM TO    through C streams; TO is still open at the end
 *   child posix FROM TO    by read and write
 *   child closeall FROM    closes every descriptor first
 *   child wait FIFO        blocks in a read, then reads what comes
 *   child forks FROM       reads in a forked child that ends by _exit(5), and returns its status
 *   child shell COMMAND    system() */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int copy_streams(const char *from, const char *to)
{
    char block[1000];
    FILE *in = fopen(from, "r"), *out = fopen(to, "w");
    if (!in || !out)
        return 1;
    for (size_t n; (n = fread(block, 1, sizeof block, in)) > 0;)
        if (fwrite(block, 1, n, out) != n)
            return 2;
    fclose(in);
    return 0; /* what is in out's buffer is written by exit() */
}

static int copy(const char *from, const char *to)
{
    char block[4096];
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (in < 0 || out < 0)
        return 1;
    for (ssize_t n; (n = read(in, block, sizeof block)) > 0;)
        if (write(out, block, (size_t)n) != n)
            return 2;
    return close(in) | close(out);
}

static int read_all(const char *from)
{
    char block[4096];
    int in = open(from, O_RDONLY);
    if (in < 0)
        return 1;
    while (read(in, block, sizeof block) > 0)
        continue;
    return close(in);
}

static int read_with_nothing_open(const char *from)
{
    for (int fd = 0; fd < 1024; fd++)
        close(fd);
    return read_all(from);
}

static int read_in_a_child(const char *from)
{
    int status;
    if (fork() == 0)
        _exit(read_all(from) ? 1 : 5);
    wait(&status);
    return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    if (!strcmp(what, "stdio"))
        return copy_streams(argv[2], argv[3]);
    if (!strcmp(what, "posix"))
        return copy(argv[2], argv[3]);
    if (!strcmp(what, "closeall"))
        return read_with_nothing_open(argv[2]);
    if (!strcmp(what, "wait"))
        return read_all(argv[2]);
    if (!strcmp(what, "forks"))
        return read_in_a_child(argv[2]);
    if (!strcmp(what, "shell"))
        return WEXITSTATUS(system(argv[2]));
    return 9;
}
