/* The clock of the records. */
#ifndef PYIO_TRACE_CLOCK_H
#define PYIO_TRACE_CLOCK_H

#include "base/state.h"
#include <time.h>

static inline uint64_t pt_ticks(void)
{
#if defined(__x86_64__)
    if (PT_LIKELY(pt.tick_kind == PT_TICKS_TSC))
        return __builtin_ia32_rdtsc(); /* not __rdtsc: its header has 60,000 lines */
#elif defined(__aarch64__)
    if (PT_LIKELY(pt.tick_kind == PT_TICKS_CNTVCT)) {
        uint64_t v;
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(v));
        return v;
    }
#endif
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
/* Approximate: for recognising pauses, not for measuring. */
static inline uint64_t pt_ticks_per_us(void)
{
#if defined(__x86_64__)
    if (PT_LIKELY(pt.tick_kind == PT_TICKS_TSC))
        return 3000; /* 2 to 4 GHz */
#elif defined(__aarch64__)
    if (PT_LIKELY(pt.tick_kind == PT_TICKS_CNTVCT)) {
        uint64_t hz;
        __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(hz));
        return hz < 1000000 ? 1 : hz / 1000000;
    }
#endif
    return 1000;
}
/* A pause ends a series of small calls, so that a timeline shows it. */
#define PT_PAUSE_US 10000u
uint32_t pt_clock_choose(void);
struct pt_clock_pair pt_clock_pair(void);
uint64_t pt_clock_ticks(uint64_t ns); /* a duration; may take a millisecond */

#endif
