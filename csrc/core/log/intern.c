/* Interning: strings, stacks and code objects are written once, then named by id.
 *
 * The table is private memory of this process.  A forked child starts with a copy, and the ids stay valid because
 * they are places in the shared log.  It is a chain of open-addressing tables, each eight times larger than the last.
 * Lookups try all of them, insertions go to the newest, and nothing ever moves, so no lock is needed.  Two threads
 * that meet the same thing at once may both write it; either copy is right.
 *
 * The chain stops growing at its share of --max-memory.  What is met later goes to a table of fixed size, where new
 * entries replace old ones.  What was replaced is written again when it is met again. */
#include "log/intern.h"
#include "base/memory.h"
#include "base/sys.h"
#include "format/log_format.h"

#include <errno.h>
#include <string.h>
#include <fcntl.h>

struct slot {
    uint64_t hash;     /* 0: free */
    uint32_t id;       /* 0: not filled in yet */
    uint32_t left_out; /* for paths: see struct pt_named */
};

#define TABLES 6
#define FIRST_BITS 12
static struct slot *tables[TABLES];
static uint32_t used[TABLES];

/* The table after the chain: sets of four entries, one cache line each.  The key is the hash combined with the value,
 * so two concurrent writers cause a miss, never a mix-up. */
struct recent {
    uint64_t key;   /* hash ^ mixed(value) */
    uint64_t value; /* id | left_out << 32; 0: free */
};
#define WAYS 4u
#define SET_BYTES (WAYS * sizeof(struct recent))
#define LEAST_SETS_BITS 10u
static uintptr_t recent; /* atomic: its address | log2 of its sets; 0: none yet */
static uint32_t turn;
#define DEFAULT_MOST (32ull << 20)
static uint64_t most = DEFAULT_MOST; /* bytes; --max-memory */

static uint32_t table_bits(int i)
{
    return (uint32_t)(FIRST_BITS + 3 * i);
}

/* The growing tables get a quarter of the memory. The fixed table after them is allocated whole and fills at once. */
static bool has_part(int i)
{
    uint64_t bytes = 0;
    for (int j = 0; j <= i; j++)
        bytes += sizeof(struct slot) << table_bits(j);
    return bytes <= most / 4 || i == 0;
}

static uint64_t mixed(uint64_t value)
{
    return value * 0x9e3779b97f4a7c15ull;
}

static struct recent *set_of(uintptr_t table, uint64_t hash)
{
    uint64_t sets = 1ull << (table & (PT_PAGE - 1));
    return (struct recent *)(table & ~(uintptr_t)(PT_PAGE - 1)) + (hash & (sets - 1)) * WAYS;
}

static struct pt_named find_recent(uint64_t hash)
{
    uintptr_t table = __atomic_load_n(&recent, __ATOMIC_ACQUIRE);
    struct recent *set = table ? set_of(table, hash) : NULL;
    for (unsigned i = 0; set && i < WAYS; i++) {
        uint64_t key = __atomic_load_n(&set[i].key, __ATOMIC_ACQUIRE);
        uint64_t value = __atomic_load_n(&set[i].value, __ATOMIC_RELAXED);
        if (value && (key ^ mixed(value)) == hash)
            return (struct pt_named){(uint32_t)value, (uint32_t)(value >> 32)};
    }
    return (struct pt_named){0, 0};
}

