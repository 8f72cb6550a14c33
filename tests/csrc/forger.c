/* The core under attack: while this program works in threads and forks, another
 * process that has the log mapped writes over its header, its index, its process
 * entries, chunk headers and tables.  64 GiB of inaccessible memory, as much as
 * an id can reach, lie on either side of the log: a stray load or store is a SIGSEGV.
 *
 * forger MODE SEED ROUNDS LOG FOLDER [FIELD VALUE]: with the last two, every
 * round sets that field to that value.  A crash, a hang or a wrong result of the
 * program's own calls ends it with a line on stderr. */
#include "demand.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define BUDGET (8ull << 20)
#define GUARD (64ull << 30) /* what 2^32 ids of 16 bytes reach */
#define ROUNDS_PER_PROCESS 50
#define WORKERS 3
#define BLOCK 256

extern char **environ;
static const char *folder, *log_path, *field;
static uint64_t value_wanted;
static int mode;

/* Shared by the program and its attacker. */
static struct shared {
    uint64_t turns; /* of the workers */
    uint64_t rounds;
    bool over;
} *shared;

/* ---- the program's own work -------------------------------------------------- */

static void *short_life(void *file)
{
    char block[16];
    DEMAND(pread(*(int *)file, block, sizeof block, 0) == 16);
    return NULL;
}

