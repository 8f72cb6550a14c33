/* The state of a thread: where its next record goes, and what it is in the middle of. */
#ifndef PYIO_TRACE_THREAD_H
#define PYIO_TRACE_THREAD_H

#include "base/compiler.h"
#include "format/log_format.h"

struct pt_own_fds;

/* An open series of small calls on a Python file object.  They add to a record, or, where only sums are kept, to an
 * entry of sums. */
struct pt_series {
    struct pt_record *record; /* NULL: none */
    const void *object;       /* Borrowed, compared only */
    const void *site[6];      /* frames and instructions, which must be the same */
    uint64_t first;           /* ticks at the first begin */
    uint64_t timed;           /* ticks at the end of the last timed call that had nothing beneath it */
    uint64_t opened;          /* ticks when the span of the current call was opened */
    uint32_t parent, link;
    uint32_t desc, stack; /* ids; of all its calls */
    uint32_t sums;        /* id of the entry; 0: none */
    uint32_t epoch;       /* pt.epoch of the log that has that entry */
    uint32_t usual;       /* ticks of that call, which stand for those of an untimed one */
    uint8_t granted;      /* number of calls after it that may go untimed ... */
    uint8_t untimed;      /* ... and how many of them are left */
    uint8_t op;
} __attribute__((aligned(64))); /* a power of two in size, for fast indexing */
/* An open series of small calls on a C stream or a directory (record/coalesced.c). */
struct pt_stream_series {
    struct pt_record *record; /* NULL: none */
    const void *stream;       /* Borrowed, compared only */
    uint64_t begin;           /* ticks: of the record */
    uint64_t last;            /* ticks at the last end */
};
/* The stacks from which a thread's current work was submitted to it, latest first. */
#define PT_SUBMITTERS 4
struct pt_submitters {
    uint64_t hash; /* of all of them; 0: none */
    uint32_t count;
    uint32_t stacks[PT_SUBMITTERS]; /* ids */
};
#define PT_SERIES 4
#define PT_LATEST 64
#define PT_STACKS 16

/* Reasons for a thread to leave the usual path. */
enum pt_gate_bits {
    PT_GATE_SUPPRESSED = 1,
    PT_GATE_VFORK = 2,
    PT_GATE_PENDING = 4 /* the next operation opens the span of pt_thread.pending */
};

/* A stack that the thread has met, and its id.  `folded` is made of both: a signal handler that comes between the two
 * stores causes a miss, never a wrong id. */
struct pt_known_stack {
    uint64_t folded;
    uint32_t id;
} __attribute__((aligned(16))); /* within a cache line */

struct pt_thread {
    /* What every operation reads comes first: one cache line. */
    uintptr_t next;             /* address of the next free record; advanced signal-atomically */
    uintptr_t end;              /* end of the chunk; 0: none */
    uint32_t gate;              /* enum pt_gate_bits */
    uint32_t parent;            /* id of the innermost open span */
    uint32_t link;              /* enum pt_link of that parent */
    uint32_t depth;             /* > 0: inside a Python file object's method */
    uint32_t process_id;        /* of `process` */
    bool borrowed_memory;       /* a vfork child: the descriptor table is the parent's; see own_fds */
    uint16_t callbacks;         /* an instrument's, under way: what they call is not watched */
    void *call_thread;          /* depth > 0: the calling PyThreadState; NULL: not known yet; Borrowed */
    struct pt_submitters from;  /* who submitted its current work */
    struct pt_process *process; /* the process that its operations belong to */
    uint32_t tid;
    uint32_t sequence;             /* chunks claimed so far */
    uint32_t suppress;             /* nesting of suppress() */
    uint32_t forking;              /* record of the fork or vfork under way */
    uint32_t epoch;                /* pt.epoch when its chunk was claimed */
    uint32_t handed;               /* the span that its current work was handed, or has kept between steps */
    bool pool_work;                /* that work is a work item of a pool, which has its submitter's span */
    uint32_t in_use;               /* atomic */
    struct pt_own_fds *own_fds;    /* the descriptors that a vfork child created; Owned; NULL for others */
    struct pt_thread *vfork_child; /* Owned; created by the first vfork */
    bool vfork_seen;               /* the child of the latest vfork has been in a hook */
    uint16_t vfork_hooks;          /* hooks of this process since the vfork, until the child is seen */
    struct pt_thread *all_next;
    struct pt_chunk *ring_chunk;             /* ring: the chunk that it writes to and must release */
    uint32_t number;                         /* number of this state; no two live threads of a process have the same */
    uint32_t call_stack;                     /* depth > 0: the stack from which the method was called ... */
    const void *call_site[2];                /* ... and its innermost frame and instruction; Borrowed, compared only */
    uint64_t series_from;                    /* hash of the submitters that its open series belong to */
    struct pt_known_stack stacks[PT_STACKS]; /* recent ones, by the lowest bits of their hash */
    /* The series of the current call, while nothing has happened beneath it; NULL once its span is open. */
    struct pt_series *pending;
    uint64_t sums[PT_LATEST]; /* the entries that it added to last: id | operation << 32; 0: none */
    struct pt_series series[PT_SERIES];
    struct pt_stream_series streams[PT_SERIES];
};
_Static_assert(offsetof(struct pt_thread, from.hash) + sizeof(uint64_t) <= 64, "what every operation reads");

extern PT_API PT_THREAD_LOCAL struct pt_thread *pt_self;

#endif
