/* Hooks of the HDF5 library: attributes, groups, objects of any kind. */
#include "hdf5_calls.h"

#include <string.h>

/* ---- attributes ------------------------------------------------------------------------------------- */

h5_id see_H5Acreate1(struct pt_h5 *h, h5_id place, const char *name, h5_id type, h5_id space, h5_id create)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5A_CREATE);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_attribute(h, t, place, ".", name));
    return pt_h5_close_id(&s, t != NULL, h->real.H5Acreate1(place, name, type, space, create));
}

h5_id see_H5Acreate2(struct pt_h5 *h, h5_id place, const char *name, h5_id type, h5_id space, h5_id create,
    h5_id access)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5A_CREATE);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_attribute(h, t, place, ".", name));
    return pt_h5_close_id(&s, t != NULL, h->real.H5Acreate2(place, name, type, space, create, access));
}

h5_id see_H5Acreate_by_name(struct pt_h5 *h, h5_id place, const char *object, const char *name, h5_id type, h5_id space,
                                   h5_id create, h5_id access, h5_id link)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5A_CREATE);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_attribute(h, t, place, object, name));
    return pt_h5_close_id(&s, t != NULL, h->real.H5Acreate_by_name(place, object, name, type, space, create, access,
        link));
}

h5_id see_H5Aopen(struct pt_h5 *h, h5_id place, const char *name, h5_id access)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5A_OPEN);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_attribute(h, t, place, ".", name));
    return pt_h5_close_id(&s, t != NULL, h->real.H5Aopen(place, name, access));
}

h5_id see_H5Aopen_name(struct pt_h5 *h, h5_id place, const char *name)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5A_OPEN);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_attribute(h, t, place, ".", name));
    return pt_h5_close_id(&s, t != NULL, h->real.H5Aopen_name(place, name));
}

h5_id see_H5Aopen_by_name(struct pt_h5 *h, h5_id place, const char *object, const char *name, h5_id access, h5_id link)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5A_OPEN);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_attribute(h, t, place, object, name));
    return pt_h5_close_id(&s, t != NULL, h->real.H5Aopen_by_name(place, object, name, access, link));
}

h5_id see_H5Aopen_idx(struct pt_h5 *h, h5_id place, unsigned number)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5A_OPEN);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_attribute(h, t, place, ".", NULL));
    return pt_h5_close_id(&s, t != NULL, h->real.H5Aopen_idx(place, number));
}

h5_id see_H5Aopen_by_idx(struct pt_h5 *h, h5_id place, const char *object, int index, int order, uint64_t number,
                                h5_id access, h5_id link)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5A_OPEN);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_attribute(h, t, place, object, NULL));
    return pt_h5_close_id(&s, t != NULL, h->real.H5Aopen_by_idx(place, object, index, order, number, access, link));
}

h5_err see_H5Aread(struct pt_h5 *h, h5_id attribute, h5_id type, void *data)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5A_READ);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_value(h, t, attribute, type));
    return pt_h5_close(&s, t != NULL, h->real.H5Aread(attribute, type, data), pt_h5_all(&s));
}

h5_err see_H5Awrite(struct pt_h5 *h, h5_id attribute, h5_id type, const void *data)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5A_WRITE);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_value(h, t, attribute, type));
    return pt_h5_close(&s, t != NULL, h->real.H5Awrite(attribute, type, data), pt_h5_all(&s));
}

h5_err see_H5Aclose(struct pt_h5 *h, h5_id attribute)
{
    h5_err result = h->real.H5Aclose(attribute);
    pt_h5_forget(h, attribute);
    return result;
}

/* ---- groups and objects of any kind --------------------------------------------------------------------- */

h5_id see_H5Gopen1(struct pt_h5 *h, h5_id place, const char *name)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5G_OPEN);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_opening(h, t, place, "object", name));
    return pt_h5_close_id(&s, t != NULL, h->real.H5Gopen1(place, name));
}

h5_id see_H5Gopen2(struct pt_h5 *h, h5_id place, const char *name, h5_id access)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5G_OPEN);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_opening(h, t, place, "object", name));
    return pt_h5_close_id(&s, t != NULL, h->real.H5Gopen2(place, name, access));
}

h5_id see_H5Gcreate1(struct pt_h5 *h, h5_id place, const char *name, size_t hint)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5G_CREATE);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_opening(h, t, place, "object", name));
    return pt_h5_close_id(&s, t != NULL, h->real.H5Gcreate1(place, name, hint));
}

h5_id see_H5Gcreate2(struct pt_h5 *h, h5_id place, const char *name, h5_id link, h5_id create, h5_id access)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5G_CREATE);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_opening(h, t, place, "object", name));
    return pt_h5_close_id(&s, t != NULL, h->real.H5Gcreate2(place, name, link, create, access));
}

