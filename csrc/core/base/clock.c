/* Which clock the records use, and pairs of readings that tie it to the system's clocks.
 *
 * The time-stamp counter is used only if it is invariant and the kernel itself trusts it as its clock source;
 * otherwise CLOCK_MONOTONIC through the vDSO.  The reader converts ticks by the pairs in the log, so the start needs
 * no calibration loop. */
#include "base/clock.h"
#include "base/sys.h"

#include <fcntl.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#if defined(__x86_64__)
static bool kernel_trusts_tsc(void)
{
    char text[16] = "";
    long fd = pt_sys(SYS_openat, AT_FDCWD, "/sys/devices/system/clocksource/clocksource0/current_clocksource",
                     O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return false;
    pt_sys(SYS_read, fd, text, sizeof text - 1);
    pt_sys(SYS_close, fd);
    return strncmp(text, "tsc", 3) == 0;
}

static bool tsc_is_invariant(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d & (1u << 8));
}
#endif

uint32_t pt_clock_choose(void)
{
#if defined(__x86_64__)
    return tsc_is_invariant() && kernel_trusts_tsc() ? PT_TICKS_TSC : PT_TICKS_MONOTONIC_NS;
#elif defined(__aarch64__)
    return PT_TICKS_CNTVCT;
#endif
}

static int64_t ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#define READINGS 5
#define TIGHT_US 2

/* Reads the ticks before and after the system clock: their mean belongs to its time.  The thread may lose the processor
 * between two readings, so the tightest of several pairs counts; the first is usually tight enough.  spread: the ticks
 * that it took. */
static struct pt_clock_pair tightest_pair(uint64_t *spread)
{
    struct pt_clock_pair tightest = {0};
    *spread = UINT64_MAX;
    for (int i = 0; i < READINGS && *spread > TIGHT_US * pt_ticks_per_us(); i++) {
        struct pt_clock_pair p;
        uint64_t before = pt_ticks();
        p.mono = ns(CLOCK_MONOTONIC);
        uint64_t after = pt_ticks();
        p.real = ns(CLOCK_REALTIME);
        uint64_t took = pt_ticks() - before;
        p.ticks = before + (after - before) / 2;
        if (i == 0 || took < *spread) {
            tightest = p;
            *spread = took;
        }
    }
    return tightest;
}

struct pt_clock_pair pt_clock_pair(void)
{
    uint64_t spread;
    return tightest_pair(&spread);
}

#define SHORTEST 1000000 /* ns between two pairs that say what the rate is */
#define MOST_TRIES 20

/* Converts a duration to ticks; only --min-duration needs the rate.  The rate is the average since the log began, so
 * a process that joins need not wait for a millisecond to pass. */
uint64_t pt_clock_ticks(uint64_t duration)
{
    int tries = 0;
    if (!duration || pt.tick_kind == PT_TICKS_MONOTONIC_NS)
        return duration;
    uint64_t spread;
    struct pt_clock_pair first, now = tightest_pair(&spread);
    first.ticks = __atomic_load_n(&pt.header->first.ticks, __ATOMIC_RELAXED);
    first.mono = __atomic_load_n(&pt.header->first.mono, __ATOMIC_RELAXED);
    if (first.mono < 0 || first.mono > now.mono || first.ticks > now.ticks) /* not our log, or overwritten */
        first = now;
    while (now.mono - first.mono < SHORTEST || (spread > (now.ticks - first.ticks) / 100 && tries++ < MOST_TRIES))
        now = tightest_pair(&spread);
    double ticks = (double)duration * (double)(now.ticks - first.ticks) / (double)(now.mono - first.mono);
    return ticks < 0x1p63 ? (uint64_t)ticks : 1ull << 63;
}