static void use_file(const char *path, int me, unsigned turn)
{
    char block[BLOCK], back[BLOCK];
    memset(block, me + (int)turn, sizeof block);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    DEMAND(fd >= 0);
    for (int n = 0; n < 4; n++)
        DEMAND(write(fd, block, sizeof block) == BLOCK);
    int other = dup(fd);
    DEMAND(other >= 0 && lseek(other, 0, SEEK_SET) == 0);
    DEMAND(read(other, back, sizeof back) == BLOCK && memcmp(back, block, BLOCK) == 0);
    DEMAND(read(other, back, 10) == 10 && pread(fd, back, sizeof back, BLOCK) == BLOCK);
    char *at = mmap(NULL, 4 * BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    DEMAND(at != MAP_FAILED && memcmp(at, block, BLOCK) == 0 && msync(at, 4 * BLOCK, MS_ASYNC) == 0);
    DEMAND(munmap(at, 4 * BLOCK) == 0);
    if (turn % 4 == 0) { /* a new thread claims a new chunk */
        pthread_t thread;
        DEMAND(pthread_create(&thread, NULL, short_life, &fd) == 0 && pthread_join(thread, NULL) == 0);
    }
    DEMAND(close(fd) == 0 && close(other) == 0);
}

static void *worker(void *number)
{
    int me = (int)(intptr_t)number;
    char path[600];
    struct stat st;
    for (unsigned turn = 0; !__atomic_load_n(&shared->over, __ATOMIC_ACQUIRE); turn++) {
        snprintf(path, sizeof path, "%s/own-%d-%u", folder, me, turn % 8);
        use_file(path, me, turn);
        snprintf(path, sizeof path, "%s/own-%d-0/missing-%u", folder, me, turn); /* a new name */
        DEMAND(stat(path, &st) == -1 && errno == ENOTDIR);
        FILE *f = fopen("/etc/passwd", "r"); /* calls on it coalesce */
        DEMAND(f != NULL);
        for (int n = 0; n < 8; n++)
            DEMAND(fgetc(f) != EOF);
        DEMAND(fclose(f) == 0);
        DIR *stream = opendir(folder);
        DEMAND(stream != NULL && readdir(stream) != NULL && closedir(stream) == 0);
        __atomic_fetch_add(&shared->turns, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void *forking(void *unused)
{
    char path[600], *const words[] = {"true", NULL};
    (void)unused;
    for (unsigned turn = 0; !__atomic_load_n(&shared->over, __ATOMIC_ACQUIRE); turn++) {
        int status;
        snprintf(path, sizeof path, "%s/child-%u", folder, turn % 4);
        pid_t child = fork();
        if (child == 0) {
            int fd = open(path, O_WRONLY | O_CREAT, 0600);
            _exit(fd >= 0 && write(fd, "0123456789", 10) == 10 && close(fd) == 0 ? 7 : 8);
        }
        DEMAND(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
        if (turn % 8 == 0) {
            DEMAND(posix_spawnp(&child, "true", NULL, NULL, words, environ) == 0);
            DEMAND(waitpid(child, &status, 0) == child && status == 0);
        }
        usleep(2000);
    }
    return NULL;
}

/* ---- its attacker: raw system calls and stores only ---------------------------- */

static uint64_t state;
static uint64_t any(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return below ? state % below : state;
}

static struct pt_chunk *chunks[4096];
static unsigned chunk_count;

static void find_chunks(void)
{
    chunk_count = 0;
    for (uint64_t at = PT_FIRST_CHUNK; at + PT_PAGE <= pt.mapped && chunk_count < 4096; at += PT_PAGE)
        if (((struct pt_chunk *)(pt.base + at))->magic == PT_CHUNK_MAGIC)
            chunks[chunk_count++] = (struct pt_chunk *)(pt.base + at);
}

static struct pt_chunk *any_chunk(uint32_t kind)
{
    for (unsigned tries = 0; chunk_count && tries < 100; tries++) {
        struct pt_chunk *c = chunks[any(chunk_count)];
        if (c->kind == kind)
            return c;
    }
    return NULL;
}

static uint64_t any_value(void)
{
    uint64_t next = pt.header->next, mapped = pt.mapped, page = any(mapped / PT_PAGE) * PT_PAGE;
    const uint64_t values[] = {
        0,
        1,
        2,
        UINT64_MAX,
        UINT64_MAX - 1,
        1ull << 63,
        INT64_MAX,
        UINT64_MAX - 4095,
        UINT64_MAX - 8191,
        UINT64_MAX - any(1 << 20),
        UINT32_MAX,
        INT32_MAX,
        1ull << 31,
        mapped,
        mapped + 1,
        mapped - 1,
        mapped - 8,
        mapped - PT_PAGE,
        mapped + PT_PAGE,
        next,
        next + 1,
        next - 1,
        next + PT_PAGE,
        next - PT_PAGE,
        next - any(next),
        mapped >> PT_ID_SHIFT,
        (mapped >> PT_ID_SHIFT) - 1,
        (mapped >> PT_ID_SHIFT) + 1,
        page,
        page >> PT_ID_SHIFT,
        any(0),
        any(1ull << 32),
        any(256),
        any(mapped),
        any(mapped) >> PT_ID_SHIFT,
        (uint64_t)(uintptr_t)pt.base,
    };
    return values[any(sizeof values / sizeof *values)];
}

struct place {
    void *at;
    bool wide; /* eight bytes of it, else four */
};

static struct place within(void *start, uint64_t bytes)
{
    bool wide = any(2);
    uint64_t unit = wide ? 8 : 4;
    return (struct place){start ? (char *)start + any(bytes / unit) * unit : NULL, wide};
}

/* The number-th pair of a field that decides something and an edge value for it. */
static struct place of_header(unsigned number, uint64_t *value)
{
    const uint64_t edges[] = {UINT64_MAX - 4095,
                              0,
                              1,
                              UINT64_MAX,
                              1ull << 63,
                              pt.mapped,
                              pt.mapped - 1,
                              pt.mapped + 1,
                              pt.header->next - PT_PAGE,
                              pt.header->next + 1,
                              UINT32_MAX,
                              UINT64_MAX - 8191};
    const unsigned count = sizeof edges / sizeof *edges;
    *value = edges[number % count];
    struct pt_header *h = pt.header;
    const struct place fields[] = {
        {&h->next, true},           {&h->budget, true},     {&h->ring_start, true},  {&h->ring_next, true},
        {&h->first.mono, true},     {&h->run_id, true},     {&h->ring_slots, false}, {&h->processes, false},
        {&h->forks_pending, false}, {&h->tick_kind, false}, {&h->owner_pid, false},  {&h->full_reason, false},
        {&h->mode, false},          {&h->ring_lost, true},
    };
    return fields[number / count % (sizeof fields / sizeof *fields)];
}

static struct place any_place(void)
{
    switch (any(9)) {
    case 0: return within(pt.header, sizeof *pt.header);
    case 1: return within(pt.base + PT_PROCESS_INDEX_OFFSET, PT_PROCESS_BUCKETS * 4);
    case 2: return within(any_chunk(PT_CHUNK_PROCESS), sizeof(struct pt_process));
    case 3: return within(chunk_count ? chunks[any(chunk_count)] : NULL, sizeof(struct pt_chunk));
    case 4:
    case 5: return within(any_chunk(PT_CHUNK_HEAP), PT_PAGE);
    case 6: return within(any_chunk(any(2) ? PT_CHUNK_SUMS : PT_CHUNK_SUMS_DATA), PT_PAGE);
    case 7: return within(any_chunk(PT_CHUNK_OPS), PT_PAGE);
    default: return within(pt.base + PT_OPTABLE_OFFSET, PT_FIRST_CHUNK - PT_OPTABLE_OFFSET);
    }
}

static uint64_t exchange(struct place p, uint64_t value)
{
    if (p.wide)
        return __atomic_exchange_n((uint64_t *)p.at, value, __ATOMIC_SEQ_CST);
    return __atomic_exchange_n((uint32_t *)p.at, (uint32_t)value, __ATOMIC_SEQ_CST);
}

/* Waits until the program has made some progress. */
static void wait_a_little(void)
{
    uint64_t seen = __atomic_load_n(&shared->turns, __ATOMIC_RELAXED);
    struct timespec moment = {.tv_nsec = 50000};
    while (__atomic_load_n(&shared->turns, __ATOMIC_RELAXED) < seen + 3)
        pt_sys(SYS_nanosleep, &moment, 0);
}

/* Finds descriptor objects wherever an object can lie in a heap chunk. */
static void forge_roots(void)
{
    for (unsigned i = 0; i < chunk_count; i++)
        for (uint64_t at = PT_HEAP_START; chunks[i]->kind == PT_CHUNK_HEAP && at + sizeof(struct pt_desc) <= PT_PAGE;
             at += 16) {
            struct pt_desc *d = (struct pt_desc *)((char *)chunks[i] + at);
            if (d->heap.kind == PT_HEAP_DESC && d->heap.size == sizeof *d)
                d->root = (uint32_t)value_wanted;
        }
}

static void forge_entries(uint64_t offset)
{
    for (unsigned i = 0; i < chunk_count; i++)
        if (chunks[i]->kind == PT_CHUNK_PROCESS)
            exchange((struct place){(char *)chunks[i] + offset, false}, value_wanted);
}

/* Stores again and again where the next chunk will say its own offset, while the program claims and opens it. */
static void forge_offsets(void)
{
    uint64_t seen = __atomic_load_n(&shared->turns, __ATOMIC_RELAXED), at = pt.header->next;
    for (unsigned after = 0; __atomic_load_n(&shared->turns, __ATOMIC_RELAXED) < seen + 20;) {
        if (at < PT_FIRST_CHUNK || at > pt.mapped - PT_PAGE)
            return; /* the log is full */
        __atomic_store_n(&((struct pt_chunk *)(pt.base + at))->offset, value_wanted, __ATOMIC_RELAXED);
        uint64_t next = __atomic_load_n(&pt.header->next, __ATOMIC_RELAXED);
        if (next != at && ++after == 5000) { /* it was claimed some time ago */
            at = next;
            after = 0;
        }
    }
}

static void forge_field(void)
{
    struct pt_header *h = pt.header;
    if (strcmp(field, "next") == 0)
        exchange((struct place){&h->next, true}, value_wanted);
    else if (strcmp(field, "ring") == 0) {
        exchange((struct place){&h->ring_start, true}, value_wanted);
        exchange((struct place){&h->ring_slots, false}, value_wanted >> 32 ? 4 : value_wanted);
    } else if (strcmp(field, "root") == 0)
        forge_roots();
    else if (strcmp(field, "offset") == 0)
        forge_offsets();
    else if (strcmp(field, "chunk") == 0)
        for (unsigned i = 0; i < chunk_count; i++)
            exchange((struct place){any(2) ? &chunks[i]->size : &chunks[i]->cursor, true}, value_wanted);
    else if (strcmp(field, "list") == 0) { /* entries that follow themselves */
        for (unsigned i = 0; i < chunk_count; i++)
            if (chunks[i]->kind == PT_CHUNK_PROCESS)
                ((struct pt_process *)chunks[i])->previous = ((struct pt_process *)chunks[i])->bucket_next =
                    chunks[i]->process;
        forge_entries(offsetof(struct pt_process, pid));
        forge_entries(offsetof(struct pt_process, awaited));
    } else
        exchange((struct place){&h->forks_pending, false}, value_wanted);
}

static void attack(unsigned first, unsigned rounds)
{
    for (unsigned n = first; n < first + rounds; n++) {
        if (n % 8 == 0)
            find_chunks();
        if (field) {
            forge_field();
            wait_a_little();
        } else {
            uint64_t value = any_value();
            struct place p = n % 2 ? any_place() : of_header(n / 2, &value);
            uint64_t before = p.at ? exchange(p, value) : 0;
            wait_a_little();
            if (p.at && any(4))
                exchange(p, before);
        }
        __atomic_fetch_add(&shared->rounds, 1, __ATOMIC_RELAXED);
    }
}

/* ---- one process of it ----------------------------------------------------------- */

#define HUGE (2ull << 20) /* the kernel may want a file to begin at a multiple of this */

/* Guards as much of [at, at + HUGE), or with `before` of [at - HUGE, at), as the core has not mapped. */
static void guard_rest(char *at, bool before)
{
    for (uint64_t size = HUGE; size >= PT_PAGE; size /= 2) {
        char *start = before ? at - size : at;
        if (mmap(start, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == start)
            return;
    }
}

/* Leaves one hole that is large enough for the log, between two guards, so that the log is mapped there. */
static void start_guarded(unsigned turn)
{
    struct pt_selection selection = {.min_size = turn % 2 ? 100 : 0};
    struct pt_options options = {.path = log_path,
                                 .budget = BUDGET,
                                 .create = true,
                                 .stacks = PT_STACKS_OFF,
                                 .mode = (uint32_t)mode,
                                 .ring = 1 << 20,
                                 .selection = &selection};
    char *below = mmap(NULL, 2 * GUARD + 8 * HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    DEMAND(below != MAP_FAILED);
    char *hole = (char *)(((uintptr_t)below + GUARD + HUGE) & ~(HUGE - 1));
    DEMAND(munmap(hole, BUDGET + HUGE) == 0);
    start_core(&options);
    DEMAND(pt.mapped == BUDGET && pt.base >= hole && pt.base <= hole + HUGE);
    if (pt.base > hole)
        guard_rest(pt.base, true);
    if (pt.base < hole + HUGE)
        guard_rest(pt.base + BUDGET, false);
}

static void one_process(unsigned turn, unsigned rounds)
{
    pthread_t threads[WORKERS + 1];
    int status = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(60); /* a hang */
    start_guarded(turn);
    /* A bare clone: none of the core's fork handlers run in it. */
    long attacker = pt_sys6(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0);
    if (attacker == 0) {
        pt_sys(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
        attack(turn * ROUNDS_PER_PROCESS, rounds);
        pt_sys(SYS_exit_group, 0);
    }
    DEMAND(attacker > 0);
    for (intptr_t n = 0; n < WORKERS; n++)
        DEMAND(pthread_create(&threads[n], NULL, worker, (void *)n) == 0);
    DEMAND(pthread_create(&threads[WORKERS], NULL, forking, NULL) == 0);
    DEMAND(waitpid((pid_t)attacker, &status, 0) == attacker && status == 0);
    if (field && strcmp(field, "offset") == 0)
        exit(0); /* its threads work on while the core gives up what it does not use */
    __atomic_store_n(&shared->over, true, __ATOMIC_RELEASE);
    for (int n = 0; n <= WORKERS; n++)
        DEMAND(pthread_join(threads[n], NULL) == 0);
    if (turn % 10 == 0) {
        char path[600];
        snprintf(path, sizeof path, "%s/dump.pyio", folder);
        unlink(path);
        pt_log_dump(path);
    }
#ifndef __SANITIZE_ADDRESS__ /* it needs terabytes of address space */
    struct rlimit limit = {32 << 20, RLIM_INFINITY};
    if (turn % 5 == 0)
        DEMAND(setrlimit(RLIMIT_AS, &limit) == 0 && access(folder, R_OK) == 0);
#endif
    exit(0);
}

int main(int argc, char **argv)
{
    static const char *const modes[] = {"trace", "profile", "ring"};
    DEMAND(argc == 6 || argc == 8);
    while (mode < 3 && strcmp(argv[1], modes[mode]) != 0)
        mode++;
    DEMAND(mode < 3);
    uint64_t seed = strtoull(argv[2], NULL, 10);
    unsigned rounds = (unsigned)strtoul(argv[3], NULL, 10), turn = 0;
    log_path = argv[4];
    folder = argv[5];
    field = argc == 8 ? argv[6] : NULL;
    value_wanted = argc == 8 ? strtoull(argv[7], NULL, 0) : 0;
    shared = mmap(NULL, PT_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    DEMAND(shared != MAP_FAILED);
    for (unsigned done = 0; done < rounds; turn++) {
        unsigned some = rounds - done < ROUNDS_PER_PROCESS ? rounds - done : ROUNDS_PER_PROCESS;
        int status;
        shared->over = false;
        unlink(log_path); /* a log with a forged magic is not replaced by the next */
        state = (seed * 1000003 + turn + 1) * 0x9e3779b97f4a7c15ull;
        pid_t child = fork();
        if (child == 0)
            one_process(turn, some);
        DEMAND(child > 0 && waitpid(child, &status, 0) == child);
        if (status) {
            fprintf(stderr, "forger: seed %llu, process %u: %s %d\n", (unsigned long long)seed, turn,
                    WIFSIGNALED(status) ? "signal" : "status",
                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
            return 1;
        }
        done += some;
    }
    printf("%llu\n", (unsigned long long)shared->rounds);
    return 0;
}
