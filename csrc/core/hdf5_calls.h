/* A call of the HDF5 library as a span: how it begins and ends, and what it is about.
 *
 * What happens to its file happens inside it.  What is asked of the library is
 * asked before the call, which clears its error stack in any case, and never
 * after it: a failed call's errors are for whoever made it.  Unlike libc's
 * functions these cost microseconds by themselves, and none of them is called
 * in a signal handler. */
#ifndef PYIO_TRACE_HDF5_CALLS_H
#define PYIO_TRACE_HDF5_CALLS_H

#include "hdf5.h"
#include "hooks.h"

struct pt_h5_span {
    struct pt_call call;
    uint32_t id, parent_before, link_before;
    int errno_before;
};

/* What a call is about. */
struct pt_h5_about {
    struct pt_named path;
    uint32_t detail; /* string */
    uint64_t size;
    uint32_t function; /* string; 0: the operation has the name */
};
#define PT_H5_NOTHING ((struct pt_h5_about){{0, 0}, 0, PT_SIZE_NONE, 0})

/* The thread, if the call is to be described; NULL: all there is to begin has been done. */
struct pt_thread *pt_h5_begin(struct pt_h5_span *s, unsigned op);
void pt_h5_open(struct pt_h5_span *s, struct pt_thread *t, struct pt_h5_about a);
/* result: the call's, which is returned; negative: it has failed.  moved: bytes, or -1 where there are none. */
int64_t pt_h5_close(struct pt_h5_span *s, bool described, int64_t result, int64_t moved);
/* A call that has succeeded has moved what was asked for. */
int64_t pt_h5_all(const struct pt_h5_span *s);
struct pt_h5_about pt_h5_about_file(struct pt_h5 *h, const char *name, const char *mode);
/* key: NULL if the name is of no use (that of a file is "/"). */
struct pt_h5_about pt_h5_about_thing(struct pt_h5 *h, struct pt_thread *t, h5_id id, const char *key);
struct pt_h5_about pt_h5_about_opening(struct pt_h5 *h, struct pt_thread *t, h5_id place, const char *key,
                                       const char *name);
struct pt_h5_about pt_h5_about_attribute(struct pt_h5 *h, struct pt_thread *t, h5_id place, const char *object,
                                         const char *name);
struct pt_h5_about pt_h5_about_value(struct pt_h5 *h, struct pt_thread *t, h5_id attribute, h5_id type);
struct pt_h5_about pt_h5_about_data(struct pt_h5 *h, struct pt_thread *t, h5_id set, h5_id type, h5_id memory,
                                    h5_id file);
struct pt_h5_about pt_h5_about_many(struct pt_h5 *h, struct pt_thread *t, size_t count, const h5_id *sets,
                                    const h5_id *types, const h5_id *memories, const h5_id *files);

/* The hooks, of any copy: pt_h5_ours has functions that call them for each. */
#define H5(result, name, parameters, arguments) result see_##name(struct pt_h5 *h, PT_LIST parameters);
#include "hdf5.def"

#endif
