/* The core without Python: a C program that starts it, works in eight threads,
 * and prints what it did, for tests/csrc_core to hold the log against.  Built
 * with the core's own sources, plainly and under each sanitizer.
 *
 * driver SCENARIO LOG FOLDER BUDGET; prints "op count bytes" lines. */
#include "demand.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>

#define THREADS 8
#define BLOCK 512

enum op { OPEN, CLOSE, READ, PREAD, WRITE, DUP, DUP2, LSEEK, STAT, FSTAT, MMAP, MUNMAP, READDIR, OPS };
static const char *const names[OPS] = {"open",  "close", "read",  "pread", "write",  "dup",    "dup2",
                                       "lseek", "stat",  "fstat", "mmap",  "munmap", "readdir"};
static struct done {
    uint64_t count, bytes;
} done[OPS];

/* Counts a call that this program made; `returned` is the result of the call. */
static ssize_t did(enum op op, ssize_t returned)
{
    __atomic_fetch_add(&done[op].count, 1, __ATOMIC_RELAXED);
    if (returned > 0 && (op == READ || op == PREAD || op == WRITE))
        __atomic_fetch_add(&done[op].bytes, (uint64_t)returned, __ATOMIC_RELAXED);
    return returned;
}

static const char *folder, *log_path;
static uint64_t budget;
static int shared; /* a file of 64 blocks */
static char shared_path[512];
static pthread_barrier_t together;

static void in_folder(char *out, size_t room, const char *kind, int n)
{
    snprintf(out, room, "%s/%s%d", folder, kind, n);
}

/* ---- scenarios: each is the work of one thread ----------------------------- */

/* Each thread uses a file of its own and one that all share. */
static void plain(int me)
{
    char path[512], block[BLOCK];
    memset(block, me, sizeof block);
    in_folder(path, sizeof path, "own", me);
    for (int round = 0; round < 20; round++) {
        int fd = (int)did(OPEN, open(path, O_RDWR | O_CREAT | O_TRUNC, 0600));
        DEMAND(fd >= 0);
        for (int n = 0; n < 30; n++)
            DEMAND(did(WRITE, write(fd, block, sizeof block)) == BLOCK);
        int other = (int)did(DUP, dup(fd));
        DEMAND(other >= 0);
        DEMAND(did(LSEEK, lseek(other, 0, SEEK_SET)) == 0);
        for (int n = 0; n < 30; n++)
            DEMAND(did(READ, read(n % 2 ? fd : other, block, sizeof block)) == BLOCK);
        for (int n = 0; n < 30; n++)
            DEMAND(did(PREAD, pread(shared, block, sizeof block, n * BLOCK)) == BLOCK);
        DEMAND(did(CLOSE, close(fd)) == 0 && did(CLOSE, close(other)) == 0);
    }
}

/* All threads use the same new names and the same descriptors at the same instant. */
static void names_and_descriptors(int me)
{
    char path[512], block[16];
    struct stat st;
    for (int n = 0; n < 400; n++) {
        in_folder(path, sizeof path, "missing", n / 4);
        if (n % 4 == 0)
            pthread_barrier_wait(&together);
        DEMAND(did(STAT, stat(path, &st)) == -1);
    }
    for (int n = 0; n < 60; n++) { /* leaves of the table have 4096 entries */
        int far = 4096 * (1 + n % 4) + THREADS * n + me;
        pthread_barrier_wait(&together);
        DEMAND(did(DUP2, dup2(shared, far)) == far);
        DEMAND(did(PREAD, pread(far, block, sizeof block, n)) == 16);
        DEMAND(did(CLOSE, close(far)) == 0);
    }
    static int fresh;
    for (int n = 0; n < 60; n++) { /* all identify the same descriptor, and take copies of it */
        if (me == 0)
            DEMAND((fresh = (int)did(OPEN, open(shared_path, O_RDONLY))) >= 0);
        pthread_barrier_wait(&together);
        DEMAND(did(FSTAT, fstat(fresh, &st)) == 0);
        int copy = (int)did(DUP, dup(fresh));
        DEMAND(copy >= 0 && did(READ, read(copy, block, sizeof block)) == 16);
        DEMAND(did(CLOSE, close(copy)) == 0);
        pthread_barrier_wait(&together);
        if (me == 0)
            DEMAND(did(CLOSE, close(fresh)) == 0);
    }
}

static void mappings_and_directories(int me)
{
    (void)me;
    for (int n = 0; n < 300; n++) {
        void *at = mmap(NULL, BLOCK, PROT_READ, MAP_SHARED, shared, 0);
        DEMAND(at != MAP_FAILED);
        did(MMAP, 0);
        did(MUNMAP, munmap(at, BLOCK));
        if (n % 10)
            continue;
        DIR *stream = opendir(folder);
        DEMAND(stream != NULL);
        struct dirent *entry;
        do {
            entry = readdir(stream);
            did(READDIR, 0);
        } while (entry);
        DEMAND(closedir(stream) == 0);
    }
}

/* A thread ends after a few calls; the core reuses its place. */
static void *short_life(void *unused)
{
    char block[16];
    (void)unused;
    for (int n = 0; n < 3; n++)
        DEMAND(did(PREAD, pread(shared, block, sizeof block, n)) == 16);
    return NULL;
}

