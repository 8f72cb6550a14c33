/* The watched functions: what an instrument says about each, and what is needed to restore it. */
#ifndef PYIO_TRACE_TARGET_H
#define PYIO_TRACE_TARGET_H

#include <Python.h>

#include "watch/original.h"

/* Where the number of bytes that a call moved comes from.  MOVED in capture/instrumentation/instrument.py has the
 * same order. */
enum pt_bytes_source {
    PT_BYTES_NONE,    /* it moves none, or nobody knows */
    PT_BYTES_RESULT,  /* the result is the number */
    PT_BYTES_LENGTH,  /* the result is a bytes object: its length */
    PT_BYTES_NBYTES,  /* the result has an attribute nbytes */
    PT_BYTES_CALLBACK /* the instrument's callback says */
};

/* What a call of the function is to the tracer.  MARKS in capture/instrumentation/instrument.py and the constants in
 * capture/instrumentation/instrument_registry.py have the same numbers. */
enum pt_role {
    PT_ROLE_OPERATION, /* a call is a span */
    /* The others are no operations of their own. */
    PT_ROLE_STARTS_THREAD, /* runs its first argument in a new thread, in the span that is open here */
    PT_ROLE_RUNS_HANDLE,   /* self is an asyncio Handle: runs its callback in the span in which the task left off */
    PT_ROLE_MARKER,    /* a beginning or an end of something longer; its callbacks open and close spans themselves */
    PT_ROLE_SCHEDULES, /* self is an event loop, which copies the current context for the callback that it is given */
    PT_ROLE_IMPORTS,   /* imports a module that is not loaded yet */
    PT_ROLE_LOADS,     /* self is a loader, whose first argument is the name of what it will load */
    PT_ROLE_RUNS_IN_CONTEXT, /* self is a contextvars.Context, in which its first argument is called */
    PT_ROLE_SENDS_CODE,      /* pickles its first argument, a code object, without its file */
    PT_ROLE_SWITCHES,        /* self is a greenlet, which the thread goes on with */
    PT_ROLE_COUNT
};

/* What an instrument says about a function.  References are borrowed in a description that is passed to
 * pt_target_add(), and owned in a target. */
struct pt_target_description {
    PyObject *function;
    PyObject *name;                    /* a str: of the operation in the log */
    unsigned op;                       /* PT_OP_SPAN_* */
    Py_ssize_t path_index;             /* of the argument that is the path; -1: none */
    PyObject *path_keyword;            /* a str: its name; NULL: by position only */
    PyObject *path;                    /* path(*args, **kwargs), or NULL */
    PyObject *details;                 /* details(*args, **kwargs) -> dict, or NULL */
    PyObject *after;                   /* after(result, *args, **kwargs) -> dict, or NULL */
    PyObject *bytes;                   /* bytes(result, *args, **kwargs) -> int, or NULL */
    enum pt_bytes_source bytes_source; /* of the bytes moved */
    enum pt_role role;
    PyObject *step_name; /* a str: name of each step of the iterator that the call returns; NULL: steps are no spans */
    PyObject
        *only_if; /* a str: attribute of the first argument that says whether the call is worth a row; NULL: it is */
    bool is_property; /* the getter of a property, for which the interpreter has a shortcut */
};

struct pt_target {
    const void *key; /* what it is found by: the function, or the definition of a builtin one */
    struct pt_target_description description;
    struct pt_builtin *builtin;   /* Borrowed, for good; NULL: the function has a vectorcall of its own */
    vectorcallfunc *slot;         /* where that vectorcall stands */
    struct pt_original original;  /* its vectorcall as it was */
    PyTypeObject *type;           /* Borrowed: the type that it had; static, or as old as the function */
    bool retyped;                 /* it was given another type */
    uint32_t name_id, name_epoch; /* the name's string in the log, and pt.epoch of that log */
    uint32_t faults;              /* failures of the instrument's callbacks */
};

#define PT_TARGET_PLACES 2048u /* at most half of them are used */

/* NULL: the function with this key has never been watched. */
struct pt_target *pt_target_find(const void *key);
/* Describes the target of that key; adds it if there is none. Returns NULL with an exception set if there is no
 * memory, without one if there are too many targets. */
struct pt_target *pt_target_add(const void *key, const struct pt_target_description *description);
/* Targets by place; NULL: the place is empty. */
struct pt_target *pt_target_at(unsigned place);
/* The string of its name in the current log. */
uint32_t pt_target_name_id(struct pt_target *g);

#endif
