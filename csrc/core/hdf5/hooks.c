/* Hooks of the HDF5 library.
 *
 * Most are generated from their lines in hdf5/hdf5.def.  Those that do more are here: raw chunks, opening a file, and
 * whatever closes something. */
#include "hdf5/spans.h"
#include "base/hash.h"

#include <string.h>

/* ---- raw chunks: their size is known only when the program writes one or has just asked for it -------- */

static PT_THREAD_LOCAL struct asked {
    h5_id set;
    uint64_t at; /* hash of the chunk's coordinates */
    uint64_t bytes;
    uint8_t copy;
} asked;

static uint64_t place_hash(struct pt_h5 *h, struct pt_thread *t, h5_id set, const uint64_t *at)
{
    int rank = pt_h5_rank_slow(h, t, set);
    return rank > 0 && at ? pt_hash_bytes(at, (size_t)rank * sizeof *at, 1) : 0;
}

h5_err hook_H5Dget_chunk_storage_size(struct pt_h5 *h, h5_id set, const uint64_t *at, uint64_t *bytes)
{
    struct pt_thread *t = pt_enter();
    int saved = errno;
    uint64_t hash = t ? place_hash(h, t, set, at) : 0;
    errno = saved;
    h5_err result = h->real.H5Dget_chunk_storage_size(set, at, bytes);
    asked =
        (struct asked){set, hash, result >= 0 && hash && bytes ? *bytes : PT_SIZE_NONE, (uint8_t)(h - pt_h5_copies)};
    return result;
}

static struct pt_h5_description about_chunk(struct pt_h5 *h, struct pt_thread *t, h5_id set, const uint64_t *at,
                                            uint64_t bytes)
{
    struct pt_h5_description a = pt_h5_describe_object(h, t, set, "dataset");
    bool just_asked = bytes == PT_SIZE_NONE && asked.set == set && asked.copy == h - pt_h5_copies && asked.at &&
                      asked.at == place_hash(h, t, set, at);
    a.size = just_asked ? asked.bytes : bytes;
    asked.set = 0;
    return a;
}

/* With data: room is its size on entry, and the bytes read on return. Without data: only the size is asked for. */
h5_err hook_H5Dread_chunk2(struct pt_h5 *h, h5_id set, h5_id transfer, const uint64_t *at, uint32_t *filters,
                           void *data, size_t *room)
{
    struct pt_library_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5D_READ_CHUNK);
    if (t)
        pt_h5_open(&s, t, about_chunk(h, t, set, at, data && room ? *room : PT_SIZE_NONE));
    h5_err result = h->real.H5Dread_chunk2(set, transfer, at, filters, data, room);
    return (h5_err)pt_h5_close(&s, t != NULL, result, data && room ? (int64_t)*room : -1);
}

/* ---- opening a file: by which driver ------------------------------------------------------------------- */

h5_id hook_H5Fopen(struct pt_h5 *h, const char *name, unsigned flags, h5_id access)
{
    struct pt_library_span s;
    struct pt_h5_description a = PT_H5_NOTHING;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5F_OPEN);
    if (t) {
        a = pt_h5_describe_file(h, name, flags & 1 ? "\"r+\"" : "\"r\"");
        pt_h5_open(&s, t, a);
    }
    h5_id file = pt_h5_close(&s, t != NULL, h->real.H5Fopen(name, flags, access), -1);
    pt_h5_note_driver(h, t, a.path, access, file);
    return file;
}

h5_id hook_H5Fcreate(struct pt_h5 *h, const char *name, unsigned flags, h5_id create, h5_id access)
{
    struct pt_library_span s;
    struct pt_h5_description a = PT_H5_NOTHING;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5F_CREATE);
    if (t) {
        a = pt_h5_describe_file(h, name, flags & 2 ? "\"w\"" : "\"x\"");
        pt_h5_open(&s, t, a);
    }
    h5_id file = pt_h5_close(&s, t != NULL, h->real.H5Fcreate(name, flags, create, access), -1);
    pt_h5_note_driver(h, t, a.path, access, file);
    return file;
}

/* ---- closing: an id that is gone has no name any more ---------------------------------------------------- */

static int close_in_span(struct pt_h5 *h, h5_id id, unsigned op, const char *key, int (*real)(h5_id))
{
    struct pt_library_span s;
    struct pt_thread *t = pt_h5_begin(&s, op);
    if (t)
        pt_h5_open(&s, t, pt_h5_describe_object(h, t, id, key));
    return (int)pt_h5_close(&s, t != NULL, real(id), -1);
}