static void short_threads(int me)
{
    (void)me;
    for (int n = 0; n < 60; n++) {
        pthread_t thread;
        DEMAND(pthread_create(&thread, NULL, short_life, NULL) == 0);
        DEMAND(pthread_join(thread, NULL) == 0);
    }
}

/* A signal handler that does I/O interrupts the threads a thousand times a second. */
static int handled;
static void on_alarm(int number)
{
    int saved = errno, fd = (int)did(OPEN, open(shared_path, O_WRONLY));
    (void)number;
    DEMAND(fd >= 0 && did(WRITE, write(fd, "0123456789", 10)) == 10 && did(CLOSE, close(fd)) == 0);
    __atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
    errno = saved;
}

static void signals(int me)
{
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    char block[16];
    struct stat st;
    if (me == 0)
        DEMAND(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (int n = 0; __atomic_load_n(&handled, __ATOMIC_RELAXED) < 200 && n < 1000000; n++) {
        char path[512];
        in_folder(path, sizeof path, "missing", n); /* a new name each time takes the slow path */
        DEMAND(did(STAT, stat(path, &st)) == -1 && errno == ENOENT);
        DEMAND(did(PREAD, pread(shared, block, sizeof block, n % 100)) == 16);
    }
    pthread_barrier_wait(&together);
    if (me == 0)
        DEMAND(setitimer(ITIMER_REAL, &never, NULL) == 0);
    pthread_barrier_wait(&together);
}

/* Tracing is stopped and started while threads work.  What gets recorded cannot be predicted; only that nothing
 * breaks is checked. */
static bool switching_done;
static void restarts(int me)
{
    struct pt_options options = {.path = log_path, .budget = budget, .create = true, .stacks = PT_STACKS_OFF};
    if (me == 0) {
        for (int n = 0; n < 60; n++) {
            pt_stop();
            usleep(200);
            DEMAND(pt_start(&options) == 0);
            usleep(500);
        }
        __atomic_store_n(&switching_done, true, __ATOMIC_RELEASE);
        return;
    }
    char path[512], block[64 * BLOCK];
    struct stat st;
    for (int n = 0; !__atomic_load_n(&switching_done, __ATOMIC_ACQUIRE); n++) {
        in_folder(path, sizeof path, "missing", n % 100);
        stat(path, &st);
        int fd = open("/dev/null", O_WRONLY);
        DEMAND(fd >= 0 && write(fd, block, 16) == 16 && close(fd) == 0);
        DEMAND(pread(shared, block, sizeof block, 0) == sizeof block); /* large, so that a missing one shows */
    }
}

/* Deliberate mistakes: a sanitizer that does not report them is not active. */
static int unguarded;
static void race(int me)
{
    for (int n = 0; n < 1000; n++)
        unguarded += me;
}

static void overrun(int me)
{
    volatile char *block = malloc(16);
    block[16 + me] = 1;
    free((void *)block);
}

static const struct scenario {
    const char *name;
    void (*work)(int);
} scenarios[] = {{"plain", plain},
                 {"names", names_and_descriptors},
                 {"mappings", mappings_and_directories},
                 {"short", short_threads},
                 {"signals", signals},
                 {"restarts", restarts},
                 {"race", race},
                 {"overrun", overrun}};

/* ---- the program ------------------------------------------------------------- */

static void (*work)(int);

static void *thread_main(void *number)
{
    pthread_barrier_wait(&together);
    work((int)(intptr_t)number);
    return NULL;
}

static void make_shared(void)
{
    char block[BLOCK] = "";
    in_folder(shared_path, sizeof shared_path, "shared", 0);
    shared = open(shared_path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    DEMAND(shared >= 0);
    for (int n = 0; n < 64; n++)
        DEMAND(write(shared, block, sizeof block) == BLOCK);
}

int main(int argc, char **argv)
{
    DEMAND(argc == 5);
    log_path = argv[2];
    folder = argv[3];
    budget = strtoull(argv[4], NULL, 10);
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        if (strcmp(argv[1], scenarios[i].name) == 0)
            work = scenarios[i].work;
    DEMAND(work != NULL);
    struct rlimit limit;
    DEMAND(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max < 20000 ? limit.rlim_max : 20000; /* descriptors go up to 17,000 */
    DEMAND(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    make_shared();
    pthread_barrier_init(&together, NULL, THREADS);
    struct pt_options options = {.path = log_path, .budget = budget, .create = true, .stacks = PT_STACKS_OFF};
    start_core(&options);
    pthread_t threads[THREADS];
    for (intptr_t n = 0; n < THREADS; n++)
        DEMAND(pthread_create(&threads[n], NULL, thread_main, (void *)n) == 0);
    for (int n = 0; n < THREADS; n++)
        DEMAND(pthread_join(threads[n], NULL) == 0);
    pt_stop();
    for (int op = 0; op < OPS; op++)
        if (done[op].count)
            printf("%s %llu %llu\n", names[op], (unsigned long long)done[op].count, (unsigned long long)done[op].bytes);
    return 0;
}
