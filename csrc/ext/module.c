/* The extension module: the Python face of the core (pyio_trace/native/_capture.pyi). */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "context.h"
#include "core.h"
#include "files.h"
#include "frames.h"
#include "spans.h"
#include "unseen.h"
#include "details.h"
#include "watched.h"

#include <errno.h>
#include <string.h>

static PyObject *raise_error(int error, const char *path)
{
    errno = -error;
    return PyErr_SetFromErrnoWithFilename(PyExc_OSError, path);
}

/* start(path, create, budget, stacks, version, executable, argv, mode, ring, include, exclude, min_duration, min_size) */
static PyObject *start(PyObject *module, PyObject *args)
{
    (void)module;
    const char *path, *version, *executable, *argv;
    int create, stacks;
    unsigned int mode;
    unsigned long long budget, ring, min_duration, min_size;
    struct pt_selection selection;
    Py_ssize_t argv_length;
    if (!PyArg_ParseTuple(args, "ypKisyy#IKyyKK", &path, &create, &budget, &stacks, &version, &executable, &argv,
                          &argv_length, &mode, &ring, &selection.include, &selection.exclude, &min_duration, &min_size))
        return NULL;
    selection.min_duration = min_duration;
    selection.min_size = min_size;
    const char *why_not = pt_frames_unsupported();
    if (why_not && stacks != PT_STACKS_OFF)
        stacks = PT_STACKS_NONE;
    bool walk = stacks == PT_STACKS_FULL || stacks == PT_STACKS_SITE;
    pt_frames_set_depth(stacks == PT_STACKS_SITE ? 8 : 0);
    pt.stack_function = walk ? pt_frames_stack_no_gil : NULL;
    struct pt_options options = {.path = path, .budget = budget, .stacks = (uint32_t)stacks, .create = create,
                                 .version = version, .executable = executable, .argv = argv,
                                 .argv_length = (uint32_t)argv_length, .mode = mode, .ring = ring,
                                 .selection = &selection};
    int error = pt_start(&options);
    if (error)
        return raise_error(error, path);
    if (why_not && pt.process_id)
        strncpy(pt.process->note, why_not, sizeof pt.process->note - 1);
    return PyBool_FromLong(pt.header->owner_pid == pt.pid);
}

static PyObject *stop(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    pt_stop();
    Py_RETURN_NONE;
}

/* finish_with([executable, argument, ...]): run at the end of the run.  The copy
 * lives as long as the process. */
static PyObject *finish_with(PyObject *module, PyObject *list)
{
    (void)module;
    if (list == Py_None) {
        pt_finish_with(NULL);
        Py_RETURN_NONE;
    }
    if (!PyList_Check(list)) {
        PyErr_SetString(PyExc_TypeError, "finish_with() takes a list of bytes, or None");
        return NULL;
    }
    Py_ssize_t n = PyList_GET_SIZE(list);
    char **argv = PyMem_RawCalloc((size_t)n + 1, sizeof *argv);
    if (!argv)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++) {
        char *bytes;
        if (PyBytes_AsStringAndSize(PyList_GET_ITEM(list, i), &bytes, NULL) < 0 || !(argv[i] = strdup(bytes))) {
            PyMem_RawFree(argv);
            return PyErr_Occurred() ? NULL : PyErr_NoMemory();
        }
    }
    pt_finish_with((const char *const *)argv);
    Py_RETURN_NONE;
}

static PyObject *state(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    static const char *const clocks[] = {"CLOCK_MONOTONIC", "TSC", "CNTVCT"};
    const char *why_not = pt_frames_unsupported();
    return Py_BuildValue("{s:O,s:O,s:O,s:I,s:N,s:s,s:z,s:z,s:I}", "active", pt.gate & PT_GATE_OFF ? Py_False : Py_True,
                         "preloaded", pt.preloaded ? Py_True : Py_False, "paused", pt.gate & PT_GATE_PAUSED ? Py_True : Py_False, "mode", pt.mode, "path",
                         PyUnicode_DecodeFSDefault(pt.path), "clock",
                         clocks[pt.tick_kind], "no_stacks", why_not, "no_file_objects", pt_files_unsupported(), "pid", pt.pid);
}

