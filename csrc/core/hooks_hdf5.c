/* Hooks of the HDF5 library: files and data sets. */
#include "hdf5_calls.h"

/* ---- files -------------------------------------------------------------------------------------- */

h5_id see_H5Fopen(struct pt_h5 *h, const char *name, unsigned flags, h5_id access)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5F_OPEN);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_file(h, name, flags & 1 ? "\"r+\"" : "\"r\""));
    return pt_h5_close_id(&s, t != NULL, h->real.H5Fopen(name, flags, access));
}

h5_id see_H5Fcreate(struct pt_h5 *h, const char *name, unsigned flags, h5_id create, h5_id access)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5F_CREATE);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_file(h, name, flags & 2 ? "\"w\"" : "\"x\""));
    return pt_h5_close_id(&s, t != NULL, h->real.H5Fcreate(name, flags, create, access));
}

h5_id see_H5Freopen(struct pt_h5 *h, h5_id file)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5F_REOPEN);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_thing(h, t, file, NULL));
    return pt_h5_close_id(&s, t != NULL, h->real.H5Freopen(file));
}

h5_err see_H5Fclose(struct pt_h5 *h, h5_id file)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5F_CLOSE);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_thing(h, t, file, NULL));
    h5_err result = pt_h5_close(&s, t != NULL, h->real.H5Fclose(file), -1);
    pt_h5_forget(h, file);
    return result;
}

h5_err see_H5Fflush(struct pt_h5 *h, h5_id object, int scope)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5F_FLUSH);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_thing(h, t, object, NULL));
    return pt_h5_close(&s, t != NULL, h->real.H5Fflush(object, scope), -1);
}

/* ---- data sets ------------------------------------------------------------------------------------ */

h5_id see_H5Dopen1(struct pt_h5 *h, h5_id place, const char *name)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5D_OPEN);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_opening(h, t, place, "dataset", name));
    return pt_h5_close_id(&s, t != NULL, h->real.H5Dopen1(place, name));
}

h5_id see_H5Dopen2(struct pt_h5 *h, h5_id place, const char *name, h5_id access)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5D_OPEN);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_opening(h, t, place, "dataset", name));
    return pt_h5_close_id(&s, t != NULL, h->real.H5Dopen2(place, name, access));
}

h5_id see_H5Dcreate1(struct pt_h5 *h, h5_id place, const char *name, h5_id type, h5_id space, h5_id create)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5D_CREATE);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_opening(h, t, place, "dataset", name));
    return pt_h5_close_id(&s, t != NULL, h->real.H5Dcreate1(place, name, type, space, create));
}

h5_id see_H5Dcreate2(struct pt_h5 *h, h5_id place, const char *name, h5_id type, h5_id space, h5_id link, h5_id create,
                            h5_id access)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5D_CREATE);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_opening(h, t, place, "dataset", name));
    return pt_h5_close_id(&s, t != NULL, h->real.H5Dcreate2(place, name, type, space, link, create, access));
}

h5_id see_H5Dcreate_anon(struct pt_h5 *h, h5_id place, h5_id type, h5_id space, h5_id create, h5_id access)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5D_CREATE);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_opening(h, t, place, "dataset", NULL));
    h5_id result = pt_h5_close_id(&s, t != NULL, h->real.H5Dcreate_anon(place, type, space, create, access));
    pt_h5_unnamed(h, result);
    return result;
}

h5_err see_H5Dread(struct pt_h5 *h, h5_id set, h5_id type, h5_id memory, h5_id file, h5_id transfer, void *data)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5D_READ);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_data(h, t, set, type, memory, file));
    return pt_h5_close(&s, t != NULL, h->real.H5Dread(set, type, memory, file, transfer, data), pt_h5_all(&s));
}

h5_err see_H5Dwrite(struct pt_h5 *h, h5_id set, h5_id type, h5_id memory, h5_id file, h5_id transfer, const void *data)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5D_WRITE);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_data(h, t, set, type, memory, file));
    return pt_h5_close(&s, t != NULL, h->real.H5Dwrite(set, type, memory, file, transfer, data), pt_h5_all(&s));
}

h5_err see_H5Dread_multi(struct pt_h5 *h, size_t count, h5_id *sets, h5_id *types, h5_id *memories, h5_id *files,
                                h5_id transfer, void **data)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5D_READ_MULTI);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_many(h, t, count, sets, types, memories, files));
    return pt_h5_close(&s, t != NULL,
                     h->real.H5Dread_multi(count, sets, types, memories, files, transfer, data), pt_h5_all(&s));
}

h5_err see_H5Dwrite_multi(struct pt_h5 *h, size_t count, h5_id *sets, h5_id *types, h5_id *memories, h5_id *files,
                                 h5_id transfer, const void **data)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5D_WRITE_MULTI);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_many(h, t, count, sets, types, memories, files));
    return pt_h5_close(&s, t != NULL,
                     h->real.H5Dwrite_multi(count, sets, types, memories, files, transfer, data), pt_h5_all(&s));
}

