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

/* Characters, in UTF-8, that a terminal obeys or does not show: their first bytes, and the range of the last byte.
 * is_plain() in errors.py has the whole list; these are the ones Unicode calls format characters or ignorable. */
static const struct {
    const char *begin;
    unsigned char low, high;
} unseen[] = {
    {"\xc2", 0x80, 0x9f},     {"\xc2", 0xad, 0xad},     {"\xcd", 0x8f, 0x8f},     {"\xd8", 0x9c, 0x9c},
    {"\xe1\x85", 0x9f, 0xa0}, {"\xe1\x9e", 0xb4, 0xb5}, {"\xe1\xa0", 0x8b, 0x8f}, {"\xe2\x80", 0x8b, 0x8f},
    {"\xe2\x80", 0xa8, 0xae}, {"\xe2\x81", 0xa0, 0xaf}, {"\xe2\xa0", 0x80, 0x80}, {"\xe3\x85", 0xa4, 0xa4},
    {"\xef\xb8", 0x80, 0x8f}, {"\xef\xbb", 0xbf, 0xbf}, {"\xef\xbe", 0xa0, 0xa0}, {"\xef\xbf", 0xb0, 0xbb},
    {"\xf3\xa0", 0x80, 0xbf},
};

/* The length of the character at p if it must not be shown; 0: it may be. */
static size_t hidden(const char *p)
{
    if ((unsigned char)*p < ' ' || *p == 127)
        return 1;
    for (size_t i = 0; i < sizeof unseen / sizeof *unseen; i++) {
        size_t n = strlen(unseen[i].begin);
        if (strncmp(p, unseen[i].begin, n) == 0 && (unsigned char)p[n] >= unseen[i].low &&
            (unsigned char)p[n] <= unseen[i].high)
            return n + 1 + (*p == '\xf3' && p[n + 1]); /* all others end here */
    }
    return 0;
}

/* A path may contain control characters that move the cursor of a terminal, and others that nobody sees. */
const char *pt_printable(const char *path, char out[static sizeof pt.path])
{
    size_t n = 0;
    while (*path && n < sizeof pt.path - 1) {
        size_t skip = hidden(path);
        out[n++] = skip ? '?' : *path;
        path += skip ? skip : 1;
    }
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