h5_err hook_H5Fclose(struct pt_h5 *h, h5_id file)
{
    h5_err result = close_in_span(h, file, PT_OP_H5F_CLOSE, NULL, h->real.H5Fclose);
    pt_h5_forget(h, file);
    return result;
}

h5_err hook_H5Dclose(struct pt_h5 *h, h5_id set)
{
    h5_err result = close_in_span(h, set, PT_OP_H5D_CLOSE, "dataset", h->real.H5Dclose);
    pt_h5_forget(h, set);
    return result;
}

h5_err hook_H5Aclose(struct pt_h5 *h, h5_id attribute)
{
    h5_err result = h->real.H5Aclose(attribute);
    pt_h5_forget(h, attribute);
    return result;
}

h5_err hook_H5Gclose(struct pt_h5 *h, h5_id group)
{
    h5_err result = h->real.H5Gclose(group);
    pt_h5_forget(h, group);
    return result;
}

/* Closes any kind of id, as h5py does. Files and data sets may still have something to write. */
static bool closes(struct pt_h5 *h, h5_id id)
{
    int kind = pt_h5_kind(id);
    return (kind == PT_H5_FILE || kind == PT_H5_DATASET) && h->query.H5Iget_type(id) == kind &&
           h->query.H5Iget_ref(id) == 1;
}

static int release(struct pt_h5 *h, h5_id object, unsigned op, int (*real)(h5_id))
{
    int saved = errno;
    bool traced = pt_enter() && closes(h, object);
    errno = saved;
    if (!traced)
        return real(object);
    return close_in_span(h, object, op, pt_h5_kind(object) == PT_H5_DATASET ? "dataset" : NULL, real);
}

h5_err hook_H5Oclose(struct pt_h5 *h, h5_id object)
{
    h5_err result = release(h, object, PT_OP_H5O_CLOSE, h->real.H5Oclose);
    pt_h5_forget(h, object);
    return result;
}

int hook_H5Idec_ref(struct pt_h5 *h, h5_id object)
{
    int result = release(h, object, PT_OP_H5I_DEC_REF, h->real.H5Idec_ref);
    if (result == 0)
        pt_h5_forget(h, object);
    return result;
}

h5_err hook_H5close(struct pt_h5 *h, h5_id unused)
{
    h5_err result = h->real.H5close(unused);
    pt_h5_forget_all(h);
    return result;
}

/* ---- made of their lines ------------------------------------------------------------------------------------ */

/* Functions that are not operations. */
static struct pt_h5_description named(const char *function, struct pt_h5_description a)
{
    a.function = pt_string(function, strlen(function), 0);
    return a;
}

static struct pt_h5_description about_path(const char *name)
{
    struct pt_h5_description a = PT_H5_NOTHING;
    a.path = pt_name(name);
    return a;
}

#define H5_SPAN(result, name, parameters, arguments, operation, about, moved)     \
    result hook_##name(struct pt_h5 *h, PT_LIST parameters)                       \
    {                                                                             \
        struct pt_library_span s;                                                 \
        struct pt_thread *t = pt_h5_begin(&s, PT_OP_##operation);                 \
        if (t)                                                                    \
            pt_h5_open(&s, t, about);                                             \
        return (result)pt_h5_close(&s, t != NULL, h->real.name arguments, moved); \
    }
#define H5_UNNAMED(name, parameters, arguments, operation, about)              \
    h5_id hook_##name(struct pt_h5 *h, PT_LIST parameters)                     \
    {                                                                          \
        struct pt_library_span s;                                              \
        struct pt_thread *t = pt_h5_begin(&s, PT_OP_##operation);              \
        if (t)                                                                 \
            pt_h5_open(&s, t, about);                                          \
        h5_id result = pt_h5_close(&s, t != NULL, h->real.name arguments, -1); \
        pt_h5_unnamed(h, result);                                              \
        return result;                                                         \
    }
#define H5_DATA(name, parameters, arguments, operation, about)            \
    h5_err hook_##name(struct pt_h5 *h, PT_LIST parameters)               \
    {                                                                     \
        struct pt_library_span s;                                         \
        struct pt_thread *t = pt_h5_begin(&s, PT_OP_##operation);         \
        if (t)                                                            \
            pt_h5_open(&s, t, about);                                     \
        h5_err result = h->real.name arguments;                           \
        if (t && h->is_parallel && result >= 0)                           \
            pt_h5_add_transfer(h, t, &s, transfer);                       \
        return (h5_err)pt_h5_close(&s, t != NULL, result, pt_h5_all(&s)); \
    }
#include "hdf5/hdf5.def"
