/* The access pattern and the result lines of IOR (https://github.com/hpc/ior, interface POSIX), with processes of its own.
 *
 *   ior -N TASKS -i ITERATIONS -b BLOCK -t TRANSFER -s SEGMENTS [-F] [-C] [-e] -o FILE      (sizes in bytes)
 *
 * Each iteration writes and then reads the file: every task SEGMENTS blocks, which lie one after the other by segment
 * and task, or in a file for each task with -F; -C: a task reads what the next one wrote; -e: fsync after writing.
 * Before each transfer it seeks.  Barriers are around both phases.  As in IOR, the bandwidth is the bytes of all tasks
 * over the time from the first open to the last close. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TASKS_MOST 16

static int tasks = 2, iterations = 1, own_files, next_task, sync_writes;
static long block = 1 << 20, transfer = 1 << 18, segments = 1;
static const char *file = "ior.dat";

/* Of one task in one phase: when it began, had opened, had transferred, had closed. */
struct times {
    double at[4];
};

static struct shared {
    pthread_barrier_t barrier;
    struct times times[TASKS_MOST];
    long transfers[TASKS_MOST];
} *shared;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void name_of(char *name, size_t size, int task)
{
    if (own_files)
        snprintf(name, size, "%s.%08d", file, task);
    else
        snprintf(name, size, "%s", file);
}

static int phase(int task, int writing, char *buffer)
{
    int of = writing || !next_task ? task : (task + 1) % tasks;
    struct times *times = &shared->times[task];
    char name[4096];
    name_of(name, sizeof name, of);
    shared->transfers[task] = 0;
    pthread_barrier_wait(&shared->barrier);
    times->at[0] = now();
    int fd = open(name, writing ? O_RDWR | O_CREAT : O_RDONLY, 0664);
    if (fd < 0)
        return 1;
    times->at[1] = now();
    for (long segment = 0; segment < segments; segment++)
        for (long done = 0; done < block; done += transfer) {
            long begin = own_files ? segment * block : (segment * tasks + of) * block;
            if (lseek(fd, begin + done, SEEK_SET) < 0)
                return 1;
            ssize_t moved = writing ? write(fd, buffer, (size_t)transfer) : read(fd, buffer, (size_t)transfer);
            if (moved != transfer)
                return 1;
            shared->transfers[task]++;
        }
    if (writing && sync_writes && fsync(fd) != 0)
        return 1;
    times->at[2] = now();
    if (close(fd) != 0)
        return 1;
    times->at[3] = now();
    pthread_barrier_wait(&shared->barrier);
    return 0;
}

static double least(int which)
{
    double found = shared->times[0].at[which];
    for (int task = 1; task < tasks; task++)
        found = shared->times[task].at[which] < found ? shared->times[task].at[which] : found;
    return found;
}

static double most(int which)
{
    double found = shared->times[0].at[which];
    for (int task = 1; task < tasks; task++)
        found = shared->times[task].at[which] > found ? shared->times[task].at[which] : found;
    return found;
}

/* By the first task, between two barriers. */
static void report(int writing, int iteration)
{
    long count = 0;
    for (int task = 0; task < tasks; task++)
        count += shared->transfers[task];
    double bytes = (double)count * (double)transfer, total = most(3) - least(0);
    printf("%-9s %.9f %.3f %.3f %.9f %.9f %.9f %.9f %d %ld\n", writing ? "write" : "read", bytes / (1 << 20) / total,
           (double)block / 1024, (double)transfer / 1024, most(1) - least(0), most(2) - least(1), most(3) - least(2),
           total, iteration, count);
    fflush(stdout);
}

static int run(int task)
{
    char *buffer = malloc((size_t)transfer), name[4096];
    if (!buffer)
        return 1;
    memset(buffer, 'a' + task, (size_t)transfer);
    for (int iteration = 0; iteration < iterations; iteration++)
        for (int writing = 1; writing >= 0; writing--) {
            if (phase(task, writing, buffer) != 0) {
                perror("ior");
                kill(0, SIGTERM); /* the others wait at a barrier */
                return 1;
            }
            if (task == 0)
                report(writing, iteration);
            pthread_barrier_wait(&shared->barrier);
        }
    name_of(name, sizeof name, task);
    if (own_files || task == 0)
        unlink(name);
    free(buffer);
    return 0;
}

int main(int argc, char **argv)
{
    for (int letter; (letter = getopt(argc, argv, "N:i:b:t:s:FCeo:")) != -1;)
        switch (letter) {
        case 'N': tasks = atoi(optarg); break;
        case 'i': iterations = atoi(optarg); break;
        case 'b': block = atol(optarg); break;
        case 't': transfer = atol(optarg); break;
        case 's': segments = atol(optarg); break;
        case 'F': own_files = 1; break;
        case 'C': next_task = 1; break;
        case 'e': sync_writes = 1; break;
        case 'o': file = optarg; break;
        default: return 2;
        }
    if (tasks < 1 || tasks > TASKS_MOST || transfer < 1 || block % transfer)
        return 2;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    if (shared == MAP_FAILED || pthread_barrier_init(&shared->barrier, &attributes, (unsigned)tasks) != 0)
        return 1;
    printf("access    bw(MiB/s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   total(s)   iter  transfers\n");
    fflush(stdout);
    for (int task = 1; task < tasks; task++)
        if (fork() == 0)
            _exit(run(task));
    int status = run(0);
    for (int child; wait(&child) > 0;)
        status |= child;
    return status != 0;
}
