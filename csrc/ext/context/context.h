/* The context of a thread's work: the innermost open span, and the stacks of those who submitted the work.  It goes
 * with the work to other threads, and from step to step of an asyncio task. */
#ifndef PYIO_TRACE_CONTEXT_H
#define PYIO_TRACE_CONTEXT_H

#include <Python.h>

#include "core.h"

/* The number of the run that it was made for. */
extern PT_INNER struct pt_run {
    uint32_t number; /* 0: not made yet */
    uint32_t epoch;  /* pt.epoch of that run */
} pt_run;
uint32_t pt_run_number_slow(void);
/* Identifies the current run by the path of its log.  A forked child has its parent's number. */
static inline uint32_t pt_run_number(void)
{
    bool current = __atomic_load_n(&pt_run.epoch, __ATOMIC_ACQUIRE) == __atomic_load_n(&pt.epoch, __ATOMIC_RELAXED);
    uint32_t number = __atomic_load_n(&pt_run.number, __ATOMIC_RELAXED);
    return PT_LIKELY(current && number) ? number : pt_run_number_slow();
}

/* ---- handing over to other work ---------------------------------------------------------- */

/* What goes with a piece of work.  It may outlive the span, the submitter and the run. */
struct pt_context {
    uint32_t run;
    uint32_t span;
    uint32_t link;   /* enum pt_link, of that span */
    uint32_t thread; /* pt_thread.number of the thread that made this */
    bool in_span;    /* the work runs in `span` (0: in no span); false: in the span of the thread that runs it */
    struct pt_submitters from;
};

/* Captures this thread's context for work that it submits here.  Returns a new reference to a bytes object; NULL, with
 * no exception set, if there is nothing to hand over. */
PyObject *pt_context_capture(struct pt_thread *t);
/* Reads what pt_context_capture() returned.  Returns false if `captured` is something else, or of another run. */
bool pt_context_read(PyObject *captured, struct pt_context *context);
/* The thread goes on in this context. */
void pt_context_apply(struct pt_thread *t, const struct pt_context *context);

/* ---- saving and restoring a thread's own -------------------------------------------------- */

struct pt_saved_context {
    uint32_t run, parent, link, handed;
    bool pool_work;
    struct pt_submitters from;
};
static inline struct pt_saved_context pt_context_save(const struct pt_thread *t)
{
    return (struct pt_saved_context){pt_run_number(), t->parent, t->link, t->handed, t->pool_work, t->from};
}
/* A context that was saved in another run restores to no span and no submitters. */
void pt_context_restore(struct pt_thread *t, const struct pt_saved_context *saved);

/* ---- tasks: a context variable keeps their span between steps ------------------------------ */

/* Makes the context variable.  Returns false if that fails; no exception is set. */
bool pt_context_variable_ready(void);
/* Reads the variable in `entered`, a contextvars.Context.  Returns false if it was never set there. */
bool pt_context_variable_get(PyObject *entered, struct pt_context *context);
/* Stores the thread's context into `entered`. */
void pt_context_variable_store(PyObject *entered, struct pt_thread *t);
/* Sets the variable in the current context to `captured`.  Returns the token to reset it by; NULL if that fails. */
PyObject *pt_context_variable_set(PyObject *captured);
/* Undoes pt_context_variable_set().  Takes the reference to the token, and keeps the exception that is set. */
void pt_context_variable_reset(PyObject *token);

/* Whether the variable follows outside handles too: where greenlets take copies of contexts (watch/greenlets.c). */
extern PT_INNER bool pt_context_always;

/* Counts the event-loop handles that run on this thread; begin and end come in pairs. */
void pt_context_handle_begins(void);
void pt_context_handle_ends(void);
/* Applies the current context's variable, if it was ever set; else the handle runs in the span of its loop.  A task that
 * takes its first step within a handle (an eager one) goes on in a span that its maker has opened in that of the
 * variable. */
void pt_context_apply_current(struct pt_thread *t);
/* Applies what the variable had in a context in which the thread will call a function; `stored` from
 * pt_context_variable_get().  Nothing, where the thread is in that span already, or in a work item of its submitter's. */
void pt_context_apply_stored(struct pt_thread *t, const struct pt_context *stored);
/* Call after opening or closing a span.  Within a handle, the context variable follows, so that tasks made from here on
 * inherit the new span. */
void pt_context_changed(struct pt_thread *t);

#endif