/* Takes what is left of --max-memory. */
static uintptr_t recent_slow(void)
{
    uintptr_t table = __atomic_load_n(&recent, __ATOMIC_ACQUIRE), none = 0;
    if (table)
        return table;
    uint64_t used = pt_memory_allocated(), left = most > used ? most - used : 0;
    uint32_t bits = LEAST_SETS_BITS;
    while (SET_BYTES << (bits + 1) <= left)
        bits++;
    void *fresh = pt_memory(SET_BYTES << bits);
    if (!fresh)
        return 0;
    if (__atomic_compare_exchange_n(&recent, &none, (uintptr_t)fresh | bits, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
        return (uintptr_t)fresh | bits;
    pt_memory_back(fresh, SET_BYTES << bits);
    return none;
}

static void add_recent(uint64_t hash, struct pt_named name)
{
    uintptr_t table = recent_slow();
    if (!table)
        return; /* no memory: it will be written again, not lost */
    struct recent *set = set_of(table, hash);
    unsigned way = 0;
    while (way < WAYS && __atomic_load_n(&set[way].value, __ATOMIC_RELAXED))
        way++;
    if (way == WAYS)
        way = __atomic_fetch_add(&turn, 1, __ATOMIC_RELAXED) % WAYS;
    uint64_t value = name.id | (uint64_t)name.left_out << 32;
    __atomic_store_n(&set[way].value, value, __ATOMIC_RELAXED);
    __atomic_store_n(&set[way].key, hash ^ mixed(value), __ATOMIC_RELEASE);
}

static struct slot *probe(struct slot *table, uint32_t bits, uint64_t hash, bool free_too)
{
    uint64_t mask = (1ull << bits) - 1;
    for (uint64_t i = 0; i < 64; i++) {
        struct slot *s = &table[(hash + i) & mask];
        uint64_t h = __atomic_load_n(&s->hash, __ATOMIC_ACQUIRE);
        if (h == hash)
            return s;
        if (h == 0)
            return free_too ? s : NULL;
    }
    return NULL;
}

struct pt_named pt_intern_find_named(uint64_t hash)
{
    for (int i = 0; i < TABLES; i++) {
        struct slot *table = __atomic_load_n(&tables[i], __ATOMIC_ACQUIRE);
        if (!table)
            break;
        struct slot *s = probe(table, table_bits(i), hash, false);
        if (s) {
            uint32_t id = __atomic_load_n(&s->id, __ATOMIC_ACQUIRE);
            /* Until the id is set, the rest is not valid. */
            return (struct pt_named){id, id ? __atomic_load_n(&s->left_out, __ATOMIC_RELAXED) : 0};
        }
    }
    return find_recent(hash);
}

uint32_t pt_intern_find(uint64_t hash)
{
    return pt_intern_find_named(hash).id;
}

static struct slot *table_at_slow(int i)
{
    struct slot *table = __atomic_load_n(&tables[i], __ATOMIC_ACQUIRE);
    if (table)
        return table;
    size_t bytes = sizeof(struct slot) << table_bits(i);
    struct slot *fresh = pt_memory(bytes), *none = NULL;
    if (!fresh)
        return NULL;
    if (__atomic_compare_exchange_n(&tables[i], &none, fresh, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
        return fresh;
    pt_memory_back(fresh, bytes);
    return none;
}

void pt_intern_add_named(uint64_t hash, struct pt_named name)
{
    for (int i = 0; i < TABLES && has_part(i); i++) {
        struct slot *table = table_at_slow(i);
        if (!table)
            return; /* no memory: it will be written again, not lost */
        if (__atomic_load_n(&used[i], __ATOMIC_RELAXED) > 1u << (table_bits(i) - 1))
            continue;
        for (int tries = 0; tries < 4; tries++) {
            struct slot *s = probe(table, table_bits(i), hash, true);
            if (!s)
                break;
            uint64_t free_hash = 0;
            if (__atomic_load_n(&s->hash, __ATOMIC_RELAXED) == hash)
                return;
            if (__atomic_compare_exchange_n(&s->hash, &free_hash, hash, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
                __atomic_store_n(&s->left_out, name.left_out, __ATOMIC_RELAXED);
                __atomic_store_n(&s->id, name.id, __ATOMIC_RELEASE);
                __atomic_fetch_add(&used[i], 1, __ATOMIC_RELAXED);
                return;
            }
        }
    }
    add_recent(hash, name);
}

void pt_intern_add(uint64_t hash, uint32_t id)
{
    pt_intern_add_named(hash, (struct pt_named){id, 0});
}

void pt_intern_limit(uint64_t bytes)
{
    most = bytes ? bytes : DEFAULT_MOST;
}

/* Starts a new log, in which the old ids mean nothing.  The tables stay mapped, because a thread may still be in a
 * hook that began before the stop. */
void pt_intern_reset(void)
{
    for (int i = 0; i < TABLES; i++) {
        if (tables[i])
            pt_sys(SYS_madvise, tables[i], sizeof(struct slot) << table_bits(i), MADV_DONTNEED);
        used[i] = 0;
    }
    if (recent)
        pt_sys(SYS_madvise, set_of(recent, 0), SET_BYTES << (recent & (PT_PAGE - 1)), MADV_DONTNEED);
}
