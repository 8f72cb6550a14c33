/* Which file is mapped where: found by an address in it.
 *
 * munmap, msync and their like get an address.  Every munmap looks here, so lookups take no lock. */
#include "state/mapping_places.h"
#include "log/ids.h"

#include <string.h>

#define PLACES 4096u

static PT_TABLE struct pt_mapping_place places[PLACES];
static bool places_used; /* atomic; was any used? A first start need not touch 400 KB */
static uint32_t place_count;
static uint64_t in_use[PLACES / 64];            /* atomic; a bit for each place: few mappings are found fast */
static uintptr_t lowest = UINTPTR_MAX, highest; /* atomic; all mappings so far lie between */

static uint32_t hash(uintptr_t address)
{
    return (uint32_t)((address >> 12) * 2654435761u);
}

static uintptr_t end_of(const struct pt_mapping_place *m)
{
    return pt_place_address(m) + ((m->length + PT_PAGE - 1) & ~(uint64_t)(PT_PAGE - 1));
}

static void note_bounds(uintptr_t from, uintptr_t to)
{
    uintptr_t seen = __atomic_load_n(&lowest, __ATOMIC_RELAXED);
    while (from < seen && !__atomic_compare_exchange_n(&lowest, &seen, from, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
    seen = __atomic_load_n(&highest, __ATOMIC_RELAXED);
    while (to > seen && !__atomic_compare_exchange_n(&highest, &seen, to, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
}

void pt_place_record(uintptr_t address, const struct pt_mapping_place *what)
{
    __atomic_store_n(&places_used, true, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < 64; i++) {
        struct pt_mapping_place *m = &places[(hash(address) + i) % PLACES];
        uintptr_t old = __atomic_load_n(&m->address, __ATOMIC_RELAXED);
        if (old > 1 && old != address)
            continue;
        if (__atomic_compare_exchange_n(&m->address, &old, address, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            memcpy(&m->desc, &what->desc, sizeof *m - offsetof(struct pt_mapping_place, desc));
            note_bounds(address, end_of(m));
            __atomic_fetch_or(&in_use[(m - places) / 64], 1ull << (m - places) % 64, __ATOMIC_RELEASE);
            if (old != address)
                __atomic_fetch_add(&place_count, 1, __ATOMIC_RELAXED);
            return;
        }
    }
}

struct pt_mapping_place *pt_mapping_lookup(const void *address)
{
    if (!__atomic_load_n(&place_count, __ATOMIC_RELAXED) || (uintptr_t)address <= 1)
        return NULL;
    for (uint32_t i = 0; i < 64; i++) {
        struct pt_mapping_place *m = &places[(hash((uintptr_t)address) + i) % PLACES];
        uintptr_t at = __atomic_load_n(&m->address, __ATOMIC_ACQUIRE);
        if (at == (uintptr_t)address)
            return m;
        if (at == 0)
            return NULL;
    }
    return NULL;
}

struct pt_mapping_place *pt_mapping_around(const void *address)
{
    struct pt_mapping_place *exact = pt_mapping_lookup(address);
    uintptr_t at = (uintptr_t)address;
    if (exact || !__atomic_load_n(&place_count, __ATOMIC_RELAXED) || at < __atomic_load_n(&lowest, __ATOMIC_RELAXED) ||
        at >= __atomic_load_n(&highest, __ATOMIC_RELAXED))
        return exact;
    for (struct pt_mapping_place *m = NULL; (m = pt_place_next(m));)
        if (at > pt_place_address(m) && at < end_of(m))
            return m;
    return NULL;
}

uint32_t pt_mapping_desc_of(const struct pt_mapping_place *m)
{
    return m->desc;
}

bool pt_mapping_is_whole(const struct pt_mapping_place *m, const void *address, uint64_t length)
{
    return (uintptr_t)address == pt_place_address(m) && pt_place_address(m) + length + PT_PAGE > end_of(m);
}

uint32_t pt_mapping_desc(const void *address)
{
    struct pt_mapping_place *m = pt_mapping_lookup(address);
    return m ? m->desc : 0;
}

void pt_mapping_forget(struct pt_mapping_place *m)
{
    __atomic_fetch_and(&in_use[(m - places) / 64], ~(1ull << (m - places) % 64), __ATOMIC_RELAXED);
    __atomic_store_n(&m->address, 1, __ATOMIC_RELEASE);
    __atomic_fetch_sub(&place_count, 1, __ATOMIC_RELAXED);
}

struct pt_mapping_place *pt_place_next(const struct pt_mapping_place *m)
{
    if (!__atomic_load_n(&place_count, __ATOMIC_RELAXED))
        return NULL;
    for (uint32_t i = m ? (uint32_t)(m - places) + 1 : 0; i < PLACES; i = (i | 63) + 1) {
        uint64_t left = __atomic_load_n(&in_use[i / 64], __ATOMIC_ACQUIRE) >> i % 64;
        for (; left; left &= left - 1) {
            struct pt_mapping_place *next = &places[i + (uint32_t)__builtin_ctzll(left)];
            if (pt_place_address(next) > 1)
                return next;
        }
    }
    return NULL;
}

void pt_places_reset(void)
{
    memset(places, 0, __atomic_load_n(&places_used, __ATOMIC_RELAXED) ? sizeof places : 0);
    memset(in_use, 0, sizeof in_use);
    lowest = UINTPTR_MAX;
    highest = 0;
    place_count = 0;
}
