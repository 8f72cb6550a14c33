/* Writes lines to stderr where the C library may not be called: in signal handlers and hooks.
 *
 * A program may close descriptor 2, or put another file there.  The next file that it opens then has that number, and
 * a message would become part of its data.  So stderr is compared with what it was when this library was loaded; where
 * it is another file, messages go into the process table instead. */
#include "base/messages.h"
#include "base/state.h"
#include "base/sys.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static struct {
    bool open;
    dev_t device;
    ino_t inode;
} first_stderr;

/* The interpreter reads our .pth while it is open.  Where stderr is closed, that file may have its number. */
void pt_stderr_keep(void)
{
    struct stat st;
    long flags = pt_sys(SYS_fcntl, STDERR_FILENO, F_GETFL);
    first_stderr.open = flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && pt_sys(SYS_fstat, STDERR_FILENO, &st) == 0;
    if (first_stderr.open) {
        first_stderr.device = st.st_dev;
        first_stderr.inode = st.st_ino;
    }
}

void pt_stderr_give_up(void)
{
    first_stderr.open = false;
}

bool pt_stderr_is_kept(void)
{
    struct stat st;
    return first_stderr.open && pt_sys(SYS_fstat, STDERR_FILENO, &st) == 0 && st.st_dev == first_stderr.device &&
           st.st_ino == first_stderr.inode;
}

/* A path may contain control characters that move the cursor of a terminal. */
const char *pt_printable(const char *path, char out[static sizeof pt.path])
{
    size_t n = 0;
    for (; path[n] && n < sizeof pt.path - 1; n++)
        out[n] = (unsigned char)path[n] < ' ' || path[n] == 127 ? '?' : path[n];
    out[n] = 0;
    return out;
}

void pt_note(const char *const *words, unsigned count)
{
    struct pt_process *p = pt.process;
    if (!pt.process_id)
        return;
    size_t at = strnlen(p->note, sizeof p->note - 1), room = sizeof p->note - 1;
    for (const char *separator = at ? "; " : ""; *separator && at < room;)
        p->note[at++] = *separator++;
    for (unsigned i = 0; i < count; i++)
        for (const char *c = words[i]; *c && at < room;)
            p->note[at++] = *c++;
    p->note[at] = 0;
}

void pt_say(const char *const *words, unsigned count)
{
    struct iovec parts[PT_MOST_WORDS + 2] = {{.iov_base = "pyio-trace: ", .iov_len = 12}};
    if (!pt_stderr_is_kept()) {
        pt_note(words, count);
        return;
    }
    for (unsigned i = 0; i < count; i++)
        parts[i + 1] = (struct iovec){.iov_base = (char *)words[i], .iov_len = strlen(words[i])};
    parts[count + 1] = (struct iovec){.iov_base = "\n", .iov_len = 1};
    pt_sys(SYS_writev, STDERR_FILENO, parts, count + 2);
}

void pt_say_path(const char *before, const char *path, const char *after)
{
    char printable[sizeof pt.path];
    const char *const words[] = {before, pt_printable(path, printable), after};
    pt_say(words, 3);
}
