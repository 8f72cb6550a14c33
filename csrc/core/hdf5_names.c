/* What an id of the HDF5 library stands for: the file's path, the object's name.
 *
 * Asked of the library when an id is first met, and remembered until the id is
 * closed; the library counts ids up and gives none out twice.  Only questions
 * are asked that cannot fail for what they are asked of and touch no file: the
 * name of an object that was opened by a reference or an address the library
 * would search the file for, so that one has none. */
#include "hdf5.h"

#include <string.h>

/* ---- text ---------------------------------------------------------------------------- */

static void add_bytes(struct pt_h5_text *s, const char *bytes, size_t n)
{
    size_t room = sizeof s->bytes - s->length;
    n = n < room ? n : room;
    memcpy(s->bytes + s->length, bytes, n);
    s->length += (unsigned)n;
}

void pt_h5_add(struct pt_h5_text *s, const char *text) { add_bytes(s, text, strlen(text)); }

void pt_h5_add_string(struct pt_h5_text *s, uint32_t string)
{
    uint32_t length, base;
    const char *text = pt_string_at(string, &length, &base);
    if (text)
        add_bytes(s, text, length);
}

void pt_h5_add_escaped(struct pt_h5_text *s, const char *text)
{
    static const char hex[] = "0123456789abcdef";
    for (const char *c = text; *c; c++) {
        char code[] = {'\\', 'u', '0', '0', hex[(*c >> 4) & 15], hex[*c & 15]};
        if ((unsigned char)*c < 0x20)
            add_bytes(s, code, sizeof code);
        else if (*c == '"' || *c == '\\')
            add_bytes(s, (char[]){'\\', *c}, 2);
        else
            add_bytes(s, c, 1);
    }
}

void pt_h5_add_number(struct pt_h5_text *s, uint64_t n)
{
    char digits[20];
    unsigned at = sizeof digits;
    do
        digits[--at] = (char)('0' + n % 10);
    while (n /= 10);
    add_bytes(s, digits + at, sizeof digits - at);
}

/* ---- files' names ------------------------------------------------------------------------
 * The library answers with the name a file was opened by.  A relative one was
 * meant in the folder of that moment. */

#define GIVEN 1024u
static struct {
    uint64_t hash; /* atomic; of the copy and the name as given */
    uint64_t named; /* atomic: the path's string | why it is left out << 32 */
} given[GIVEN];

static uint64_t given_hash(const struct pt_h5 *h, const char *name)
{
    return pt_hash_bytes(name, strlen(name), (uint64_t)(h - pt_h5_copies) ^ pt.header->run_id);
}

struct pt_named pt_h5_file_name(struct pt_h5 *h, const char *name)
{
    struct pt_named path = pt_name(name);
    if (name && name[0] != '/') {
        uint64_t hash = given_hash(h, name);
        __atomic_store_n(&given[hash % GIVEN].named, (uint64_t)path.left_out << 32 | path.id, __ATOMIC_RELAXED);
        __atomic_store_n(&given[hash % GIVEN].hash, hash, __ATOMIC_RELEASE);
    }
    return path;
}

static struct pt_named known_file(const struct pt_h5 *h, const char *name)
{
    uint64_t hash = given_hash(h, name);
    if (name[0] == '/' || __atomic_load_n(&given[hash % GIVEN].hash, __ATOMIC_ACQUIRE) != hash)
        return pt_name(name);
    uint64_t named = __atomic_load_n(&given[hash % GIVEN].named, __ATOMIC_RELAXED);
    return (struct pt_named){(uint32_t)named, (uint32_t)(named >> 32)};
}

/* ---- what is remembered -------------------------------------------------------------------- */

#define PLACES 8192u
#define REACH 16u
static struct known {
    uint64_t key; /* atomic: of the copy and the id; 0: free */
    uint64_t run; /* the log that the strings are in; UNNAMED: none is to be asked for */
    struct pt_h5_thing thing;
} known[PLACES];
#define BUSY UINT64_MAX
#define UNNAMED 0

static uint64_t key_of(const struct pt_h5 *h, h5_id id)
{
    return (uint64_t)id ^ (uint64_t)(h - pt_h5_copies + 1) << 48;
}

static struct known *place(uint64_t key, uint32_t i)
{
    return &known[((uint32_t)(key ^ key >> 32) * 2654435761u / 64 + i) % PLACES];
}

static struct known *find(uint64_t key)
{
    for (uint32_t i = 0; i < REACH; i++)
        if (__atomic_load_n(&place(key, i)->key, __ATOMIC_ACQUIRE) == key)
            return place(key, i);
    return NULL;
}

