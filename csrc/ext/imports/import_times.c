/* Time in imports, and the moment when the script begins.
 *
 * Every import of a module that is not loaded yet goes through one function of importlib, which is watched
 * (capture/instrumentation/import_hooks.py).  Imports inside others are a part of these.
 *
 * No function of Python is called just before the script's own code.  The first sign of it is the loader that Python
 * makes for a script's file; for `-c` and `-m` there is none, and the first import by the code of __main__ counts. */
#include "imports/import_times.h"

static __thread unsigned depth;
static bool script_seen; /* also in a forked child: its parent's script goes on */

void pt_script_begins(void)
{
    if (script_seen || (pt.gate & PT_GATE_OFF) || !pt.process_id)
        return;
    script_seen = true;
    pt.process->script_since = pt_ticks();
}

PyObject *pt_script_is_running(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    script_seen = true;
    Py_RETURN_NONE;
}

static bool is_by_script(void)
{
    PyObject *globals = PyEval_GetGlobals(), *modules = PyImport_GetModuleDict(); /* Borrowed */
    PyObject *script = globals && modules ? PyDict_GetItemString(modules, "__main__") : NULL;
    return script && PyModule_Check(script) && PyModule_GetDict(script) == globals;
}

void pt_import_begins(struct pt_import *import)
{
    import->outermost = depth++ == 0;
    if (!import->outermost)
        return;
    if (!script_seen && is_by_script())
        pt_script_begins();
    import->process_id = pt.gate & PT_GATE_OFF ? 0 : pt.process_id;
    import->begin = pt_ticks();
}

void pt_import_ends(const struct pt_import *import)
{
    depth--;
    if (!import->outermost || !import->process_id || pt.gate & PT_GATE_OFF || import->process_id != pt.process_id)
        return;
    __atomic_fetch_add(&pt.process->import_ticks, pt_ticks() - import->begin, __ATOMIC_RELAXED);
    __atomic_fetch_add(&pt.process->imports, 1, __ATOMIC_RELAXED);
}