h5_err see_H5Dset_extent(struct pt_h5 *h, h5_id set, const uint64_t *extent)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5D_SET_EXTENT);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_thing(h, t, set, "dataset"));
    return pt_h5_close(&s, t != NULL, h->real.H5Dset_extent(set, extent), -1);
}

h5_err see_H5Dextend(struct pt_h5 *h, h5_id set, const uint64_t *extent)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5D_SET_EXTENT);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_thing(h, t, set, "dataset"));
    return pt_h5_close(&s, t != NULL, h->real.H5Dextend(set, extent), -1);
}

h5_err see_H5Dflush(struct pt_h5 *h, h5_id set)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5D_FLUSH);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_thing(h, t, set, "dataset"));
    return pt_h5_close(&s, t != NULL, h->real.H5Dflush(set), -1);
}

h5_err see_H5Drefresh(struct pt_h5 *h, h5_id set)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5D_REFRESH);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_thing(h, t, set, "dataset"));
    return pt_h5_close(&s, t != NULL, h->real.H5Drefresh(set), -1);
}

h5_err see_H5Dclose(struct pt_h5 *h, h5_id set)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5D_CLOSE);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_thing(h, t, set, "dataset"));
    h5_err result = pt_h5_close(&s, t != NULL, h->real.H5Dclose(set), -1);
    pt_h5_forget(h, set);
    return result;
}

/* ---- chunks as they are in the file: only their writer, or who has just asked, knows their size -------- */

static PT_THREAD_LOCAL struct asked {
    h5_id set;
    uint64_t at; /* hash of the chunk's place */
    uint64_t bytes;
    uint8_t copy;
} asked;

static uint64_t place_hash(struct pt_h5 *h, struct pt_thread *t, h5_id set, const uint64_t *at)
{
    int rank = pt_h5_rank_slow(h, t, set);
    return rank > 0 && at ? pt_hash_bytes(at, (size_t)rank * sizeof *at, 1) : 0;
}

h5_err see_H5Dget_chunk_storage_size(struct pt_h5 *h, h5_id set, const uint64_t *at, uint64_t *bytes)
{
    struct pt_thread *t = pt_enter();
    int saved = errno;
    uint64_t hash = t ? place_hash(h, t, set, at) : 0;
    errno = saved;
    h5_err result = h->real.H5Dget_chunk_storage_size(set, at, bytes);
    asked = (struct asked){set, hash, result >= 0 && hash && bytes ? *bytes : PT_SIZE_NONE,
        (uint8_t)(h - pt_h5_copies)};
    return result;
}

static struct pt_h5_about about_chunk(struct pt_h5 *h, struct pt_thread *t, h5_id set, const uint64_t *at,
    uint64_t bytes)
{
    struct pt_h5_about a = pt_h5_about_thing(h, t, set, "dataset");
    bool just_asked = bytes == PT_SIZE_NONE && asked.set == set && asked.copy == h - pt_h5_copies && asked.at &&
                      asked.at == place_hash(h, t, set, at);
    a.size = just_asked ? asked.bytes : bytes;
    asked.set = 0;
    return a;
}

h5_err see_H5Dread_chunk(struct pt_h5 *h, h5_id set, h5_id transfer, const uint64_t *at, uint32_t *filters, void *data)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5D_READ_CHUNK);
    if (t)
        pt_h5_open(&s, t, about_chunk(h, t, set, at, PT_SIZE_NONE));
    return pt_h5_close(&s, t != NULL, h->real.H5Dread_chunk(set, transfer, at, filters, data), pt_h5_all(&s));
}

h5_err see_H5Dread_chunk1(struct pt_h5 *h, h5_id set, h5_id transfer, const uint64_t *at, uint32_t *filters, void *data)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5D_READ_CHUNK);
    if (t)
        pt_h5_open(&s, t, about_chunk(h, t, set, at, PT_SIZE_NONE));
    return pt_h5_close(&s, t != NULL, h->real.H5Dread_chunk1(set, transfer, at, filters, data), pt_h5_all(&s));
}

/* With data, room is what it has room for, and what was read afterwards; without, only the size is asked for. */
h5_err see_H5Dread_chunk2(struct pt_h5 *h, h5_id set, h5_id transfer, const uint64_t *at, uint32_t *filters, void *data,
                                 size_t *room)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5D_READ_CHUNK);
    if (t)
        pt_h5_open(&s, t, about_chunk(h, t, set, at, data && room ? *room : PT_SIZE_NONE));
    h5_err result = h->real.H5Dread_chunk2(set, transfer, at, filters, data, room);
    return pt_h5_close(&s, t != NULL, result, data && room ? (int64_t)*room : -1);
}

h5_err see_H5Dwrite_chunk(struct pt_h5 *h, h5_id set, h5_id transfer, uint32_t filters, const uint64_t *at,
    size_t bytes,
                                 const void *data)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5D_WRITE_CHUNK);
    if (t)
        pt_h5_open(&s, t, about_chunk(h, t, set, at, bytes));
    return pt_h5_close(&s, t != NULL, h->real.H5Dwrite_chunk(set, transfer, filters, at, bytes, data), (int64_t)bytes);
}
