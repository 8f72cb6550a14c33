/* The preloaded library: tracing in children that are not Python (--follow=all).
 *
 * LD_PRELOAD brings this library into every program that a traced one starts.  It interposes no symbol.  Its only
 * constructor runs after all objects are relocated and before main, joins the run's log and patches their slots.  It
 * only notes what stderr is if the library was merely loaded by the Python extension, if the environment names no run, or if the
 * program has more rights than whoever started it.
 *
 * Python children start here too, so that one without our .pth (-S, another installation, a frozen program) has its
 * POSIX operations in the log.  If the .pth runs, it takes over this tracing: pt_preload_taken_over.  Before main
 * nobody can tell whether such a child ignores its environment (-E, -I): selection, mode and ring size come from the
 * environment here, as LD_PRELOAD itself does. */
#include "process/process.h"
#include "base/memory.h"
#include "base/messages.h"
#include "base/sys.h"
#include "control/start_stop.h"
#include "log/file.h"
#include "record/unrecorded.h"
#include "state/filter.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <unistd.h>

extern char **environ;

/* Not getenv: some shells have their own, which is not ready yet. */
static const char *variable(const char *name)
{
    size_t n = strlen(name);
    for (char **at = environ; at && *at; at++)
        if (strncmp(*at, name, n) == 0 && (*at)[n] == '=')
            return *at + n + 1;
    return "";
}

/* Set-user-ID, set-group-ID or file capabilities: whoever started this program has fewer rights than it, and controls
 * its environment. pyio_trace/capture/startup/site_packages/_pyio_trace_start.py has the same rule. */
static bool is_privileged(void)
{
    return getauxval(AT_SECURE) || getauxval(AT_UID) != getauxval(AT_EUID) || getauxval(AT_GID) != getauxval(AT_EGID);
}

/* The same words as parse_flag (pyio_trace/values.py). */
static bool switched_on(const char *word)
{
    static const char *const off[] = {"", "0", "false", "off", "no", "n"};
    for (unsigned i = 0; i < sizeof off / sizeof *off; i++)
        if (strcasecmp(word, off[i]) == 0)
            return false;
    return true;
}

static bool holds(const struct dl_phdr_info *info, const void *address)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t at = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type == PT_LOAD && (uintptr_t)address >= at &&
            (uintptr_t)address < at + info->dlpi_phdr[i].p_memsz)
            return true;
    }
    return false;
}

static int find_first(struct dl_phdr_info *info, size_t size, void *ours_is_first)
{
    (void)size;
    if (holds(info, &pt)) {
        *(bool *)ours_is_first = true;
        return 1;
    }
    return holds(info, (const void *)&__errno_location);
}

/* In the loader's list, preloaded libraries come before libc, loaded ones after it. */
static bool is_preloaded(void)
{
    bool ours_is_first = false;
    dl_iterate_phdr(find_first, &ours_is_first);
    return ours_is_first;
}

/* A program that uses another libc, into which our references brought glibc (musl's loader takes libc.so.6 for
 * itself). */
static bool is_foreign_libc(void)
{
#if defined(__GLIBC__)
    return !dlsym(RTLD_DEFAULT, "gnu_get_libc_version");
#else
    return false;
#endif
}

/* The notes of the program, which is the loader's first object. */
static int find_go(struct dl_phdr_info *info, size_t size, void *found)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)(info->dlpi_addr + p->p_vaddr);
        if (p->p_type == PT_NOTE && p->p_memsz >= sizeof *note + 4 && note->n_namesz == 4 &&
            memcmp(note + 1, "Go", 3) == 0)
            *(bool *)found = true;
    }
    return 1;
}

/* Go makes its own system calls, even when it is linked with a libc. */
static bool is_go(void)
{
    bool found = false;
    dl_iterate_phdr(find_go, &found);
    return found;
}

static bool is_python(void)
{
    return dlsym(RTLD_DEFAULT, "Py_BytesMain") || dlsym(RTLD_DEFAULT, "Py_Main");
}

#define FEW_ARGUMENTS 4096u
#define ARGUMENTS (1u << 20) /* no word is longer than 128 KiB */

/* Only glibc passes arguments to constructors; the kernel has them for everybody.  out: room for that many bytes,
 * zeros.  Reads whole words: half a word cannot be redacted (redact/redact.c).  more: some did not fit. */