static PyObject *note(PyObject *module, PyObject *text)
{
    (void)module;
    const char *bytes = PyUnicode_AsUTF8(text);
    if (!bytes)
        return NULL;
    if (!(pt.gate & PT_GATE_OFF) && pt.process_id) {
        char *said = pt.process->note;
        size_t n = strnlen(said, sizeof pt.process->note - 1);
        snprintf(said + n, sizeof pt.process->note - n, "%s%s", n ? "; " : "", bytes);
    }
    Py_RETURN_NONE;
}

/* pause(on): nothing of this process is recorded until pause(False) */
static PyObject *pause_tracing(PyObject *module, PyObject *on)
{
    (void)module;
    int yes = PyObject_IsTrue(on);
    if (yes < 0)
        return NULL;
    pt_pause(yes);
    Py_RETURN_NONE;
}

/* set_mode(number): enum pt_mode, of this process */
static PyObject *set_mode(PyObject *module, PyObject *number)
{
    (void)module;
    unsigned long mode = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred())
        return NULL;
    if (mode > PT_MODE_RING) {
        PyErr_SetString(PyExc_ValueError, "no such mode");
        return NULL;
    }
    pt_switch((uint32_t)mode);
    Py_RETURN_NONE;
}

/* dump(path): a copy of the log as it is now */
static PyObject *dump(PyObject *module, PyObject *path)
{
    (void)module;
    const char *bytes = PyBytes_AsString(path);
    if (!bytes)
        return NULL;
    int error;
    Py_BEGIN_ALLOW_THREADS
    error = pt_log_dump(bytes);
    Py_END_ALLOW_THREADS
    if (error)
        return raise_error(error, bytes);
    Py_RETURN_NONE;
}

/* dump_on_signal(number): 0: on none any more */
static PyObject *dump_on_signal(PyObject *module, PyObject *number)
{
    (void)module;
    long signal = PyLong_AsLong(number);
    if (PyErr_Occurred())
        return NULL;
    int error = pt_dump_on_signal((int)signal);
    if (error)
        return raise_error(error, NULL);
    Py_RETURN_NONE;
}

/* traces(name): whether --include and --exclude want a process of this name */
static PyObject *traces(PyObject *module, PyObject *name)
{
    (void)module;
    const char *bytes = PyBytes_AsString(name);
    return bytes ? PyBool_FromLong(pt_select_process(bytes)) : NULL;
}

/* knows_operation(pattern): whether there is one that op:PATTERN would match */
static PyObject *knows_operation(PyObject *module, PyObject *pattern)
{
    (void)module;
    const char *bytes = PyBytes_AsString(pattern);
    return bytes ? PyBool_FromLong(pt_select_knows_op(bytes)) : NULL;
}

static PyObject *address(PyObject *module, PyObject *object)
{
    (void)module;
    return PyLong_FromVoidPtr(object);
}

