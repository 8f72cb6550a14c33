/* A call of the HDF5 library as a span: how it begins and ends, and what describes it.
 *
 * What happens to its file happens inside it.  The library is asked before the call, which clears the error stack
 * anyway, and never after a failed one, whose errors are for its caller.  Unlike libc's functions, these calls
 * cost microseconds themselves, and none of them runs in a signal handler. */
#ifndef PYIO_TRACE_HDF5_CALLS_H
#define PYIO_TRACE_HDF5_CALLS_H

#include "hdf5/hdf5.h"
#include "hooks/hooks.h"
#include "record/library_spans.h"

/* What describes a call. */
struct pt_h5_description {
    struct pt_named path;
    uint32_t detail; /* string */
    uint64_t size;
    uint32_t function; /* string; 0: the operation's own name */
};
#define PT_H5_NOTHING ((struct pt_h5_description){{0, 0}, 0, PT_SIZE_NONE, 0})

/* Returns the thread if the call should be described; NULL: it has fully begun. */
struct pt_thread *pt_h5_begin(struct pt_library_span *s, unsigned op);
void pt_h5_open(struct pt_library_span *s, struct pt_thread *t, struct pt_h5_description a);
/* result: that of the call, which is returned; negative: failed. moved: bytes, or -1 if there are none. */
int64_t pt_h5_close(struct pt_library_span *s, bool described, int64_t result, int64_t moved);
/* A successful call has moved all that it asked for. */
int64_t pt_h5_all(const struct pt_library_span *s);
struct pt_h5_description pt_h5_describe_file(struct pt_h5 *h, const char *name, const char *mode);
/* key: NULL if the name is useless (that of a file is "/"). */
struct pt_h5_description pt_h5_describe_object(struct pt_h5 *h, struct pt_thread *t, h5_id id, const char *key);
struct pt_h5_description pt_h5_describe_opening(struct pt_h5 *h, struct pt_thread *t, h5_id place, const char *key,
                                                const char *name);
struct pt_h5_description pt_h5_describe_attribute(struct pt_h5 *h, struct pt_thread *t, h5_id place, const char *below,
                                                  const char *name);
struct pt_h5_description pt_h5_describe_value(struct pt_h5 *h, struct pt_thread *t, h5_id attribute, h5_id type);
struct pt_h5_description pt_h5_describe_data(struct pt_h5 *h, struct pt_thread *t, h5_id set, h5_id type, h5_id memory,
                                             h5_id file);
/* Several data sets in one call: the arrays that H5Dread_multi gets. */
struct pt_h5_transfers {
    size_t count;
    const h5_id *sets, *types, *memories, *files;
};
struct pt_h5_description pt_h5_describe_many(struct pt_h5 *h, struct pt_thread *t, const struct pt_h5_transfers *m);

/* ---- transfers.c: parallel HDF5 */
/* Notes whether a file that was just opened is one of MPI-IO.  access: the list of properties it was opened with. */
void pt_h5_note_driver(struct pt_h5 *h, struct pt_thread *t, struct pt_named path, h5_id access, h5_id file);
/* Before pt_h5_close, if the call moved data of such a file and succeeded: adds how. */
void pt_h5_add_transfer(struct pt_h5 *h, struct pt_thread *t, struct pt_library_span *s, h5_id transfer);

/* The hooks, for any copy; the functions in pt_h5_entry_points call them for each. */
#define H5(result, name, parameters, arguments) result hook_##name(struct pt_h5 *h, PT_LIST parameters);
#include "hdf5/hdf5.def"

#endif
