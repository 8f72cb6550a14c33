/* Which objects are copies of the HDF5 library, and which copy a slot leads to.
 *
 * Reads only tables in memory: the loader's own look-ups take locks that must not be taken beneath ours.  So an
 * unbound slot is patched only if there is just one function that it can be bound to. */
#include "hdf5/hdf5.h"

#include <string.h>

struct pt_h5 pt_h5_copies[PT_H5_COPIES];

static const char *const names[PT_H5_COUNT] = {
#define H5(result, name, parameters, arguments) #name,
#include "hdf5/hdf5.def"
};
static const char *const queries[PT_H5_QUERIES] = {
#define QUERY(result, name, parameters) #name,
#include "hdf5/hdf5.def"
};
static const char *const parallel_queries[PT_H5_PARALLEL_QUERIES] = {
#define PARALLEL_QUERY(result, name, parameters) #name,
#include "hdf5/hdf5.def"
};

#define OTHERS 32u /* objects that define the names but are not served: other tools, old versions */
static uintptr_t others[OTHERS];
static unsigned other_count;

static int find(const char *name)
{
    if (name[0] != 'H' || name[1] != '5')
        return -1;
    for (int i = 0; i < PT_H5_COUNT; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

static bool has_name(const char *name)
{
    return find(name) >= 0;
}
static const char *name_at(unsigned i)
{
    return names[i];
}

static bool is_known(uintptr_t low, const void *entry)
{
    for (unsigned i = 0; i < PT_H5_COPIES; i++) {
        struct pt_h5 *h = &pt_h5_copies[i];
        if (h->low != low || h->real.H5Dread != entry)
            continue;
        h->present = true;
        return true;
    }
    for (unsigned i = 0; i < other_count; i++)
        if (others[i] == low)
            return true;
    return false;
}

/* A free place, or that of an unloaded copy, in whose functions nobody can be any more. */
static struct pt_h5 *place(void)
{
    for (unsigned i = 0; i < PT_H5_COPIES; i++)
        if (!pt_h5_copies[i].low)
            return &pt_h5_copies[i];
    for (unsigned i = 0; i < PT_H5_COPIES; i++)
        if (!pt_h5_copies[i].present)
            return &pt_h5_copies[i];
    return NULL;
}

static bool fill(struct pt_h5 *h, const struct pt_object *o)
{
    for (unsigned i = 0; i < PT_H5_QUERIES; i++)
        if (!(h->query.at[i] = pt_object_symbol(o, queries[i])))
            return false;
    for (unsigned i = 0; i < PT_H5_COUNT; i++)
        h->real.at[i] = pt_object_symbol(o, names[i]);
    h->is_parallel = true;
    for (unsigned i = 0; i < PT_H5_PARALLEL_QUERIES; i++)
        if (!(h->parallel.at[i] = pt_object_symbol(o, parallel_queries[i])))
            h->is_parallel = false;
    return true;
}

static void leave(const struct pt_object *o)
{
    if (other_count < OTHERS)
        others[other_count++] = o->low;
    if (pt_object_symbol(o, "H5open") && pt.process_id) /* the library itself, not a tool in front of it */
        __atomic_fetch_or(&pt.process->blind, PT_BLIND_UNPATCHED, __ATOMIC_RELAXED);
}

static void object_found(const struct pt_object *o)
{
    const void *entry = pt_object_symbol(o, "H5Dread");
    struct pt_h5 found = {.low = o->low, .high = o->high, .present = true};
    if (!entry || is_known(o->low, entry))
        return;
    struct pt_h5 *h = fill(&found, o) ? place() : NULL;
    if (!h) {
        leave(o);
        return;
    }
    if (h->low)
        pt_h5_forget_all(h);
    *h = found;
}

static void objects_unloaded(void)
{
    other_count = 0;
    for (unsigned i = 0; i < PT_H5_COPIES; i++)
        pt_h5_copies[i].present = false;
}

static unsigned only_copy(unsigned *count)
{
    unsigned last = 0;
    *count = other_count;
    for (unsigned i = 0; i < PT_H5_COPIES; i++)
        if (pt_h5_copies[i].present) {
            last = i;
            ++*count;
        }
    return last;
}

static void *for_slot(const struct pt_object *o, const char *name, const void *value, bool lazy, bool *undecided)
{
    int f = find(name);
    if (f < 0)
        return NULL;
    for (unsigned i = 0; i < PT_H5_COPIES; i++)
        if (pt_h5_copies[i].present && pt_h5_copies[i].real.at[f] == value)
            return pt_h5_entry_points[i][f];
    if (!lazy || !pt_object_holds(o, (uintptr_t)value))
        return NULL;
    unsigned count, i = only_copy(&count);
    if (count == 1 && !other_count && pt_h5_copies[i].real.at[f])
        return pt_h5_entry_points[i][f];
    *undecided = true;
    return NULL;
}

static void *for_symbol(const char *name, const void *found)
{
    int f = found ? find(name) : -1;
    for (unsigned i = 0; f >= 0 && i < PT_H5_COPIES; i++)
        if (pt_h5_copies[i].present && pt_h5_copies[i].real.at[f] == found)
            return pt_h5_entry_points[i][f];
    return NULL;
}

__attribute__((constructor(101))) static void provide(void)
{
    static const struct pt_patched_library hdf5 = {"H",          PT_H5_COUNT,      has_name, name_at,
                                                   object_found, objects_unloaded, for_slot, for_symbol};
    pt_library_register(&hdf5);
}