/* operations() -> their names */
static PyObject *operations(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *names = PyList_New(0);
    for (unsigned op = 1; names && op < PT_OP_COUNT; op++) {
        PyObject *name = PyUnicode_FromString(pt_op_name(op));
        if (!name || PyList_Append(names, name) < 0)
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

/* The GOT slots of hooked names and what they hold: {address: value}. */
static PyObject *got_snapshot(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    const unsigned room = 1u << 18;
    uint64_t *pairs = PyMem_RawMalloc(room * sizeof *pairs);
    PyObject *result = PyDict_New();
    if (!pairs || !result) {
        PyMem_RawFree(pairs);
        Py_XDECREF(result);
        return PyErr_NoMemory();
    }
    unsigned n = pt_got_snapshot(pairs, room);
    for (unsigned i = 0; i + 1 < n && result; i += 2) {
        PyObject *slot = PyLong_FromUnsignedLongLong(pairs[i]);
        PyObject *value = PyLong_FromUnsignedLongLong(pairs[i + 1]);
        if (!slot || !value || PyDict_SetItem(result, slot, value) < 0)
            Py_CLEAR(result);
        Py_XDECREF(slot);
        Py_XDECREF(value);
    }
    PyMem_RawFree(pairs);
    return result;
}

/* The functions that are hooked, by each of their spellings. */
static PyObject *hook_names(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *result = PyList_New(0);
    const char *name;
    for (unsigned i = 0; result && (name = pt_hook_name(i)); i++) {
        PyObject *text = PyUnicode_FromString(name);
        if (!text || PyList_Append(result, text) < 0)
            Py_CLEAR(result);
        Py_XDECREF(text);
    }
    return result;
}

/* Resolved when this module is loaded, and by a core of the same interface only. */
static const char *const interface __attribute__((used)) = PT_INTERFACE;

static PyMethodDef methods[] = {
    {"start", start, METH_VARARGS, "start(path, create, budget, stacks, version, executable, argv, mode, ring, include, exclude, min_duration, min_size)"
     " -> is this the run's owner"},
    {"stop", stop, METH_NOARGS, "stop(): every slot as it was"},
    {"finish_with", finish_with, METH_O, "finish_with(argv): the command run when the run's first process has ended"},
    {"state", state, METH_NOARGS, "state() -> dict"},
    {"note", note, METH_O, "note(text): why something is off, for the process table"},
    {"pause", pause_tracing, METH_O, "pause(on)"},
    {"set_mode", set_mode, METH_O, "set_mode(0 trace, 1 profile, 2 ring)"},
    {"dump", dump, METH_O, "dump(path): a copy of the log as it is now"},
    {"dump_on_signal", dump_on_signal, METH_O, "dump_on_signal(number); 0: on none any more"},
    {"traces", traces, METH_O, "traces(name): is a process of this name to be traced"},
    {"knows_operation", knows_operation, METH_O, "knows_operation(pattern): is there one that op:PATTERN would match"},
    {"operations", operations, METH_NOARGS, "operations() -> [name, ...]"},
    {"got_snapshot", got_snapshot, METH_NOARGS, "got_snapshot() -> {slot: value} of hooked names"},
    {"hook_names", hook_names, METH_NOARGS, "hook_names() -> [name]"},
    {"finder", (PyCFunction)(void (*)(void))pt_finder, METH_FASTCALL, "finder(watched, itself, prepare) -> a find_spec()"},
    {"loading", (PyCFunction)(void (*)(void))pt_loading, METH_FASTCALL, "loading(before, exec_module, after) -> an exec_module()"},
    {"handing_over", pt_handing_over, METH_O, "handing_over(__init__) -> one that notes this thread's span"},
    {"taking_over", pt_taking_over, METH_O, "taking_over(method) -> one that runs under the span that was noted"},
    {"enters_contexts", pt_enters_contexts, METH_O, "enters_contexts(module) -> do its handles carry spans now"},
    {"watch", (PyCFunction)(void (*)(void))pt_watch, METH_VARARGS | METH_KEYWORDS,
     "watch(function, name, kind=0, path_index=-1, path_keyword=None, path=None, details=None, after=None, moved=0, "
     "bytes=None, hands_over=0, by_attribute=False) -> None, or why it cannot be watched"},
    {"is_watched", pt_is_watched, METH_O, "is_watched(function)"},
    {"unwatch_all", pt_unwatch_all, METH_NOARGS, "unwatch_all(): every function as it was"},
    {"address", address, METH_O, "address(object): its id(), which no audit hook hears of"},
    {"details_members", pt_details_members, METH_O, "details_members(dict) -> bytes of JSON, or None"},
    {"watch_faults", pt_watch_faults, METH_NOARGS, "watch_faults() -> {name: how often its details failed}"},
    {"suppress", pt_suppress, METH_O, "suppress(on)"},
    {"files_install", pt_files_install, METH_NOARGS, "files_install() -> None, or why not"},
    {"files_install_mmap", pt_files_install_mmap, METH_O, "files_install_mmap(mmap.mmap)"},
    {"files_uninstall", pt_files_uninstall, METH_NOARGS, "files_uninstall()"},
    {"files_snapshot", pt_files_snapshot, METH_NOARGS, "files_snapshot() -> {name: address} of the entries that are changed"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_capture", .m_doc = "The capture core.", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit__capture(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (!module || PyModule_AddType(module, &pt_span_type) < 0 || PyType_Ready(&pt_unseen_type) < 0 ||
        pt_watched_ready() < 0) {
        Py_XDECREF(module);
        return NULL;
    }
#ifdef Py_GIL_DISABLED
    PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
    return module;
}
