/* Runs of equal samples, in the log.
 *
 * A run lasts while a thread's samples are equal.  Each look updates the open run in place, in the log, so the sampler
 * can be killed, and the log packed, at any moment without losing a sample.  In a profile there are no single runs: one
 * entry sums up all runs of the same process, thread, stack and state. */
#include "sampler.h"

#include "base/hash.h"
#include "log/chunks.h"

#include <string.h>

#define LARGEST_CHUNK (64u << 10)
#define SUMS (1u << 14) /* entries that can be found again; beyond that, an equal run gets a new entry */
#define SAMPLES_MOST UINT16_MAX

bool sampler_log_is_full;
static struct pt_sample *next, *end;

static struct pt_sample *new_place(void)
{
    static uint64_t size = PT_PAGE;
    if (next && next < end)
        return next++;
    uint64_t claimed = size;
    struct pt_chunk *c = pt_chunk_claim_slow(&(struct pt_chunk_request){.kind = PT_CHUNK_SAMPLES}, &claimed);
    if (!c)
        return NULL;
    next = (struct pt_sample *)((char *)c + PT_HEAP_START);
    end = next + (claimed - PT_HEAP_START) / sizeof *next;
    size = size < LARGEST_CHUNK ? size * 2 : size;
    return next++;
}

static struct pt_sample *begin(const struct process *p, const struct thread *t, uint64_t ticks)
{
    struct pt_sample *s = new_place();
    if (!s)
        return NULL;
    s->process = p->id;
    s->tid = t->tid;
    s->stack = t->stack;
    s->state = t->state;
    s->flags = t->flags;
    s->ticks = 0;
    __atomic_store_n(&s->begin, ticks, __ATOMIC_RELEASE);
    return s;
}

static void add(struct pt_sample *s, uint64_t ticks, uint64_t cpu, uint64_t delay)
{
    if (!s) {
        __atomic_fetch_add(&pt.header->samples_lost, 1, __ATOMIC_RELAXED);
        return;
    }
    s->cpu_ns += cpu;
    s->delay_ns += delay;
    s->samples += s->samples < SAMPLES_MOST;
    __atomic_store_n(&s->ticks, ticks, __ATOMIC_RELEASE);
}

static void add_to_sum(const struct process *p, const struct thread *t, uint64_t from, uint64_t to, uint64_t cpu,
                       uint64_t delay)
{
    static struct sum {
        uint64_t key, ticks;
        struct pt_sample *sample;
    } sums[SUMS];
    uint32_t words[] = {p->id, t->tid, t->stack, (uint32_t)t->state << 8 | t->flags};
    uint64_t key = pt_hash_bytes(words, sizeof words, 0x53414d50);
    struct sum *s = &sums[key % SUMS];
    if (s->key != key || !s->sample || s->sample->samples == SAMPLES_MOST)
        *s = (struct sum){key, 0, begin(p, t, from)};
    s->ticks += to - from;
    add(s->sample, s->ticks, cpu, delay);
}

void sampler_add(const struct process *p, struct thread *t, const struct moment *m, uint64_t cpu, uint64_t delay)
{
    struct pt_sample *s = t->run;
    if (pt.mode == PT_MODE_PROFILE) {
        add_to_sum(p, t, m->from_ticks, m->now_ticks, cpu, delay);
        return;
    }
    bool same = s && t->run_stack == t->stack && t->run_state == t->state && t->run_flags == t->flags;
    if (!same || t->run_end != m->from || m->now - t->run_begin > LONGEST_RUN) {
        s = t->run = begin(p, t, m->from_ticks);
        t->run_stack = t->stack;
        t->run_state = t->state;
        t->run_flags = t->flags;
        t->run_begin = m->from;
        t->run_ticks = m->from_ticks;
    }
    t->run_end = m->now;
    add(s, m->now_ticks - t->run_ticks, cpu, delay);
}
