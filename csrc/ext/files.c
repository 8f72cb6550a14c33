/* Instrumenting the methods of Python's own file objects, on their types.
 *
 * A method descriptor keeps its place and identity; only the PyMethodDef it
 * points to is exchanged for a copy that calls through here.  So every way of
 * calling it is seen, type(f) and pickling are untouched, and undoing is
 * putting the pointer back.  A bound method kept over the end of tracing
 * passes straight on. */
#include "files.h"

#include "filecall.h"
#include "fileslots.h"
#include "ints.h"

#include <string.h>

enum asks { ASK_ARG_SIZE, ASK_ARG_DATA, ASK_ARG_INTO, ASK_LINE, ASK_SEEK, ASK_NONE };

struct method {
    const char *type, *name;
    uint8_t op, kind, asks;
    bool coalesce;
    PyMethodDescrObject *descriptor; /* NULL: not installed */
    PyMethodDef *before;             /* Borrowed: the type's own */
    PyMethodDef ours;
    PyCFunction original;
};

enum {
#define METHOD(type, name, op, kind, asks, run) M_##type##_##name,
#include "files.def"
#undef METHOD
    METHOD_COUNT
};

#define IS_RUN 1
#define IS_ONE 0
static struct method methods[METHOD_COUNT] = {
#define METHOD(type_, name_, op_, kind_, asks_, run_) \
    [M_##type_##_##name_] = {.type = #type_, .name = #name_, .op = PT_OP_##op_, .kind = PT_KIND_##kind_, \
                             .asks = ASK_##asks_, .coalesce = IS_##run_},
#include "files.def"
#undef METHOD
};

/* ---- what a call asks for and what it got ------------------------------------------- */

static uint64_t asked_by(const struct method *m, PyObject *first)
{
    if (!first || first == Py_None)
        return PT_ASKED_NONE;
    if (m->asks == ASK_ARG_DATA || m->asks == ASK_ARG_INTO)
        return pt_bytes_of(first);
    if (m->asks != ASK_ARG_SIZE || !PyLong_CheckExact(first))
        return PT_ASKED_NONE;
    int64_t small;
    if (pt_small_int(first, &small))
        return small < 0 ? PT_ASKED_NONE : (uint64_t)small;
    int overflow;
    long n = PyLong_AsLongAndOverflow(first, &overflow);
    return n < 0 || overflow ? PT_ASKED_NONE : (uint64_t)n;
}

static int64_t moved_by(const struct method *m, const struct pt_file_call *c, PyObject *result)
{
    if (!result || m->asks == ASK_NONE || m->asks == ASK_SEEK)
        return -1;
    if (m->kind == PT_KIND_TEXT && m->asks == ASK_ARG_DATA)
        return c->asked == PT_ASKED_NONE ? 0 : (int64_t)c->asked; /* the result counts characters */
    if (PyLong_CheckExact(result))
        return PyLong_AsLongLong(result);
    return result == Py_None ? 0 : (int64_t)pt_bytes_of(result);
}

static void end_call(const struct method *m, struct pt_file_call *c, PyObject *result)
{
    if (!c->thread)
        return;
    if (m->asks == ASK_SEEK && result && PyLong_CheckExact(result) && !c->run)
        c->call.record->offset = PyLong_AsLongLong(result);
    pt_file_end(c, moved_by(m, c, result), result == NULL);
}

static inline void begin_call(const struct method *m, struct pt_file_call *c, PyObject *self, PyObject *first)
{
    c->thread = NULL;
    if (PT_UNLIKELY(pt_file_passes()))
        return;
    uint64_t asked = asked_by(m, first);
    bool whole = m->asks == ASK_ARG_SIZE && asked == PT_ASKED_NONE; /* read() and read(-1): all there is */
    pt_file_begin(c, self, m->kind, m->op, asked, m->coalesce && !whole);
}

static PyObject *call_one(struct method *m, PyObject *self, PyObject *argument)
{
    struct pt_file_call c;
    begin_call(m, &c, self, argument);
    PyObject *result = m->original(self, argument);
    end_call(m, &c, result);
    return result;
}

static PyObject *call_fast(struct method *m, PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    struct pt_file_call c;
    begin_call(m, &c, self, n > 0 ? args[0] : NULL);
    PyObject *result = ((PyObject * (*)(PyObject *, PyObject *const *, Py_ssize_t))(void (*)(void)) m->original)(self, args, n);
    end_call(m, &c, result);
    return result;
}

static PyObject *call_keywords(struct method *m, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    struct pt_file_call c;
    begin_call(m, &c, self, n > 0 ? args[0] : NULL);
    PyObject *result = ((PyObject * (*)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *))(void (*)(void)) m->original)(
        self, args, n, names);
    end_call(m, &c, result);
    return result;
}

static PyObject *call_method(struct method *m, PyObject *self, PyTypeObject *cls, PyObject *const *args, size_t n,
                             PyObject *names)
{
    struct pt_file_call c;
    begin_call(m, &c, self, PyVectorcall_NARGS(n) > 0 ? args[0] : NULL);
    PyObject *result = ((PyCMethod)(void (*)(void))m->original)(self, cls, args, n, names);
    end_call(m, &c, result);
    return result;
}

/* One C function for each method and calling convention: a PyMethodDef has no
 * place for a pointer of ours. */
