/* What an id of the HDF5 library stands for: the path of the file, the name of the object.
 *
 * The library is asked when an id is first met, and the answer is cached until the id is closed; HDF5 counts ids up
 * and never reuses one.  Only queries are asked that cannot fail for this kind of id and touch no file.  HDF5 would
 * search the file for the name of an object that was opened by reference or address, so such an object has no name
 * here. */
#include "hdf5/hdf5.h"
#include "base/hash.h"
#include "state/path_strings.h"

#include <string.h>

/* ---- text ---------------------------------------------------------------------------- */

void pt_h5_add_string(struct pt_text *s, uint32_t string)
{
    uint32_t length, base;
    const char *text = pt_string_at(string, &length, &base);
    if (text)
        pt_text_add_bytes(s, text, length);
}

/* ---- files' names ------------------------------------------------------------------------
 * The library answers with the name a file was opened by.  A relative one was
 * meant in the folder of that moment. */

#define GIVEN 1024u
static PT_TABLE struct {
    uint64_t hash;  /* atomic; of the copy and the given name */
    uint64_t named; /* atomic: string of the path | why it is left out << 32 */
} given[GIVEN];

static uint64_t given_hash(const struct pt_h5 *h, const char *name)
{
    return pt_hash_bytes(name, strlen(name), (uint64_t)(h - pt_h5_copies) ^ pt.run_id);
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

/* ---- the cache -------------------------------------------------------------------- */

#define PLACES 8192u
#define REACH 16u
static PT_TABLE struct known {
    uint64_t key; /* atomic: of the copy and the id; 0: free */
    uint64_t run; /* the run whose log has the strings; UNNAMED: has no name */
    struct pt_h5_object object;
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

/* A free place, or one whose id will be asked for again. */
static void cache(uint64_t key, uint64_t run, const struct pt_h5_object *object)
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
        return; /* another thread has just taken it; the id will be asked for again */
    k->run = run;
    k->object = *object;
    __atomic_store_n(&k->key, key, __ATOMIC_RELEASE);
}

static bool cached(uint64_t key, uint64_t *run, struct pt_h5_object *object)
{
    struct known *k = find(key);
    if (!k)
        return false;
    *run = k->run;
    *object = k->object;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&k->key, __ATOMIC_RELAXED) == key;
}

static bool can_have_name(h5_id id)
{
    int kind = pt_h5_kind(id);
    return kind == PT_H5_FILE || kind == PT_H5_GROUP || kind == PT_H5_DATASET || kind == PT_H5_ATTRIBUTE ||
           kind == PT_H5_ATTRIBUTE + 1;
}