h5_id see_H5Gcreate_anon(struct pt_h5 *h, h5_id place, h5_id create, h5_id access)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5G_CREATE);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_opening(h, t, place, "object", NULL));
    h5_id result = pt_h5_close_id(&s, t != NULL, h->real.H5Gcreate_anon(place, create, access));
    pt_h5_unnamed(h, result);
    return result;
}

h5_err see_H5Gclose(struct pt_h5 *h, h5_id group)
{
    h5_err result = h->real.H5Gclose(group);
    pt_h5_forget(h, group);
    return result;
}

h5_id see_H5Oopen(struct pt_h5 *h, h5_id place, const char *name, h5_id access)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5O_OPEN);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_opening(h, t, place, "object", name));
    return pt_h5_close_id(&s, t != NULL, h->real.H5Oopen(place, name, access));
}

h5_id see_H5Oopen_by_idx(struct pt_h5 *h, h5_id place, const char *group, int index, int order, uint64_t number,
    h5_id access)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5O_OPEN);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_opening(h, t, place, "group", group));
    return pt_h5_close_id(&s, t != NULL, h->real.H5Oopen_by_idx(place, group, index, order, number, access));
}

h5_id see_H5Oopen_by_addr(struct pt_h5 *h, h5_id place, uint64_t address)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5O_OPEN);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_opening(h, t, place, "object", NULL));
    h5_id result = pt_h5_close_id(&s, t != NULL, h->real.H5Oopen_by_addr(place, address));
    pt_h5_unnamed(h, result);
    return result;
}

h5_id see_H5Oopen_by_token(struct pt_h5 *h, h5_id place, struct h5_token token)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5O_OPEN);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_opening(h, t, place, "object", NULL));
    h5_id result = pt_h5_close_id(&s, t != NULL, h->real.H5Oopen_by_token(place, token));
    pt_h5_unnamed(h, result);
    return result;
}

h5_id see_H5Rdereference1(struct pt_h5 *h, h5_id place, int kind, const void *reference)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5R_OPEN);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_opening(h, t, place, "object", NULL));
    h5_id result = pt_h5_close_id(&s, t != NULL, h->real.H5Rdereference1(place, kind, reference));
    pt_h5_unnamed(h, result);
    return result;
}

h5_id see_H5Rdereference2(struct pt_h5 *h, h5_id place, h5_id access, int kind, const void *reference)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5R_OPEN);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_opening(h, t, place, "object", NULL));
    h5_id result = pt_h5_close_id(&s, t != NULL, h->real.H5Rdereference2(place, access, kind, reference));
    pt_h5_unnamed(h, result);
    return result;
}

h5_id see_H5Ropen_object(struct pt_h5 *h, void *reference, h5_id access, h5_id object_access)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5R_OPEN);
    if (t)
        pt_h5_open(&s, t, PT_H5_NOTHING);
    h5_id result = pt_h5_close_id(&s, t != NULL, h->real.H5Ropen_object(reference, access, object_access));
    pt_h5_unnamed(h, result);
    return result;
}

/* ---- closing whatever it is: h5py's way -------------------------------------------------------------------- */

/* Files and data sets have something to write when they go. */
static bool closes(struct pt_h5 *h, h5_id id)
{
    int kind = pt_h5_kind(id);
    return (kind == PT_H5_FILE ||
        kind == PT_H5_DATASET) && h->ask.H5Iget_type(id) == kind && h->ask.H5Iget_ref(id) == 1;
}

static const char *key_of(h5_id id) { return pt_h5_kind(id) == PT_H5_DATASET ? "dataset" : NULL; }

h5_err see_H5Oclose(struct pt_h5 *h, h5_id object)
{
    int saved = errno;
    bool traced = pt_enter() && closes(h, object);
    errno = saved;
    if (!traced) {
        h5_err result = h->real.H5Oclose(object);
        pt_h5_forget(h, object);
        return result;
    }
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5O_CLOSE);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_thing(h, t, object, key_of(object)));
    h5_err result = pt_h5_close(&s, t != NULL, h->real.H5Oclose(object), -1);
    pt_h5_forget(h, object);
    return result;
}

int see_H5Idec_ref(struct pt_h5 *h, h5_id object)
{
    int saved = errno;
    bool traced = pt_enter() && closes(h, object);
    errno = saved;
    if (!traced) {
        int result = h->real.H5Idec_ref(object);
        if (result == 0)
            pt_h5_forget(h, object);
        return result;
    }
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_H5I_DEC_REF);
    if (t)
        pt_h5_open(&s, t, pt_h5_about_thing(h, t, object, key_of(object)));
    int result = pt_h5_close(&s, t != NULL, h->real.H5Idec_ref(object), -1);
    if (result == 0)
        pt_h5_forget(h, object);
    return result;
}

h5_err see_H5close(struct pt_h5 *h, h5_id unused)
{
    h5_err result = h->real.H5close(unused);
    pt_h5_forget_all(h);
    return result;
}

