/* The ways in which libc itself starts processes, and what they do to the
 * caller's descriptors. */
#include "account.h"

#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

static int count_to(const char *name, int times)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_APPEND, 0600);
    for (int n = 0; fd >= 0 && n < times; n++)
        if (write(fd, "0123456789", 10) != 10)
            return 1;
    return fd < 0 || close(fd);
}

static int in_clone(void *name)
{
    _exit(count_to(name, 30));
}

int children(const char *folder, const char *to)
{
    char line[100] = "";
    int status = 0, terminal = -1;
    EXPECT(chdir(folder) == 0);
    RESULT(system("exit 3"));
    RESULT(system(NULL) != 0);
    FILE *f = popen("echo from the shell", "r");
    EXPECT(f && fgets(line, sizeof line, f));
    say("%s", line);
    RESULT(pclose(f));

    pid_t pid = forkpty(&terminal, NULL, NULL, NULL);
    EXPECT(pid >= 0);
    if (pid == 0)
        _exit(write(1, "", 0) != 0 || count_to("in-forkpty", 20));
    EXPECT(waitpid(pid, &status, 0) == pid);
    say("forkpty: %d\n", status);
    close(terminal);

    static char stack[256 * 1024] __attribute__((aligned(16)));
    pid = clone(in_clone, stack + sizeof stack, SIGCHLD, "in-clone");
    EXPECT(pid > 0 && count_to("beside-clone", 30) == 0 && waitpid(pid, &status, 0) == pid);
    say("clone: %d\n", status);
    pid = clone(in_clone, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, "in-vfork");
    EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid);
    say("clone as vfork: %d\n", status);

    pid = fork();
    if (pid == 0) {
        if (daemon(1, 0) != 0)
            _exit(1);
        _exit(write(1, "x", 1) != 1 || count_to("in-daemon", 10)); /* 1 is /dev/null now */
    }
    EXPECT(waitpid(pid, &status, 0) == pid);
    say("daemon's parent: %d\n", status);
    struct stat st = {0};
    for (int n = 0; n < 5000 && (stat("in-daemon", &st) != 0 || st.st_size < 100); n++)
        usleep(1000);
    say("by the daemon: %d\n", (int)st.st_size);
    return tell(to);
}
