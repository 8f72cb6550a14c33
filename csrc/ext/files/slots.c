/* The slots of the file types: opening (FileIO.__init__, which every way of opening a file calls), iteration, and the
 * items of an mmap object.
 *
 * A subclass that is made while tracing inherits our slot, and keeps it.  After tracing it goes straight to the
 * original. */
#include "files/slots.h"

#include "files/file_call.h"
#include "python/byte_size.h"

#include <string.h>

static initproc original_init;
static iternextfunc original_text_next, original_reader_next, original_random_next;
static newfunc original_mmap_new;
static binaryfunc original_mmap_get;
static objobjargproc original_mmap_set;
static ssizeargfunc original_mmap_item;

/* ---- opening --------------------------------------------------------------------- */

#define PATH_EXCLUDED UINT32_MAX

static uint32_t path_of(const char *path)
{
    struct pt_named name = pt_name_to_open(path);
    return name.left_out ? PATH_EXCLUDED : name.id; /* the system calls inside count what is excluded */
}

/* Returns the string id of the path that FileIO.__init__ is given; 0 if there is none; PATH_EXCLUDED if the call is not
 * recorded. */
static uint32_t path_argument(PyObject *args, PyObject *kwargs)
{
    PyObject *file = PyTuple_GET_SIZE(args) > 0 ? PyTuple_GET_ITEM(args, 0) : NULL;
    if (!file && kwargs)
        file = PyDict_GetItemString(kwargs, "file"); /* Borrowed */
    uint32_t id = 0;
    if (file && PyUnicode_CheckExact(file) && PyUnicode_IS_COMPACT_ASCII(file)) {
        id = path_of(PyUnicode_DATA(file)); /* ASCII is the same in every file system encoding */
    } else if (file && PyUnicode_CheckExact(file)) {
        PyObject *bytes = PyUnicode_EncodeFSDefault(file);
        if (bytes)
            id = path_of(PyBytes_AS_STRING(bytes));
        Py_XDECREF(bytes);
        PyErr_Clear();
    } else if (file && PyBytes_CheckExact(file)) {
        id = path_of(PyBytes_AS_STRING(file));
    } else if (file && PyLong_CheckExact(file)) {
        int overflow;
        long fd = PyLong_AsLongAndOverflow(file, &overflow);
        pt_fd_entry e = overflow || fd < 0 || fd > INT32_MAX ? 0 : pt_fd_get(pt_self, (int)fd);
        id = pt_desc_path(pt_entry_id(e));
        if (e & PT_FD_EXCLUDED)
            id = PATH_EXCLUDED;
    }
    return id;
}

#define NAMELESS 020000000u /* the kernel's __O_TMPFILE: O_TMPFILE without O_DIRECTORY */

static int file_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct pt_thread *t = pt_enter();
    uint32_t path = t && !t->depth ? path_argument(args, kwargs) : PATH_EXCLUDED;
    if (path == PATH_EXCLUDED)
        return original_init(self, args, kwargs);
    struct pt_call c;
    pt_begin(&c, t, PT_OP_A_OPEN, path, 0, 0, PT_SIZE_NONE);
    struct pt_enclosing before = pt_file_enter(t, &c);
    int result = original_init(self, args, kwargs);
    t->depth--;
    pt_span_leave(t, before);
    int fd = result == 0 ? pt_file_descriptor(self, PT_KIND_RAW) : -1;
    if (fd >= 0) {
        uint32_t desc = pt_entry_id(pt_fd_get(t, fd));
        const struct pt_desc *d = pt_desc_at(desc);
        uint32_t flags = d ? d->open_flags : 0;
        c.record->offset = desc;
        c.record->aux = flags;
        if (flags & NAMELESS) /* tempfile's opener made a nameless file: the path is its folder's */
            c.record->desc = pt_desc_path(desc);
    }
    pt_end_raising(&c, fd, pt_file_error(result != 0));
    return result;
}

/* ---- iteration ---------------------------------------------------------------------- */

