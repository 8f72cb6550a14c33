/* Functions of the module that answer questions and change nothing. */
#define PY_SSIZE_T_CLEAN
#include "module/queries.h"

#include "files/files.h"
#include "frames/frames.h"

#include "core.h"
#include "redact/redact.h"

/* identity() -> (device, inode, run): distinguishes this run's log from another file of the same name */
PyObject *pt_module_identity(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    uint64_t device, inode;
    pt_log_file(&device, &inode);
    return Py_BuildValue("KKK", (unsigned long long)device, (unsigned long long)inode,
                         (unsigned long long)(pt.header ? pt.header->run_id : 0));
}

/* stack() -> int: the id of the current stack in the log; 0: none */
PyObject *pt_module_stack(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    struct pt_thread *t = pt_enter();
    uint32_t stack = t ? pt_stack(t) : 0;
    return PyLong_FromUnsignedLong(stack == PT_STACK_IMPORT ? 0 : stack);
}

/* state() -> dict */
PyObject *pt_module_state(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    static const char *const clocks[] = {"CLOCK_MONOTONIC", "TSC", "CNTVCT"};
    const char *why_no_stacks = pt_frames_unsupported();
    return Py_BuildValue("{s:O,s:O,s:O,s:O,s:I,s:N,s:s,s:z,s:z,s:I}", "active",
                         pt.gate & PT_GATE_OFF ? Py_False : Py_True, "owner", pt_is_owner() ? Py_True : Py_False,
                         "preloaded", pt.preloaded ? Py_True : Py_False, "paused",
                         pt.gate & PT_GATE_PAUSED ? Py_True : Py_False, "mode", pt.mode, "path",
                         PyUnicode_DecodeFSDefault(pt.path), "clock", clocks[pt.tick_kind], "no_stacks", why_no_stacks,
                         "no_file_objects", pt_files_unsupported(), "pid", pt.pid);
}

/* traces(name) -> bool: do --include and --exclude select a process of this name? */
PyObject *pt_module_traces(PyObject *module, PyObject *name)
{
    (void)module;
    const char *bytes = PyBytes_AsString(name);
    return bytes ? PyBool_FromLong(pt_select_process(bytes)) : NULL;
}

/* knows_operation(pattern) -> bool: is there an operation that op:PATTERN matches? */
PyObject *pt_module_knows_operation(PyObject *module, PyObject *pattern)
{
    (void)module;
    const char *bytes = PyBytes_AsString(pattern);
    return bytes ? PyBool_FromLong(pt_select_knows_op(bytes)) : NULL;
}

/* redacted(text, words) -> bytes: the text as the log would store it.  words: the text is a command line, with a NUL
 * after each word. */
PyObject *pt_module_redacted(PyObject *module, PyObject *args)
{
    (void)module;
    const char *text;
    Py_ssize_t n;
    int words;
    if (!PyArg_ParseTuple(args, "y#p", &text, &n, &words))
        return NULL;
    size_t room = PT_REDACTED_ROOM((size_t)n);
    PyObject *result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)room);
    if (!result)
        return NULL;
    char *out = PyBytes_AS_STRING(result);
    size_t length = words ? pt_redact_block(text, (size_t)n, out, room) : pt_redact_command(text, (size_t)n, out, room);
    _PyBytes_Resize(&result, (Py_ssize_t)length);
    return result;
}

/* address(object) -> int: what id() returns; but id() raises an audit event, which the program may hear */
PyObject *pt_module_address(PyObject *module, PyObject *object)
{
    (void)module;
    return PyLong_FromVoidPtr(object);
}

/* Appends to the list, or sets it to NULL. */
static void append_name(PyObject **names, const char *name)
{
    PyObject *text = PyUnicode_FromString(name);
    if (!text || PyList_Append(*names, text) < 0)
        Py_CLEAR(*names);
    Py_XDECREF(text);
}

/* operations() -> [name, ...] */
PyObject *pt_module_operations(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *names = PyList_New(0);
    for (unsigned op = 1; names && op < PT_OP_COUNT; op++)
        append_name(&names, pt_op_name(op));
    return names;
}

/* got_snapshot() -> {address: value} of the GOT slots of hooked names */
PyObject *pt_module_got_snapshot(PyObject *module, PyObject *unused)
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

/* hook_names() -> [name, ...]: the hooked functions, by each of their spellings */
PyObject *pt_module_hook_names(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *names = PyList_New(0);
    const char *name;
    for (unsigned i = 0; names && (name = pt_hook_name(i)); i++)
        append_name(&names, name);
    return names;
}
