/* Calls of the HDF5 library as spans: begin, end, and their details. */
#include "hdf5/spans.h"
#include "log/chunks.h"

#include <string.h>

/* ---- begin and end --------------------------------------------------------------------- */

struct pt_thread *pt_h5_begin(struct pt_library_span *s, unsigned op)
{
    return pt_library_begin(s, op);
}

void pt_h5_open(struct pt_library_span *s, struct pt_thread *t, struct pt_h5_description a)
{
    errno = 0; /* so that errno belongs to this call if it fails */
    pt_library_open(s, t, a.path, a.function, a.detail, a.size);
}

int64_t pt_h5_close(struct pt_library_span *s, bool described, int64_t result, int64_t moved)
{
    int error = errno;
    pt_library_end(s, result < 0 ? -1 : moved, result >= 0 ? 0 : error ? error : EIO);
    errno = described && !error ? s->errno_before : error;
    return result;
}

/* ---- details ----------------------------------------------------------------------------- */

static void add_known(struct pt_text *d, const char *key, uint32_t string)
{
    if (!string)
        return;
    pt_text_member(d, key);
    pt_text_add(d, "\"");
    pt_h5_add_string(d, string);
    pt_text_add(d, "\"");
}

static void add_chunks(struct pt_text *d, uint32_t chunks)
{
    if (!chunks)
        return;
    pt_text_member(d, "chunks");
    pt_h5_add_string(d, chunks);
}

/* In sums one row has all sizes, so the number of elements is left out. */
static void add_elements(struct pt_text *d, int64_t elements)
{
    if (elements < 0 || pt_profiling())
        return;
    pt_text_member(d, "elements");
    pt_text_add_number(d, (uint64_t)elements);
}

static uint32_t detail_of(struct pt_text *d)
{
    if (d->length == 1 || d->length > sizeof d->bytes - 8)
        return 0;
    pt_text_add(d, "}");
    return pt_detail(d->bytes, d->length);
}

/* Joins a name to its place: "/group" and "data" become "/group/data". */
static void add_joined(struct pt_text *d, const char *key, uint32_t place, const char *name)
{
    if (!name || (name[0] != '/' && !place))
        return;
    pt_text_member(d, key);
    pt_text_add(d, "\"");
    if (name[0] != '/')
        pt_h5_add_string(d, place);
    while (name[0] == '.' && name[1] == '/')
        name += 2;
    bool here = strcmp(name, ".") == 0;
    if (!here && name[0] != '/' && d->bytes[d->length - 1] != '/')
        pt_text_add(d, "/");
    if (!here)
        pt_text_add_escaped(d, name);
    pt_text_add(d, "\"");
}

static uint64_t bytes_of(int64_t elements, uint64_t each)
{
    bool known = elements >= 0 && each && (uint64_t)elements <= (PT_SIZE_NONE >> 1) / each;
    return known ? (uint64_t)elements * each : PT_SIZE_NONE;
}

static uint64_t type_size(struct pt_h5 *h, h5_id type)
{
    return h->query.H5Iget_type(type) == PT_H5_TYPE ? h->query.H5Tget_size(type) : 0;
}

/* A successful call has moved all that it asked for. */
int64_t pt_h5_all(const struct pt_library_span *s)
{
    return s->call.thread && s->call.size != PT_SIZE_NONE ? (int64_t)s->call.size : -1;
}

/* ---- what calls are about -------------------------------------------------------------------- */

static struct pt_h5_description described(struct pt_named path, struct pt_text *details, uint64_t size)
{
    struct pt_h5_description a = PT_H5_NOTHING;
    a.path = path;
    a.detail = detail_of(details);
    a.size = size;
    return a;
}

struct pt_h5_description pt_h5_describe_file(struct pt_h5 *h, const char *name, const char *mode)
{
    struct pt_text d;
    pt_text_object(&d);
    pt_text_member(&d, "mode");
    pt_text_add(&d, mode);
    return described(pt_h5_file_name(h, name), &d, PT_SIZE_NONE);
}

/* key: NULL if the name is useless (that of a file is "/"). */
struct pt_h5_description pt_h5_describe_object(struct pt_h5 *h, struct pt_thread *t, h5_id id, const char *key)
{
    struct pt_h5_object object = pt_h5_object_slow(h, t, id);
    struct pt_text d;
    pt_text_object(&d);
    if (key)
        add_known(&d, key, object.name);
    if (key)
        add_known(&d, "attribute", object.attribute);
    return described(object.path, &d, PT_SIZE_NONE);
}

