/* A set-user-ID program: setuid [-r] PROGRAM ARGUMENT...  -r: it first assumes its owner's identity for good, so that
 * nothing shows who started it. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int at = 1;
    if (argc > 1 && strcmp(argv[1], "-r") == 0) {
        uid_t user = geteuid();
        if (setresgid(user, user, user) != 0 || setresuid(user, user, user) != 0)
            return 99;
        at = 2;
    }
    execv(argv[at], argv + at);
    perror(argv[at]);
    return 98;
}
