/* Starting and stopping: what the extension, or the constructor of a preloaded library, calls. */
#include "control/start_stop.h"
#include "base/clock.h"
#include "base/state.h"
#include "hooks/hooks.h"
#include "log/chunks.h"
#include "log/file.h"
#include "log/intern.h"
#include "patch/patch.h"
#include "process/process.h"
#include "record/unrecorded.h"
#include "redact/redact.h"
#include "state/filter.h"
#include "state/kernel_accounting.h"
#include "state/mappings.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef PT_INTERFACE
const char PT_INTERFACE[] = "the interface that this core has";
#endif

static int open_log(const struct pt_options *o)
{
    if (strlen(o->path) >= sizeof pt.path)
        return -ENAMETOOLONG;
    strcpy(pt.path, o->path);
    if (!o->create) /* takes the log's clock too */
        return pt_log_join(o->path);
    pt.tick_kind = pt_clock_choose();
    /* A log beside that of its run has a name of ours, which may be that of a process in another container: those of
     * one run are all kept. */
    bool beside = o->run_of && *o->run_of;
    return pt_log_create(o->path, o->budget, beside ? pt_log_run_of(o->run_of) : 0, !beside);
}

/* Releases an earlier log.  Operations still in flight in other threads may store there, but need not keep the file's
 * pages for that. */
