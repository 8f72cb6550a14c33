/* Writes lines to stderr where the C library may not be called: in signal handlers and hooks. */
#include "base/messages.h"
#include "base/state.h"
#include "base/sys.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* A path may contain control characters that move the cursor of a terminal. */
const char *pt_printable(const char *path, char out[static sizeof pt.path])
{
    size_t n = 0;
    for (; path[n] && n < sizeof pt.path - 1; n++)
        out[n] = (unsigned char)path[n] < ' ' || path[n] == 127 ? '?' : path[n];
    out[n] = 0;
    return out;
}

void pt_say_path(const char *before, const char *path, const char *after)
{
    char printable[sizeof pt.path];
    const char *const words[] = {"pyio-trace: ", before, pt_printable(path, printable), after, "\n"};
    struct iovec parts[5];
    for (int i = 0; i < 5; i++)
        parts[i] = (struct iovec){.iov_base = (char *)words[i], .iov_len = strlen(words[i])};
    pt_sys(SYS_writev, STDERR_FILENO, parts, 5);
}
