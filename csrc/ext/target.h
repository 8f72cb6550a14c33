/* A watched function, and what is asked about a call of it: between watched.c,
 * which calls it, asking.c, which calls code of ours, and about.c, which finds
 * the call's path and bytes. */
#ifndef PYIO_TRACE_TARGET_H
#define PYIO_TRACE_TARGET_H

#include <Python.h>

#include "context.h"
#include "core.h"
#include "details.h"

/* What a call's bytes are: MOVED in capture/instrument.py too. */
enum pt_moved { PT_MOVED_NONE, PT_MOVED_RESULT, PT_MOVED_LENGTH, PT_MOVED_NBYTES, PT_MOVED_ASKED };

struct pt_target {
    const void *key;          /* what it is found by: the function, or its definition in C */
    PyObject *function;       /* Owned: for good, unless another of the same definition takes its place */
    struct pt_builtin *builtin; /* NULL: it has a vectorcall of its own */
    vectorcallfunc *slot;     /* where that is */
    struct pt_original original;
    PyTypeObject *type;       /* Borrowed: what it was; they are static or as old as the function */
    bool by_attribute; /* of a property, which has a shortcut of its own */
    bool retyped;
    PyObject *name;           /* Owned */
    uint32_t name_id, named_in; /* its string in the log, and in which (pt.epoch) */
    unsigned op;              /* PT_OP_SPAN_* */
    Py_ssize_t path_index;    /* of the argument that has the path; -1: none */
    PyObject *path_keyword;   /* Owned, NULL: by position only */
    PyObject *path;           /* Owned, or NULL: path(*args, **kwargs) */
    PyObject *details;        /* Owned, or NULL: details(*args, **kwargs) -> dict */
    PyObject *after;          /* Owned, or NULL: after(result, *args, **kwargs) -> dict */
    PyObject *bytes;          /* Owned, or NULL: bytes(result, *args, **kwargs) -> int */
    enum pt_moved moved;
    enum pt_hand_over hands_over;
    PyObject *steps;          /* Owned, or NULL: name of the steps of the iterator that it returns */
    uint32_t faults; /* of ours, in this call */
};

/* What code of ours has raised, or a signal's handler in it. */
struct pt_raised {
    PyObject *type, *value, *trace; /* Owned */
    bool theirs;                    /* a handler: it is the program's, and goes on */
};

/* ---- watched.c ------------------------------------------------------------------------- */

struct pt_target *pt_target_of(const void *key); /* NULL: none */
/* A call, as its instrument wants it: callable is what pt_call_original is to call. */
PyObject *pt_watched_call(struct pt_target *g, const struct pt_original *original, PyObject *callable, PyObject *const *args,
                          size_t flagged, PyObject *names);

/* ---- asking.c -------------------------------------------------------------------------- */

/* Questions under way on this thread: what they call is not watched. */
extern __thread int pt_asking;

/* Takes what is set just now.  The first fault before a call is held until after it; what is the program's comes before
 * any fault, and after the call there is nothing to hold it for. */
void pt_hold(struct pt_target *g, struct pt_raised *held, bool before);
/* ... where a fault is for the call itself to say: it is held only if it is the program's. */
void pt_hold_theirs(struct pt_raised *held);
/* Sets it again, for the program. */
PyObject *pt_raise_theirs(struct pt_raised *held);
/* Of what was asked before the call.  It takes the call's own arguments, and as deep in the stack as the call is: where
 * those are wrong, or there is no further down, it raises what the call raises next, and neither is our fault. */
void pt_fault_unless_theirs(struct pt_target *g, struct pt_raised *r);
/* Code of ours, with the call's arguments and perhaps its result before them: neither traced nor
 * profiled, and what it calls is not watched, but for the spans of those that mark one's ends.  System
 * calls that it should cause (HDF5 reads what it is asked about) are in the log all the same.  New
 * reference; NULL: it raised, and that is seen to, or held. */
PyObject *pt_ask(struct pt_target *g, struct pt_thread *t, PyObject *function, PyObject *result, struct pt_raised *held,
                 PyObject *const *args, size_t flagged, PyObject *names);

/* ---- about.c --------------------------------------------------------------------------- */

#define PT_LEFT_OUT_PATH UINT32_MAX /* nothing is to be recorded of the call */

int pt_about_ready(void); /* 0, or -1 with an exception */
/* The string of its path; 0: it has none.  d: details that come with it. */
uint32_t pt_path_asked(struct pt_target *g, struct pt_thread *t, struct pt_details *d, struct pt_raised *held,
                       PyObject *const *args, size_t flagged, PyObject *names);
/* Bytes; -1: none that are known. */
int64_t pt_moved_by(struct pt_target *g, struct pt_thread *t, PyObject *result, struct pt_raised *late, PyObject *const *args,
                    size_t flagged, PyObject *names);

#endif
