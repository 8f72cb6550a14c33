/* Code objects of processes: their names and lines. */
#include "sampler.h"

#include "base/hash.h"
#include "log/chunks.h"
#include "log/ids.h"
#include "log/intern.h"

#include <stdlib.h>
#include <string.h>

#define PLACES (1u << 15)
#define WAYS 8u
#define LARGEST_TABLE (1u << 20) /* bytes of one line table */
#define TABLES_MOST (32u << 20)  /* bytes of all of them */
#define CHECKED_FOR 200000000ull /* ns: after that, another code object may have taken its place */
#define AT_A_TIME 4096u          /* bytes of a table that are compared at a time */

static struct code codes[PLACES];
static size_t tables; /* bytes */

static void forget(struct code *c)
{
    tables -= c->size;
    free(c->table);
    *c = (struct code){0};
}

/* The place of a code object in the table, or a free place for it. */
static struct code *place_of(const struct process *p, uint64_t at)
{
    uint64_t key[2] = {p->id, at};
    uint64_t first = pt_hash_bytes(key, sizeof key, 0x434f4445);
    struct code *oldest = NULL;
    for (unsigned i = 0; i < WAYS; i++) {
        struct code *c = &codes[(first + i) % PLACES];
        if (c->process == p->id && c->at == at)
            return c;
        if (!oldest || c->checked < oldest->checked)
            oldest = c;
    }
    return oldest;
}

/* Its id in the log, which processes that run the same code share. */
static uint32_t id_of(const struct process *p, const struct code *c)
{
    uint32_t table = (uint32_t)pt_hash_bytes(c->table, c->size, 0x4c54) | 1;
    uint32_t words[] = {sampler_read_string(p, c->file_at), sampler_read_string(p, c->name_at), c->first_line, table};
    uint64_t hash = pt_hash_bytes(words, sizeof words, 0x434f4445ull);
    uint32_t id = words[0] && words[1] ? pt_intern_find(hash) : 0;
    if (id || !words[0] || !words[1])
        return id;
    struct pt_code *o = pt_heap_alloc_slow(sizeof *o);
    if (!o)
        return 0;
    o->file = words[0];
    o->function = words[1];
    o->first_line = words[2];
    o->line_table = words[3];
    pt_heap_publish(o, PT_HEAP_CODE);
    id = pt_id_of(o);
    pt_intern_add(hash, id);
    return id;
}

static bool read_table(const struct process *p, struct code *c)
{
    char head[OBJECT_ROOM];
    if (!sampler_read(p, c->table_at, head, p->layout.bytes_data))
        return false;
    uint64_t size = word_in(head, p->layout.bytes_size);
    if (!size || size > LARGEST_TABLE)
        return false;
    if (tables + size > TABLES_MOST)
        for (unsigned i = 0; i < PLACES; i++)
            forget(&codes[i]);
    c->table = malloc(size);
    if (!c->table || !sampler_read(p, c->table_at + p->layout.bytes_data, c->table, size)) {
        free(c->table);
        c->table = NULL;
        return false;
    }
    c->size = (uint32_t)size;
    return true;
}

/* Whether the line table is still the one that was read.  A new module's code often takes the place of an old one's,
 * with the same name, first line and addresses. */
static bool has_same_table(const struct process *p, const struct code *c)
{
    char head[OBJECT_ROOM], now[AT_A_TIME];
    if (!c->table)
        return true;
    if (!sampler_read(p, c->table_at, head, p->layout.bytes_data) || word_in(head, p->layout.bytes_size) != c->size)
        return false;
    for (uint32_t at = 0; at < c->size; at += AT_A_TIME) {
        uint32_t n = c->size - at < AT_A_TIME ? c->size - at : AT_A_TIME;
        if (!sampler_read(p, c->table_at + p->layout.bytes_data + at, now, n) || memcmp(now, c->table + at, n) != 0)
            return false;
    }
    return true;
}

struct code *sampler_code(const struct process *p, uint64_t at, uint64_t now)
{
    const struct pt_layout *l = &p->layout;
    struct code *c = place_of(p, at);
    bool here = c->process == p->id && c->at == at;
    char head[CODE_ROOM];
    if (here && now - c->checked < CHECKED_FOR)
        return c;
    if (!sampler_read(p, at, head, l->co_bytes))
        return NULL;
    struct code fresh = {.process = p->id,
                         .at = at,
                         .file_at = word_in(head, l->co_file),
                         .name_at = word_in(head, l->co_name),
                         .table_at = word_in(head, l->co_table),
                         .checked = now,
                         .first_line = half_in(head, l->co_first),
                         .flags = half_in(head, l->co_flags)};
    if (here && c->file_at == fresh.file_at && c->name_at == fresh.name_at && c->table_at == fresh.table_at &&
        c->first_line == fresh.first_line && c->flags == fresh.flags && has_same_table(p, c)) {
        c->checked = now;
        return c;
    }
    if (!(fresh.flags & l->co_shim)) {
        if (!read_table(p, &fresh))
            return NULL;
        fresh.id = id_of(p, &fresh);
        if (!fresh.id) {
            free(fresh.table);
            return NULL;
        }
    }
    forget(c);
    tables += fresh.size;
    *c = fresh;
    return c;
}

/* ---- the line table (Objects/locations.md of CPython) ------------------------------- */

/* Six bits a byte, the lowest first. */
static uint32_t varint(const struct code *c, uint32_t *at)
{
    uint32_t value = 0;
    for (unsigned shift = 0; *at < c->size; shift += 6) {
        unsigned char byte = c->table[(*at)++];
        value |= shift < 32 ? (uint32_t)(byte & 63) << shift : 0;
        if (!(byte & 64))
            break;
    }
    return value;
}

enum { SHORT_MOST = 9, ONE_LINE_0 = 10, ONE_LINE_2 = 12, NO_COLUMNS = 13, LONG = 14, NO_LINE = 15 };

/* instruction: counted in units of two bytes; one before the first means that the code has not begun. */
int64_t sampler_line(const struct code *c, int64_t instruction)
{
    int64_t line = c->first_line, begin = 0;
    if (instruction < 0)
        return line;
    for (uint32_t at = 0; at < c->size;) {
        unsigned char head = c->table[at++];
        unsigned kind = head >> 3 & 15;
        if (kind == LONG || kind == NO_COLUMNS) {
            uint32_t change = varint(c, &at);
            line += change & 1 ? -(int64_t)(change >> 1) : (int64_t)(change >> 1);
            for (int i = 0; i < 3 && kind == LONG; i++)
                varint(c, &at);
        } else if (kind >= ONE_LINE_0 && kind <= ONE_LINE_2) {
            line += kind - ONE_LINE_0;
            at += 2;
        } else if (kind <= SHORT_MOST) {
            at++;
        }
        begin += (head & 7) + 1;
        if (instruction < begin)
            return kind == NO_LINE || line < 0 ? 0 : line;
    }
    return -1;
}
