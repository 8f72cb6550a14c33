/* The extension module: the Python face of the capture core (pyio_trace/native/_capture.pyi).
 *
 * The folders of csrc/ext are layers; each uses those above it in this list, and the core:
 *   python   helpers for Python objects, which know nothing of tracing
 *   frames   the Python stack of an operation
 *   imports  the finder and loader of watched modules, and a search among distributions
 *   context  the context of a thread's work, and handing it over
 *   spans    spans and their details
 *   files    Python's own file objects
 *   watch    functions of libraries, watched in place
 *   module   the functions of this module */
#include <Python.h>

#include "context/uvloop.h"
#include "context/work_items.h"
#include "files/files.h"
#include "imports/distributions.h"
#include "imports/finder.h"
#include "imports/import_times.h"
#include "module/control.h"
#include "module/queries.h"
#include "python/frameless.h"
#include "spans/details.h"
#include "spans/span_type.h"
#include "watch/greenlets.h"
#include "watch/watch.h"

#include "core.h"

/* Makes the module refuse to load beside a core with another interface (CMakeLists.txt). */
static const char *const interface __attribute__((used)) = PT_INTERFACE;

/* For functions with other parameters than a PyCFunction's, which the flags beside them say. */
#define CAST(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef methods[] = {
    {"start", CAST(pt_module_start), METH_VARARGS | METH_KEYWORDS,
     "start(path, **options) -> does this process own the run?"},
    {"prepare", CAST(pt_module_prepare), METH_VARARGS | METH_KEYWORDS,
     "prepare(path, **options): make the log, for the program that this process is about to become"},
    {"store_settings", pt_module_store_settings, METH_O,
     "store_settings(settings): keep them in the log for the run's other processes -> was there room?"},
    {"stop", pt_module_stop, METH_VARARGS, "stop(to_pack=False): restore every slot; to_pack: leave the log as it is"},
    {"finish_with", pt_module_finish_with, METH_VARARGS,
     "finish_with(argv, quiet, stub): the command to run when the run's first process has ended"},
    {"start_sampler", pt_module_start_sampler, METH_VARARGS,
     "start_sampler(hz, period, program, late): a process beside the run that looks at its threads and the system"},
    {"note", pt_module_note, METH_O, "note(text): why something is off, for the process table"},
    {"asked_from", pt_module_asked_from, METH_O,
     "asked_from(stack): the stack, of another process, that asked a server for this process"},
    {"stack", pt_module_stack, METH_NOARGS, "stack(): the id of the current stack in the log; 0: none"},
    {"say", pt_module_say, METH_O,
     "say(text): a line on stderr, or a note where that is another file than at the start"},
    {"name_process", pt_module_name_process, METH_VARARGS,
     "name_process(kind, name): what the process table calls this process"},
    {"enter_found", pt_module_enter_found, METH_VARARGS,
     "enter_found(pid, ppid, start_time, executable, argv): a process that does not trace itself"},
    {"set_variable", pt_module_set_variable, METH_VARARGS,
     "set_variable(name[, value]): set or remove a variable of the process, without an audit event"},
    {"set_program", pt_module_set_program, METH_O,
     "set_program(packages): the installed packages that are this process's program, separated by commas"},
    {"pause", pt_module_pause, METH_O, "pause(on): while on, record nothing"},
    {"set_mode", pt_module_set_mode, METH_O, "set_mode(number): 0 trace, 1 profile, 2 ring"},
    {"dump", pt_module_dump, METH_O, "dump(path): write a copy of the log as it is now"},
    {"dump_on_signal", pt_module_dump_on_signal, METH_O, "dump_on_signal(number); 0: at none any more"},

    {"identity", pt_module_identity, METH_NOARGS, "identity() -> (device, inode, run) of the live log"},
    {"state", pt_module_state, METH_NOARGS, "state() -> dict"},
    {"traces", pt_module_traces, METH_O, "traces(name): do the rules select a process of this name?"},
    {"knows_operation", pt_module_knows_operation, METH_O,
     "knows_operation(pattern): is there one that op:PATTERN matches?"},
    {"redacted", pt_module_redacted, METH_VARARGS,
     "redacted(text, words): without its secrets; words: it is a command line, with a NUL after each word"},
    {"address", pt_module_address, METH_O, "address(object): its id(), without an audit event"},
    {"operations", pt_module_operations, METH_NOARGS, "operations() -> [name, ...]"},
    {"got_snapshot", pt_module_got_snapshot, METH_NOARGS, "got_snapshot() -> {slot: value} of hooked names"},
    {"hook_names", pt_module_hook_names, METH_NOARGS, "hook_names() -> [name, ...]"},

    {"entry_points_that_mention", pt_entry_points_that_mention, METH_VARARGS,
     "entry_points_that_mention(folder, word) -> [content, ...] of the entry points of the distributions there"},
    {"finder", CAST(pt_finder), METH_FASTCALL, "finder(watched, itself, prepare) -> a find_spec()"},
    {"wrap_exec_module", CAST(pt_wrap_exec_module), METH_FASTCALL,
     "wrap_exec_module(before, exec_module, after) -> an exec_module()"},
    {"capture_context_in", pt_capture_context_in, METH_O,
     "capture_context_in(__init__) -> one that also captures the context"},
    {"run_in_captured_context", pt_run_in_captured_context, METH_O,
     "run_in_captured_context(method) -> one that runs in the captured context"},
    {"untraced", pt_untraced, METH_O, "untraced(function) -> one without a frame, which no profile shows"},
    {"watch_greenlets", pt_watch_greenlets, METH_VARARGS,
     "watch_greenlets(type, capsule): are switches of greenlets followed from now on?"},
    {"watch_context_switches", pt_watch_context_switches, METH_O,
     "watch_context_switches(module): do its handles keep their spans from now on?"},

    {"watch", CAST(pt_watch), METH_VARARGS | METH_KEYWORDS,
     "watch(function, name, *, kind=0, path_index=-1, path_keyword=None, path=None, details=None, after=None, "
     "bytes=None, bytes_source=0, role=0, step_name=None, is_property=False) -> None, or why it cannot be watched"},
    {"is_watched", pt_is_watched, METH_O, "is_watched(function)"},
    {"script_is_next", pt_script_is_next, METH_NOARGS,
     "script_is_next(): it begins now, unless a better sign of its beginning follows"},
    {"script_is_running", pt_script_is_running, METH_NOARGS,
     "script_is_running(): it has begun already, so no sign of its beginning follows"},
    {"unwatch_all", pt_unwatch_all, METH_NOARGS, "unwatch_all(): restore every function"},
    {"watch_faults", pt_watch_faults, METH_NOARGS, "watch_faults() -> {name: how often its callbacks failed}"},
    {"details_members", pt_details_members, METH_O, "details_members(dict) -> bytes of JSON, or None"},
    {"suppress", pt_suppress, METH_O, "suppress(on): while on, record nothing of this thread"},

    {"files_install", pt_files_install, METH_NOARGS, "files_install() -> None, or why not"},
    {"files_install_mmap", pt_files_install_mmap, METH_O, "files_install_mmap(mmap.mmap) -> None, or why not"},
    {"files_uninstall", pt_files_uninstall, METH_NOARGS, "files_uninstall()"},
    {"files_snapshot", pt_files_snapshot, METH_NOARGS,
     "files_snapshot() -> {name: address} of the entries that installing changes"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_capture", .m_doc = "The capture core.",
                                        .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit__capture(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (!module || PyModule_AddType(module, &pt_span_type) < 0 || PyType_Ready(&pt_frameless_type) < 0 ||
        pt_watch_ready() < 0) {
        Py_XDECREF(module);
        return NULL;
    }
#ifdef Py_GIL_DISABLED
    PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
    return module;
}
