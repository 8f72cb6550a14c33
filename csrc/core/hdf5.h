/* The HDF5 C library: its copies in this process, and what is known of the things that they have open.
 *
 * Every binding brings a libhdf5 of its own (h5py, PyTables and netCDF4 in one process are three), so there is no one
 * original of a name.  A copy is a loaded object that defines the library's functions; each has a set of functions of
 * ours (hdf5_doors.c), and a slot gets those of the copy that it leads to. */
#ifndef PYIO_TRACE_HDF5_H
#define PYIO_TRACE_HDF5_H

#include "objects.h"

#include <sys/types.h>

typedef int64_t h5_id;
typedef int h5_err;
struct h5_token {
    uint8_t bytes[16];
};

enum pt_h5_function {
#define H5(result, name, parameters, arguments) PT_##name,
#include "hdf5.def"
    PT_H5_COUNT
};
enum pt_h5_question {
#define ASK(result, name, parameters) PT_ASK_##name,
#include "hdf5.def"
    PT_H5_QUESTIONS
};

#define PT_H5_COPIES 8
struct pt_h5 {
    uintptr_t low, high; /* of the object; 0: this place is free */
    bool present;        /* false: unloaded, as far as the last look went */
    union {
        void *at[PT_H5_COUNT];
        struct {
#define H5(result, name, parameters, arguments) result (*name) parameters;
#include "hdf5.def"
        };
    } real;
    union {
        void *at[PT_H5_QUESTIONS];
        struct {
#define ASK(result, name, parameters) result (*name) parameters;
#include "hdf5.def"
        };
    } ask;
};
extern struct pt_h5 pt_h5_copies[PT_H5_COPIES];
extern void *const pt_h5_ours[PT_H5_COPIES][PT_H5_COUNT]; /* hdf5_doors.c */

/* hdf5_copies.c; got.c's lock is held */
void pt_h5_look(const struct pt_object *o);
void pt_h5_look_again(void); /* something has been unloaded */
bool pt_h5_named(const char *name);
const char *pt_h5_name(unsigned i); /* NULL: there are no more */
void *pt_h5_for_slot(const struct pt_object *o, const char *name, const void *value, bool lazy, bool *undecided);
void *pt_h5_for_symbol(const char *name, const void *found); /* also without the lock */

/* hdf5_names.c: what an id stands for */
struct pt_h5_thing {
    struct pt_named path; /* of the file */
    uint32_t name;        /* string, escaped for JSON: of the object; of an attribute, of what has it; 0: not known */
    uint32_t attribute;   /* string, escaped for JSON */
    int16_t rank;         /* of a dataset; -1: not asked for yet */
    int64_t elements;     /* of an attribute */
};
enum { PT_H5_FILE = 1, PT_H5_GROUP = 2, PT_H5_TYPE = 3, PT_H5_SPACE = 4, PT_H5_DATASET = 5, PT_H5_ATTRIBUTE = 6 };
/* The kind of thing is in an id's upper bits (attributes are 6 or 7). */
static inline int pt_h5_kind(h5_id id) { return id > 0 ? (int)(id >> 56) & 0x7f : -1; }
struct pt_h5_thing pt_h5_thing_slow(struct pt_h5 *h, struct pt_thread *t, h5_id id);
struct pt_named pt_h5_file_name(struct pt_h5 *h, const char *name);
void pt_h5_unnamed(struct pt_h5 *h, h5_id id); /* it was not opened by a name: HDF5 would search the file for one */
void pt_h5_forget(struct pt_h5 *h, h5_id id);
void pt_h5_forget_all(struct pt_h5 *h);
int pt_h5_rank_slow(struct pt_h5 *h, struct pt_thread *t, h5_id set);

/* JSON under construction; what does not fit is left off. */
struct pt_h5_text {
    unsigned length;
    char bytes[2048];
};
void pt_h5_add(struct pt_h5_text *s, const char *text);
void pt_h5_add_string(struct pt_h5_text *s, uint32_t string);
void pt_h5_add_escaped(struct pt_h5_text *s, const char *text);
void pt_h5_add_number(struct pt_h5_text *s, uint64_t n);

#endif
