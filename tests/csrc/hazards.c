/* What C code may do that a tracer must survive.  Built by
 * tests/capture/test_csrc.py as a shared library, several times with other
 * flags, and called from a traced Python through ctypes.  Each function returns 0
 * when all went as it would untraced, else the number of the line that did not. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPECT(condition)    \
    do                       \
        if (!(condition))    \
            return __LINE__; \
    while (0)

/* ---- plain calls, and calls through tables ------------------------------------ */

int plain_calls(const char *path, int times)
{
    char block[100];
    int fd = open(path, O_RDONLY);
    EXPECT(fd >= 0);
    for (int n = 0; n < times; n++)
        EXPECT(pread(fd, block, sizeof block, n) == sizeof block);
    EXPECT(close(fd) == 0);
    return 0;
}

/* As in sqlite: addresses in initialised data, filled in by absolute relocations. */
static struct calls {
    int (*open)(const char *, int, ...);
    ssize_t (*pread)(int, void *, size_t, off_t);
    int (*close)(int);
} calls = {open, pread, close};
static ssize_t (*const constant_pread)(int, void *, size_t, off_t) = pread;

int table_calls(const char *path, int times)
{
    char block[100];
    struct calls *volatile through = &calls;
    ssize_t (*const volatile *constant)(int, void *, size_t, off_t) = &constant_pread;
    int fd = through->open(path, O_RDONLY);
    EXPECT(fd >= 0);
    for (int n = 0; n < times; n++)
        EXPECT((n % 2 ? through->pread : *constant)(fd, block, sizeof block, n) == sizeof block);
    EXPECT(through->close(fd) == 0);
    return 0;
}

int looked_up_calls(const char *path, int times)
{
    char block[100];
    void *libc = dlopen("libc.so.6", RTLD_LAZY);
    int (*my_open)(const char *, int, ...) = dlsym(RTLD_DEFAULT, "open");
    ssize_t (*my_pread)(int, void *, size_t, off_t) = dlsym(libc ? libc : RTLD_DEFAULT, "pread");
    int (*my_close)(int) = dlsym(RTLD_DEFAULT, "close");
    EXPECT(my_open && my_pread && my_close);
    EXPECT(dlsym(RTLD_DEFAULT, "no such name") == NULL && dlerror() != NULL);
#if defined(__GLIBC__) /* musl has no versions, and finds only what was loaded later */
    EXPECT(dlsym(RTLD_NEXT, "read") != NULL);
    EXPECT(dlvsym(RTLD_DEFAULT, "no such name", "NONE_1") == NULL);
#endif
    EXPECT(dlsym(RTLD_DEFAULT, "pread") == (void *)pread); /* the same function, wherever it is taken from */
    int fd = my_open(path, O_RDONLY);
    EXPECT(fd >= 0);
    for (int n = 0; n < times; n++)
        EXPECT(my_pread(fd, block, sizeof block, n) == sizeof block);
    EXPECT(my_close(fd) == 0);
    return 0;
}

/* With -D_FORTIFY_SOURCE these become __open_2, __pread_chk, __read_chk, __fread_chk ... */
int fortified_calls(const char *path, int times, int flags, size_t size)
{
    char block[100], line[64], name[PATH_MAX];
    int fd = open(path, flags);
    EXPECT(fd >= 0);
    for (int n = 0; n < times; n++)
        EXPECT(pread(fd, block, size, n) == (ssize_t)size);
    EXPECT(read(fd, block, size) == (ssize_t)size);
    EXPECT(close(fd) == 0);
    FILE *f = fopen(path, "r");
    EXPECT(f);
    EXPECT(fread(block, 1, size, f) == size);
    EXPECT(fgets(line, (int)(size < sizeof line ? size : sizeof line), f) != NULL);
    EXPECT(fclose(f) == 0);
    EXPECT(realpath(path, name) == name);
    EXPECT(readlink(path, name, size) == -1 && errno == EINVAL);
    return 0;
}

/* ---- errno, modes, variadic arguments ------------------------------------------- */

