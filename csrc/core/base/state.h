/* The state of the process. */
#ifndef PYIO_TRACE_STATE_H
#define PYIO_TRACE_STATE_H

#include "base/thread.h"

/* Reasons for all threads of the process to leave the usual path. */
enum pt_process_gate { PT_GATE_OFF = 1, PT_GATE_PAUSED = 2 };

/* What becomes of an operation. */
enum pt_disposition {
    PT_RECORDED = 0,
    PT_COUNTED = 1,  /* the log is full: counted by operation only */
    PT_PROFILED = 2, /* added to the entry of its file, operation and stack */
    PT_LEFT_OUT = 3, /* left out by the user: counted by reason */
    PT_BY_SIZE = 4   /* in pt.disposition only: PT_LEFT_OUT if it asks for less than pt.min_size, else PT_RECORDED */
};

/* The part of a log that stays mapped, even when the next log has begun: chunks of this process lie there. */
struct pt_kept {
    char *base;
    uint64_t end; /* atomic, only grows */
};

struct pt_state {
    /* Fields of the usual path come first, together. */
    uint32_t gate; /* enum pt_process_gate */
    uint32_t tick_kind;
    uint32_t (*stack_function)(struct pt_thread *); /* set by the extension */
    uint64_t drop_below;                            /* ticks; shorter calls go to pt_drop_small; 0: none */
    char *base;                                     /* of the mapped log */
    uint64_t mapped;
    struct pt_kept *kept;            /* atomic */
    uint8_t disposition[PT_MAX_OPS]; /* enum pt_disposition, by operation */
    struct pt_header *header;
    struct pt_process *process;
    struct pt_counter *counters;
    uint32_t process_id;
    uint32_t pid;
    uint32_t epoch;
    uint32_t cwd; /* string id */
    uint32_t stacks;
    bool owns_run;            /* this process created the log */
    struct pt_chunk *heap;    /* atomic */
    struct pt_chunk *sums[2]; /* atomic: for entries without and with pt_profile_data */
    char path[4096];
    /* argv of the command to run at the end of the run; NULL: none.  Before it is room for PT_STUB_WORDS more. */
    const char *const *finish;
    char *const *finish_environment;
    const char *finish_stub; /* path of the stub, and which file it was at the start; NULL: there is none */
    uint64_t finish_stub_device, finish_stub_inode;
    uint64_t launcher_device, launcher_inode; /* of the launcher's socket */
    int launcher_socket;                      /* its descriptor; 0: none */
    bool finish_quiet;                        /* print nothing if it fails */
    bool preloaded;          /* started by the constructor (control/preload.c); Python may still take over */
    uint32_t left_out_kinds; /* bits of enum pt_desc_kind: kinds that are only counted */
    uint32_t mode;           /* enum pt_mode, of this process */
    uint64_t ring;           /* size of the ring in bytes */
    uint64_t min_ticks;      /* shorter calls are left out */
    uint64_t min_size;       /* bytes; smaller transfers are left out */
    /* Control values, copied once from the log's header (pt_log_read_control).  Any process that maps the log can
     * write to the header, even one that has dropped its privileges. */
    uint64_t budget;
    uint64_t run_id;
    uint32_t owner_pid;
    uint64_t owner_start;
    uint64_t log_namespace;   /* st_ino of the pid namespace that the log belongs to */
    uint64_t namespace_inode; /* of this process; 0: the log's own */
    uint32_t outer_pid;       /* if it is another: this process's number in the log's; 0: not known */
    uint64_t ring_place;      /* atomic: log/ring.c */
    uint64_t extent;          /* size of the mapping, of which `mapped` may be used */
};
extern PT_DATA struct pt_state pt __attribute__((aligned(64)));
/* The stack function returns this for calls of the import machinery, if those are left out. */
#define PT_STACK_IMPORT UINT32_MAX
#define PT_STACK_UNKNOWN (UINT32_MAX - 1) /* not asked for yet */

#endif
