/* Strings in the log, each written once as far as the tables remember (intern.c).
 *
 * Details have a table of their own.  Most details differ from call to call; in the common tables they would make
 * each new one search tables that fit no cache. */
#include "log/intern.h"
#include "base/hash.h"
#include "base/memory.h"
#include "log/chunks.h"
#include "log/ids.h"
#include "redact/redact.h"

#include <string.h>

#define LONGEST PT_LONGEST_STRING

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

typedef uint32_t write_function(const char *bytes, size_t length, uint32_t base);

/* seed: one for each way of writing, since the same bytes may be written in several. */
static inline uint32_t write_once(write_function *write, uint64_t seed, const char *bytes, size_t length, uint32_t base)
{
    if (PT_UNLIKELY(length > LONGEST))
        length = LONGEST;
    uint64_t hash = pt_hash_bytes(bytes, length, seed ^ base);
    uint32_t id = pt_intern_find(hash);
    if (PT_LIKELY(id))
        return id;
    id = write(bytes, length, base);
    if (id)
        pt_intern_add(hash, id);
    return id;
}

uint32_t pt_string(const char *bytes, size_t length, uint32_t base)
{
    return write_once(write_string, 0x5354520000000000ull, bytes, length, base);
}

/* ---- what may have secrets in it: told by what it is, written without them ------------- */

typedef size_t redact_function(const char *text, size_t n, char *out, size_t room);

static uint32_t write_redacted(redact_function *redact, const char *bytes, size_t length, uint32_t base)
{
    char few[512], *text = few;
    size_t room = PT_REDACTED_ROOM(length);
    if (room > sizeof few && !(text = pt_memory(room)))
        return write_string(PT_REDACTED, strlen(PT_REDACTED), base);
    size_t n = redact(bytes, length, text, room);
    uint32_t id = write_string(text, n, base);
    if (text != few)
        pt_memory_back(text, room);
    return id;
}

static size_t redact_url(const char *text, size_t n, char *out, size_t room)
{
    return pt_redact(PT_REDACT_URL, text, n, out, room);
}

uint32_t pt_string_of_path(const char *path, size_t length, uint32_t base)
{
    bool url = memchr(path, '?', length) || memmem(path, length, "://", 3);
    return url ? write_redacted(redact_url, path, length, base) : write_string(path, length, base);
}

uint32_t pt_location(const char *bytes, size_t length, uint32_t base)
{
    return write_once(pt_string_of_path, 0x4c4f430000000000ull, bytes, length, base);
}

static uint32_t write_command(const char *command, size_t length, uint32_t base)
{
    return write_redacted(pt_redact_command, command, length, base);
}

uint32_t pt_command(const char *command)
{
    return write_once(write_command, 0x434d440000000000ull, command, strnlen(command, LONGEST), 0);
}

/* ---- details ---- */

#define LATEST_BITS 15
static PT_TABLE uint64_t latest[1u << LATEST_BITS]; /* upper half of the hash, id; later ones replace earlier ones */
static bool latest_used;

void pt_details_forget(void)
{
    memset(latest, 0, latest_used ? sizeof latest : 0);
    latest_used = false;
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