void pt_h5_forget(struct pt_h5 *h, h5_id id)
{
    uint64_t key = key_of(h, id);
    struct known *k = can_have_name(id) ? find(key) : NULL;
    if (k)
        __atomic_compare_exchange_n(&k->key, &key, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* The library shuts down, and will count ids from the start again. */
void pt_h5_forget_all(struct pt_h5 *h)
{
    uint64_t copy = (uint64_t)(h - pt_h5_copies + 1);
    for (uint32_t i = 0; i < PLACES; i++) {
        uint64_t key = __atomic_load_n(&known[i].key, __ATOMIC_RELAXED);
        if (key != BUSY && (key >> 48 & 0xff) == copy)
            __atomic_compare_exchange_n(&known[i].key, &key, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
}

static const struct pt_h5_object nothing = {.rank = -1, .elements = -1};

void pt_h5_unnamed(struct pt_h5 *h, h5_id id)
{
    if (can_have_name(id))
        cache(key_of(h, id), UNNAMED, &nothing);
}

/* ---- asking ----------------------------------------------------------------------------------- */

static uint32_t escaped(const char *text)
{
    struct pt_text s;
    s.length = 0;
    pt_text_add_escaped(&s, text);
    return pt_string(s.bytes, s.length, 0);
}

static int64_t attribute_elements(struct pt_h5 *h, h5_id id)
{
    h5_id space = h->query.H5Aget_space(id);
    if (space < 0)
        return -1;
    int64_t n = h->query.H5Sget_simple_extent_npoints(space);
    h->query.H5Sclose(space);
    return n;
}

#define LONGEST_NAME 1024u

/* length: of the whole name, as the library reports it. A name that was cut is marked. */
static uint32_t name_of(char *text, ssize_t length)
{
    if (length >= (ssize_t)LONGEST_NAME)
        memcpy(text + LONGEST_NAME - 4, "...", 4);
    return length > 0 ? escaped(text) : 0;
}

static struct pt_named path_of(struct pt_h5 *h, h5_id id)
{
    char path[4096];
    ssize_t length = h->query.H5Fget_name(id, path, sizeof path);
    return length > 0 && length < (ssize_t)sizeof path ? known_file(h, path) : nothing.path;
}

static void query(struct pt_h5 *h, h5_id id, bool by_name, struct pt_h5_object *object)
{
    char text[LONGEST_NAME];
    object->path = path_of(h, id);
    if (by_name)
        object->name = name_of(text, h->query.H5Iget_name(id, text, sizeof text));
    if (pt_h5_kind(id) < PT_H5_ATTRIBUTE)
        return;
    object->attribute = name_of(text, h->query.H5Aget_name(id, sizeof text, text));
    object->elements = attribute_elements(h, id);
}

#define MOST_AXES 32     /* H5S_MAX_RANK */
#define LAYOUT_CHUNKED 2 /* H5D_layout_t */

static uint32_t chunks_of(struct pt_h5 *h, h5_id set)
{
    uint64_t extents[MOST_AXES];
    h5_id made = h->query.H5Dget_create_plist(set);
    if (made < 0)
        return 0;
    int rank = h->query.H5Pget_layout(made) == LAYOUT_CHUNKED ? h->query.H5Pget_chunk(made, MOST_AXES, extents) : 0;
    h->query.H5Pclose(made);
    if (rank < 1 || rank > MOST_AXES)
        return 0;
    struct pt_text s;
    s.length = 0;
    for (int i = 0; i < rank; i++) {
        pt_text_add(&s, i ? ", " : "[");
        pt_text_add_number(&s, extents[i]);
    }
    pt_text_add(&s, "]");
    return pt_string(s.bytes, s.length, 0);
}

/* Recording is suppressed while the library is asked: the calls that it makes to answer us are not operations of the
 * program. */
void pt_h5_begin_asking(struct pt_thread *t)
{
    t->suppress++;
    t->gate |= PT_GATE_SUPPRESSED;
}

void pt_h5_end_asking(struct pt_thread *t)
{
    if (--t->suppress == 0)
        t->gate &= ~(uint32_t)PT_GATE_SUPPRESSED;
}

static bool answers(struct pt_h5 *h, h5_id id)
{
    return can_have_name(id) && h->query.H5Iget_type(id) == pt_h5_kind(id); /* else the id is not open */
}

struct pt_h5_object pt_h5_object_slow(struct pt_h5 *h, struct pt_thread *t, h5_id id)
{
    uint64_t key = key_of(h, id), run = pt.run_id, theirs = run;
    struct pt_h5_object object = nothing;
    bool found = can_have_name(id) && cached(key, &theirs, &object);
    if (found && theirs == run)
        return object;
    bool by_name = !found || theirs != UNNAMED;
    object = nothing;
    if (!answers(h, id))
        return object;
    pt_h5_begin_asking(t);
    query(h, id, by_name, &object);
    pt_h5_end_asking(t);
    if (by_name) /* an object without a name stays marked */
        cache(key, run, &object);
    return object;
}

struct pt_h5_object pt_h5_dataset_slow(struct pt_h5 *h, struct pt_thread *t, h5_id set)
{
    struct pt_h5_object object = pt_h5_object_slow(h, t, set);
    if (object.chunks_known || !object.name || pt_h5_kind(set) != PT_H5_DATASET || !answers(h, set))
        return object;
    pt_h5_begin_asking(t);
    object.chunks = chunks_of(h, set);
    pt_h5_end_asking(t);
    object.chunks_known = true;
    cache(key_of(h, set), pt.run_id, &object);
    return object;
}

int pt_h5_rank_slow(struct pt_h5 *h, struct pt_thread *t, h5_id set)
{
    struct pt_h5_object object = pt_h5_object_slow(h, t, set);
    if (object.rank >= 0 || pt_h5_kind(set) != PT_H5_DATASET || !answers(h, set))
        return object.rank;
    h5_id space = h->query.H5Dget_space(set);
    if (space < 0)
        return -1;
    int rank = h->query.H5Sget_simple_extent_ndims(space);
    h->query.H5Sclose(space);
    object.rank = (int16_t)rank;
    if (object.name)
        cache(key_of(h, set), pt.run_id, &object);
    return rank;
}
