/* Reads what /proc says about processes. */
#include "base/proc.h"
#include "base/sys.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static uint64_t number_at(const char *p)
{
    uint64_t value = 0;
    for (; p && *p >= '0' && *p <= '9'; p++)
        value = value * 10 + (uint64_t)(*p - '0');
    return value;
}

/* A field of /proc/PID/stat, by its number in proc(5); 0: unreadable.  pid 0: this process.  read: how many bytes that
 * took, or NULL. */
static uint64_t stat_field(uint32_t pid, int wanted, uint64_t *read)
{
    char text[1024], path[32] = "/proc/self/stat";
    if (pid)
        snprintf(path, sizeof path, "/proc/%u/stat", pid);
    long fd = pt_sys(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    long n = fd < 0 ? 0 : pt_sys(SYS_read, fd, text, sizeof text - 1);
    if (read)
        *read = n > 0 ? (uint64_t)n : 0;
    if (fd < 0)
        return 0;
    pt_sys(SYS_close, fd);
    text[n > 0 ? n : 0] = 0;
    char *p = strrchr(text, ')'); /* the name before it may contain anything */
    for (int field = 2; p && field < wanted; field++)
        p = strchr(p + 1, ' ');
    return number_at(p ? p + 1 : NULL);
}

/* The start time of a process, which tells whether its id was reused; 0: unreadable. pid 0: this process. */
uint64_t pt_process_start_time(uint32_t pid)
{
    return stat_field(pid, 22, NULL);
}

uint64_t pt_own_start_time(uint64_t *read)
{
    return stat_field(0, 22, read);
}

/* 0: unreadable. */
uint32_t pt_process_parent(uint32_t pid)
{
    return (uint32_t)stat_field(pid, 4, NULL);
}

/* The number in the link's text after a mark: "pid:[4026531836]", or "4711" after "". */
static uint64_t number_in_link(const char *path, const char *mark)
{
    char text[64];
    long n = pt_sys(SYS_readlinkat, AT_FDCWD, path, text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    const char *at = strstr(text, mark);
    return number_at(at ? at + strlen(mark) : NULL);
}

uint64_t pt_pid_namespace(void)
{
    return number_in_link("/proc/self/ns/pid", "pid:[");
}

uint32_t pt_pid_in_proc(void)
{
    return (uint32_t)number_in_link("/proc/self", "");
}
