/* What a library does at and after the end of its program: tests/faults/test_last_moments.py.  Each function arms one. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int armed, status_of_handler;
enum { WRITES = 1, HANGS = 2, CRASHES = 4, EXITS = 8, PRINTS = 16, KILLS = 32 };

static void write_file(const char *name, int count)
{
    static char block[4096];
    int fd = open(name, O_WRONLY | O_CREAT | O_APPEND, 0600);
    for (int i = 0; i < count; i++)
        if (write(fd, block, sizeof block) < 0)
            return;
    close(fd);
}

__attribute__((destructor)) static void at_end(void)
{
    if (armed & WRITES)
        write_file("by-destructor", 30);
    if (armed & PRINTS)
        printf("said by a destructor\n");
    if (armed & HANGS)
        for (;;)
            pause();
    if (armed & CRASHES)
        *(volatile int *)8 = 0;
    if (armed & KILLS)
        kill(getpid(), SIGTERM);
    if (armed & EXITS)
        _exit(9);
}

void arm(int what)
{
    armed = what;
}

static void exits_again(void)
{
    exit(status_of_handler);
}

/* exit() is called again by a handler. */
void exit_again(int status)
{
    status_of_handler = status;
    atexit(exits_again);
}

static void hangs(int status, void *unused)
{
    (void)status;
    (void)unused;
    for (;;)
        pause();
}

void hang_at_exit(void)
{
    on_exit(hangs, NULL);
}

/* A thread that writes one byte after the other, until its process ends. */
static void *write_on(void *unused)
{
    (void)unused;
    int fd = open("by-thread", O_WRONLY | O_CREAT | O_APPEND, 0600);
    for (;;) {
        if (write(fd, "x", 1) != 1)
            return NULL;
        usleep(1000);
    }
}

void start_writer(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, write_on, NULL);
}

static void *exit_with(void *status)
{
    exit((int)(long)status);
}

/* The process ends in a thread. */
void exit_in_thread(int status)
{
    pthread_t thread;
    pthread_create(&thread, NULL, exit_with, (void *)(long)status);
    pause();
}

static void *exit_at_once(void *status)
{
    _exit((int)(long)status);
}

void exit_in_two_threads(int status)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, exit_at_once, (void *)(long)status);
    pause();
}

void exit_quickly(int status)
{
    quick_exit(status);
}

/* Streams that only exit() flushes: a file, and a command's input that no child inherits. */
void leave_unflushed(void)
{
    fputs("flushed at the end\n", fopen("by-stream", "w"));
    fputs("the last words\n", popen("cat > by-command", "we"));
}

/* Reads a line of the program's input through a buffer.  exit() seeks back what was read ahead. */
void read_line(void)
{
    char line[100];
    if (fgets(line, sizeof line, stdin))
        fputs(line, stdout);
}

/* A thread waits in fgets, and so holds the lock of stdin, while the program ends. */
static void *reads_on(void *unused)
{
    char line[100];
    (void)unused;
    while (fgets(line, sizeof line, stdin))
        continue;
    return NULL;
}

void start_reader(void)
{
    pthread_t thread;
    int ends[2];
    if (pipe(ends) || dup2(ends[0], 0) < 0)
        return;
    pthread_create(&thread, NULL, reads_on, NULL);
    usleep(50000);
}

void close_streams(void)
{
    fputs("said before\n", stdout);
    fcloseall();
}
