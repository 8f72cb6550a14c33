/* Functions of the module that start, stop and steer tracing. */
#define PY_SSIZE_T_CLEAN
#include "module/control.h"

#include "frames/frames.h"

#include "core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static PyObject *raise_error(int error, const char *path)
{
    errno = -error;
    return PyErr_SetFromErrnoWithFilename(PyExc_OSError, path);
}

/* ---- start and prepare ------------------------------------------------------------------ */

/* Reads what start() and prepare() take: path, and the keywords of _capture.pyi's StartOptions.  Returns false, with an
 * exception set, if they are wrong.  Strings are borrowed from the arguments. */
static bool parse_options(struct pt_options *o, struct pt_selection *selection, PyObject *args, PyObject *kwargs)
{
    static char *words[] = {"",           "create", "budget", "stacks",  "version",     "executable",
                            "argv",       "mode",   "ring",   "include", "exclude",     "min_duration",
                            "min_size",   "redact", "memory", "run_of",  "global_rank", "local_rank",
                            "world_size", "node",   "job",    "step",    "job_run",     NULL};
    int create = 0, stacks = 0;
    unsigned int mode = 0;
    unsigned long long budget = 0, ring = 0, min_duration = 0, min_size = 0, memory = 0;
    Py_ssize_t argv_length = 0;
    *selection = (struct pt_selection){.include = "", .exclude = ""};
    *o = (struct pt_options){.selection = selection,
                             .version = "",
                             .executable = "",
                             .argv = "",
                             .redact = "",
                             .run_of = "",
                             .node = "",
                             .job = "",
                             .step = "",
                             .job_run = ""};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "y|$pKisyy#IKyyKKyKyIIIssss", words, &o->path, &create, &budget,
                                     &stacks, &o->version, &o->executable, &o->argv, &argv_length, &mode, &ring,
                                     &selection->include, &selection->exclude, &min_duration, &min_size, &o->redact,
                                     &memory, &o->run_of, &o->global_rank, &o->local_rank, &o->world_size, &o->node,
                                     &o->job, &o->step, &o->job_run))
        return false;
    selection->min_duration = min_duration;
    selection->min_size = min_size;
    o->create = create;
    o->budget = budget;
    o->stacks = (uint32_t)stacks;
    o->argv_length = (uint32_t)argv_length;
    o->mode = mode;
    o->ring = ring;
    o->memory = memory;
    return true;
}

static PyObject *begin(PyObject *args, PyObject *kwargs, int (*begins)(const struct pt_options *))
{
    struct pt_options options;
    struct pt_selection selection;
    if (!parse_options(&options, &selection, args, kwargs))
        return NULL;
    const char *why_no_stacks = pt_frames_unsupported();
    if (why_no_stacks && options.stacks != PT_STACKS_OFF)
        options.stacks = PT_STACKS_NONE;
    bool walk = options.stacks == PT_STACKS_FULL || options.stacks == PT_STACKS_SITE;
    pt_frames_set_depth(options.stacks == PT_STACKS_SITE ? 8 : 0);
    pt.stack_function = walk ? pt_frames_stack_no_gil : NULL;
    int error = begins(&options);
    if (error)
        return raise_error(error, options.path);
    if (why_no_stacks && pt.process_id)
        strncpy(pt.process->note, why_no_stacks, sizeof pt.process->note - 1);
    if (walk)
        pt_frames_tell_layout();
    return PyBool_FromLong(options.create || pt_is_owner());
}

/* start(path, **options) -> bool: whether this process owns the run */
PyObject *pt_module_start(PyObject *module, PyObject *args, PyObject *kwargs)
{
    (void)module;
    return begin(args, kwargs, pt_start);
}

/* prepare(path, **options) -> True: makes the log, for the program that this process is about to become */
PyObject *pt_module_prepare(PyObject *module, PyObject *args, PyObject *kwargs)
{
    (void)module;
    return begin(args, kwargs, pt_prepare);
}

/* store_settings(settings) -> bool: stores them in the log for processes of the run that ignore their environment;
 * NUL-separated.  False: there was no room. */
PyObject *pt_module_store_settings(PyObject *module, PyObject *settings)
{
    (void)module;
    char *bytes;
    Py_ssize_t length;
    if (PyBytes_AsStringAndSize(settings, &bytes, &length) < 0)
        return NULL;
    return PyBool_FromLong(pt_settings_store(bytes, (size_t)length));
}

/* ---- while tracing ---------------------------------------------------------------------- */

/* stop(to_pack=False): restores every slot.  to_pack: leaves the log uncut, for the caller to pack. */
PyObject *pt_module_stop(PyObject *module, PyObject *args)
{
    (void)module;
    int to_pack = 0;
    if (!PyArg_ParseTuple(args, "|p", &to_pack))
        return NULL;
    if (to_pack)
        pt_stop_to_pack();
    else
        pt_stop();
    Py_RETURN_NONE;
}

/* finish_with([executable, argument, ...], quiet, stub): the command to run at the end of the run, and the path of the
 * program that this process becomes for that.  The copy of them lives as long as the process. */
