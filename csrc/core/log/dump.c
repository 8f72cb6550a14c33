/* Dumps: copies of the log as it is at a moment. */
#include "log/ring.h"
#include "base/clock.h"
#include "base/messages.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>

int pt_log_dump(const char *path)
{
    if ((pt.gate & PT_GATE_OFF) || !pt.base)
        return -ENOTCONN;
    uint64_t since = pt_ticks(), used = __atomic_load_n(&pt.header->next, __ATOMIC_ACQUIRE);
    used = used < pt.mapped ? used : pt.mapped;
    long fd = pt_sys(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return (int)fd;
    pt_sys(SYS_fchmod, fd, 0600); /* whatever the umask is */
    long n = 0;
    for (uint64_t at = 0; at < used; at += (uint64_t)n) {
        n = pt_sys(SYS_write, fd, pt.base + at, used - at < (1u << 30) ? used - at : 1u << 30);
        if (n == -EINTR)
            n = 0;
        else if (n <= 0)
            break;
    }
    if (n >= 0)
        pt_ring_settle(fd, since);
    pt_sys(SYS_close, fd);
    if (n < 0)
        pt_sys(SYS_unlinkat, AT_FDCWD, path, 0); /* no room: half a dump would only fill the disk */
    return n < 0 ? (int)n : 0;
}

/* Dumps run.pyio to run-dump-1.pyio, or to the first number that is free. */
static void dump_now(int signal)
{
    static uint32_t dumps;
    char path[sizeof pt.path + 32];
    size_t n = strlen(pt.path);
    (void)signal;
    if (n > 5 && strcmp(pt.path + n - 5, ".pyio") == 0)
        n -= 5;
    for (int tries = 0; tries < 10000; tries++) {
        char digits[12];
        int count = 0;
        uint32_t number = __atomic_add_fetch(&dumps, 1, __ATOMIC_RELAXED);
        do
            digits[count++] = (char)('0' + number % 10);
        while (number /= 10);
        memcpy(path, pt.path, n);
        memcpy(path + n, "-dump-", 6);
        char *p = path + n + 6;
        while (count)
            *p++ = digits[--count];
        memcpy(p, ".pyio", 6);
        int error = pt_log_dump(path);
        if (error == 0)
            return;
        if (error != -EEXIST) {
            pt_say_path("no dump: ", path, " cannot be written");
            return;
        }
    }
}

static int dump_signal;
static struct sigaction before_ours;

/* If the program sets its own handler for this signal later, it replaces ours. */
int pt_dump_on_signal(int signal)
{
    struct sigaction ours = {.sa_handler = dump_now, .sa_flags = SA_RESTART}, now;
    if (dump_signal && sigaction(dump_signal, NULL, &now) == 0 && now.sa_handler == dump_now)
        sigaction(dump_signal, &before_ours, NULL);
    dump_signal = signal;
    return signal && sigaction(signal, &ours, &before_ours) != 0 ? -errno : 0;
}
