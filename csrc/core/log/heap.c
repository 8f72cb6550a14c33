/* Objects in the log: strings, stacks, descriptors, sums. They lie in chunks of their own. */
#include "log/chunks.h"

#define HEAP_CHUNK (64u * 1024u)
#define FIRST_OF_RUN (16u * 1024u) /* the start of Python fills it; its blocks are there already (log/blocks.c) */

/* Many processes live for a few milliseconds and name little.  So a process, also a forked one, begins with a page,
 * and each further chunk is twice as large. */
static uint64_t heap_chunk_after(const struct pt_chunk *last)
{
    uint64_t size = PT_PAGE;
    if (pt.budget < 16 * HEAP_CHUNK)
        return size;
    if (!last)
        return pt.owns_run ? FIRST_OF_RUN : size;
    while (last->process == pt.process_id && size < HEAP_CHUNK && size <= last->size)
        size *= 2;
    return size;
}

static void *alloc_slow(struct pt_chunk **current, uint32_t kind, uint32_t size)
{
    for (;;) {
        struct pt_chunk *c = __atomic_load_n(current, __ATOMIC_ACQUIRE);
        if (c) {
            uint64_t at = __atomic_fetch_add(&c->cursor, size, __ATOMIC_RELAXED);
            /* Others can write to the chunk's header: its numbers are trusted only within the mapping. */
            uint64_t room = __atomic_load_n(&c->size, __ATOMIC_RELAXED), mapped = pt.mapped,
                     place = (uint64_t)((char *)c - pt.base);
            if (place > mapped || room > mapped - place)
                room = place > mapped ? 0 : mapped - place;
            if (at >= PT_HEAP_START && at % 16 == 0 && size <= room && at <= room - size) {
                struct pt_heap *object = (struct pt_heap *)((char *)c + at);
                object->size = size;
                return object;
            }
        }
        uint64_t want = heap_chunk_after(c);
        while (want < (uint64_t)size + PT_HEAP_START)
            want *= 2;
        struct pt_chunk *fresh =
            pt_chunk_claim_slow(&(struct pt_chunk_request){.kind = kind, .process = pt.process_id}, &want);
        if (!fresh)
            return NULL;
        /* A thread that loses this race uses the chunk of the winner; its own stays empty. */
        __atomic_compare_exchange_n(current, &c, fresh, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    }
}

void *pt_heap_alloc_slow(uint32_t size)
{
    return alloc_slow(&pt.heap, PT_CHUNK_HEAP, (size + 15u) & ~15u);
}

struct pt_profile *pt_sums_alloc_slow(bool data)
{
    return data ? alloc_slow(&pt.sums[1], PT_CHUNK_SUMS_DATA, PT_PROFILE_DATA_SIZE)
                : alloc_slow(&pt.sums[0], PT_CHUNK_SUMS, PT_PROFILE_SIZE);
}

void pt_heap_publish(void *object, uint32_t kind)
{
    __atomic_store_n(&((struct pt_heap *)object)->kind, kind, __ATOMIC_RELEASE);
}
