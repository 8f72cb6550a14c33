/* The options that tracing starts with. */
#ifndef PYIO_TRACE_OPTIONS_H
#define PYIO_TRACE_OPTIONS_H

#include "base/compiler.h"

struct pt_options {
    const char *path; /* of the live log, absolute */
    uint64_t budget;
    uint32_t stacks;     /* enum pt_stack_state */
    bool create;         /* false: join the run at path */
    char const *version; /* "3.11.7" */
    char const *executable;
    const char *argv; /* NUL-separated */
    uint32_t argv_length;
    uint32_t mode;                        /* enum pt_mode */
    uint64_t ring;                        /* size of a ring in bytes */
    const struct pt_selection *selection; /* NULL: the defaults */
    /* create: the log of this log's run, if it cannot be joined; NULL or empty: a new run */
    const char *run_of;
    const char *redact;                           /* words of --redact; NULL: none */
    uint64_t memory;                              /* bytes for the tables of names; 0: the default */
    uint32_t global_rank, local_rank, world_size; /* as in struct pt_process */
    const char *node, *job, *step, *job_run;      /* likewise; NULL or empty: none */
};

/* What is recorded and what is only counted (state/filter.c), in the words of --include and --exclude. */
struct pt_selection {
    const char *include; /* comma-separated; NULL or empty: everything but the defaults */
    const char *exclude;
    uint64_t min_duration; /* ns */
    uint64_t min_size;     /* bytes; for calls that move data */
};

#endif
