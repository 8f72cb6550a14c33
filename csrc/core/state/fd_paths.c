/* Files opened by the name of a descriptor: /dev/stdin, /dev/fd/N, /proc/self/fd/N.
 *
 * Nothing under those names is recorded by default, but they may open any file.  So opening one counts as opening the
 * file behind it, under the kernel's name for that file. */
#include "base/memory.h"
#include "base/state.h"
#include "base/sys.h"
#include "state/path_strings.h"

#include <fcntl.h>
#include <string.h>

static const char *after(const char *text, const char *start)
{
    size_t n = strlen(start);
    return strncmp(text, start, n) == 0 ? text + n : NULL;
}

static const char *after_number(const char *text)
{
    const char *at = text;
    while (*at >= '0' && *at <= '9')
        at++;
    return at > text && at < text + 11 ? at : NULL;
}

static bool is_number(const char *text)
{
    const char *end = text ? after_number(text) : NULL;
    return end && !*end;
}

#define LINK_ROOM 32

/* The link in /proc that such a name stands for; NULL: it is no such name.  room: space for a link that is built
 * here. */
static const char *link_behind(const char *path, char room[LINK_ROOM])
{
    static const char *const streams[] = {"/dev/stdin", "/dev/stdout", "/dev/stderr"};
    const char *number = after(path, "/dev/fd/"), *rest = after(path, "/proc/");
    for (unsigned i = 0; i < sizeof streams / sizeof *streams && !number; i++)
        number = strcmp(path, streams[i]) == 0 ? &"0\0001\0002"[2 * i] : NULL;
    if (is_number(number)) {
        strcpy(room, "/proc/self/fd/");
        strcat(room, number);
        return room;
    }
    if (rest) {
        const char *who = after(rest, "self"), *thread = after(rest, "thread-self"), *other = after_number(rest);
        rest = who ? who : thread ? thread : other;
    }
    return rest && is_number(after(rest, "/fd/")) ? path : NULL;
}

static uint32_t kind_of_text(const char *text)
{
    return after(text, "pipe:") ? PT_DESC_PIPE : after(text, "socket:") ? PT_DESC_SOCKET : PT_DESC_ANON;
}

PT_COLD struct pt_named pt_name_of_fd_path_slow(const char *path, struct pt_named name)
{
    char room[LINK_ROOM];
    const char *link =
        path && (name.left_out == PT_DESC_PROC || name.left_out == PT_DESC_DEVICE) ? link_behind(path, room) : NULL;
    if (!link)
        return name;
    char *text = pt_memory(PT_PAGE);
    if (!text)
        return name;
    long n = pt_sys(SYS_readlinkat, AT_FDCWD, link, text, PT_PAGE - 1);
    if (n > 0 && *text == '/' && !after(text, "/memfd:")) {
        name = pt_name(text);
    } else if (n > 0) {
        uint32_t kind = kind_of_text(text);
        bool left_out = pt.left_out_kinds >> kind & 1;
        name = (struct pt_named){left_out ? name.id : pt_location(text, (size_t)n, 0), left_out ? kind : 0};
    }
    pt_memory_back(text, PT_PAGE);
    return name;
}

uint32_t pt_name_behind_fd_path(const char *path, uint32_t name)
{
    struct pt_named found = pt_name(path);
    if (PT_LIKELY(!found.left_out))
        return name;
    found = pt_name_of_fd_path_slow(path, found);
    return found.left_out ? name : found.id;
}

struct pt_named pt_name_to_open(const char *path)
{
    struct pt_named name = pt_name(path);
    return PT_UNLIKELY(name.left_out) ? pt_name_of_fd_path_slow(path, name) : name;
}
