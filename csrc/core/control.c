/* Starting and stopping: the few verbs that the extension (or a preload
 * constructor) calls. */
#include "process.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct pt_state pt = {.gate = 1};
#ifdef PT_INTERFACE
const char PT_INTERFACE[] = "the interface that this core has";
#endif

static int open_log(const struct pt_options *o)
{
    if (strlen(o->path) >= sizeof pt.path)
        return -ENAMETOOLONG;
    strcpy(pt.path, o->path);
    if (o->create) /* who joins takes the log's own */
        pt.tick_kind = pt_clock_choose();
    return o->create ? pt_log_create(o->path, o->budget) : pt_log_join(o->path);
}

/* The log of an earlier stretch: what is still in flight in other threads may
 * yet store there, but its file's pages need not stay for that. */
static void let_go(char *base, uint64_t size)
{
    if (base && size)
        mmap(base, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* Ids of an earlier log mean nothing in the next. */
static void forget_ids(void)
{
    pt.heap = pt.sums[0] = pt.sums[1] = NULL;
    pt.cwd = 0;
    pt_intern_reset();
    pt_fd_reset();
    pt_mappings_reset();
}

static void describe(const struct pt_options *o)
{
    const struct pt_selection *s = o->selection;
    pt.min_ticks = s ? pt_clock_ticks(s->min_duration) : 0;
    pt.min_size = s ? s->min_size : 0;
    if (!o->create)
        return;
    pt.header->mode = o->mode;
    if (s && ((s->include && *s->include) || (s->exclude && *s->exclude) || s->min_duration || s->min_size))
        snprintf(pt.header->selection, sizeof pt.header->selection, "include=%s exclude=%s min_duration=%llu min_size=%llu",
                 s->include ? s->include : "", s->exclude ? s->exclude : "", (unsigned long long)s->min_duration,
                 (unsigned long long)s->min_size);
}

/* Another thread may still be inside a hook that began before the last stop:
 * at every moment there is a mapping for it to look into, and what it notes
 * down while one becomes the other is forgotten once more. */
int pt_start(const struct pt_options *o)
{
    if (!(pt.gate & PT_GATE_OFF))
        return pt_preload_taken_over(o) ? 0 : -EALREADY;
    char *base_before = pt.base;
    uint64_t mapped_before = pt.mapped;
    pt_hooks_resolve();
    int error = pt_select(o->selection);
    if (error)
        return error;
    forget_ids();
    error = open_log(o);
    if (error)
        return error;
    let_go(base_before, mapped_before);
    pt.stacks = o->stacks;
    pt.ring = o->ring;
    pt.owns_run = o->create;
    pt_bus_guard();
    pt.pid = (uint32_t)getpid();
    pt.epoch++;
    forget_ids();
    describe(o);
    pt_switch(o->mode);
    pt_process_setup_once();
    pt_process_begin(o);
    pt_threads_forget_chunks();
    pt_got_patch();
    __atomic_store_n(&pt.gate, 0, __ATOMIC_RELEASE);
    return 0;
}

void pt_stop(void)
{
    if ((pt.gate & PT_GATE_OFF))
        return;
    __atomic_store_n(&pt.gate, 1, __ATOMIC_RELEASE);
    pt_got_restore();
    pt_process_end(pt.process, PT_END_STOPPED, 0);
    pt.epoch++; /* calls under way on file objects are no longer ours to complete */
    pt_threads_forget_chunks();
    pt.finish = NULL;
    pt_log_finish();
    pt_bus_release();
}

void pt_finish_with(const char *const *argv)
{
    pt.finish = argv;
}

/* ---- the rare ends of an operation ------------------------------------------------- */

PT_COLD void pt_end_wide(struct pt_call *c, int64_t moved, int error)
{
    struct pt_record *e = pt_claim(c->thread);
    if (!e)
        return;
    e->op = PT_OP_EXT;
    e->parent = pt_id_of(c->record);
    e->offset = c->size == PT_SIZE_NONE ? -1 : (int64_t)c->size;
    e->begin = error ? (uint64_t)error : (uint64_t)moved;
    __atomic_store_n(&e->flags, PT_DONE, __ATOMIC_RELEASE);
}