static PyObject *next_line(PyObject *self, iternextfunc original, enum pt_file_kind kind, unsigned op)
{
    if (PT_UNLIKELY(pt_file_passes()))
        return original(self);
    struct pt_file_call c;
    pt_file_begin(&c, self, kind, op, PT_REQUESTED_NONE, true);
    PyObject *line = original(self);
    if (c.thread)
        pt_file_end(&c, line ? (int64_t)pt_byte_size(line) : 0, line == NULL && PyErr_Occurred() != NULL);
    return line;
}

static PyObject *text_next(PyObject *self)
{
    return next_line(self, original_text_next, PT_KIND_TEXT, PT_OP_A_TEXT_NEXT);
}

static PyObject *reader_next(PyObject *self)
{
    return next_line(self, original_reader_next, PT_KIND_BUFFERED, PT_OP_A_BUF_NEXT);
}

static PyObject *random_next(PyObject *self)
{
    return next_line(self, original_random_next, PT_KIND_BUFFERED, PT_OP_A_BUF_NEXT);
}

/* ---- mmap objects ---------------------------------------------------------------------- */

static PyObject *mmap_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct pt_thread *t = pt_enter();
    PyObject *file = PyTuple_GET_SIZE(args) > 0 ? PyTuple_GET_ITEM(args, 0) : NULL;
    if (!file && kwargs)
        file = PyDict_GetItemString(kwargs, "fileno"); /* Borrowed */
    int overflow = 0;
    long fd = file && PyLong_CheckExact(file) ? PyLong_AsLongAndOverflow(file, &overflow) : -1;
    if (!t || t->depth || fd < 0 || overflow || fd > INT32_MAX)
        return original_mmap_new(type, args, kwargs);
    pt_fd_entry e = pt_fd_get(t, (int)fd);
    if (e & PT_FD_EXCLUDED)
        return original_mmap_new(type, args, kwargs);
    struct pt_call c;
    pt_begin(&c, t, PT_OP_A_MMAP_OPEN, pt_entry_id(e), (uint32_t)fd, -1, PT_SIZE_NONE);
    struct pt_enclosing before = pt_span_enter(t, &c);
    PyObject *result = original_mmap_new(type, args, kwargs);
    pt_span_leave(t, before);
    pt_end_raising(&c, -1, pt_file_error(!result));
    return result;
}

static PyObject *mmap_get(PyObject *self, PyObject *key)
{
    if (PT_UNLIKELY(pt_file_passes()))
        return original_mmap_get(self, key);
    struct pt_file_call c;
    pt_file_begin(&c, self, PT_KIND_MAPPED, PT_OP_A_MMAP_GETITEM, PT_REQUESTED_NONE, true);
    PyObject *result = original_mmap_get(self, key);
    if (c.thread)
        pt_file_end(&c, !result ? 0 : PyLong_CheckExact(result) ? 1 : (int64_t)pt_byte_size(result), result == NULL);
    return result;
}

static int mmap_set(PyObject *self, PyObject *key, PyObject *value)
{
    if (PT_UNLIKELY(pt_file_passes()))
        return original_mmap_set(self, key, value);
    struct pt_file_call c;
    int64_t bytes = !value ? 0 : PyLong_CheckExact(value) ? 1 : (int64_t)pt_byte_size(value);
    pt_file_begin(&c, self, PT_KIND_MAPPED, PT_OP_A_MMAP_SETITEM, (uint64_t)bytes, true);
    int result = original_mmap_set(self, key, value);
    if (c.thread)
        pt_file_end(&c, result == 0 ? bytes : 0, result != 0);
    return result;
}

/* Iteration, `in` and C code ask for items by number. */
static PyObject *mmap_item(PyObject *self, Py_ssize_t number)
{
    if (PT_UNLIKELY(pt_file_passes()))
        return original_mmap_item(self, number);
    struct pt_file_call c;
    pt_file_begin(&c, self, PT_KIND_MAPPED, PT_OP_A_MMAP_ITERATE, 1, true);
    PyObject *result = original_mmap_item(self, number);
    if (c.thread)
        pt_file_end(&c, result != NULL, false); /* an IndexError is the end */
    return result;
}

/* ---- installing and undoing, from one table ---------------------------------------------- */

