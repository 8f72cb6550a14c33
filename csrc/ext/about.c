/* What a watched call is about: the file, and the bytes that it moved. */
#include "target.h"

#include "filecall.h"
#include "ints.h"

#include <string.h>

/* ---- the path ---------------------------------------------------------------------------- */

static uint32_t path_of_bytes(const char *bytes, size_t n)
{
    if (strlen(bytes) != n)
        return 0; /* a NUL within: no path */
    if (strncmp(bytes, "file://", 7) == 0)
        bytes += 7, n -= 7;
    else if (strstr(bytes, "://"))
        return pt_string(bytes, n, 0); /* nothing that the system knows */
    struct pt_named name = pt_name_opened(bytes);
    return name.left_out ? PT_LEFT_OUT_PATH : name.id;
}

static uint32_t path_of_descriptor(struct pt_thread *t, int fd)
{
    pt_fd_entry e = fd < 0 ? 0 : pt_fd_get(t, fd);
    if (e & PT_FD_EXCLUDED)
        return PT_LEFT_OUT_PATH;
    return pt_entry_id(e) ? ((struct pt_desc *)pt_at(pt_entry_id(e)))->path : 0;
}

static uint32_t path_of_number(struct pt_thread *t, PyObject *number)
{
    int overflow;
    long fd = PyLong_AsLongAndOverflow(number, &overflow);
    return path_of_descriptor(t, overflow || fd < 0 || fd > INT32_MAX ? -1 : (int)fd);
}

/* Python's own file objects have a descriptor, which is not asked for but looked at: where one wraps an object of the
 * program's, that one's attributes would be its code.  -1: it is none, or has no file of the system beneath. */
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

/* Paths of the standard library's own types; __fspath__ of others is code of the program's. */
static bool is_path(PyObject *value)
{
    static const char *const known[][2] = {{"pathlib", "PosixPath"}, {"pathlib", "PurePosixPath"}, {"posix", "DirEntry"}};
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

/* A string's id; 0: there is no path; PT_LEFT_OUT_PATH: nothing is to be recorded of it. */
static uint32_t path_of(struct pt_thread *t, struct pt_raised *held, PyObject *value, int depth)
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
        if (PySequence_Fast_GET_SIZE(value) == 1) /* several: none of them is the one */
            id = path_of(t, held, PySequence_Fast_GET_ITEM(value, 0), depth + 1);
    } else if (is_path(value)) {
        PyThreadState *state = PyThreadState_Get();
        PyThreadState_EnterTracing(state);
        other = PyOS_FSPath(value);
        PyThreadState_LeaveTracing(state);
        if (other)
            id = path_of(t, held, other, depth + 1);
        else
            pt_hold_theirs(held); /* all else the call itself will say */
    } else {
        id = path_of_descriptor(t, descriptor_of(value));
    }
    PyErr_Clear();
    Py_XDECREF(other);
    return id;
}

static PyObject *argument(Py_ssize_t index, PyObject *keyword, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    if (index >= 0 && index < n)
        return args[index]; /* Borrowed */
    for (Py_ssize_t i = 0; keyword && names && i < PyTuple_GET_SIZE(names); i++) {
        PyObject *name = PyTuple_GET_ITEM(names, i);
        if (name == keyword || PyUnicode_Compare(name, keyword) == 0)
            return args[n + i];
    }
    return NULL;
}

uint32_t pt_path_asked(struct pt_target *g, struct pt_thread *t, struct pt_details *d, struct pt_raised *held,
                        PyObject *const *args, size_t flagged, PyObject *names)
{
    if (g->path) {
        PyObject *value = pt_ask(g, t, g->path, NULL, held, args, flagged, names);
        if (value && PyTuple_CheckExact(value) && PyTuple_GET_SIZE(value) == 2 && PyDict_CheckExact(PyTuple_GET_ITEM(value, 1))) {
            pt_details_add_dict(d, PyTuple_GET_ITEM(value, 1)); /* both in one question */
            Py_SETREF(value, Py_NewRef(PyTuple_GET_ITEM(value, 0)));
        }
        uint32_t id = value == Py_NotImplemented ? PT_LEFT_OUT_PATH : value ? path_of(t, held, value, 0) : 0;
        Py_XDECREF(value);
        return id;
    }
    PyObject *value = argument(g->path_index, g->path_keyword, args, PyVectorcall_NARGS(flagged), names);
    return value ? path_of(t, held, value, 0) : 0;
}

/* ---- bytes and details ------------------------------------------------------------------- */

static int64_t number_of(PyObject *value)
{
    int64_t number;
    if (!value || !pt_small_int(value, &number)) {
        number = value && pt_is_number(value) ? PyNumber_AsSsize_t(value, NULL) : -1;
        if (number == -1)
            PyErr_Clear();
    }
    return number < 0 ? -1 : number;
}

static PyObject *word_dtype, *word_hasobject, *word_nbytes; /* interned, for good */

/* An array of objects has only pointers to its data: their bytes are not what was moved. */
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

int64_t pt_moved_by(struct pt_target *g, struct pt_thread *t, PyObject *result, struct pt_raised *late, PyObject *const *args,
                        size_t flagged, PyObject *names)
{
    PyObject *answer = NULL;
    int64_t moved = -1;
    if (g->moved == PT_MOVED_RESULT)
        moved = number_of(result);
    else if (g->moved == PT_MOVED_LENGTH && (PyBytes_Check(result) || PyByteArray_Check(result)))
        moved = Py_SIZE(result);
    else if (g->moved == PT_MOVED_NBYTES && !has_objects(result))
        moved = number_of(answer = PyObject_GetAttr(result, word_nbytes));
    else if (g->moved == PT_MOVED_ASKED && g->bytes)
        moved = number_of(answer = pt_ask(g, t, g->bytes, result, late, args, flagged, names));
    Py_XDECREF(answer);
    return moved;
}

int pt_about_ready(void)
{
    if (!word_dtype) {
        word_dtype = PyUnicode_InternFromString("dtype");
        word_hasobject = PyUnicode_InternFromString("hasobject");
        word_nbytes = PyUnicode_InternFromString("nbytes");
    }
    return word_dtype && word_hasobject && word_nbytes ? 0 : -1;
}
