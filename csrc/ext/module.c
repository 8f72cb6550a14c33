/* The extension module: the Python face of the core (pyio_trace/native/_capture.pyi). */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "core.h"
#include "files.h"
#include "frames.h"
#include "spans.h"

#include <errno.h>
#include <string.h>

static PyObject *raise_error(int error, const char *path)
{
    errno = -error;
    return PyErr_SetFromErrnoWithFilename(PyExc_OSError, path);
}

/* start(path, create, budget, stacks, version, executable, argv) */
static PyObject *start(PyObject *module, PyObject *args)
{
    (void)module;
    const char *path, *version, *executable, *argv;
    int create, stacks;
    unsigned long long budget;
    Py_ssize_t argv_length;
    if (!PyArg_ParseTuple(args, "ypKisyy#", &path, &create, &budget, &stacks, &version, &executable, &argv, &argv_length))
        return NULL;
    const char *why_not = pt_frames_unsupported();
    if (why_not && stacks != PT_STACKS_OFF)
        stacks = PT_STACKS_NONE;
    bool walk = stacks == PT_STACKS_FULL || stacks == PT_STACKS_SITE;
    pt_frames_set_depth(stacks == PT_STACKS_SITE ? 8 : 0);
    pt.stack_function = walk ? pt_frames_stack_no_gil : NULL;
    struct pt_options options = {.path = path, .budget = budget, .stacks = (uint32_t)stacks, .create = create,
                                 .version = version, .executable = executable, .argv = argv,
                                 .argv_length = (uint32_t)argv_length};
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
    return Py_BuildValue("{s:O,s:N,s:s,s:z,s:z,s:I}", "active", pt.gate ? Py_False : Py_True, "path",
                         PyUnicode_DecodeFSDefault(pt.path), "clock",
                         clocks[pt.tick_kind], "no_stacks", why_not, "no_file_objects", pt_files_unsupported(), "pid", pt.pid);
}

static PyObject *note(PyObject *module, PyObject *text)
{
    (void)module;
    const char *bytes = PyUnicode_AsUTF8(text);
    if (!bytes)
        return NULL;
    if (!pt.gate && pt.process_id)
        strncpy(pt.process->note, bytes, sizeof pt.process->note - 1);
    Py_RETURN_NONE;
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

static PyMethodDef methods[] = {
    {"start", start, METH_VARARGS, "start(path, create, budget, stacks, version, executable, argv) -> is this the run's owner"},
    {"stop", stop, METH_NOARGS, "stop(): every slot as it was"},
    {"finish_with", finish_with, METH_O, "finish_with(argv): the command run when the run's first process has ended"},
    {"state", state, METH_NOARGS, "state() -> dict"},
    {"note", note, METH_O, "note(text): why something is off, for the process table"},
    {"got_snapshot", got_snapshot, METH_NOARGS, "got_snapshot() -> {slot: value} of hooked names"},
    {"carry", pt_carry, METH_O, "carry(function): run it elsewhere under this thread's span"},
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
    if (!module || PyModule_AddType(module, &pt_span_type) < 0 || PyType_Ready(&pt_carried_type) < 0) {
        Py_XDECREF(module);
        return NULL;
    }
#ifdef Py_GIL_DISABLED
    PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
    return module;
}