int errno_is_left_alone(const char *path, const char *missing)
{
    char block[10];
    struct stat st;
    int ends[2];
    static const int before[] = {0, 77};
    EXPECT(pipe(ends) == 0);
    for (int i = 0; i < 2; i++) {
        errno = before[i];
        int fd = open(path, O_RDWR);
        EXPECT(fd >= 0 && errno == before[i]);
        EXPECT(read(fd, block, 10) == 10 && errno == before[i]);
        EXPECT(pread(fd, block, 10, 5) == 10 && errno == before[i]);
        EXPECT(pwrite(fd, block, 10, 5) == 10 && errno == before[i]);
        EXPECT(lseek(fd, 0, SEEK_SET) == 0 && errno == before[i]);
        EXPECT(fstat(fd, &st) == 0 && errno == before[i]);
        EXPECT(stat(path, &st) == 0 && errno == before[i]);
        EXPECT(access(path, R_OK) == 0 && errno == before[i]);
        int unseen = (int)syscall(SYS_dup, fd); /* a descriptor that must be looked up */
        EXPECT(unseen >= 0 && errno == before[i]);
        EXPECT(read(unseen, block, 10) == 10 && errno == before[i]);
        EXPECT(close(unseen) == 0 && errno == before[i]);
        EXPECT(dup2(fd, 200) == 200 && errno == before[i]);
        EXPECT(close(200) == 0 && errno == before[i]);
        EXPECT(write(ends[1], block, 10) == 10 && errno == before[i]);
        EXPECT(read(ends[0], block, 10) == 10 && errno == before[i]);
        void *at = mmap(NULL, 10, PROT_READ, MAP_SHARED, fd, 0);
        EXPECT(at != MAP_FAILED && errno == before[i]);
        EXPECT(munmap(at, 10) == 0 && errno == before[i]);
        void *self = dlopen(NULL, RTLD_LAZY);
        EXPECT(self && dlsym(self, "read") && errno == before[i]);
        EXPECT(close(fd) == 0 && errno == before[i]);
        EXPECT(open(missing, O_RDONLY) == -1 && errno == ENOENT);
        EXPECT(read(999, block, 10) == -1 && errno == EBADF);
        EXPECT(close(999) == -1 && errno == EBADF);
        EXPECT(stat(missing, &st) == -1 && errno == ENOENT);
    }
    close(ends[0]);
    close(ends[1]);
    return 0;
}

int variadic_arguments(const char *path)
{
    struct stat st;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 3, .l_len = 4};
    umask(0);
    int fd = open(path, O_CREAT | O_RDWR | O_EXCL, 0641);
    EXPECT(fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 07777) == 0641);
    EXPECT(fcntl(fd, F_SETFL, O_APPEND) == 0 && (fcntl(fd, F_GETFL) & O_APPEND));
    EXPECT(fcntl(fd, F_SETLK, &lock) == 0);
    lock.l_type = F_RDLCK;
    EXPECT(fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK);
    EXPECT(fcntl(fd, F_GETFD) == 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
    EXPECT(close(fd) == 0 && unlink(path) == 0);
    EXPECT((fd = openat(AT_FDCWD, path, O_CREAT | O_WRONLY, 0604)) >= 0 && fstat(fd, &st) == 0);
    EXPECT((st.st_mode & 07777) == 0604 && close(fd) == 0);
    void *at = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT((at = mremap(at, 8192, 16384, MREMAP_MAYMOVE)) != MAP_FAILED && munmap(at, 16384) == 0);
    return 0;
}

/* ---- signals ------------------------------------------------------------------------ */

static int handler_fd, handler_count;
static void handler_that_writes(int number)
{
    (void)number;
    int saved = errno;
    if (write(handler_fd, "0123456789", 10) == 10)
        handler_count++;
    errno = saved;
}

/* Writes from a handler in the middle of reads, on an alternate stack of the usual size or on the thread's own. */
int signals_in_the_middle(const char *path, const char *out, int wanted, int alternate)
{
    static char stack[8192];
    char block[16];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack}, before;
    struct sigaction action = {.sa_handler = handler_that_writes,
                               .sa_flags = SA_RESTART | (alternate ? SA_ONSTACK : 0)},
                     old;
    struct itimerval every = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
    int fd = open(path, O_RDONLY), reads = 0;
    handler_count = 0;
    /* a descriptor that only the handler uses, and whose opening was not seen */
    int seen = open(out, O_CREAT | O_WRONLY | O_APPEND, 0600);
    handler_fd = (int)syscall(SYS_dup, seen);
    EXPECT(fd >= 0 && handler_fd >= 0);
    EXPECT(sigaltstack(&other, &before) == 0 && sigaction(SIGALRM, &action, &old) == 0);
    EXPECT(setitimer(ITIMER_REAL, &every, NULL) == 0);
    while (handler_count < wanted) {
        EXPECT(pread(fd, block, sizeof block, reads % 1000) == sizeof block);
        reads++;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &old, NULL);
    before.ss_flags |= before.ss_sp ? 0 : SS_DISABLE;
    sigaltstack(&before, NULL);
    close(fd);
    close(handler_fd);
    close(seen);
    printf("%d %d\n", reads, handler_count);
    fflush(stdout);
    return 0;
}

