/* Per-thread state: where the next record of a thread goes.
 *
 * States live in slabs of anonymous memory and are found through one thread-local pointer.  A new thread takes over
 * the state of one that has ended.  A forked child drops all states but its own. */
#include "state/threads.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/sys.h"
#include "log/chunks.h"
#include "log/ids.h"
#include "log/ring.h"
#include "patch/patch.h"

#include <pthread.h>
#include <string.h>
#include <errno.h>

static struct pt_thread *all_threads; /* atomic; entries are never freed */
static uint32_t states;               /* atomic: how many there are */
static pthread_key_t exit_key;
static bool exit_key_made;

#define SLAB_BYTES (64u * 1024u)

/* Small first chunks for short-lived threads, then larger ones: fewer reservations. */
static uint64_t chunk_size(uint32_t sequence)
{
    static const uint64_t sizes[] = {PT_PAGE, 16 * 1024, 64 * 1024, 256 * 1024, 1024 * 1024};
    uint64_t size = sizes[sequence < 4 ? sequence : 4];
    uint64_t share = pt.budget / 64 / PT_PAGE * PT_PAGE;
    return size <= share ? size : share < PT_PAGE ? PT_PAGE : share;
}

static void thread_ended(void *state)
{
    struct pt_thread *t = state;
    pt_self = NULL;
    pt_ring_release(t);
    t->next = t->end = 0;
    __atomic_store_n(&t->in_use, 0, __ATOMIC_RELEASE);
}

/* Runs before the constructor that starts tracing (control/preload.c). */
__attribute__((constructor(101))) static void make_key(void)
{
    exit_key_made = pthread_key_create(&exit_key, thread_ended) == 0;
}

