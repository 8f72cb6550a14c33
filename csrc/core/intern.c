/* Interning: strings, stacks and code objects are written once, then named by id.
 *
 * The table is anonymous memory of this process (a forked child starts with a
 * copy of it, and the ids stay good because they are places in the shared log).
 * It is a chain of open-addressing tables, each eight times the last: lookups
 * try all of them, insertion goes to the newest, and nothing ever moves, so no
 * lock is needed.  Two threads that meet the same thing at once may both write
 * it; either copy is right.
 *
 * Details have a table of their own.  Most differ from call to call; among the
 * others they would make each new one a search of tables that fit no cache. */
#include "core.h"

#include <errno.h>
#include <string.h>
#include <fcntl.h>

struct slot {
    uint64_t hash; /* 0: free */
    uint32_t id;   /* 0: being filled in */
    uint32_t left_out; /* of a path: see struct pt_named */
};

#define TABLES 6
#define FIRST_BITS 12
static struct slot *tables[TABLES];
static uint32_t used[TABLES];

#define LATEST_BITS 15
static uint64_t latest[1u << LATEST_BITS]; /* upper half of the hash, id; what comes later takes the place */
static bool latest_used;

static uint32_t table_bits(int i) { return (uint32_t)(FIRST_BITS + 3 * i); }

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

static struct pt_named find(uint64_t hash)
{
    for (int i = 0; i < TABLES; i++) {
        struct slot *table = __atomic_load_n(&tables[i], __ATOMIC_ACQUIRE);
        if (!table)
            break;
        struct slot *s = probe(table, table_bits(i), hash, false);
        if (s) {
            uint32_t id = __atomic_load_n(&s->id, __ATOMIC_ACQUIRE);
            /* Before the id is there, the rest is not. */
            return (struct pt_named){id, id ? __atomic_load_n(&s->left_out, __ATOMIC_RELAXED) : 0};
        }
    }
    return (struct pt_named){0, 0};
}

uint32_t pt_intern_find(uint64_t hash)
{
    return find(hash).id;
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

static void add(uint64_t hash, uint32_t id, uint32_t left_out)
{
    for (int i = 0; i < TABLES; i++) {
        struct slot *table = table_at_slow(i);
        if (!table)
            return; /* no memory: it will be written again, never lost */
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
                __atomic_store_n(&s->left_out, left_out, __ATOMIC_RELAXED);
                __atomic_store_n(&s->id, id, __ATOMIC_RELEASE);
                __atomic_fetch_add(&used[i], 1, __ATOMIC_RELAXED);
                return;
            }
        }
    }
}

void pt_intern_add(uint64_t hash, uint32_t id)
{
    add(hash, id, 0);
}

/* A new log: ids of the old one mean nothing there.  The tables stay mapped:
 * a thread may still be in a hook that began before the stop. */
void pt_intern_reset(void)
{
    for (int i = 0; i < TABLES; i++) {
        if (tables[i])
            pt_sys(SYS_madvise, tables[i], sizeof(struct slot) << table_bits(i), MADV_DONTNEED);
        used[i] = 0;
    }
    memset(latest, 0, latest_used ? sizeof latest : 0);
    latest_used = false;
}

uint64_t pt_hash_bytes(const void *data, size_t length, uint64_t seed)
{
    const unsigned char *p = data;
    uint64_t h = seed * 0x9e3779b97f4a7c15ull + length;
    while (length >= 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        h = (h ^ w) * 0xff51afd7ed558ccdull;
        h ^= h >> 32;
        p += 8;
        length -= 8;
    }
    uint64_t w = 0;
    memcpy(&w, p, length);
    h = (h ^ w) * 0xc4ceb9fe1a85ec53ull;
    h ^= h >> 29;
    h *= 0xff51afd7ed558ccdull;
    h ^= h >> 32;
    return h ? h : 1;
}

#define LONGEST (1u << 20) /* what no path and no sane detail reaches; a longer one is cut */

static uint32_t write_string(const char *bytes, size_t length, uint32_t base)
{
    struct pt_string *s = pt_heap_alloc_slow((uint32_t)(sizeof *s + length + 1));
    if (!s)
        return 0;
    s->base = base;
    s->length = (uint32_t)length;
    memcpy(s + 1, bytes, length);
    pt_heap_publish(s, PT_HEAP_STRING);
    return pt_id_of(s);
}

uint32_t pt_string(const char *bytes, size_t length, uint32_t base)
{
    if (PT_UNLIKELY(length > LONGEST))
        length = LONGEST;
    uint64_t hash = pt_hash_bytes(bytes, length, 0x5354520000000000ull ^ base);
    uint32_t id = pt_intern_find(hash);
    if (PT_LIKELY(id))
        return id;
    id = write_string(bytes, length, base);
    if (id)
        pt_intern_add(hash, id);
    return id;
}

uint32_t pt_detail(const char *bytes, size_t length)
{
    if (PT_UNLIKELY(length > LONGEST))
        length = LONGEST;
    uint64_t hash = pt_hash_bytes(bytes, length, 0), upper = hash & ~(uint64_t)UINT32_MAX;
    uint64_t *place = &latest[hash & ((1u << LATEST_BITS) - 1)], there = __atomic_load_n(place, __ATOMIC_ACQUIRE);
    uint32_t id = (uint32_t)there, before = 0, base = 0;
    if (id && (there ^ upper) >> 32 == 0) {
        const char *text = pt_string_at(id, &before, &base);
        if (text && before == length && !base && memcmp(text, bytes, length) == 0)
            return id;
    }
    id = write_string(bytes, length, 0);
    if (id) {
        __atomic_store_n(&latest_used, true, __ATOMIC_RELAXED);
        __atomic_store_n(place, upper | id, __ATOMIC_RELEASE);
    }
    return id;
}

/* A path is judged when it is first met. */
static struct pt_named name_of(const char *path, size_t length, uint32_t base)
{
    if (PT_UNLIKELY(length > LONGEST))
        length = LONGEST;
    uint64_t hash = pt_hash_bytes(path, length, 0x5054480000000000ull ^ base);
    struct pt_named name = find(hash);
    if (PT_LIKELY(name.id))
        return name;
    name.left_out = pt_select_path_slow(path, length, base);
    name.id = write_string(path, length, base);
    if (name.id)
        add(hash, name.id, name.left_out);
    return name;
}

struct pt_named pt_name(const char *path)
{
    if (!path)
        return (struct pt_named){0, 0};
    return name_of(path, strlen(path), path[0] == '/' ? 0 : pt.cwd);
}

struct pt_named pt_name_at(int dirfd, const char *path)
{
    if (!path || path[0] == '/' || dirfd == AT_FDCWD)
        return pt_name(path);
    pt_fd_entry e = pt_fd_peek(dirfd);
    if (!e && pt_self)
        e = pt_fd_resolve_slow(pt_self, dirfd);
    if (PT_UNLIKELY(e & PT_FD_EXCLUDED)) {
        if (pt_entry_kind(e) == PT_LEFT_PATH && pt_select_includes()) /* the folder is, what is in it need not be */
            return name_of(path, strlen(path), pt_fd_path_slow(dirfd));
        return (struct pt_named){0, pt_entry_kind(e)};
    }
    uint32_t base = pt_entry_id(e) ? ((struct pt_desc *)pt_at(pt_entry_id(e)))->path : 0;
    return name_of(path, strlen(path), base);
}

void pt_cwd_refresh_slow(void)
{
    char here[4096];
    long n = pt_sys(SYS_getcwd, here, sizeof here);
    if (n > 1)
        pt.cwd = pt_string(here, (size_t)n - 1, 0);
}
