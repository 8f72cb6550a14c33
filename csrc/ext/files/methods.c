/* The methods of Python's own file objects, instrumented on their types.
 *
 * A method descriptor keeps its place and its identity.  Only the PyMethodDef that it points to is replaced, by a
 * copy whose C function is ours.  So every way of calling the method is seen, type(f) and pickling are unchanged, and
 * undoing means putting the pointer back.  A bound method that the program keeps after tracing has stopped goes
 * straight to the original. */
#include "files/methods.h"

#include "files/file_call.h"
#include "files/mmap_search.h"
#include "python/byte_size.h"
#include "python/small_int.h"

#include <string.h>

/* What a method's first argument and its result say about bytes; see methods.def. */
enum byte_count {
    ARG_SIZE,
    ARG_DATA,
    ARG_INTO,
    RESULT,
    POSITION,
    NO_BYTES,
    ONE_BYTE,
    ARG_THIRD,
    SEARCHED,
    SEARCHED_BACK
};

struct method {
    const char *type, *name;
    uint8_t op, kind, byte_count;
    bool coalesce;
    PyMethodDescrObject *descriptor; /* Owned; NULL: not installed */
    PyMethodDef *before;             /* Borrowed from the type */
    PyMethodDef ours;
    PyCFunction original;
};

enum {
#define METHOD(type, name, op, kind, byte_count, coalesce) M_##type##_##name,
#include "files/methods.def"
#undef METHOD
    METHOD_COUNT
};

#define COALESCED true
#define SINGLE false
static struct method methods[METHOD_COUNT] = {
#define METHOD(type_, name_, op_, kind_, byte_count_, coalesce_) \
    [M_##type_##_##name_] = {.type = #type_,                     \
                             .name = #name_,                     \
                             .op = PT_OP_##op_,                  \
                             .kind = PT_KIND_##kind_,            \
                             .byte_count = byte_count_,          \
                             .coalesce = coalesce_},
#include "files/methods.def"
#undef METHOD
};

/* ---- bytes requested and moved --------------------------------------------------------- */

/* A call's positional arguments. */
struct arguments {
    PyObject *const *at;
    Py_ssize_t count;
};

static inline PyObject *argument(struct arguments args, Py_ssize_t number)
{
    return number < args.count ? args.at[number] : NULL;
}

static uint64_t size_given(PyObject *number)
{
    int64_t small;
    if (!number || !PyLong_CheckExact(number))
        return PT_REQUESTED_NONE;
    if (pt_small_int(number, &small))
        return small < 0 ? PT_REQUESTED_NONE : (uint64_t)small;
    int overflow;
    long n = PyLong_AsLongAndOverflow(number, &overflow);
    return n < 0 || overflow ? PT_REQUESTED_NONE : (uint64_t)n;
}

static uint64_t requested_by(const struct method *m, struct arguments args)
{
    PyObject *first = argument(args, 0);
    switch (m->byte_count) {
    case ARG_SIZE: return size_given(first);
    case ARG_DATA:
    case ARG_INTO: return first && first != Py_None ? pt_byte_size(first) : PT_REQUESTED_NONE;
    case ARG_THIRD: return size_given(argument(args, 2));
    case ONE_BYTE: return 1;
    default: return PT_REQUESTED_NONE;
    }
}

static int64_t moved_by(const struct method *m, const struct pt_file_call *c, PyObject *self, struct arguments args,
                        PyObject *result)
{
    if (!result || m->byte_count == NO_BYTES || m->byte_count == POSITION)
        return -1;
    if (m->byte_count == SEARCHED || m->byte_count == SEARCHED_BACK)
        return pt_mmap_searched(self, args.at, args.count, result, m->byte_count == SEARCHED_BACK);
    bool as_given = m->byte_count == ONE_BYTE || m->byte_count == ARG_THIRD;
    if (as_given || (m->kind == PT_KIND_TEXT && m->byte_count == ARG_DATA)) /* there the result is in characters */
        return c->requested == PT_REQUESTED_NONE ? 0 : (int64_t)c->requested;
    if (PyLong_CheckExact(result))
        return PyLong_AsLongLong(result);
    return result == Py_None ? 0 : (int64_t)pt_byte_size(result);
}