/* ---- threads of C ----------------------------------------------------------------------- */

static const char *thread_path;
static void *reading_thread(void *unused)
{
    (void)unused;
    return (void *)(long)plain_calls(thread_path, 500);
}

int threads_without_python(const char *path, size_t stack_size)
{
    pthread_t threads[4];
    pthread_attr_t attributes;
    size_t smallest = PTHREAD_STACK_MIN; /* on aarch64 it is 128 KiB */
    thread_path = path;
    EXPECT(pthread_attr_init(&attributes) == 0);
    if (stack_size)
        EXPECT(pthread_attr_setstacksize(&attributes, stack_size < smallest ? smallest : stack_size) == 0);
    for (int n = 0; n < 4; n++)
        EXPECT(pthread_create(&threads[n], &attributes, reading_thread, NULL) == 0);
    for (int n = 0; n < 4; n++) {
        void *line;
        EXPECT(pthread_join(threads[n], &line) == 0 && line == NULL);
    }
    return 0;
}

/* ---- processes of C ------------------------------------------------------------------------ */

int vfork_and_exec(const char *path, int times)
{
    char block[100];
    struct stat st;
    int fd = open(path, O_RDONLY), ends[2];
    EXPECT(pipe(ends) == 0);
    for (int n = 0; n < times; n++) {
        pid_t pid = vfork();
        if (pid == 0) {
            int out = open("/dev/null", O_WRONLY);
            dup2(out, 1);
            dup2(out, fd); /* in the child's table only */
            fstat(fd, &st);
            close(out);
            close(ends[0]);
            if (open(path, O_RDONLY) != ends[0] || pread(ends[0], block, 50, 1000 + n) != 50 || close(ends[0]) != 0)
                _exit(99);
            execl(n % 2 ? "/nonexistent" : "/bin/true", "true", NULL);
            _exit(100 + n % 50);
        }
        int status;
        EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == (n % 2 ? 100 + n % 50 : 0));
        EXPECT(pread(fd, block, sizeof block, n) == sizeof block);
    }
    return close(fd);
}

typedef pid_t forking(void);
/* fork() of C, or a way that runs no atfork handlers: _Fork(), or the bare system call. */
int forks(const char *path, const char *way, int times)
{
    char block[100];
    forking *function = strcmp(way, "syscall") == 0 ? NULL : (forking *)dlsym(RTLD_DEFAULT, way);
    int fd = open(path, O_RDONLY);
    for (int n = 0; n < times; n++) {
        pid_t pid = function ? function() : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        for (int m = 0; m < 50; m++)
            if (pread(fd, block, sizeof block, (pid ? 1000 : 2000) + m) != sizeof block)
                _exit(1);
        if (pid == 0)
            _exit(0);
        int status;
        EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    }
    return close(fd);
}

/* ---- C streams --------------------------------------------------------------------------------- */

int streams(const char *path)
{
    char block[64], *line = NULL;
    size_t room = 0;
    FILE *f = fopen(path, "w+");
    EXPECT(f && fwrite("0123456789\n", 1, 11, f) == 11);
    EXPECT(fputs("a line\n", f) >= 0 && fprintf(f, "%d %s\n", 42, "x") == 5);
    EXPECT(fflush(f) == 0 && fseek(f, 0, SEEK_SET) == 0);
    EXPECT(fread(block, 1, 4, f) == 4 && fgets(block, sizeof block, f) && strcmp(block, "456789\n") == 0);
    EXPECT(getline(&line, &room, f) == 7 && getline(&line, &room, f) == 5 && getline(&line, &room, f) == -1);
    EXPECT(feof(f) && !ferror(f) && fread(block, 1, 4, f) == 0);
    rewind(f);
    EXPECT(ftell(f) == 0 && fclose(f) == 0);
    free(line);
    errno = 0;
    EXPECT(fopen("/nonexistent", "r") == NULL && errno == ENOENT);
    return 0;
}
