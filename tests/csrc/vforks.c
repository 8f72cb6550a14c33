/* Two halves of one hazard: a vfork just before which a signal's handler does I/O.
 *
 * Preloaded, BEFORE is libc's vfork with a signal before it; loaded by the
 * program, go() is what calls it. */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef BEFORE

__attribute__((visibility("hidden"))) void *libcs_vfork;

__attribute__((visibility("hidden"))) void before_vfork(void)
{
    struct sigaction now;
    if (!libcs_vfork)
        libcs_vfork = dlsym(RTLD_NEXT, "vfork");
    if (sigaction(SIGUSR2, NULL, &now) == 0 && now.sa_handler != SIG_DFL)
        raise(SIGUSR2);
}

__asm__(".text\n.globl vfork\n.type vfork,@function\nvfork:\n"
        "  subq $8, %rsp\n  call before_vfork\n  addq $8, %rsp\n  jmp *libcs_vfork(%rip)\n");

#else

static void use(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    (void)!write(fd, "1234567", 7);
    close(fd);
}

static void handler(int signal)
{
    (void)signal;
    use("handled");
}

int go(int times)
{
    struct sigaction ours = {.sa_handler = handler}, theirs;
    int status = 0, all = 0;
    sigaction(SIGUSR2, &ours, &theirs);
    for (int i = 0; i < times; i++) {
        pid_t pid = vfork();
        if (pid == 0) {
            use("child");
            _exit(3);
        }
        waitpid(pid, &status, 0);
        all += WEXITSTATUS(status);
        use("parent");
    }
    sigaction(SIGUSR2, &theirs, 0);
    return all;
}

#endif
