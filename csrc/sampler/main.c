/* The program pyio-trace-sample: looks at all Python threads of a run, many times a second, from outside; on request
 * also at the system beside the run (system.c).
 *
 * It reads their frames by process_vm_readv.  /proc tells what they wait for, their processor time, and how long they
 * waited for a processor.  It never stops, signals or changes a process.  The core starts it with the run
 * (csrc/core/process/sampler.c); the live log is its only descriptor.  The run's last process kills it if it can, or it
 * ends by itself soon after.  Being killed loses nothing, because every sample is in the log at once (runs.c).
 *
 * If it uses more than two per cent of a processor, it looks less often. */
#include "sampler.h"

#include "base/clock.h"
#include "base/sys.h"
#include "log/chunks.h"
#include "log/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BUDGET 0.02                  /* of a processor */
#define WEIGHED_EVERY 500000000ull   /* ns */
#define LONGEST_PERIOD 1000000000ull /* ns */
#define LINGERS 2000000000ull        /* ns: how long it waits for an expected process, which may never come */
#define NEVER UINT64_MAX
#define CLOSE_RANGE_BY_ONE 65536

static uint64_t ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- becoming one's own process ------------------------------------------------------ */

static void leave(int signal)
{
    (void)signal;
    _exit(0);
}

/* Undoes what it inherits from the program: signal handlers and masks, scheduling, descriptors, folder, limits. */
static void forget_the_program(int log)
{
    struct sigaction usual = {.sa_handler = SIG_DFL};
    struct rlimit files;
    sigset_t none;
    setsid();
    for (int i = 1; i < NSIG; i++)
        sigaction(i, &usual, NULL);
    /* SIGBUS: the log was truncated, or its disk is full.  Nothing is left to do then. */
    usual.sa_handler = leave;
    sigaction(SIGBUS, &usual, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    cpu_set_t all;
    memset(&all, 0xff, sizeof all);
    sched_setaffinity(0, sizeof all, &all);
    int policy = sched_getscheduler(0);
    if (policy != SCHED_OTHER && policy != SCHED_BATCH && policy != SCHED_IDLE) /* of a real-time program */
        sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0});
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 3; i++)
        if (null < 0 || dup2(null, i) < 0)
            close(i);
    for (int fd = 3; fd < log; fd++)
        close(fd);
    if (pt_sys(SYS_close_range, log + 1, ~0u, 0) != 0)
        for (int fd = log + 1; fd < CLOSE_RANGE_BY_ONE; fd++)
            close(fd);
    if (chdir("/") != 0)
        return;
    prctl(PR_SET_NAME, "pyio-trace-sample");
    prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
}

/* ---- rounds ------------------------------------------------------------------------------ */

/* Waits until a time, or until no process is left. */
static void wait_until(uint64_t due)
{
    static struct pollfd ends[PROCESSES_MOST];
    for (;;) {
        uint64_t now = ns(CLOCK_MONOTONIC), left = due > now ? due - now : 0;
        unsigned count = 0, alive = 0;
        for (unsigned i = 0; i < sampler_process_count; i++) {
            struct process *p = sampler_processes[i];
            ends[count++] = (struct pollfd){.fd = p->gone ? -1 : p->pidfd, .events = POLLIN};
            alive += !p->gone && p->pidfd >= 0;
        }
        struct timespec timeout = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
        int ready = ppoll(ends, count, &timeout, NULL);
        for (unsigned i = 0; i < count; i++)
            if (ends[i].fd >= 0 && ends[i].revents)
                sampler_processes[i]->gone = true;
        if (ready <= 0 || !alive)
            return;
    }
}

/* A random period about as long, so that looks do not fall into step with what a program does regularly. */
static uint64_t jittered(uint64_t period)
{
    static uint64_t seed = 88172645463325252ull;
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return period * 3 / 4 + period / 2 * (seed >> 11 & 1023) / 1023;
}

/* Returns a period that keeps to the budget, and records in the log the processor time used. */
static uint64_t weigh(uint64_t period, uint64_t usual, uint64_t now)
{
    static uint64_t since, used_before;
    if (!since)
        since = now;
    if (now - since < WEIGHED_EVERY)
        return period;
    uint64_t used = ns(CLOCK_PROCESS_CPUTIME_ID);
    double share = (double)(used - used_before) / (double)(now - since);
    since = now;
    used_before = used;
    __atomic_store_n(&pt.header->sampler_cpu, used, __ATOMIC_RELAXED);
    if (share > BUDGET)
        period = (uint64_t)((double)period * share / BUDGET);
    else if (share < BUDGET / 2)
        period = period / 4 * 3;
    period = period < LONGEST_PERIOD ? period : LONGEST_PERIOD;
    return period > usual ? period : usual;
}

static bool is_at_its_end(uint64_t now)
{
    static uint64_t since;
    if (sampler_process_count) {
        since = 0;
        return false;
    }
    since = since ? since : now;
    return now - since > LINGERS || !sampler_expects_another();
}

static void begin_anew(void)
{
    for (unsigned i = 0; i < sampler_process_count; i++)
        for (unsigned k = 0; k < sampler_processes[i]->count; k++)
            sampler_processes[i]->threads[k].known = false;
}

/* usual: ns between two looks at threads; 0: none.  system: ns between two looks at the system; 0: none. */
static void look_around(uint64_t usual, uint64_t system)
{
    struct moment m = {.now = ns(CLOCK_MONOTONIC), .now_ticks = pt_ticks()};
    uint64_t period = usual, due = m.now;
    uint64_t system_due = system ? sampler_look_at_system(&m, system) : NEVER;
    for (;;) {
        due += usual ? jittered(period) : LONGEST_PERIOD;
        due = due > m.now ? due : m.now;
        due = due < system_due ? due : system_due;
        wait_until(due);
        m.round++;
        m.from = m.now;
        m.from_ticks = m.now_ticks;
        m.now = ns(CLOCK_MONOTONIC);
        m.now_ticks = pt_ticks();
        sampler_log_is_full = __atomic_load_n(&pt.header->full_reason, __ATOMIC_RELAXED) != PT_NOT_FULL;
        sampler_update_processes();
        if (m.now - m.from > LONGEST_RUN + 3 * period) { /* we were stopped, and know nothing of the time between */
            m.from = m.now;
            m.from_ticks = m.now_ticks;
            begin_anew();
        }
        if (m.now >= system_due)
            system_due = sampler_look_at_system(&m, system);
        for (unsigned i = 0; usual && i < sampler_process_count; i++)
            if (sampler_is_readable(sampler_processes[i]))
                sampler_look_at(sampler_processes[i], &m);
        if (usual)
            period = weigh(period, usual, m.now);
        if (is_at_its_end(m.now))
            return;
    }
}

int main(int argc, char **argv)
{
    int log = argc == 2 ? atoi(argv[1]) : 0;
    if (log < 3)
        return 2; /* it was started by hand */
    forget_the_program(log);
    if (!sampler_open_log(log))
        return 1;
    uint32_t hz = pt.header->sampling_hz;
    look_around(hz ? 1000000000ull / (hz < 1000 ? hz : 1000) : 0, pt.header->system_period);
    return 0;
}
