/* What a watched call is about: its file, and the bytes that it moved.
 *
 * A path is found without running code of the program, unless a callback of the instrument does. */
#include "watch/extract.h"

#include "files/layout.h"
#include "python/small_int.h"

#include <string.h>

/* ---- the path ---------------------------------------------------------------------------- */

static uint32_t path_of_bytes(const char *bytes, size_t n)
{
    if (strlen(bytes) != n)
        return 0;                              /* a NUL inside: not a path */
    const char *colon = memchr(bytes, ':', n); /* most paths have none */
    if (PT_UNLIKELY(colon != NULL) && strncmp(bytes, "file://", 7) == 0)
        bytes += 7, n -= 7;
    else if (PT_UNLIKELY(colon != NULL) && strstr(colon, "://"))
        return pt_location(bytes, n, 0); /* a URL: not a file of the system */
    struct pt_named name = pt_name_to_open(bytes);
    return name.left_out ? PT_PATH_EXCLUDED : name.id;
}

static uint32_t path_of_descriptor(struct pt_thread *t, int fd)
{
    pt_fd_entry e = fd < 0 ? 0 : pt_fd_get(t, fd);
    if (e & PT_FD_EXCLUDED)
        return PT_PATH_EXCLUDED;
    return pt_desc_path(pt_entry_id(e));
}

static uint32_t path_of_number(struct pt_thread *t, PyObject *number)
{
    int overflow;
    long fd = PyLong_AsLongAndOverflow(number, &overflow);
    return path_of_descriptor(t, overflow || fd < 0 || fd > INT32_MAX ? -1 : (int)fd);
}

/* Reads the descriptor of one of Python's own file objects.  fileno() is not called, because the object may wrap one
 * of the program's, and would run its code.  -1: no such object, or it has no file of the system. */
static int descriptor_of(PyObject *value)
{
    if (!pt_layout.text)
        return -1;
    if (PyObject_TypeCheck(value, pt_layout.raw))
        return pt_file_descriptor(value, PT_KIND_RAW);
    if (PyObject_TypeCheck(value, pt_layout.text))
        return pt_file_descriptor(value, PT_KIND_TEXT);
    if (PyObject_TypeCheck(value, pt_layout.reader) || PyObject_TypeCheck(value, pt_layout.writer) ||
        PyObject_TypeCheck(value, pt_layout.random))
        return pt_file_descriptor(value, PT_KIND_BUFFERED);
    return -1;
}

/* Whether it is a path of the standard library's own types.  __fspath__ of any other type may be the program's code. */
static bool is_path(PyObject *value)
{
    static const char *const known[][2] = {
        {"pathlib", "PosixPath"}, {"pathlib", "PurePosixPath"}, {"posix", "DirEntry"}};
    bool is = false;
    for (size_t i = 0; !is && i < sizeof known / sizeof *known; i++) {
        const char *name = strrchr(Py_TYPE(value)->tp_name, '.');
        if (strcmp(name ? name + 1 : Py_TYPE(value)->tp_name, known[i][1]) != 0)
            continue;
        PyObject *word = PyUnicode_InternFromString(known[i][0]), *module = word ? PyImport_GetModule(word) : NULL;
        PyObject *type = module ? PyObject_GetAttrString(module, known[i][1]) : NULL;
        is = type == (PyObject *)Py_TYPE(value);
        Py_XDECREF(type);
        Py_XDECREF(module);
        Py_XDECREF(word);
        PyErr_Clear();
    }
    return is;
}

/* Returns the string id of the path that `value` names; 0 if it names none; PT_PATH_EXCLUDED. */
static uint32_t path_of(struct pt_thread *t, struct pt_callback_error *error, PyObject *value, int depth)
{
    uint32_t id = 0;
    PyObject *other = NULL;
    if (PyUnicode_Check(value) && PyUnicode_IS_COMPACT_ASCII(value))
        return path_of_bytes((const char *)PyUnicode_1BYTE_DATA(value), (size_t)PyUnicode_GET_LENGTH(value));
    if (PyUnicode_Check(value))
        other = PyUnicode_EncodeFSDefault(value);
    else if (PyBytes_Check(value))
        other = Py_NewRef(value);
    if (other) {
        id = path_of_bytes(PyBytes_AS_STRING(other), (size_t)PyBytes_GET_SIZE(other));
    } else if (PyLong_CheckExact(value)) {
        id = path_of_number(t, value);
    } else if (depth < 3 && (PyTuple_CheckExact(value) || PyList_CheckExact(value))) {
        if (PySequence_Fast_GET_SIZE(value) == 1) /* of several, none is the path of the call */
            id = path_of(t, error, PySequence_Fast_GET_ITEM(value, 0), depth + 1);
    } else if (is_path(value)) {
        PyThreadState *state = PyThreadState_Get();
        PyThreadState_EnterTracing(state);
        other = PyOS_FSPath(value);
        PyThreadState_LeaveTracing(state);
        if (other)
            id = path_of(t, error, other, depth + 1);
        else
            pt_callback_keep_programs(error); /* any other error the call itself will raise */
    } else {
        id = path_of_descriptor(t, descriptor_of(value));
    }
    PyErr_Clear();
    Py_XDECREF(other);
    return id;
}