#define METHOD(type, name, op, kind, asks, run)                                                                        \
    static PyObject *one_##type##_##name(PyObject *s, PyObject *a) { return call_one(&methods[M_##type##_##name], s, a); } \
    static PyObject *fast_##type##_##name(PyObject *s, PyObject *const *a, Py_ssize_t n)                               \
    {                                                                                                                  \
        return call_fast(&methods[M_##type##_##name], s, a, n);                                                        \
    }                                                                                                                  \
    static PyObject *keywords_##type##_##name(PyObject *s, PyObject *const *a, Py_ssize_t n, PyObject *k)              \
    {                                                                                                                  \
        return call_keywords(&methods[M_##type##_##name], s, a, n, k);                                                 \
    }                                                                                                                  \
    static PyObject *method_##type##_##name(PyObject *s, PyTypeObject *c, PyObject *const *a, size_t n, PyObject *k)   \
    {                                                                                                                  \
        return call_method(&methods[M_##type##_##name], s, c, a, n, k);                                                \
    }
#include "files.def"
#undef METHOD

static const struct {
    void *one, *fast, *keywords, *method;
} entries[METHOD_COUNT] = {
#define METHOD(type, name, op, kind, asks, run) \
    [M_##type##_##name] = {one_##type##_##name, fast_##type##_##name, keywords_##type##_##name, method_##type##_##name},
#include "files.def"
#undef METHOD
};

static void *entry_for(int i, int flags)
{
    switch (flags & (METH_NOARGS | METH_O | METH_FASTCALL | METH_KEYWORDS | METH_METHOD | METH_VARARGS)) {
    case METH_NOARGS:
    case METH_O:
    case METH_VARARGS:
        return entries[i].one;
    case METH_FASTCALL:
        return entries[i].fast;
    case METH_FASTCALL | METH_KEYWORDS:
        return entries[i].keywords;
    case METH_METHOD | METH_FASTCALL | METH_KEYWORDS:
        return entries[i].method;
    default:
        return NULL;
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
        Py_XDECREF(found); /* this version has it elsewhere: inherited, or not at all */
        return;
    }
    PyMethodDescrObject *descriptor = (PyMethodDescrObject *)found; /* the reference is kept */
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
    PyTypeObject *types[] = {pt_layout.raw, pt_layout.reader, pt_layout.writer, pt_layout.random, pt_layout.text, pt_layout.mmap};
    const char *const names[] = {"FileIO", "BufferedReader", "BufferedWriter", "BufferedRandom", "TextIOWrapper", "mmap"};
    for (unsigned i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(names[i], name) == 0)
            return types[i];
    return NULL;
}

const char *pt_files_unsupported(void)
{
#ifdef Py_GIL_DISABLED
    return "types may not be changed under other threads without the GIL";
#else
    return NULL;
#endif
}

/* Returns None, or a str that says why file objects are not instrumented. */
PyObject *pt_files_install(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    const char *problem = pt_files_unsupported();
    if (!problem && !pt_layout.text)
        problem = pt_layout_find();
    if (problem)
        return PyUnicode_FromString(problem);
    for (int i = 0; i < METHOD_COUNT; i++) {
        PyTypeObject *type = type_named(methods[i].type);
        if (type)
            install_method(i, type);
    }
    pt_slots_install();
    Py_RETURN_NONE;
}

PyObject *pt_files_install_mmap(PyObject *module, PyObject *type)
{
    if (!PyType_Check(type)) {
        PyErr_SetString(PyExc_TypeError, "files_install_mmap() takes a type");
        return NULL;
    }
    pt_layout.mmap = (PyTypeObject *)Py_NewRef(type);
    return pt_files_install(module, NULL);
}

PyObject *pt_files_uninstall(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    for (int i = 0; i < METHOD_COUNT; i++) {
        struct method *m = &methods[i];
        if (m->descriptor && m->descriptor->d_method == &m->ours)
            m->descriptor->d_method = m->before;
        Py_CLEAR(m->descriptor);
    }
    pt_slots_uninstall();
    Py_RETURN_NONE;
}

PyObject *pt_files_snapshot(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    if (!pt_layout.text && pt_layout_find())
        Py_RETURN_NONE;
    PyObject *result = PyDict_New();
    for (int i = 0; result && i < METHOD_COUNT; i++) {
        PyTypeObject *type = type_named(methods[i].type);
        PyObject *found = type ? PyObject_GetAttrString((PyObject *)type, methods[i].name) : NULL;
        PyErr_Clear();
        if (found && Py_IS_TYPE(found, &PyMethodDescr_Type)) {
            PyMethodDef *def = ((PyMethodDescrObject *)found)->d_method;
            PyObject *value = Py_BuildValue("(KK)", (unsigned long long)(uintptr_t)def, (unsigned long long)(uintptr_t)def->ml_meth);
            PyObject *key = PyUnicode_FromFormat("%s.%s", methods[i].type, methods[i].name);
            if (!value || !key || PyDict_SetItem(result, key, value) < 0)
                Py_CLEAR(result);
            Py_XDECREF(value);
            Py_XDECREF(key);
        }
        Py_XDECREF(found);
    }
    if (result && pt_slots_snapshot(result) < 0)
        Py_CLEAR(result);
    return result;
}