struct pt_h5_description pt_h5_describe_opening(struct pt_h5 *h, struct pt_thread *t, h5_id place, const char *key,
                                                const char *name)
{
    struct pt_h5_object object = pt_h5_object_slow(h, t, place);
    struct pt_text d;
    pt_text_object(&d);
    add_joined(&d, key, object.name, name);
    return described(object.path, &d, PT_SIZE_NONE);
}

struct pt_h5_description pt_h5_describe_attribute(struct pt_h5 *h, struct pt_thread *t, h5_id place, const char *below,
                                                  const char *name)
{
    struct pt_h5_object object = pt_h5_object_slow(h, t, place);
    struct pt_text d;
    pt_text_object(&d);
    add_joined(&d, "object", object.name, below);
    if (name) {
        pt_text_member(&d, "attribute");
        pt_text_add(&d, "\"");
        pt_text_add_escaped(&d, name);
        pt_text_add(&d, "\"");
    }
    return described(object.path, &d, PT_SIZE_NONE);
}

struct pt_h5_description pt_h5_describe_value(struct pt_h5 *h, struct pt_thread *t, h5_id attribute, h5_id type)
{
    struct pt_h5_object object = pt_h5_object_slow(h, t, attribute);
    struct pt_text d;
    pt_text_object(&d);
    add_known(&d, "object", object.name);
    add_known(&d, "attribute", object.attribute);
    add_elements(&d, object.elements);
    return described(object.path, &d, bytes_of(object.elements, type_size(h, type)));
}

static int64_t selected(struct pt_h5 *h, h5_id space)
{
    return h->query.H5Iget_type(space) == PT_H5_SPACE ? h->query.H5Sget_select_npoints(space) : -1;
}

/* The number of elements of a transfer; -1: unknown. */
static int64_t elements_of(struct pt_h5 *h, h5_id set, h5_id memory, h5_id file)
{
    int64_t n = file ? selected(h, file) : -1; /* 0: H5S_ALL */
    if (n < 0)
        n = selected(h, memory);
    if (n >= 0 || file || h->query.H5Iget_type(set) != PT_H5_DATASET)
        return n;
    h5_id space = h->query.H5Dget_space(set);
    if (space < 0)
        return -1;
    n = h->query.H5Sget_simple_extent_npoints(space);
    h->query.H5Sclose(space);
    return n;
}

struct pt_h5_description pt_h5_describe_data(struct pt_h5 *h, struct pt_thread *t, h5_id set, h5_id type, h5_id memory,
                                             h5_id file)
{
    struct pt_h5_object object = pt_h5_dataset_slow(h, t, set);
    int64_t n = elements_of(h, set, memory, file);
    struct pt_text d;
    pt_text_object(&d);
    add_known(&d, "dataset", object.name);
    add_chunks(&d, object.chunks);
    add_elements(&d, n);
    return described(object.path, &d, bytes_of(n, type_size(h, type)));
}

/* Several data sets in one call: has the path of the first, and bytes if all are known. */
struct pt_h5_description pt_h5_describe_many(struct pt_h5 *h, struct pt_thread *t, const struct pt_h5_transfers *m)
{
    struct pt_named path = {0, 0};
    struct pt_text d;
    int64_t elements = 0;
    uint64_t bytes = 0;
    pt_text_object(&d);
    pt_text_member(&d, "datasets");
    pt_text_add(&d, "[");
    for (size_t i = 0; m->sets && m->types && m->memories && m->files && i < m->count; i++) {
        struct pt_h5_object object = pt_h5_object_slow(h, t, m->sets[i]);
        int64_t n = elements_of(h, m->sets[i], m->memories[i], m->files[i]);
        uint64_t size = bytes_of(n, type_size(h, m->types[i]));
        if (i == 0)
            path = object.path;
        if (object.name) {
            pt_text_add(&d, d.bytes[d.length - 1] == '[' ? "\"" : ", \"");
            pt_h5_add_string(&d, object.name);
            pt_text_add(&d, "\"");
        }
        elements = n < 0 || elements < 0 ? -1 : elements + n;
        bytes = size == PT_SIZE_NONE || bytes == PT_SIZE_NONE ? PT_SIZE_NONE : bytes + size;
    }
    pt_text_add(&d, "]");
    add_elements(&d, elements);
    return described(path, &d, bytes);
}
