/* Reads pairs of clocks of its own, which make two ticks a nanosecond, where the thread loses the processor in the
 * middle of the pairs that its arguments number.
 *
 * Prints the ticks of a millisecond as pt_clock_ticks has them, how far a pair's ticks are from its time, and how many
 * clocks were read. */
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>

#define LOST 3000000 /* ns */

static int64_t time_now = 1000;
static int readings, interrupted, of_words;
static char **words;

static uint64_t own_ticks(void)
{
    return (uint64_t)(time_now += 20) * 2;
}

static int own_gettime(clockid_t id, struct timespec *t)
{
    time_now += 20;
    readings++;
    t->tv_sec = time_now / 1000000000;
    t->tv_nsec = time_now % 1000000000;
    if (id == CLOCK_MONOTONIC)
        for (int i = 0, pair = readings / 2; i < of_words; i++)
            if (atoi(words[i]) == pair) {
                time_now += LOST;
                interrupted++;
            }
    return 0;
}

#define pt_ticks own_ticks
#define clock_gettime own_gettime
#include "base/clock.c"

PT_DATA struct pt_state pt;

int main(int count, char **arguments)
{
    static struct pt_header header;
    pt.header = &header;
    words = arguments + 1;
    of_words = count - 1;
    pt.tick_kind = PT_TICKS_TSC;
    header.first = pt_clock_pair();
    time_now += 1200000;
    unsigned long long ticks = pt_clock_ticks(1000000);
    struct pt_clock_pair last = pt_clock_pair();
    printf("%llu %lld %d %d\n", ticks, (long long)(last.ticks - 2 * (uint64_t)last.mono), readings, interrupted);
    return 0;
}
