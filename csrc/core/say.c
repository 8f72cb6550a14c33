/* A line of ours on stderr from where the C library may not be called: a
 * signal's handler, a hook. */
#include "core.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

void pt_say_path(const char *before, const char *path, const char *after)
{
    const char *const words[] = {"pyio-trace: ", before, path, after, "\n"};
    struct iovec parts[5];
    for (int i = 0; i < 5; i++)
        parts[i] = (struct iovec){.iov_base = (char *)words[i], .iov_len = strlen(words[i])};
    pt_sys(SYS_writev, STDERR_FILENO, parts, 5);
}
