/* Iterators that watched calls return: each step is a span.
 *
 * A library may read while the program iterates, long after the call that returned the iterator (batches of a Parquet
 * file).  An iterator has no function pointer of its own, only its type has one.  So the type's tp_iternext is
 * replaced by ours, which looks whether this is one of the few iterators that are watched.  The iterator stays the
 * library's own object.  A weak reference tells whether it still lives; if not, its place is free. */
#include "watch/iterators.h"

#include "python/exception.h"
#include "spans/details.h"
#include "spans/open_span.h"

#define TYPES 8
#define ITERATORS 64

struct watched_type {
    PyTypeObject *type; /* Owned, for good: a thread may already have read our pointer from it */
    iternextfunc original;
};
struct watched_iterator {
    PyObject *iterator; /* compared only */
    PyObject *weak;     /* Owned: tells whether it is still that object */
    PyObject *name;     /* Owned */
    uint32_t path;
    uint32_t epoch; /* pt.epoch of the log that has `path` */
    bool counts;
};

static struct watched_type types[TYPES];
static struct watched_iterator iterators[ITERATORS];
static unsigned iterator_count; /* places ever used */

static iternextfunc original_of(PyTypeObject *type)
{
    for (; type; type = type->tp_base) /* a subtype inherits our pointer */
        for (int i = 0; i < TYPES; i++)
            if (types[i].type == type)
                return types[i].original;
    return NULL;
}

static bool lives(const struct watched_iterator *w)
{
#if PY_VERSION_HEX >= 0x030d0000
    PyObject *now = NULL;
    bool same = PyWeakref_GetRef(w->weak, &now) > 0 && now == w->iterator;
    Py_XDECREF(now);
    return same;
#else
    return PyWeakref_GetObject(w->weak) == w->iterator;
#endif
}

static struct watched_iterator *place_of(PyObject *iterator)
{
    for (unsigned i = 0; i < iterator_count; i++)
        if (iterators[i].iterator == iterator)
            return lives(&iterators[i]) ? &iterators[i] : NULL;
    return NULL;
}

static int64_t bytes_of(PyObject *part)
{
    PyObject *bytes = PyObject_GetAttrString(part, "nbytes");
    int64_t number = bytes && PyIndex_Check(bytes) ? PyNumber_AsSsize_t(bytes, NULL) : -1;
    Py_XDECREF(bytes);
    PyErr_Clear();
    return number;
}

static uint32_t rows_of(PyObject *part)
{
    struct pt_details details;
    pt_details_none(&details);
    PyObject *rows = PyObject_GetAttrString(part, "num_rows");
    PyObject *dict = rows ? Py_BuildValue("{s:O}", "rows", rows) : NULL;
    if (dict)
        pt_details_add_dict(&details, dict);
    Py_XDECREF(dict);
    Py_XDECREF(rows);
    PyErr_Clear();
    return pt_details_intern(&details);
}

static PyObject *step(PyObject *self)
{
    iternextfunc original = original_of(Py_TYPE(self));
    struct watched_iterator *w = place_of(self);
    struct pt_thread *t = w ? pt_enter() : NULL;
    if (!t)
        return original(self);
    bool counts = w->counts; /* the place may have a new iterator when the step is done */
    Py_ssize_t length;
    const char *name = PyUnicode_AsUTF8AndSize(w->name, &length);
    struct pt_open_span span;
    pt_span_open(&span, t, counts ? PT_OP_SPAN_APP_READ : PT_OP_SPAN_APP, w->epoch == pt.epoch ? w->path : 0,
                 name ? pt_string(name, (size_t)length, 0) : 0, 0);

    PyObject *part = original(self);

    bool still = span.call.process_id == pt.process_id && !(pt.gate & PT_GATE_OFF) && t == pt_self;
    int64_t moved = -1;
    int error = 0;
    if (!part) {
        error = PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_StopIteration) ? pt_exception_errno() : 0;
    } else if (still && !t->gate) {
        moved = counts ? bytes_of(part) : -1;
        if (pt_span_has_record(&span))
            span.call.record->offset = rows_of(part);
    }
    pt_span_close(&span, moved, error);
    return part;
}

static bool watch_type(PyTypeObject *type)
{
    for (int i = 0; i < TYPES; i++) {
        if (types[i].type == type || !types[i].type) {
            if (!types[i].type) {
                types[i].original = type->tp_iternext;
                types[i].type = (PyTypeObject *)Py_NewRef((PyObject *)type);
            }
            __atomic_store_n(&type->tp_iternext, step, __ATOMIC_RELEASE);
            return true;
        }
    }
    return false;
}

void pt_iterator_watch(PyObject *iterator, PyObject *name, uint32_t path, bool counts)
{
    PyTypeObject *type = Py_TYPE(iterator);
    /* The interpreter bypasses the slot for generators, and every generator of the program has that type. */
    if (!type->tp_iternext || type == &PyGen_Type || place_of(iterator))
        return;
    unsigned at = 0;
    while (at < iterator_count && iterators[at].iterator && lives(&iterators[at]))
        at++;
    PyObject *weak = at < ITERATORS ? PyWeakref_NewRef(iterator, NULL) : NULL;
    if (!weak || !watch_type(type)) {
        Py_XDECREF(weak);
        PyErr_Clear();
        return;
    }
    struct watched_iterator *w = &iterators[at];
    Py_XSETREF(w->weak, weak);
    Py_XSETREF(w->name, Py_NewRef(name));
    w->iterator = iterator;
    w->path = path;
    w->epoch = pt.epoch;
    w->counts = counts;
    if (at == iterator_count)
        iterator_count++;
}

void pt_iterators_unwatch_all(void)
{
    for (int i = 0; i < TYPES && types[i].type; i++)
        if (types[i].type->tp_iternext == step)
            __atomic_store_n(&types[i].type->tp_iternext, types[i].original, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < iterator_count; i++)
        iterators[i].iterator = NULL;
}
