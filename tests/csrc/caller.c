/* Calls a function of a library with the core at work, in a process without
 * Python: how the tests of tests/capture/test_csrc.py run on a platform that
 * has no Python here.
 *
 * caller CORE LOG LIBRARY FUNCTION [ARGUMENT...]; an argument is a text, or a
 * number after '='.  The core comes by dlopen, as an extension module brings it. */
#include "core.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Takes the addresses of functions, as Python's os does of fsync.  In a program that is not position-independent they
 * become addresses in the program itself. */
static void take_addresses(void)
{
    typedef void function(void);
    function *volatile taken;
    taken = (function *)open, taken = (function *)close, taken = (function *)read, taken = (function *)pread;
    taken = (function *)fork, taken = (function *)dup2, taken = (function *)waitpid;
    (void)taken;
}

static void *find(void *library, const char *name)
{
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) {
        fprintf(stderr, "caller: %s\n", dlerror());
        exit(2);
    }
    return found;
}

int main(int argc, char **argv)
{
    if (argc < 5 || argc > 11)
        return 2;
    take_addresses();
    int (*start)(const struct pt_options *);
    int (*function)(long, long, long, long, long, long); /* in registers, like whatever smaller it takes */
    *(void **)&start = find(dlopen(argv[1], RTLD_NOW), "pt_start");
    struct pt_selection selection = {.include = "dev"};
    struct pt_options options = {
        .path = argv[2], .budget = 1ull << 30, .create = true, .stacks = PT_STACKS_OFF, .selection = &selection};
    int error = start(&options);
    if (error) {
        fprintf(stderr, "pt_start: %s\n", strerror(-error));
        return 2;
    }
    *(void **)&function = find(dlopen(argv[3], RTLD_NOW), argv[4]);
    long given[6] = {0};
    for (int i = 5; i < argc; i++)
        given[i - 5] = argv[i][0] == '=' ? strtol(argv[i] + 1, NULL, 0) : (long)argv[i];
    int line = function(given[0], given[1], given[2], given[3], given[4], given[5]);
    if (line)
        fprintf(stderr, "line %d of the C code went wrong\n", line);
    return line ? 1 : 0; /* the log ends with the process, as a program's does */
}