struct slot {
    const char *name;
    PyTypeObject **type;
    size_t offset; /* of the slot in the type, or in its methods as a mapping or as a sequence */
    enum { OF_TYPE, OF_MAPPING, OF_SEQUENCE } of;
    void *ours;
    void *original; /* the function pointer above that keeps the original */
    bool installed;
    PyWrapperDescrObject *descriptor; /* Owned while installed: for calls by name, such as f.__next__() */
};

static struct slot slots[] = {
    {"FileIO.__init__", &pt_layout.raw, offsetof(PyTypeObject, tp_init), OF_TYPE, file_init, &original_init, false,
     NULL},
    {"TextIOWrapper.__next__", &pt_layout.text, offsetof(PyTypeObject, tp_iternext), OF_TYPE, text_next,
     &original_text_next, false, NULL},
    {"BufferedReader.__next__", &pt_layout.reader, offsetof(PyTypeObject, tp_iternext), OF_TYPE, reader_next,
     &original_reader_next, false, NULL},
    {"BufferedRandom.__next__", &pt_layout.random, offsetof(PyTypeObject, tp_iternext), OF_TYPE, random_next,
     &original_random_next, false, NULL},
    {"mmap.__new__", &pt_layout.mmap, offsetof(PyTypeObject, tp_new), OF_TYPE, mmap_new, &original_mmap_new, false,
     NULL},
    {"mmap.__getitem__", &pt_layout.mmap, offsetof(PyMappingMethods, mp_subscript), OF_MAPPING, mmap_get,
     &original_mmap_get, false, NULL},
    {"mmap.__setitem__", &pt_layout.mmap, offsetof(PyMappingMethods, mp_ass_subscript), OF_MAPPING, mmap_set,
     &original_mmap_set, false, NULL},
    {"mmap.__iter__", &pt_layout.mmap, offsetof(PySequenceMethods, sq_item), OF_SEQUENCE, mmap_item,
     &original_mmap_item, false, NULL},
};
#define SLOTS (sizeof slots / sizeof *slots)

static void **place_of(const struct slot *s)
{
    PyTypeObject *type = *s->type;
    char *base = (char *)type;
    if (type && s->of != OF_TYPE)
        base = s->of == OF_MAPPING ? (char *)type->tp_as_mapping : (char *)type->tp_as_sequence;
    return base ? (void **)(base + s->offset) : NULL;
}

/* The slot wrapper in the type's dict has its own copy of the slot. */
static void install_descriptor(struct slot *s)
{
    PyObject *names = PyObject_GetAttrString((PyObject *)*s->type, "__dict__");
    PyObject *found = names ? PyMapping_GetItemString(names, strchr(s->name, '.') + 1) : NULL;
    Py_XDECREF(names);
    PyErr_Clear();
    if (found && Py_IS_TYPE(found, &PyWrapperDescr_Type) &&
        ((PyWrapperDescrObject *)found)->d_wrapped == *(void **)s->original) {
        s->descriptor = (PyWrapperDescrObject *)found;
        s->descriptor->d_wrapped = s->ours;
        return;
    }
    Py_XDECREF(found);
}

void pt_slots_install(void)
{
    for (size_t i = 0; i < SLOTS; i++) {
        void **place = place_of(&slots[i]);
        if (!place || !*place || slots[i].installed)
            continue;
        *(void **)slots[i].original = *place;
        *place = slots[i].ours;
        slots[i].installed = true;
        install_descriptor(&slots[i]);
    }
}

void pt_slots_uninstall(void)
{
    for (size_t i = 0; i < SLOTS; i++) {
        void **place = place_of(&slots[i]);
        if (slots[i].installed && *place == slots[i].ours)
            *place = *(void **)slots[i].original;
        slots[i].installed = false;
        if (slots[i].descriptor)
            slots[i].descriptor->d_wrapped = *(void **)slots[i].original;
        Py_CLEAR(slots[i].descriptor);
    }
}

int pt_slots_snapshot(PyObject *dict)
{
    for (size_t i = 0; i < SLOTS; i++) {
        void **place = place_of(&slots[i]);
        PyObject *value = place ? PyLong_FromVoidPtr(*place) : NULL;
        if (place && (!value || PyDict_SetItemString(dict, slots[i].name, value) < 0)) {
            Py_XDECREF(value);
            return -1;
        }
        Py_XDECREF(value);
    }
    return 0;
}
