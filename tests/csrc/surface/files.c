/* Files without streams: asynchronous calls, nodes, walks through folders,
 * shared memory, handles, descriptor numbers that are reused.  Run in a folder of
 * its own. */
#include "account.h"

#include <aio.h>
#include <dirent.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <linux/fs.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>

static int make(const char *name, int size)
{
    char block[10000];
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    memset(block, 'm', sizeof block);
    did("open", name, -1, fd < 0);
    if (size) {
        if (write(fd, block, (size_t)size) != size)
            return -1;
        did("write", name, size, 0);
    }
    return fd;
}

static int finish(const char *name, int fd)
{
    int result = close(fd);
    did("close", name, -1, result);
    return result;
}

/* ---- asynchronous I/O ------------------------------------------------------------ */

static int wait_for(struct aiocb *block)
{
    const struct aiocb *list[] = {block};
    int error;
    while ((error = aio_error(block)) == EINPROGRESS)
        if (aio_suspend(list, 1, NULL) != 0)
            return -1;
    return error;
}

static int completed; /* by a signal that the library sends when it is done */
static struct aiocb *signalled;
static void on_completion(int number)
{
    (void)number;
    completed = aio_error(signalled) == 0 ? (int)aio_return(signalled) : -1;
}

static int asynchronous(void)
{
    enum { COUNT = 40, SIZE = 1000 };
    static char blocks[COUNT][SIZE];
    static struct aiocb all[COUNT], *list[COUNT + 2];
    int fd = make("aio", 0);
    EXPECT(fd >= 0);
    for (int n = 0; n < COUNT; n++) {
        all[n] = (struct aiocb){.aio_fildes = fd, .aio_buf = blocks[n], .aio_nbytes = SIZE, .aio_offset = n * SIZE};
        all[n].aio_lio_opcode = LIO_WRITE;
        EXPECT(aio_write(&all[n]) == 0);
    }
    for (int n = 0; n < COUNT; n++) {
        EXPECT(wait_for(&all[n]) == 0 && aio_return(&all[n]) == SIZE);
        did("aio_write", "aio", SIZE, 0);
    }
    struct aiocb sync = {.aio_fildes = fd};
    EXPECT(aio_fsync(O_SYNC, &sync) == 0 && wait_for(&sync) == 0 && aio_return(&sync) == 0);
    did("aio_fsync", "aio", -1, 0);
    for (int n = 0; n < COUNT; n++) {
        all[n].aio_lio_opcode = n == 7 ? LIO_NOP : LIO_READ;
        all[n].aio_offset = (n + 1) * SIZE - 500; /* the last one has half of it left */
        list[n + (n > 20)] = &all[n];
    }
    EXPECT(lio_listio(LIO_WAIT, list, COUNT + 2, NULL) == 0);
    for (int n = 0; n < COUNT; n++) {
        if (n == 7)
            continue;
        EXPECT(aio_error(&all[n]) == 0 && aio_return(&all[n]) == (n == COUNT - 1 ? 500 : SIZE));
        did("aio_read", "aio", n == COUNT - 1 ? 500 : SIZE, 0);
    }
    EXPECT(signal(SIGUSR1, on_completion) != SIG_ERR);
    struct aiocb told = {.aio_fildes = fd, .aio_buf = blocks[0], .aio_nbytes = 123, .aio_offset = 5};
    told.aio_sigevent = (struct sigevent){.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    signalled = &told;
    EXPECT(aio_read(&told) == 0);
    for (int i = 0; i < 5000 && !*(volatile int *)&completed; i++)
        usleep(1000);
    EXPECT(completed == 123);
    did("aio_read", "aio", 123, 0);
    EXPECT(finish("aio", fd) == 0);

    EXPECT((fd = open("aio", O_RDONLY)) >= 0);
    did("open", "aio", -1, 0);
    struct aiocb wrong = {.aio_fildes = fd, .aio_buf = blocks[0], .aio_nbytes = SIZE};
    EXPECT(aio_write(&wrong) == 0);
    int error = wait_for(&wrong);
    say("written: %d\n", error);
    errno = error;
    did("aio_write", "aio", 0, 1);
    errno = 77;
    RESULT(aio_return(&wrong));
    wrong.aio_reqprio = -5;
    errno = 0;
    RESULT(aio_read(&wrong));
    did("aio_read", "aio", 0, 1);
    RESULT(aio_cancel(fd, NULL));
    did("aio_cancel", "aio", -1, 0);
    return finish("aio", fd);
}

/* ---- nodes, attributes, other names ------------------------------------------------- */

extern int __xmknod(int, const char *, mode_t, dev_t *); /* glibc before 2.33 */
extern int __xmknodat(int, int, const char *, mode_t, dev_t *);
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static int open_by_handle(int here)
{
    struct file_handle *handle = calloc(1, sizeof *handle + 128);
    handle->handle_bytes = 128;
    int mount, result;
    errno = 0;
    say("handle: %d, errno %d\n", (result = name_to_handle_at(here, "node", handle, &mount, 0)), errno);
    did("name_to_handle_at", "node", -1, result);
    if (result == 0) {
        int again = open_by_handle_at(here, handle, O_RDWR);
        say("again: %d, errno %d\n", again, errno);
        if (again >= 0) {
            did("open_by_handle_at", "node", -1, 0);
            EXPECT(write(again, "abc", 3) == 3);
            did("write", "node", 3, 0);
            EXPECT(finish("node", again) == 0);
        }
    }
    free(handle);
    return 0;
}

static int nodes(void)
{
    struct timeval times[2] = {{1, 2}, {3, 4}};
    dev_t none = 0;
    int fd = make("nodes", 100), here = open(".", O_RDONLY);
    EXPECT(fd >= 0 && here >= 0);
    RESULT(mknod("node", S_IFREG | 0600, 0));
    did("mknod", "node", -1, 0);
    errno = 0;
    RESULT(mknod("node", S_IFREG | 0600, 0));
    did("mknod", "node", -1, 1);
    RESULT(mknodat(here, "node2", S_IFIFO | 0600, 0));
    did("mknod", "node2", -1, 0);
    RESULT(__xmknod(0, "node3", S_IFREG | 0600, &none));
    did("mknod", "node3", -1, 0);
    RESULT(__xmknodat(0, here, "node4", S_IFREG | 0600, &none));
    did("mknod", "node4", -1, 0);
    RESULT(lchmod("node", 0640));
    did("chmod", "node", -1, 0);
    RESULT(futimesat(here, "node", times));
    did("utimensat", "node", -1, 0);
    RESULT(futimesat(fd, NULL, times));
    did("futime", "nodes", -1, 0);
    errno = 55;
    RESULT(pathconf("node", _PC_NAME_MAX));
    did("pathconf", "node", -1, 0);
    errno = 0;
    RESULT(pathconf("missing", _PC_LINK_MAX));
    did("pathconf", "missing", -1, errno != 0);
    errno = 56;
    RESULT(fpathconf(fd, _PC_PATH_MAX));
    did("fpathconf", "nodes", -1, 0);
    errno = 0;
    RESULT(chroot("missing"));
    did("chroot", "missing", -1, 1);
    EXPECT(open_by_handle(here) == 0);
    int other = make("clone", 0);
    errno = 0;
    RESULT(ioctl(other, FICLONE, fd) == 0 ? 0 : errno);
    struct file_clone_range range = {.src_fd = fd, .src_length = 0};
    RESULT(ioctl(other, FICLONERANGE, &range) == 0 ? 0 : errno);
    int available = -1;
    RESULT(ioctl(fd, FIONREAD, &available));
    say("available: %d\n", available);
    EXPECT(finish("clone", other) == 0);
    sync();
    return finish("nodes", fd) || close(here);
}

static int shared_memory(const char *name)
{
    char path[100] = "/";
    strcat(path, name);
    int fd = shm_open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    EXPECT(fd >= 0);
    did("shm_open", name, -1, 0);
    EXPECT(write(fd, "1234567", 7) == 7);
    did("write", name, 7, 0);
    char *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    EXPECT(at != MAP_FAILED);
    did("mmap", name, -1, 0);
    EXPECT(posix_madvise(at, 4096, POSIX_MADV_SEQUENTIAL) == 0);
    did("madvise", name, -1, 0);
    EXPECT(munmap(at, 4096) == 0);
    did("munmap", name, -1, 0);
    EXPECT(finish(name, fd) == 0);
    EXPECT(shm_unlink(path) == 0);
    did("unlink", name, -1, 0);
    errno = 0;
    RESULT(shm_open(path, O_RDONLY, 0));
    did("shm_open", name, -1, 1);
    return 0;
}

/* ---- walks -------------------------------------------------------------------------- */

static int visited;
static int visit(const char *path, const struct stat *st, int kind)
{
    (void)path, (void)st, (void)kind;
    visited++;
    return 0;
}
static int visit_here(const char *path, const struct stat *st, int kind, struct FTW *place)
{
    (void)st;
    visited++;
    if (kind != FTW_F)
        return 0;
    int fd = open(path + place->base, O_RDONLY); /* a name that is good in its folder only */
    did("open", path + place->base, -1, fd < 0);
    return fd < 0 || finish(path + place->base, fd);
}

static int listings(void);

static int walks(void)
{
    char name[32];
    EXPECT(mkdir("tree", 0700) == 0 && mkdir("tree/below", 0700) == 0);
    did("mkdir", "tree", -1, 0);
    did("mkdir", "below", -1, 0);
    for (int n = 0; n < 5; n++) {
        sprintf(name, "tree/%sw%d", n % 2 ? "below/" : "", n);
        int fd = open(name, O_CREAT | O_WRONLY, 0600);
        did("open", strrchr(name, '/') + 1, -1, fd < 0);
        EXPECT(finish(strrchr(name, '/') + 1, fd) == 0);
    }
    RESULT(ftw("tree", visit, 5));
    did("ftw", "tree", -1, 0);
    RESULT(nftw("tree", visit_here, 5, FTW_PHYS | FTW_CHDIR));
    did("ftw", "tree", -1, 0);
    errno = 0;
    RESULT(ftw("missing", visit, 5));
    did("ftw", "missing", -1, 1);
    say("visited %d\n", visited);

    char *roots[] = {"tree", NULL};
    for (int i = 0; i < 2; i++) {
        FTS *walk = fts_open(roots, i ? FTS_PHYSICAL : FTS_PHYSICAL | FTS_NOCHDIR, NULL);
        EXPECT(walk);
        did("fts_open", "tree", -1, 0);
        int entries = 0;
        FTSENT *entry;
        while ((entry = fts_read(walk))) {
            entries++;
            did("fts_read", "tree", -1, 0);
            if (i && entry->fts_info == FTS_F) {
                int fd = open(entry->fts_accpath, O_RDONLY);
                did("open", entry->fts_name, -1, fd < 0);
                EXPECT(finish(entry->fts_name, fd) == 0);
            }
        }
        did("fts_read", "tree", -1, 0);
        say("%d entries\n", entries);
        RESULT(fts_close(walk));
    }
    struct stat st;
    RESULT(stat("tree", &st)); /* back where it began */
    did("stat", "tree", -1, 0);

    glob_t found;
    RESULT(glob("tree/w*", 0, NULL, &found));
    say("%d found\n", (int)found.gl_pathc);
    did("glob", "w*", -1, 0);
    globfree(&found);
    RESULT(glob("tree/x*", 0, NULL, &found));
    did("glob", "x*", -1, 0);
    return listings();
}

/* Of the tree that walks() has made. */
static int listings(void)
{
    struct dirent **names, *entry, room;
    int here = open(".", O_RDONLY), count;
    count = scandirat(here, "tree", &names, NULL, alphasort);
    say("%d names\n", count);
    did("scandir", "tree", -1, 0);
    for (int n = 0; n < count; n++)
        free(names[n]);
    free(names);
    close(here);
    DIR *folder = opendir("tree");
    EXPECT(folder);
    did("opendir", "tree", -1, 0);
    long first = telldir(folder);
    count = 0;
    while (readdir_r(folder, &room, &entry) == 0 && entry)
        count++, did("readdir", "tree", -1, 0);
    did("readdir", "tree", -1, 0);
    seekdir(folder, first);
    did("seekdir", "tree", -1, 0);
    while (readdir(folder))
        count++, did("readdir", "tree", -1, 0);
    did("readdir", "tree", -1, 0);
    say("%d names\n", count);
    rewinddir(folder);
    did("rewinddir", "tree", -1, 0);
    EXPECT(readdir(folder));
    did("readdir", "tree", -1, 0);
    RESULT(closedir(folder));
    did("closedir", "tree", -1, 0);
    int fd = open("tree", O_RDONLY | O_DIRECTORY);
    did("open", "tree", -1, 0);
    char entries[4096];
    off_t base = 0;
    RESULT(getdirentries(fd, entries, sizeof entries, &base) > 0);
    did("getdents", "tree", -1, 0);
    return finish("tree", fd);
}

/* ---- reused descriptor numbers: what happens to them does not happen to the first file -- */

static int given(int which)
{
    sigset_t none;
    int pair[2];
    sigemptyset(&none);
    switch (which) {
    case 0: return memfd_create("memory", 0);
    case 1: return eventfd(0, 0);
    case 2: return epoll_create(1);
    case 3: return epoll_create1(0);
    case 4: return inotify_init();
    case 5: return inotify_init1(0);
    case 6: return signalfd(-1, &none, 0);
    case 7: return timerfd_create(CLOCK_MONOTONIC, 0);
    case 8: return socket(AF_UNIX, SOCK_STREAM, 0);
    case 9: return pipe(pair) ? -1 : pair[0];
    case 10: return socketpair(AF_UNIX, SOCK_STREAM, 0, pair) ? -1 : pair[0];
    case 11: return posix_openpt(O_RDWR | O_NOCTTY);
    case 12: return pipe2(pair, O_CLOEXEC) ? -1 : pair[0];
    default: return -2;
    }
}

static int numbers(void)
{
    int fd;
    for (int which = 0; which <= 12; which++) {
        EXPECT((fd = make("number", 10)) >= 0);
        EXPECT(syscall(SYS_close, fd) == 0); /* nobody sees that */
        EXPECT(given(which) == fd);
        ssize_t n = pwrite(fd, "12345678", 8, 0);
        (void)n;
        struct stat st;
        EXPECT(fstat(fd, &st) == 0);
        close(fd);
        close(fd + 1);
    }
    return 0;
}

/* A file received over a socket, under a reused number. */
static int handed_over(void)
{
    char data = 'x', space[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&data, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    int ends[2], sent = make("sent", 10), stale;
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && sent >= 0);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(header), &sent, sizeof sent);
    EXPECT(sendmsg(ends[0], &message, 0) == 1);
    EXPECT((stale = make("stale", 10)) >= 0 && syscall(SYS_close, stale) == 0);
    message.msg_controllen = sizeof space;
    int got;
    EXPECT(recvmsg(ends[1], &message, 0) == 1 && CMSG_FIRSTHDR(&message));
    memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof got);
    EXPECT(got == stale);
    EXPECT(write(got, "12345", 5) == 5);
    did("write", "sent", 5, 0);
    EXPECT(finish("sent", got) == 0 && finish("sent", sent) == 0);
    return close(ends[0]) || close(ends[1]);
}

int files(const char *folder, const char *to, const char *shared)
{
    int (*const parts[])(void) = {asynchronous, nodes, walks, numbers, handed_over};
    EXPECT(chdir(folder) == 0);
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) {
        int line = parts[i]();
        if (line)
            return line;
    }
    int line = shared_memory(shared);
    return line ? line : tell(to);
}
