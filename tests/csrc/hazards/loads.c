/* Threads that load, use and unload libraries at once: LIBRARY makes the library, else the driver. */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef LIBRARY
int space[LIBRARY]; /* each copy has another size, so that they take each other's places */

__attribute__((constructor)) static void slow(void)
{
    usleep(200);
}

static int once(void)
{
    return 1;
}

/* The loader asks for `chosen` in the middle of relocating the library: for that long it is listed, and not ready.
 * No other library can be called from here. */
static int (*choose(void))(void)
{
#ifdef __x86_64__
    struct timespec pause = {0, 400000};
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_nanosleep), "D"(&pause), "S"(0) : "rcx", "r11", "memory");
#endif
    return once;
}

int chosen(void) __attribute__((ifunc("choose")));
int (*times_read)(void) = chosen;

int look(const char *path)
{
    char byte;
    int fd = open(path, O_RDONLY);
    int got = (int)pread(fd, &byte, 1, 0);
    close(fd);
    return got * times_read();
}
#else
static const char *folder, *data;
static int libraries, times, failed;

static void *work(void *number)
{
    unsigned seed = (unsigned)(long)number;
    for (int n = 0; n < times; n++) {
        char path[512];
        snprintf(path, sizeof path, "%s/lib%d.so", folder, (int)(rand_r(&seed) % libraries));
        void *library = dlopen(path, n % 2 ? RTLD_LAZY : RTLD_NOW);
        int (*look)(const char *) = library ? (int (*)(const char *))dlsym(library, "look") : NULL;
        if (!look || look(data) != 1)
            __atomic_fetch_add(&failed, 1, __ATOMIC_RELAXED);
        if (library)
            dlclose(library);
    }
    return NULL;
}

int loads(const char *where, const char *file, int count, int threads, int each)
{
    pthread_t ids[32];
    folder = where;
    data = file;
    libraries = count;
    times = each;
    for (long n = 0; n < threads; n++)
        pthread_create(&ids[n], NULL, work, (void *)n);
    for (int n = 0; n < threads; n++)
        pthread_join(ids[n], NULL);
    return failed;
}
#endif
