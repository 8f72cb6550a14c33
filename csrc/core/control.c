/* Starting and stopping: the few verbs that the extension (or a preload
 * constructor) calls. */
#include "process.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct pt_state pt = {.gate = 1};

static int open_log(const struct pt_options *o)
{
    if (strlen(o->path) >= sizeof pt.path)
        return -ENAMETOOLONG;
    strcpy(pt.path, o->path);
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
    pt.heap = NULL;
    pt.cwd = 0;
    pt_intern_reset();
    pt_fd_reset();
    pt_mappings_reset();
}

/* Another thread may still be inside a hook that began before the last stop:
 * at every moment there is a mapping for it to look into, and what it notes
 * down while one becomes the other is forgotten once more. */
int pt_start(const struct pt_options *o)
{
    if (!pt.gate)
        return -EALREADY;
    char *base_before = pt.base;
    uint64_t mapped_before = pt.mapped;
    pt_hooks_resolve();
    forget_ids();
    int error = open_log(o);
    if (error)
        return error;
    let_go(base_before, mapped_before);
    pt.stacks = o->stacks;
    pt.pid = (uint32_t)getpid();
    pt.epoch++;
    forget_ids();
    pt_process_setup_once();
    pt_process_begin(o);
    pt_threads_forget_chunks();
    pt_got_patch();
    __atomic_store_n(&pt.gate, 0, __ATOMIC_RELEASE);
    return 0;
}

void pt_stop(void)
{
    if (pt.gate)
        return;
    __atomic_store_n(&pt.gate, 1, __ATOMIC_RELEASE);
    pt_got_restore();
    pt_process_end(pt.process, PT_END_STOPPED, 0);
    pt.epoch++; /* calls under way on file objects are no longer ours to complete */
    pt_threads_forget_chunks();
    pt.finish = NULL;
    pt_log_finish();
}

void pt_finish_with(const char *const *argv)
{
    pt.finish = argv;
}

/* ---- the rare ends of an operation ------------------------------------------------- */

static bool own_counters(void)
{
    return pt.counters != (struct pt_counter *)(pt.base + PT_OVERFLOW_OFFSET);
}

PT_COLD void pt_end_counted(struct pt_call *c, uint64_t ticks, int64_t moved, int error)
{
    if (pt.gate)
        return; /* it began in a stretch that has ended since */
    struct pt_counter *n = &pt.counters[c->op];
    __atomic_fetch_add(&n->count, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&n->ticks, ticks, __ATOMIC_RELAXED);
    if (error)
        __atomic_fetch_add(&n->errors, 1, __ATOMIC_RELAXED);
    else if (moved > 0)
        __atomic_fetch_add(&n->bytes, (uint64_t)moved, __ATOMIC_RELAXED);
    __atomic_fetch_add(&pt.header->lost, 1, __ATOMIC_RELAXED);
    if (own_counters())
        __atomic_fetch_add(&pt.process->lost, 1, __ATOMIC_RELAXED);
}

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

PT_COLD void pt_count_excluded(struct pt_thread *t, pt_fd_entry e, int64_t moved)
{
    if (!t->process_id)
        return; /* the process found no room for an entry of its own */
    uint32_t kind = pt_entry_kind(e) & 15;
    __atomic_fetch_add(&t->process->excluded_ops[kind], 1, __ATOMIC_RELAXED);
    if (moved > 0)
        __atomic_fetch_add(&t->process->excluded_bytes[kind], (uint64_t)moved, __ATOMIC_RELAXED);
}