static void let_go(char *base, uint64_t size)
{
    if (base && size)
        mmap(base, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* Drops ids of an earlier log, which mean nothing in the next. */
static void forget_ids(void)
{
    pt.heap = pt.sums[0] = pt.sums[1] = NULL;
    pt.cwd = 0;
    pt_intern_reset();
    pt_details_forget();
    pt_fd_reset();
    pt_mappings_reset();
    pt_forked_children_forget();
}

/* Escapes control characters: whatever the log is named, its bytes must not form lines of another file's language. */
static const char *escaped(const char *text, char *into, size_t room)
{
    size_t at = 0;
    for (; text && *text && at + 5 <= room; text++) {
        unsigned char c = (unsigned char)*text;
        if (c >= ' ' && c != 0x7f)
            into[at++] = *text;
        else
            at += (size_t)snprintf(into + at, 5, "\\x%02x", c);
    }
    into[at] = 0;
    return into;
}

static void describe(const struct pt_options *o)
{
    const struct pt_selection *s = o->selection;
    pt.min_ticks = s ? pt_clock_ticks(s->min_duration) : 0;
    pt.min_size = s ? s->min_size : 0;
    if (!o->create)
        return;
    pt.header->mode = o->mode;
    char include[sizeof pt.header->selection], exclude[sizeof pt.header->selection];
    if (s && ((s->include && *s->include) || (s->exclude && *s->exclude) || s->min_duration || s->min_size))
        snprintf(pt.header->selection, sizeof pt.header->selection,
                 "include=%s exclude=%s min_duration=%llu min_size=%llu", escaped(s->include, include, sizeof include),
                 escaped(s->exclude, exclude, sizeof exclude), (unsigned long long)s->min_duration,
                 (unsigned long long)s->min_size);
}

/* Is the log still empty? Either this process has created it, or the launcher that this process was before
 * (pt_prepare). */
static bool is_first(const struct pt_options *o)
{
    return o->create || (pt_is_owner() && !__atomic_load_n(&pt.header->processes, __ATOMIC_ACQUIRE));
}

/* Another thread may still be in a hook that began before the last stop.  It always finds a mapping, and the ids that
 * it stores during the change are dropped afterwards by the second forget_ids. */
int pt_start(const struct pt_options *o)
{
    if (!(pt.gate & PT_GATE_OFF))
        return pt_preload_taken_over(o) ? 0 : -EALREADY;
    bool again = pt.epoch; /* the first start has no ids to forget, nor pages to touch for that */
    char *base_before = pt.base;
    uint64_t extent_before = pt.extent;
    pt_hooks_resolve();
    pt_waits_begin();
    int error = pt_select(o->selection);
    if (error)
        return error;
    pt_redact_also(o->redact);
    pt_intern_limit(o->memory);
    if (again)
        forget_ids();
    error = open_log(o);
    if (error)
        return error;
    let_go(base_before, extent_before);
    pt.stacks = o->stacks;
    pt.ring = o->ring;
    pt.pid = (uint32_t)getpid();
    pt.owns_run = is_first(o);
    pt_bus_guard();
    pt.epoch++;
    if (again)
        forget_ids();
    describe(o);
    pt_switch(o->mode);
    pt_process_setup_once();
    pt_process_begin(o);
    pt_threads_forget_chunks();
    pt_got_patch();
    __atomic_store_n(&pt.gate, 0, __ATOMIC_RELEASE);
    if (pt.process_id)
        pt_account_opened(pt.process);
    return 0;
}

/* Creates the log, whole and empty.  This process stays untraced and is about to exec the program that joins it.  It
 * keeps its process id, by which that program recognises itself as the owner of the run. */
int pt_prepare(const struct pt_options *o)
{
    if (!(pt.gate & PT_GATE_OFF))
        return -EALREADY;
    int error = pt_select(o->selection); /* fails if there are too many rules */
    if (!error)
        error = open_log(o);
    if (!error)
        describe(o);
    return error;
}

/* Stores the settings that Pythons started with -E or -I read in place of their environment (log_settings.py). */
bool pt_settings_store(const char *settings, size_t length)
{
    uint32_t id = pt.base && length <= PT_SETTINGS_MOST ? pt_string(settings, length, 0) : 0;
    if (id)
        __atomic_store_n(&pt.header->settings, id, __ATOMIC_RELEASE);
    return id;
}

static void stop(bool is_last_word)
{
    if ((pt.gate & PT_GATE_OFF))
        return;
    if (pt.process_id)
        pt_account_stops(pt.process);
    __atomic_store_n(&pt.gate, 1, __ATOMIC_RELEASE);
    pt_got_restore();
    pt_process_end(pt.process, PT_END_STOPPED, 0);
    pt.epoch++; /* we no longer complete the calls under way on file objects */
    pt_threads_forget_chunks();
    pt.finish = NULL;
    pt_sampler_end();
    if (is_last_word)
        pt_log_finish();
    else
        pt_log_leave(false);
    pt_log_unlock();
    pt_bus_release();
}

void pt_stop(void)
{
    stop(true);
}

/* Leaves the log uncut: processes may have yet to join, for which the packer looks (join/processes/writers.py). */
void pt_stop_to_pack(void)
{
    stop(false);
}

/* The socket to the launcher of a rank, which PMI_FD names.  If it is closed before the process ends, MPICH's launcher
 * reads its end in a loop until then, at the cost of a core. */
static void note_launcher(void)
{
    struct stat st;
    const char *word = getenv("PMI_FD");
    long fd = word ? strtol(word, NULL, 10) : 0;
    pt.launcher_socket = 0;
    if (fd <= STDERR_FILENO || fd > INT_MAX || fstat((int)fd, &st) != 0 || !S_ISSOCK(st.st_mode))
        return;
    pt.launcher_device = st.st_dev;
    pt.launcher_inode = st.st_ino;
    pt.launcher_socket = (int)fd;
}

void pt_finish_with(const char *const *argv, bool quiet, const char *stub)
{
    struct stat st;
    pt.finish_stub = NULL;
    if (stub && *stub == '/' && stat(stub, &st) == 0 && S_ISREG(st.st_mode)) {
        pt.finish_stub_device = st.st_dev;
        pt.finish_stub_inode = st.st_ino;
        pt.finish_stub = stub;
    }
    pt.finish_environment = pt_finisher_environment(argv);
    note_launcher();
    pt.finish = argv;
    pt.finish_quiet = quiet;
}