static struct pt_thread *take_ended(void)
{
    for (struct pt_thread *t = __atomic_load_n(&all_threads, __ATOMIC_ACQUIRE); t; t = t->all_next) {
        uint32_t no = 0;
        if (!__atomic_load_n(&t->in_use, __ATOMIC_RELAXED) &&
            __atomic_compare_exchange_n(&t->in_use, &no, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return t;
    }
    return NULL;
}

static void add_to_list(struct pt_thread *first, struct pt_thread *last)
{
    struct pt_thread *head = __atomic_load_n(&all_threads, __ATOMIC_RELAXED);
    do
        last->all_next = head;
    while (!__atomic_compare_exchange_n(&all_threads, &head, first, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

static struct pt_thread *take_new(void)
{
    struct pt_thread *slab = pt_memory(SLAB_BYTES);
    if (!slab)
        return NULL;
    size_t count = SLAB_BYTES / sizeof *slab;
    uint32_t number = __atomic_fetch_add(&states, (uint32_t)count, __ATOMIC_RELAXED);
    for (size_t i = 0; i < count; i++) {
        slab[i].number = number + (uint32_t)i + 1;
        slab[i].all_next = i + 1 < count ? &slab[i + 1] : NULL;
    }
    slab[0].in_use = 1;
    add_to_list(&slab[0], &slab[count - 1]);
    return &slab[0];
}

static void assign(struct pt_thread *t)
{
    struct pt_thread *next = t->all_next;
    struct pt_thread *child = t->vfork_child;
    memset(t, 0, offsetof(struct pt_thread, in_use));
    memset(t->series, 0, sizeof t->series);
    memset(t->sums, 0, sizeof t->sums);
    memset(t->streams, 0, sizeof t->streams);
    t->ring_chunk = NULL;
    memset(t->stacks, 0, sizeof t->stacks);
    t->all_next = next;
    t->vfork_child = child;
    t->tid = (uint32_t)pt_sys6(SYS_gettid, 0, 0, 0, 0, 0, 0);
    t->process = pt.process;
    t->process_id = pt.process_id;
    t->epoch = pt.epoch;
}

struct pt_thread *pt_thread_new_slow(void)
{
    struct pt_thread *t = take_ended();
    if (!t)
        t = take_new();
    if (t)
        assign(t);
    return t;
}

/* Opens the span of a call on a Python file object, once there is an operation beneath it. */
static void open_pending(struct pt_thread *t)
{
    struct pt_series *series = t->pending;
    t->gate &= ~(uint32_t)PT_GATE_PENDING;
    t->pending = NULL;
    t->depth++;
    series->link = t->link;
    series->opened = pt_ticks();
    t->call_site[0] = NULL;
    uint32_t id = series->record ? pt_id_of(series->record) : series->epoch == pt.epoch ? series->sums : 0;
    if (!id) /* tracing was stopped meanwhile */
        return;
    t->parent = id;
    t->link = PT_LINK_THREAD;
    t->call_stack = series->stack;
    t->call_site[1] = series->site[1];
    t->call_site[0] = series->site[0];
}

/* The slow cases: the first hook of a thread, a closed gate, an unopened span, the first hook after a vfork. */
PT_COLD struct pt_thread *pt_enter_slow(void)
{
    if (pt.gate & PT_GATE_OFF)
        return NULL;
    struct pt_thread *t = pt_self;
    if (!t) {
        t = pt_thread_new_slow();
        if (!t) {
            __atomic_fetch_add(&pt.header->lost, 1, __ATOMIC_RELAXED);
            return NULL;
        }
        pt_self = t;
        int saved = errno;
        if (exit_key_made)
            pthread_setspecific(exit_key, t);
        errno = saved;
    }
    if (t->gate & PT_GATE_VFORK) {
        uint32_t pid = (uint32_t)pt_sys6(SYS_getpid, 0, 0, 0, 0, 0, 0);
        if (pid != pt.pid) {
            struct pt_thread *child = pt_vfork_child_slow(t, pid);
            return (child && child->gate & PT_GATE_SUPPRESSED) || pt.gate ? NULL : child;
        }
        pt_vfork_parent_slow(t);
    }
    if (t->gate & PT_GATE_PENDING)
        open_pending(t);
    return (t->gate & PT_GATE_SUPPRESSED) || pt.gate ? NULL : t;
}

/* Claims a new chunk for this thread.  A signal handler may interrupt anywhere: it then finds end == 0 and claims a
 * chunk of its own.  Chunks only go upward in the file, so the stale pair of pointers that it leaves always reads as
 * "no room".  (Chunks of a ring do not: there a later handler writes to this chunk, which belongs to its thread.) */
PT_COLD struct pt_record *pt_claim_slow(struct pt_thread *t)
{
    uint32_t epoch = __atomic_load_n(&pt.epoch, __ATOMIC_ACQUIRE);
    if (t->epoch != epoch) { /* tracing was restarted, with another log */
        t->epoch = epoch;
        t->process = pt.process;
        t->process_id = pt.process_id;
        t->sequence = 0;
        t->parent = 0;
    }
    t->end = 0;
    pt_ring_release(t);
    uint64_t size = PT_RING_SLOT;
    struct pt_chunk *c = pt.mode == PT_MODE_RING ? pt_ring_claim_slow(t) : NULL;
    if (!c) {
        size = chunk_size(t->sequence);
        struct pt_chunk_request wanted = {PT_CHUNK_OPS, t->process_id, t->tid, t->sequence};
        c = pt_chunk_claim_slow(&wanted, &size);
    }
    if (!c)
        return NULL;
    pt_got_look(c->clock.ticks);
    t->sequence++;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    t->next = (uintptr_t)c + PT_OPS_START + sizeof(struct pt_record);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    t->end = (uintptr_t)c + size;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    /* If tracing was stopped meanwhile, no more records go here.  t->epoch would not tell: a restart has renewed it. */
    if (PT_UNLIKELY(epoch != __atomic_load_n(&pt.epoch, __ATOMIC_RELAXED)))
        t->end = 0;
    return (struct pt_record *)((char *)c + PT_OPS_START);
}

/* Only the forking thread survives; its records belong to the new process. */
void pt_threads_after_fork(void)
{
    struct pt_thread *self = pt_self;
    for (struct pt_thread *t = all_threads; t; t = t->all_next) {
        t->next = t->end = 0;
        t->ring_chunk = NULL; /* the parent's */
        if (t == self || (self && t == self->vfork_child))
            continue;
        t->vfork_child = NULL; /* it is in this list itself; a state belongs to one thread */
        t->in_use = 0;
    }
    if (!self)
        return;
    self->tid = pt.pid;
    self->forking = 0;
    if (self->parent)
        self->link = PT_LINK_STARTED; /* it is in its parent's span until that ends, as a thread is */
    self->process = pt.process;
    self->process_id = pt.process_id;
    self->sequence = 0;
    self->epoch = ++pt.epoch; /* the parent completes its calls under way */
    self->gate &= ~(uint32_t)PT_GATE_VFORK;
    memset(self->series, 0, sizeof self->series);
    memset(self->sums, 0, sizeof self->sums);
    memset(self->streams, 0, sizeof self->streams);
}

/* Tracing stops or starts: no thread may go on writing to its old chunk, or for the process entry of the old log. */
void pt_threads_forget_chunks(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* a thread that sets `end` after this sees the new epoch */
    for (struct pt_thread *t = __atomic_load_n(&all_threads, __ATOMIC_ACQUIRE); t; t = t->all_next) {
        t->end = 0;
        t->ring_chunk = NULL;
        t->epoch = pt.epoch;
        t->process = pt.process;
        t->process_id = pt.process_id;
        t->sequence = 0;
        t->parent = 0;
        memset(&t->from, 0, sizeof t->from);
        memset(t->stacks, 0, sizeof t->stacks);
        memset(t->sums, 0, sizeof t->sums);
        for (int i = 0; i < PT_SERIES; i++)
            t->series[i].record = t->streams[i].record = NULL;
    }
}