PyObject *pt_module_finish_with(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *list;
    int quiet;
    const char *stub;
    if (!PyArg_ParseTuple(args, "O!py", &PyList_Type, &list, &quiet, &stub))
        return NULL;
    Py_ssize_t n = PyList_GET_SIZE(list);
    char **room = PyMem_RawCalloc(PT_STUB_WORDS + (size_t)n + 1, sizeof *room), **argv = room + PT_STUB_WORDS;
    if (!room)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++) {
        char *bytes;
        if (PyBytes_AsStringAndSize(PyList_GET_ITEM(list, i), &bytes, NULL) < 0 || !(argv[i] = strdup(bytes))) {
            PyMem_RawFree(room);
            return PyErr_Occurred() ? NULL : PyErr_NoMemory();
        }
    }
    if (!(stub = strdup(stub)))
        return PyErr_NoMemory();
    pt_finish_with((const char *const *)argv, quiet, stub);
    Py_RETURN_NONE;
}

/* start_sampler(hz, period, program, late): starts a process beside the run.  It looks at the run's threads hz times a
 * second, and at the system every `period` ns; 0 switches either off.  program: the path of the sampler's executable;
 * late: whether the traced program is running already. */
PyObject *pt_module_start_sampler(PyObject *module, PyObject *args)
{
    (void)module;
    unsigned int hz;
    unsigned long long period;
    const char *program;
    int late;
    if (!PyArg_ParseTuple(args, "IKyp", &hz, &period, &program, &late))
        return NULL;
    pt_sampler_start(program, (struct pt_sampling){.hz = hz, .system_period = period}, late);
    Py_RETURN_NONE;
}

/* The bytes of a text that may have any characters: new reference. */
static PyObject *encoded(PyObject *text)
{
    return PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace");
}

/* note(text): adds to what the process table says about this process, such as why something is off */
PyObject *pt_module_note(PyObject *module, PyObject *text)
{
    (void)module;
    PyObject *bytes = encoded(text);
    if (!bytes)
        return NULL;
    const char *word = PyBytes_AS_STRING(bytes);
    if (!(pt.gate & PT_GATE_OFF))
        pt_note(&word, 1);
    Py_DECREF(bytes);
    Py_RETURN_NONE;
}

/* say(text): one line on stderr; where stderr is another file than at the start, as note() */
PyObject *pt_module_say(PyObject *module, PyObject *text)
{
    (void)module;
    PyObject *bytes = encoded(text);
    if (!bytes)
        return NULL;
    const char *word = PyBytes_AS_STRING(bytes);
    pt_say(&word, 1);
    Py_DECREF(bytes);
    Py_RETURN_NONE;
}

/* name_process(kind, name): what the process table calls this process */
PyObject *pt_module_name_process(PyObject *module, PyObject *args)
{
    (void)module;
    const char *kind;
    PyObject *name;
    if (!PyArg_ParseTuple(args, "sU", &kind, &name))
        return NULL;
    PyObject *bytes = encoded(name);
    if (!bytes)
        return NULL;
    pt_process_name(kind, PyBytes_AS_STRING(bytes));
    Py_DECREF(bytes);
    Py_RETURN_NONE;
}

/* enter_found(pid, ppid, start_time, executable, argv): a process that does not trace itself; argv: NUL-separated */
PyObject *pt_module_enter_found(PyObject *module, PyObject *args)
{
    (void)module;
    unsigned int pid, ppid;
    unsigned long long start_time;
    const char *executable, *argv;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(args, "IIKyy#", &pid, &ppid, &start_time, &executable, &argv, &length))
        return NULL;
    pt_process_found(pid, ppid, start_time, executable, argv, (uint32_t)length);
    Py_RETURN_NONE;
}

/* set_variable(name[, value]): sets or removes a variable of the process, as os.putenv and os.unsetenv do, but without
 * their audit events, which a program may refuse. */
PyObject *pt_module_set_variable(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name, *value = NULL;
    if (!PyArg_ParseTuple(args, "y|y", &name, &value))
        return NULL;
    if ((value ? setenv(name, value, 1) : unsetenv(name)) != 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

/* set_program(packages): names of the installed packages that are this process's program, separated by commas */
PyObject *pt_module_set_program(PyObject *module, PyObject *packages)
{
    (void)module;
    PyObject *bytes = encoded(packages);
    if (!bytes)
        return NULL;
    pt_process_program(PyBytes_AS_STRING(bytes));
    Py_DECREF(bytes);
    Py_RETURN_NONE;
}

/* asked_from(stack): this process was forked by a server, for the program that was in this stack */
PyObject *pt_module_asked_from(PyObject *module, PyObject *stack)
{
    (void)module;
    unsigned long id = PyLong_AsUnsignedLong(stack);
    if (PyErr_Occurred())
        return NULL;
    if (!(pt.gate & PT_GATE_OFF) && pt.process_id)
        pt.process->asked_from = (uint32_t)id;
    Py_RETURN_NONE;
}

/* pause(on): while on, nothing of this process is recorded */
PyObject *pt_module_pause(PyObject *module, PyObject *on)
{
    (void)module;
    int yes = PyObject_IsTrue(on);
    if (yes < 0)
        return NULL;
    pt_pause(yes);
    Py_RETURN_NONE;
}

/* set_mode(number): enum pt_mode, for this process */
PyObject *pt_module_set_mode(PyObject *module, PyObject *number)
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

/* dump(path): writes a copy of the log as it is now */
PyObject *pt_module_dump(PyObject *module, PyObject *path)
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

/* dump_on_signal(number): dumps at that signal; 0: at none any more */
PyObject *pt_module_dump_on_signal(PyObject *module, PyObject *number)
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
