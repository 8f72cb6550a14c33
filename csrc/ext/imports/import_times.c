/* Time in imports, and the moment when the script begins.
 *
 * Every import of a module that is not loaded yet goes through one function of importlib, which is watched
 * (capture/instrumentation/import_hooks.py).  Imports inside others are a part of these.
 *
 * The time of a package, the first part of a module's name, is that of its modules without the other packages that they
 * import, so that the times of packages add up.  What takes about a millisecond or more at once is noted in the log.  The
 * imports under way on a thread stand in a table by depth. Pointers to their stack frames would not do: greenlets move stacks.
 *
 * Python calls no function just before the script's own code, so its beginning is the first sign of it: for a script's
 * file, that Python makes a loader for it; for `-c` and `-m`, the first import by the code of __main__.  Code of `-c` that
 * imports nothing counts from the end of our own start, which comes shortly before it. */
#include "imports/import_times.h"

#include "base/clock.h"
#include "base/hash.h"
#include "log/chunks.h"
#include "log/intern.h"

/* The time of imports nested deeper than this counts for the deepest one within the limit. */
#define DEEPEST 32
/* At most so many packages are noted for a process, each of which took at least so long (us).  Once half of
 * the places are taken, the least time doubles with every DOUBLED_AFTER more, so that a long import that comes late still
 * finds a place. */
#define MOST_NOTED 256u
#define LEAST_US 1000u
#define DOUBLED_AFTER 16u

/* By depth, beginning with 0: the imports under way. */
static __thread struct nested {
    uint64_t package; /* hash of its name */
    uint64_t own;     /* ticks in the package so far */
} nested[DEEPEST];
static __thread unsigned depth;
static __thread uint64_t counted_until; /* ticks: all earlier time has been added to some import's `own` */
static bool script_seen;                /* also in a forked child: its parent's script goes on */
static uint32_t begins_in;              /* pid: whose script is next; a child of it goes on with it, even unseen */

static void note_begin(void)
{
    pt.process->early_import_ticks = __atomic_load_n(&pt.process->import_ticks, __ATOMIC_RELAXED) + 1;
    pt.process->script_since = pt_ticks();
}

void pt_script_begins(void)
{
    if (script_seen || (pt.gate & PT_GATE_OFF) || !pt.process_id || (begins_in && begins_in != pt.pid))
        return;
    script_seen = true;
    note_begin();
}

PyObject *pt_script_is_next(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    if (!script_seen && pt.process_id) {
        begins_in = pt.pid;
        note_begin();
    }
    Py_RETURN_NONE;
}

PyObject *pt_script_is_running(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    script_seen = true;
    if (pt.process_id)
        note_begin();
    Py_RETURN_NONE;
}

static bool is_by_script(void)
{
    PyObject *globals = PyEval_GetGlobals(), *modules = PyImport_GetModuleDict(); /* Borrowed */
    PyObject *script = globals && modules ? PyDict_GetItemString(modules, "__main__") : NULL;
    return script && PyModule_Check(script) && PyModule_GetDict(script) == globals;
}

/* Returns the length of the package's part of a module's name, 0 if there is none; sets *text.  The string
 * object owns the text.  Sets an exception if the name cannot be encoded (a lone surrogate). */
static size_t package_of(PyObject *name, const char **text)
{
    Py_ssize_t size = 0;
    *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, &size) : NULL;
    const char *dot = *text ? memchr(*text, '.', (size_t)size) : NULL;
    return *text ? (dot ? (size_t)(dot - *text) : (size_t)size) : 0;
}

/* The place of the innermost import under way. */
static struct nested *innermost(void)
{
    return &nested[depth <= DEEPEST ? depth - 1 : DEEPEST - 1];
}

static void count_until(uint64_t now)
{
    innermost()->own += now - counted_until;
    counted_until = now;
}

static void note_package(PyObject *name, uint64_t ticks)
{
    static uint32_t noted_by, noted;
    const char *text;
    size_t size = package_of(name, &text);
    if (noted_by != pt.process_id)
        noted = 0;
    noted_by = pt.process_id;
    uint64_t doubled = noted > MOST_NOTED / 2 ? (noted - MOST_NOTED / 2) / DOUBLED_AFTER : 0;
    if (!size || noted == MOST_NOTED || ticks < (LEAST_US << doubled) * pt_ticks_per_us())
        return;
    struct pt_package *o = pt_heap_alloc_slow(sizeof *o);
    if (!o)
        return;
    noted++;
    o->name = pt_string(text, size, 0);
    o->ticks = ticks;
    pt_heap_publish(o, PT_HEAP_IMPORT);
    uint32_t newest = __atomic_load_n(&pt.process->packages, __ATOMIC_RELAXED);
    do
        o->previous = newest;
    while (!__atomic_compare_exchange_n(&pt.process->packages, &newest, pt_id_of(o), false, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED));
}

void pt_import_begins(struct pt_import *import, PyObject *name)
{
    uint64_t now = pt_ticks();
    import->outermost = depth == 0;
    if (!import->outermost)
        count_until(now);
    else if (!script_seen && is_by_script())
        pt_script_begins();
    import->process_id = pt.gate & PT_GATE_OFF ? 0 : pt.process_id;
    import->begin = counted_until = now;
    depth++;
    if (depth <= DEEPEST) {
        const char *text;
        size_t size = package_of(name, &text);
        if (!size)
            PyErr_Clear();
        *innermost() = (struct nested){.package = size ? pt_hash_bytes(text, size, 0) : 0};
    }
}

void pt_import_ends(const struct pt_import *import, PyObject *name)
{
    uint64_t now = pt_ticks();
    bool records = import->process_id && !(pt.gate & PT_GATE_OFF) && import->process_id == pt.process_id;
    if (depth) {
        count_until(now);
        struct nested ended = *innermost();
        depth--;
        if (depth >= DEEPEST)
            ; /* its time is in the innermost import that has a place */
        else if (depth && innermost()->package == ended.package)
            innermost()->own += ended.own;
        else if (records && ended.package)
            note_package(name, ended.own);
    }
    if (!import->outermost || !records)
        return;
    __atomic_fetch_add(&pt.process->import_ticks, now - import->begin, __ATOMIC_RELAXED);
    __atomic_fetch_add(&pt.process->imports, 1, __ATOMIC_RELAXED);
}