static void end_call(const struct method *m, struct pt_file_call *c, PyObject *self, struct arguments args,
                     PyObject *result)
{
    if (!c->thread)
        return;
    if (m->byte_count == POSITION && result && PyLong_CheckExact(result) && !c->series)
        c->call.record->offset = PyLong_AsLongLong(result);
    pt_file_end(c, moved_by(m, c, self, args, result), result == NULL);
}

static inline void begin_call(const struct method *m, struct pt_file_call *c, PyObject *self, struct arguments args)
{
    c->thread = NULL;
    if (PT_UNLIKELY(pt_file_passes()))
        return;
    uint64_t requested = requested_by(m, args);
    bool whole = m->byte_count == ARG_SIZE && requested == PT_REQUESTED_NONE; /* read() and read(-1) read to the end */
    pt_file_begin(c, self, m->kind, m->op, requested, m->coalesce && !whole);
}

static PyObject *call_one(struct method *m, PyObject *self, PyObject *argument)
{
    struct pt_file_call c;
    struct arguments args = {&argument, argument != NULL};
    begin_call(m, &c, self, args);
    PyObject *result = m->original(self, argument);
    end_call(m, &c, self, args, result);
    return result;
}

static PyObject *call_tuple(struct method *m, PyObject *self, PyObject *tuple)
{
    struct pt_file_call c;
    struct arguments args = {tuple ? ((PyTupleObject *)tuple)->ob_item : NULL, tuple ? PyTuple_GET_SIZE(tuple) : 0};
    begin_call(m, &c, self, args);
    PyObject *result = m->original(self, tuple);
    end_call(m, &c, self, args, result);
    return result;
}

static PyObject *call_fast(struct method *m, PyObject *self, PyObject *const *at, Py_ssize_t n)
{
    struct pt_file_call c;
    struct arguments args = {at, n};
    begin_call(m, &c, self, args);
    PyObject *result =
        ((PyObject * (*)(PyObject *, PyObject *const *, Py_ssize_t))(void (*)(void))m->original)(self, at, n);
    end_call(m, &c, self, args, result);
    return result;
}

static PyObject *call_keywords(struct method *m, PyObject *self, PyObject *const *at, Py_ssize_t n, PyObject *names)
{
    struct pt_file_call c;
    struct arguments args = {at, n};
    begin_call(m, &c, self, args);
    PyObject *result =
        ((PyObject * (*)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *))(void (*)(void))m->original)(self, at,
                                                                                                             n, names);
    end_call(m, &c, self, args, result);
    return result;
}

static PyObject *call_method(struct method *m, PyObject *self, PyTypeObject *cls, PyObject *const *at, size_t n,
                             PyObject *names)
{
    struct pt_file_call c;
    struct arguments args = {at, PyVectorcall_NARGS(n)};
    begin_call(m, &c, self, args);
    PyObject *result = ((PyCMethod)(void (*)(void))m->original)(self, cls, at, n, names);
    end_call(m, &c, self, args, result);
    return result;
}