static uint32_t read_arguments(char *out, uint32_t room, bool *more)
{
    long fd = pt_sys(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC, 0);
    uint32_t length = 0;
    if (fd < 0)
        return 0;
    for (long n; length < room - 1 && (n = pt_sys(SYS_read, fd, out + length, room - 1 - length)) > 0;)
        length += (uint32_t)n;
    pt_sys(SYS_close, fd);
    *more = length == room - 1;
    while (*more && length && out[length - 1])
        out[--length] = 0;
    return length;
}

static bool is_our_command(const char *word)
{
    const char *slash = strrchr(word, '/');
    const char *name = slash ? slash + 1 : word;
    return strcmp(name, "pyio-trace") == 0 || strcmp(name, "pyio_trace") == 0;
}

/* The same rule as _is_ignored() in pyio_trace/capture/runtime/__init__.py. */
static bool is_left_alone(const char *argv, uint32_t length)
{
    int index = 0;
    for (const char *word = argv; word < argv + length; word += strlen(word) + 1, index++)
        if (strstr(word, "multiprocessing.resource_tracker import") || (index < 4 && is_our_command(word)))
            return true;
    return false;
}

/* These are our own variables, in the canonical spelling of Config.to_environment. */
static uint32_t mode(void)
{
    const char *word = variable("PYIO_TRACE_MODE");
    return strcmp(word, "profile") == 0 ? PT_MODE_PROFILE : strcmp(word, "ring") == 0 ? PT_MODE_RING : PT_MODE_TRACE;
}

static void start(const char *path, const char *argv, uint32_t length)
{
    char executable[512];
    long n = pt_sys(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", executable, sizeof executable - 1);
    executable[n > 0 ? n : 0] = 0;
    struct pt_selection selection = {.include = variable("PYIO_TRACE_INCLUDE"),
                                     .exclude = variable("PYIO_TRACE_EXCLUDE"),
                                     .min_duration = strtoull(variable("PYIO_TRACE_MIN_DURATION"), NULL, 10),
                                     .min_size = strtoull(variable("PYIO_TRACE_MIN_SIZE"), NULL, 10)};
    struct pt_options options = {.path = path,
                                 .stacks = PT_STACKS_NONE,
                                 .executable = executable,
                                 .argv = argv,
                                 .argv_length = length,
                                 .mode = mode(),
                                 .selection = &selection,
                                 .ring = strtoull(variable("PYIO_TRACE_RING_SIZE"), NULL, 10),
                                 .redact = variable("PYIO_TRACE_REDACT"),
                                 .memory = strtoull(variable("PYIO_TRACE_MAX_MEMORY"), NULL, 10)};
    pt.preloaded = true; /* before the first operation */
    int error = pt_start(&options);
    if (error) { /* its parent's log has it as a child that was not followed */
        pt.preloaded = false;
        return;
    }
    if (length && !is_python() && !pt_select_process(argv)) {
        pt_pause(true);
        if (pt.process_id)
            strcpy(pt.process->note, "left out by --include or --exclude (process:...)");
    }
    if (pt.process_id && is_go())
        pt.process->blind |= PT_BLIND_SYSCALL;
    if (pt.process_id && is_python())
        strcpy(pt.process->note,
               "a Python that pyio_trace is not in (-S, another installation): POSIX operations only");
}

__attribute__((constructor)) static void preloaded(void)
{
    int saved = errno;
    pt_stderr_keep();
    const char *path = is_privileged() ? "" : variable("PYIO_TRACE_LOG");
    if (*path && strcmp(variable("PYIO_TRACE_FOLLOW"), "all") == 0 && switched_on(variable("PYIO_TRACE")) &&
        is_preloaded() && !is_foreign_libc()) {
        char few[FEW_ARGUMENTS] = "", *argv = few, *many = NULL;
        bool more = false;
        uint32_t length = read_arguments(few, sizeof few, &more);
        if (more && (many = pt_memory(ARGUMENTS)))
            length = read_arguments(argv = many, ARGUMENTS, &more);
        if (!is_left_alone(argv, length))
            start(path, argv, length);
        if (many)
            pt_memory_back(many, ARGUMENTS);
    }
    errno = saved;
}

/* Called when Python starts in a process that the constructor has started: from now on there are stacks.  What came
 * before was the start of the interpreter. */
bool pt_preload_taken_over(const struct pt_options *o)
{
    if (!pt.preloaded || o->create || strcmp(o->path, pt.path) != 0)
        return false;
    pt.preloaded = false;
    pt.stacks = o->stacks;
    if (pt.process_id) {
        pt_process_describe_self(o);
        memset(pt.process->note, 0, sizeof pt.process->note);
        pt.process->python_since = pt_ticks();
    }
    return true;
}