/* A free place, or else one whose holder will be asked for again. */
static void remember(uint64_t key, uint64_t run, const struct pt_h5_thing *thing)
{
    struct known *k = find(key);
    for (uint32_t i = 0; !k && i < REACH; i++)
        if (!__atomic_load_n(&place(key, i)->key, __ATOMIC_RELAXED))
            k = place(key, i);
    if (!k)
        k = place(key, (uint32_t)key % REACH);
    uint64_t before = __atomic_load_n(&k->key, __ATOMIC_RELAXED);
    if (before == BUSY ||
        !__atomic_compare_exchange_n(&k->key, &before, BUSY, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return; /* somebody else's just now: it is asked for again, too */
    k->run = run;
    k->thing = *thing;
    __atomic_store_n(&k->key, key, __ATOMIC_RELEASE);
}

static bool recall(uint64_t key, uint64_t *run, struct pt_h5_thing *thing)
{
    struct known *k = find(key);
    if (!k)
        return false;
    *run = k->run;
    *thing = k->thing;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&k->key, __ATOMIC_RELAXED) == key;
}

void pt_h5_forget(struct pt_h5 *h, h5_id id)
{
    uint64_t key = key_of(h, id);
    struct known *k = id > 0 ? find(key) : NULL;
    if (k)
        __atomic_compare_exchange_n(&k->key, &key, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* The library ends, and will count its ids from the start. */
void pt_h5_forget_all(struct pt_h5 *h)
{
    uint64_t copy = (uint64_t)(h - pt_h5_copies + 1);
    for (uint32_t i = 0; i < PLACES; i++) {
        uint64_t key = __atomic_load_n(&known[i].key, __ATOMIC_RELAXED);
        if (key != BUSY && (key >> 48 & 0xff) == copy)
            __atomic_compare_exchange_n(&known[i].key, &key, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
}

static const struct pt_h5_thing nothing = {.rank = -1, .elements = -1};

void pt_h5_unnamed(struct pt_h5 *h, h5_id id)
{
    if (id > 0)
        remember(key_of(h, id), UNNAMED, &nothing);
}

/* ---- asking ----------------------------------------------------------------------------------- */

static uint32_t escaped(const char *text)
{
    struct pt_h5_text s;
    s.length = 0;
    pt_h5_add_escaped(&s, text);
    return pt_string(s.bytes, s.length, 0);
}

static int64_t attribute_elements(struct pt_h5 *h, h5_id id)
{
    h5_id space = h->ask.H5Aget_space(id);
    if (space < 0)
        return -1;
    int64_t n = h->ask.H5Sget_simple_extent_npoints(space);
    h->ask.H5Sclose(space);
    return n;
}

#define LONGEST_NAME 1024u

/* length: of the whole name, as the library says; one that has been cut says so. */
static uint32_t name_of(char *text, ssize_t length)
{
    if (length >= (ssize_t)LONGEST_NAME)
        memcpy(text + LONGEST_NAME - 4, "...", 4);
    return length > 0 ? escaped(text) : 0;
}

static struct pt_named path_of(struct pt_h5 *h, h5_id id)
{
    char path[4096];
    ssize_t length = h->ask.H5Fget_name(id, path, sizeof path);
    return length > 0 && length < (ssize_t)sizeof path ? known_file(h, path) : nothing.path;
}

static void ask(struct pt_h5 *h, h5_id id, bool by_name, struct pt_h5_thing *thing)
{
    char text[LONGEST_NAME];
    thing->path = path_of(h, id);
    if (by_name)
        thing->name = name_of(text, h->ask.H5Iget_name(id, text, sizeof text));
    if (pt_h5_kind(id) < PT_H5_ATTRIBUTE)
        return;
    thing->attribute = name_of(text, h->ask.H5Aget_name(id, sizeof text, text));
    thing->elements = attribute_elements(h, id);
}

/* Whatever the library should do for an answer is not the program's. */
static void ask_slow(struct pt_h5 *h, struct pt_thread *t, h5_id id, bool by_name, struct pt_h5_thing *thing)
{
    t->suppress++;
    t->gate |= PT_GATE_SUPPRESSED;
    ask(h, id, by_name, thing);
    if (--t->suppress == 0)
        t->gate &= ~(uint32_t)PT_GATE_SUPPRESSED;
}

static bool answers(struct pt_h5 *h, h5_id id)
{
    int kind = pt_h5_kind(id);
    bool named = kind == PT_H5_FILE || kind == PT_H5_GROUP || kind == PT_H5_DATASET || kind == PT_H5_ATTRIBUTE ||
                 kind == PT_H5_ATTRIBUTE + 1;
    return named && h->ask.H5Iget_type(id) == kind; /* else it is not open */
}

struct pt_h5_thing pt_h5_thing_slow(struct pt_h5 *h, struct pt_thread *t, h5_id id)
{
    uint64_t key = key_of(h, id), run = pt.header->run_id, theirs = run;
    struct pt_h5_thing thing = nothing;
    bool found = id > 0 && recall(key, &theirs, &thing);
    if (found && theirs == run)
        return thing;
    bool by_name = !found || theirs != UNNAMED;
    thing = nothing;
    if (!answers(h, id))
        return thing;
    ask_slow(h, t, id, by_name, &thing);
    if (by_name) /* one without a name stays marked */
        remember(key, run, &thing);
    return thing;
}

int pt_h5_rank_slow(struct pt_h5 *h, struct pt_thread *t, h5_id set)
{
    struct pt_h5_thing thing = pt_h5_thing_slow(h, t, set);
    if (thing.rank >= 0 || pt_h5_kind(set) != PT_H5_DATASET || !answers(h, set))
        return thing.rank;
    h5_id space = h->ask.H5Dget_space(set);
    if (space < 0)
        return -1;
    int rank = h->ask.H5Sget_simple_extent_ndims(space);
    h->ask.H5Sclose(space);
    thing.rank = (int16_t)rank;
    if (thing.name)
        remember(key_of(h, set), pt.header->run_id, &thing);
    return rank;
}