/* Returns the argument that is the path, a borrowed reference; NULL if it is not given. */
static PyObject *path_argument(const struct pt_target_description *d, const struct pt_invocation *call)
{
    Py_ssize_t n = pt_positional(call);
    if (d->path_index >= 0 && d->path_index < n)
        return call->args[d->path_index];
    PyObject *keyword = d->path_keyword, *names = call->names;
    for (Py_ssize_t i = 0; keyword && names && i < PyTuple_GET_SIZE(names); i++) {
        PyObject *name = PyTuple_GET_ITEM(names, i);
        if (name == keyword || PyUnicode_Compare(name, keyword) == 0)
            return call->args[n + i];
    }
    return NULL;
}

uint32_t pt_extract_path(struct pt_target *g, struct pt_thread *t, struct pt_details *d,
                         struct pt_callback_error *error, const struct pt_invocation *call)
{
    if (!g->description.path) {
        PyObject *value = path_argument(&g->description, call);
        return value ? path_of(t, error, value, 0) : 0;
    }
    PyObject *value = pt_callback(g, g->description.path, NULL, error, call);
    if (value && PyTuple_CheckExact(value) && PyTuple_GET_SIZE(value) == 2 &&
        PyDict_CheckExact(PyTuple_GET_ITEM(value, 1))) { /* (path, details) */
        pt_details_add_dict(d, PyTuple_GET_ITEM(value, 1));
        Py_SETREF(value, Py_NewRef(PyTuple_GET_ITEM(value, 0)));
    }
    uint32_t id = value == Py_NotImplemented ? PT_PATH_EXCLUDED : value ? path_of(t, error, value, 0) : 0;
    Py_XDECREF(value);
    return id;
}

/* ---- the bytes --------------------------------------------------------------------------- */

/* Returns the value of an integer; -1 for anything else. */
static int64_t number_of(PyObject *value)
{
    int64_t number;
    if (!value || !pt_small_int(value, &number)) {
        number = value && pt_is_integer(value) ? PyNumber_AsSsize_t(value, NULL) : -1;
        if (number == -1)
            PyErr_Clear();
    }
    return number < 0 ? -1 : number;
}

static PyObject *word_dtype, *word_hasobject, *word_nbytes; /* Owned, for good */

/* Whether it is an array of objects.  It holds only pointers, whose bytes are not what was moved. */
static bool has_objects(PyObject *array)
{
    PyObject *dtype = PyObject_GetAttr(array, word_dtype);
    PyObject *answer = dtype ? PyObject_GetAttr(dtype, word_hasobject) : NULL;
    bool has = answer == Py_True;
    if (!answer)
        PyErr_Clear();
    Py_XDECREF(dtype);
    Py_XDECREF(answer);
    return has;
}

int64_t pt_extract_bytes(struct pt_target *g, PyObject *result, struct pt_callback_error *error,
                         const struct pt_invocation *call)
{
    PyObject *answer = NULL;
    int64_t moved = -1;
    switch (g->description.bytes_source) {
    case PT_BYTES_NONE: break;
    case PT_BYTES_RESULT: moved = number_of(result); break;
    case PT_BYTES_LENGTH:
        if (PyBytes_Check(result) || PyByteArray_Check(result))
            moved = Py_SIZE(result);
        break;
    case PT_BYTES_NBYTES:
        if (!has_objects(result))
            moved = number_of(answer = PyObject_GetAttr(result, word_nbytes));
        break;
    case PT_BYTES_CALLBACK:
        if (g->description.bytes)
            moved = number_of(answer = pt_callback(g, g->description.bytes, result, error, call));
        break;
    }
    Py_XDECREF(answer);
    return moved;
}

int pt_extract_ready(void)
{
    if (!word_dtype) {
        word_dtype = PyUnicode_InternFromString("dtype");
        word_hasobject = PyUnicode_InternFromString("hasobject");
        word_nbytes = PyUnicode_InternFromString("nbytes");
    }
    return word_dtype && word_hasobject && word_nbytes ? 0 : -1;
}