/* One C function for each method and calling convention, because a PyMethodDef has no room for a pointer of ours. */
#define METHOD(type, name, op, kind, byte_count, coalesce)                                                           \
    static PyObject *one_##type##_##name(PyObject *s, PyObject *a)                                                   \
    {                                                                                                                \
        return call_one(&methods[M_##type##_##name], s, a);                                                          \
    }                                                                                                                \
    static PyObject *tuple_##type##_##name(PyObject *s, PyObject *a)                                                 \
    {                                                                                                                \
        return call_tuple(&methods[M_##type##_##name], s, a);                                                        \
    }                                                                                                                \
    static PyObject *fast_##type##_##name(PyObject *s, PyObject *const *a, Py_ssize_t n)                             \
    {                                                                                                                \
        return call_fast(&methods[M_##type##_##name], s, a, n);                                                      \
    }                                                                                                                \
    static PyObject *keywords_##type##_##name(PyObject *s, PyObject *const *a, Py_ssize_t n, PyObject *k)            \
    {                                                                                                                \
        return call_keywords(&methods[M_##type##_##name], s, a, n, k);                                               \
    }                                                                                                                \
    static PyObject *method_##type##_##name(PyObject *s, PyTypeObject *c, PyObject *const *a, size_t n, PyObject *k) \
    {                                                                                                                \
        return call_method(&methods[M_##type##_##name], s, c, a, n, k);                                              \
    }
#include "files/methods.def"
#undef METHOD

static const struct {
    void *one, *tuple, *fast, *keywords, *method;
} entries[METHOD_COUNT] = {
#define METHOD(type, name, op, kind, byte_count, coalesce)                                                             \
    [M_##type##_##name] = {one_##type##_##name, tuple_##type##_##name, fast_##type##_##name, keywords_##type##_##name, \
                           method_##type##_##name},
#include "files/methods.def"
#undef METHOD
};

static void *entry_for(int i, int flags)
{
    switch (flags & (METH_NOARGS | METH_O | METH_FASTCALL | METH_KEYWORDS | METH_METHOD | METH_VARARGS)) {
    case METH_NOARGS:
    case METH_O: return entries[i].one;
    case METH_VARARGS: return entries[i].tuple;
    case METH_FASTCALL: return entries[i].fast;
    case METH_FASTCALL | METH_KEYWORDS: return entries[i].keywords;
    case METH_METHOD | METH_FASTCALL | METH_KEYWORDS: return entries[i].method;
    default: return NULL;
    }
}

/* ---- installing and undoing ------------------------------------------------------------ */

static void install_method(int i, PyTypeObject *type)
{
    struct method *m = &methods[i];
    PyObject *names = PyObject_GetAttrString((PyObject *)type, "__dict__");
    PyObject *found = names ? PyMapping_GetItemString(names, m->name) : NULL;
    Py_XDECREF(names);
    PyErr_Clear();
    if (!found || !Py_IS_TYPE(found, &PyMethodDescr_Type) || m->descriptor) {
        Py_XDECREF(found); /* inherited in this version, or missing */
        return;
    }
    PyMethodDescrObject *descriptor = (PyMethodDescrObject *)found; /* keeps the reference */
    void *entry = entry_for(i, descriptor->d_method->ml_flags);
    if (!entry) {
        Py_DECREF(found);
        return;
    }
    m->descriptor = descriptor;
    m->before = descriptor->d_method;
    m->ours = *descriptor->d_method;
    m->original = m->ours.ml_meth;
    m->ours.ml_meth = (PyCFunction)entry;
    descriptor->d_method = &m->ours;
}

static PyTypeObject *type_named(const char *name)
{
    PyTypeObject *types[] = {pt_layout.raw,    pt_layout.reader, pt_layout.writer,
                             pt_layout.random, pt_layout.text,   pt_layout.mmap};
    const char *const names[] = {"FileIO",         "BufferedReader", "BufferedWriter",
                                 "BufferedRandom", "TextIOWrapper",  "mmap"};
    for (unsigned i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(names[i], name) == 0)
            return types[i];
    return NULL;
}

void pt_methods_install(void)
{
    for (int i = 0; i < METHOD_COUNT; i++) {
        PyTypeObject *type = type_named(methods[i].type);
        if (type)
            install_method(i, type);
    }
}

void pt_methods_uninstall(void)
{
    for (int i = 0; i < METHOD_COUNT; i++) {
        struct method *m = &methods[i];
        if (m->descriptor && m->descriptor->d_method == &m->ours)
            m->descriptor->d_method = m->before;
        Py_CLEAR(m->descriptor);
    }
}

int pt_methods_snapshot(PyObject *dict)
{
    int result = 0;
    for (int i = 0; result == 0 && i < METHOD_COUNT; i++) {
        PyTypeObject *type = type_named(methods[i].type);
        PyObject *found = type ? PyObject_GetAttrString((PyObject *)type, methods[i].name) : NULL;
        PyErr_Clear();
        if (found && Py_IS_TYPE(found, &PyMethodDescr_Type)) {
            PyMethodDef *def = ((PyMethodDescrObject *)found)->d_method;
            PyObject *value =
                Py_BuildValue("(KK)", (unsigned long long)(uintptr_t)def, (unsigned long long)(uintptr_t)def->ml_meth);
            PyObject *key = PyUnicode_FromFormat("%s.%s", methods[i].type, methods[i].name);
            result = value && key ? PyDict_SetItem(dict, key, value) : -1;
            Py_XDECREF(value);
            Py_XDECREF(key);
        }
        Py_XDECREF(found);
    }
    return result;
}