/* ---- looking around: functions without an operation of their own ----------------------------------------------- */

static struct pt_h5_about named(const char *function, struct pt_h5_about a)
{
    a.function = pt_string(function, strlen(function), 0);
    return a;
}

int see_H5Fis_hdf5(struct pt_h5 *h, const char *name)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_SPAN_HDF5);
    if (t)
        pt_h5_open(&s, t, named("H5Fis_hdf5", (struct pt_h5_about){pt_name(name), 0, PT_SIZE_NONE, 0}));
    return pt_h5_close(&s, t != NULL, h->real.H5Fis_hdf5(name), -1);
}

int see_H5Fis_accessible(struct pt_h5 *h, const char *name, h5_id access)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_SPAN_HDF5);
    if (t)
        pt_h5_open(&s, t, named("H5Fis_accessible", (struct pt_h5_about){pt_name(name), 0, PT_SIZE_NONE, 0}));
    return pt_h5_close(&s, t != NULL, h->real.H5Fis_accessible(name, access), -1);
}

int see_H5Giterate(struct pt_h5 *h, h5_id place, const char *name, int *index, void *visit, void *data)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_SPAN_HDF5);
    if (t)
        pt_h5_open(&s, t, named("H5Giterate", pt_h5_about_opening(h, t, place, "object", name)));
    return pt_h5_close(&s, t != NULL, h->real.H5Giterate(place, name, index, visit, data), -1);
}

h5_err see_H5Gget_objinfo(struct pt_h5 *h, h5_id place, const char *name, unsigned follow, void *info)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_SPAN_HDF5);
    if (t)
        pt_h5_open(&s, t, named("H5Gget_objinfo", pt_h5_about_opening(h, t, place, "object", name)));
    return pt_h5_close(&s, t != NULL, h->real.H5Gget_objinfo(place, name, follow, info), -1);
}

int see_H5Lexists(struct pt_h5 *h, h5_id place, const char *name, h5_id access)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_SPAN_HDF5);
    if (t)
        pt_h5_open(&s, t, named("H5Lexists", pt_h5_about_opening(h, t, place, "object", name)));
    return pt_h5_close(&s, t != NULL, h->real.H5Lexists(place, name, access), -1);
}

h5_err see_H5Lget_info(struct pt_h5 *h, h5_id place, const char *name, void *info, h5_id access)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_SPAN_HDF5);
    if (t)
        pt_h5_open(&s, t, named("H5Lget_info", pt_h5_about_opening(h, t, place, "object", name)));
    return pt_h5_close(&s, t != NULL, h->real.H5Lget_info(place, name, info, access), -1);
}

h5_err see_H5Lget_info1(struct pt_h5 *h, h5_id place, const char *name, void *info, h5_id access)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_SPAN_HDF5);
    if (t)
        pt_h5_open(&s, t, named("H5Lget_info", pt_h5_about_opening(h, t, place, "object", name)));
    return pt_h5_close(&s, t != NULL, h->real.H5Lget_info1(place, name, info, access), -1);
}

h5_err see_H5Lget_info2(struct pt_h5 *h, h5_id place, const char *name, void *info, h5_id access)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_SPAN_HDF5);
    if (t)
        pt_h5_open(&s, t, named("H5Lget_info", pt_h5_about_opening(h, t, place, "object", name)));
    return pt_h5_close(&s, t != NULL, h->real.H5Lget_info2(place, name, info, access), -1);
}

h5_err see_H5Literate(struct pt_h5 *h, h5_id group, int index, int order, uint64_t *number, void *visit, void *data)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_SPAN_HDF5);
    if (t)
        pt_h5_open(&s, t, named("H5Literate", pt_h5_about_opening(h, t, group, "object", ".")));
    return pt_h5_close(&s, t != NULL, h->real.H5Literate(group, index, order, number, visit, data), -1);
}

h5_err see_H5Literate1(struct pt_h5 *h, h5_id group, int index, int order, uint64_t *number, void *visit, void *data)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_SPAN_HDF5);
    if (t)
        pt_h5_open(&s, t, named("H5Literate", pt_h5_about_opening(h, t, group, "object", ".")));
    return pt_h5_close(&s, t != NULL, h->real.H5Literate1(group, index, order, number, visit, data), -1);
}

h5_err see_H5Literate2(struct pt_h5 *h, h5_id group, int index, int order, uint64_t *number, void *visit, void *data)
{
    struct pt_h5_span s;
    struct pt_thread *t = pt_h5_begin(&s, PT_OP_SPAN_HDF5);
    if (t)
        pt_h5_open(&s, t, named("H5Literate", pt_h5_about_opening(h, t, group, "object", ".")));
    return pt_h5_close(&s, t != NULL, h->real.H5Literate2(group, index, order, number, visit, data), -1);
}
