/* The HDF5 C library: its copies in this process, and what is known about its open objects.
 *
 * Every binding brings its own libhdf5 (h5py, PyTables and netCDF4 in one process make three), so a name has no
 * single original.  A copy is a loaded object that defines the library's functions.  Each copy has its own set of our
 * functions (hdf5/entry_points.c), and a slot gets those of the copy that it leads to. */
#ifndef PYIO_TRACE_HDF5_H
#define PYIO_TRACE_HDF5_H

#include "base/text.h"
#include "log/ids.h"
#include "log/intern.h"
#include "patch/patch.h"

#include <sys/types.h>

typedef int64_t h5_id;
typedef int h5_err;
struct h5_token {
    uint8_t bytes[16];
};

enum pt_h5_function {
#define H5(result, name, parameters, arguments) PT_##name,
#include "hdf5/hdf5.def"
    PT_H5_COUNT
};
enum pt_h5_query {
#define QUERY(result, name, parameters) PT_QUERY_##name,
#include "hdf5/hdf5.def"
    PT_H5_QUERIES
};
enum pt_h5_parallel_query {
#define PARALLEL_QUERY(result, name, parameters) PT_QUERY_##name,
#include "hdf5/hdf5.def"
    PT_H5_PARALLEL_QUERIES
};

#define PT_H5_COPIES 8
struct pt_h5 {
    uintptr_t low, high; /* of the object; 0: the place is free */
    bool present;        /* false: unloaded at the latest pass */
    union {
        void *at[PT_H5_COUNT];
        struct {
#define H5(result, name, parameters, arguments) result(*name) parameters;
#include "hdf5/hdf5.def"
        };
    } real;
    union {
        void *at[PT_H5_QUERIES];
        struct {
#define QUERY(result, name, parameters) result(*name) parameters;
#include "hdf5/hdf5.def"
        };
    } query;
    union {
        void *at[PT_H5_PARALLEL_QUERIES];
        struct {
#define PARALLEL_QUERY(result, name, parameters) result(*name) parameters;
#include "hdf5/hdf5.def"
        };
    } parallel;       /* those of a library that was built for MPI */
    bool is_parallel; /* it has them all */
};
extern struct pt_h5 pt_h5_copies[PT_H5_COPIES];
extern void *const pt_h5_entry_points[PT_H5_COPIES][PT_H5_COUNT]; /* entry_points.c */

/* identifiers.c: what an id stands for */
struct pt_h5_object {
    struct pt_named path; /* of the file */
    uint32_t name;        /* string, escaped for JSON: of the object; for an attribute, of its object; 0: unknown */
    uint32_t attribute;   /* string, escaped for JSON */
    uint32_t chunks;      /* string, the extents of a chunk as JSON; 0: it has none, or has not been asked for them */
    bool chunks_known;
    int16_t rank;     /* of a dataset; -1: not known yet */
    int64_t elements; /* of an attribute */
};
enum { PT_H5_FILE = 1, PT_H5_GROUP = 2, PT_H5_TYPE = 3, PT_H5_SPACE = 4, PT_H5_DATASET = 5, PT_H5_ATTRIBUTE = 6 };
/* The upper bits of an id have its kind (attributes are 6 or 7). */
static inline int pt_h5_kind(h5_id id)
{
    return id > 0 ? (int)(id >> 56) & 0x7f : -1;
}
struct pt_h5_object pt_h5_object_slow(struct pt_h5 *h, struct pt_thread *t, h5_id id);
/* Likewise, with the chunks of a dataset that has a name. */
struct pt_h5_object pt_h5_dataset_slow(struct pt_h5 *h, struct pt_thread *t, h5_id set);
struct pt_named pt_h5_file_name(struct pt_h5 *h, const char *name);
void pt_h5_unnamed(struct pt_h5 *h, h5_id id); /* it was not opened by name: HDF5 would search the file for one */
void pt_h5_forget(struct pt_h5 *h, h5_id id);
void pt_h5_forget_all(struct pt_h5 *h);
int pt_h5_rank_slow(struct pt_h5 *h, struct pt_thread *t, h5_id set);

/* Calls to the library between these are not operations of the program. */
void pt_h5_begin_asking(struct pt_thread *t);
void pt_h5_end_asking(struct pt_thread *t);
void pt_h5_add_string(struct pt_text *s, uint32_t string);

#endif
