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

#define STAT_ROOM 1024

/* Reads /proc/PID/stat; pid 0: this process.  Returns the number of bytes; 0: unreadable. */
static uint64_t read_stat(uint32_t pid, char text[STAT_ROOM])
{
    char path[32] = "/proc/self/stat";
    if (pid)
        snprintf(path, sizeof path, "/proc/%u/stat", pid);
    long fd = pt_sys(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    long n = fd < 0 ? 0 : pt_sys(SYS_read, fd, text, STAT_ROOM - 1);
    if (fd >= 0)
        pt_sys(SYS_close, fd);
    text[n > 0 ? n : 0] = 0;
    return n > 0 ? (uint64_t)n : 0;
}

/* A field of that text, by its number in proc(5); 0: there is none. */
static uint64_t field_of(const char *text, int wanted)
{
    const char *p = strrchr(text, ')'); /* the name before it may contain anything */
    for (int field = 2; p && field < wanted; field++)
        p = strchr(p + 1, ' ');
    return number_at(p ? p + 1 : NULL);
}

static uint64_t stat_field(uint32_t pid, int wanted)
{
    char text[STAT_ROOM];
    read_stat(pid, text);
    return field_of(text, wanted);
}

/* The start time of a process, which tells whether its id was reused; 0: unreadable. pid 0: this process. */
uint64_t pt_process_start_time(uint32_t pid)
{
    return stat_field(pid, 22);
}

struct pt_own_stat pt_own_stat(void)
{
    char text[STAT_ROOM];
    uint64_t n = read_stat(0, text);
    return (struct pt_own_stat){.start_time = field_of(text, 22), .threads = field_of(text, 20), .read = n};
}

/* 0: unreadable. */
uint32_t pt_process_parent(uint32_t pid)
{
    return (uint32_t)stat_field(pid, 4);
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
