/* The sampler: a process beside the run that looks at its threads from outside (main.c).
 *
 * All that it reads of the log and of processes is untrusted.  It copies what it uses, checks that once, and writes to
 * no process: only samples, strings, stacks and code objects go into the log. */
#ifndef PYIO_TRACE_SAMPLER_H
#define PYIO_TRACE_SAMPLER_H

#include "base/state.h"

#include <stddef.h>

#define STATE_ROOM 512u           /* of a thread state, as much as is read */
#define FRAME_ROOM 256u           /* of a frame, without its variables */
#define CODE_ROOM 512u            /* of a code object, without its instructions */
#define OBJECT_ROOM 128u          /* of a str or bytes object, without its content */
#define DATA_ROOM (64u << 10)     /* of the newest part of a thread's data stack, which has most of its frames */
#define PARTS_MOST 4u             /* of a process's memory, that one call reads */
#define DEEPEST 128u              /* as csrc/ext/frames has it */
#define THREADS_MOST 1024u        /* of a process */
#define PROCESSES_MOST 1024u      /* at a time */
#define LONGEST_RUN 1000000000ull /* ns */

/* A thread, and the run of equal samples that is open. */
struct thread {
    uint32_t tid;
    int schedstat, syscall; /* descriptors; -1: none */
    uint64_t cpu, delay, slices;
    uint64_t cpu_now, delay_now, slices_now; /* of this round */
    bool known, seen;
    bool late;                  /* it waited for a processor when it last ran */
    uint64_t state_at;          /* address of its thread state */
    uint64_t frame_at, data_at; /* last time: of its _PyCFrame, of the newest part of its data stack ... */
    uint32_t data_size;         /* ... and how much of that to read */
    uint32_t stack;             /* id */
    uint8_t state, flags;       /* enum pt_sample_state, enum pt_sample_flag */
    struct pt_sample *run;      /* in the log; NULL: none is open */
    uint32_t run_stack;
    uint8_t run_state, run_flags;
    uint64_t run_ticks;          /* its begin */
    uint64_t run_begin, run_end; /* ns */
};

struct process {
    uint32_t id; /* of its entry */
    const struct pt_process *entry;
    int pid, pidfd;
    uint64_t start_time;
    unsigned depth;          /* how many frames of a stack it wants; 0: none */
    struct pt_layout layout; /* version 0: not known yet */
    int64_t since;           /* ns: when its entry was found */
    bool refused, gone;      /* refused: its memory may not be read */
    uint64_t gil;            /* address; 0: not known */
    uint64_t listed;         /* refused: the round in which its threads were listed */
    struct thread *threads;
    unsigned count, room;
};

/* ---- log.c */
bool sampler_open_log(int fd);

/* ---- processes.c */
extern struct process *sampler_processes[PROCESSES_MOST];
extern unsigned sampler_process_count;
void sampler_update_processes(void);
bool sampler_expects_another(void);
bool sampler_is_readable(struct process *p); /* it runs, and its layout is known, or it is refused */
void sampler_refuse(struct process *p, int error);
int sampler_reason(const struct process *p, int error);
void sampler_note_unseen(void); /* a process or thread for which there is no room */

/* ---- threads.c */
struct moment {
    uint64_t from, now; /* ns: of the round before, of this one */
    uint64_t from_ticks, now_ticks;
    uint64_t round;
};
void sampler_look_at(struct process *p, const struct moment *m);
void sampler_forget_threads(struct process *p);

/* ---- memory.c */
extern int sampler_read_error; /* of the last read that failed */
bool sampler_read(const struct process *p, uint64_t from, void *to, size_t size);
struct part {
    uint64_t from;
    void *to;
    size_t size;
};
bool sampler_read_parts(const struct process *p, const struct part *parts, unsigned count);
uint64_t sampler_read_word(const struct process *p, uint64_t from);
uint32_t sampler_read_string(const struct process *p, uint64_t at); /* its id in the log; 0: unreadable */
static inline uint64_t word_in(const void *bytes, unsigned offset)
{
    uint64_t word;
    __builtin_memcpy(&word, (const char *)bytes + offset, sizeof word);
    return word;
}
static inline uint32_t half_in(const void *bytes, unsigned offset)
{
    uint32_t half;
    __builtin_memcpy(&half, (const char *)bytes + offset, sizeof half);
    return half;
}

/* ---- code.c */
struct code {
    uint32_t process; /* id of its entry; 0: a free place */
    uint64_t at, file_at, name_at, table_at;
    uint64_t checked; /* ns */
    uint32_t id;      /* in the log; 0: a frame that no stack has */
    uint32_t first_line, flags;
    uint32_t size;        /* of its line table */
    unsigned char *table; /* Owned */
};
struct code *sampler_code(const struct process *p, uint64_t at, uint64_t now); /* NULL: none is there */
int64_t sampler_line(const struct code *c, int64_t instruction);               /* -1: beyond its end */

/* ---- stack.c */
struct view { /* a thread state and its frames, read at one moment */
    uint64_t at;
    char state[STATE_ROOM];
    uint64_t frame_at, frame; /* the innermost; before 3.13: where its address was read */
    uint64_t frame_after;     /* the innermost after data was read; 0: not read */
    uint64_t data_at;
    size_t data_size; /* 0: not read */
    char data[DATA_ROOM];
};
bool sampler_take_view(const struct process *p, const struct thread *t, uint64_t at, struct view *v);
/* The id of the stack; adds to flags what is missing of it. */
uint32_t sampler_stack(const struct process *p, struct thread *t, struct view *v, uint64_t now, uint8_t *flags);

/* ---- runs.c */
extern bool sampler_log_is_full; /* new stacks would take the room that is kept for other things */
void sampler_add(const struct process *p, struct thread *t, const struct moment *m, uint64_t cpu, uint64_t delay);

/* ---- system.c */
/* period: ns, as asked for.  Returns when the next look is due. */
uint64_t sampler_look_at_system(const struct moment *m, uint64_t period);

#endif
