/* Calling code of ours in the middle of the program: what instruments ask about
 * a call.  It may fail, and costs a warning; a signal's handler may run in it, and
 * what that raises is the program's. */
#include "target.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static uint32_t first_fault; /* said once a process */

/* capture/faults.py says, and what of the traceback the program is to see. */
static bool is_theirs(struct pt_raised *r)
{
    bool is = !PyErr_GivenExceptionMatches(r->type, PyExc_Exception);
    PyObject *module = PyImport_ImportModule("pyio_trace.capture.faults");
    PyObject *answer = module ? PyObject_CallMethod(module, "the_programs", "OOO", r->type, r->value, r->trace ? r->trace : Py_None) : NULL;
    if (answer && PyTuple_CheckExact(answer)) {
        PyObject *trace = PyTuple_GET_ITEM(answer, 0);
        Py_XSETREF(r->trace, trace == Py_None ? NULL : Py_NewRef(trace));
        PyException_SetTraceback(r->value, trace);
        is = true;
    }
    PyErr_Clear();
    Py_XDECREF(answer);
    Py_XDECREF(module);
    return is;
}

static void forget(struct pt_raised *r)
{
    Py_CLEAR(r->type);
    Py_CLEAR(r->value);
    Py_CLEAR(r->trace);
}

/* A fault of ours: the first of a process is said, all are counted, none goes further.  Takes what was raised. */
static void fault(struct pt_target *g, struct pt_raised *r)
{
    PyObject *type = r->type, *value = r->value;
    g->faults++;
    if (!(pt.gate & PT_GATE_OFF))
        __atomic_fetch_add(&pt.header->fault_count, 1, __ATOMIC_RELAXED);
    if (!first_fault++) {
        PyObject *text = PyObject_Str(value ? value : Py_None);
        const char *said = text ? PyUnicode_AsUTF8(text) : NULL;
        const char *name = PyUnicode_AsUTF8(g->name);
        char line[400];
        int n = snprintf(line, sizeof line, "pyio-trace: details of %s are missing: %s: %s (said once)\n", name ? name : "?",
                         type ? ((PyTypeObject *)type)->tp_name : "?", said ? said : "?");
        if (n > 0 && write(2, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1) < 0) {
            /* stderr is closed: nobody to tell */
        }
        Py_XDECREF(text);
        PyErr_Clear();
    }
    forget(r);
}

/* What is raised, taken away; false: nothing is. */
static bool take(struct pt_raised *now)
{
    *now = (struct pt_raised){NULL, NULL, NULL, false};
    PyErr_Fetch(&now->type, &now->value, &now->trace);
    if (!now->type)
        return false;
    PyErr_NormalizeException(&now->type, &now->value, &now->trace);
    now->theirs = is_theirs(now);
    return true;
}

void pt_hold(struct pt_target *g, struct pt_raised *held, bool before)
{
    struct pt_raised now;
    if (!take(&now))
        return;
    if (now.theirs ? !held->theirs : before && !held->type) {
        if (held->type)
            fault(g, held);
        *held = now;
    } else if (now.theirs) {
        forget(&now);
    } else {
        fault(g, &now);
    }
}

void pt_hold_theirs(struct pt_raised *held)
{
    struct pt_raised now;
    if (!take(&now))
        return;
    if (now.theirs && !held->type)
        *held = now;
    else
        forget(&now);
}

PyObject *pt_raise_theirs(struct pt_raised *held)
{
    PyErr_Restore(held->type, held->value, held->trace);
    return NULL;
}

void pt_fault_unless_theirs(struct pt_target *g, struct pt_raised *r)
{
    PyObject *const shared[][2] = {
        {PyExc_TypeError, PyExc_TypeError},
        {PyExc_TypeError, PyExc_AttributeError}, /* an argument of a wrong type has not what it is asked for */
        {PyExc_RecursionError, PyExc_RecursionError},
    };
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    bool likewise = false;
    for (size_t i = 0; type && i < sizeof shared / sizeof *shared; i++)
        likewise |= PyErr_GivenExceptionMatches(type, shared[i][0]) && PyErr_GivenExceptionMatches(r->type, shared[i][1]);
    if (likewise)
        forget(r);
    else
        fault(g, r);
    PyErr_Restore(type, value, trace);
}

__thread int pt_asking;

/* A question is asked one level deeper than the call: where that is as deep as the program may go, it has this much more. */
#define HEADROOM 50

static void make_room(PyThreadState *state, int levels)
{
#if PY_VERSION_HEX < 0x030c0000
    state->recursion_remaining += levels;
#else
    state->py_recursion_remaining += levels;
#if PY_VERSION_HEX < 0x030e0000 /* since then it goes by the stack's addresses */
    state->c_recursion_remaining += levels;
#endif
#endif
}

PyObject *pt_ask(struct pt_target *g, struct pt_thread *t, PyObject *function, PyObject *result, struct pt_raised *held,
                     PyObject *const *args, size_t flagged, PyObject *names)
{
    Py_ssize_t n = PyVectorcall_NARGS(flagged), all = n + (names ? PyTuple_GET_SIZE(names) : 0);
    PyObject *few[16], **shifted = NULL, *answer = NULL;
    if (result) {
        shifted = all + 1 <= 16 ? few : PyMem_Malloc((size_t)(all + 1) * sizeof *shifted);
        if (!shifted)
            return NULL;
        shifted[0] = result;
        memcpy(shifted + 1, args, (size_t)all * sizeof *shifted);
        args = shifted;
        n++;
    }
    PyThreadState *state = PyThreadState_Get();
    Py_INCREF(function); /* it may be let go meanwhile */
    bool quiet = g->hands_over != PT_MARKS;
    pt_asking += quiet;
    PyThreadState_EnterTracing(state);
    make_room(state, HEADROOM);
    answer = PyObject_Vectorcall(function, args, (size_t)n, names);
    if (!answer)
        pt_hold(g, held, !result);
    make_room(state, -HEADROOM);
    PyThreadState_LeaveTracing(state);
    pt_asking -= quiet;
    Py_DECREF(function);
    if (shifted && shifted != few)
        PyMem_Free(shifted);
    return answer;
}
