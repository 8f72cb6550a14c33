/* The capture core's inner interface: what hooks, the log writer and the
 * Python extension share.
 *
 * The core knows nothing of Python.  A hook's way through it (call.h) takes no
 * lock, no allocation and no system call on the usual path, leaves errno alone
 * and is async-signal-safe.  Functions ending in _slow are its rare
 * continuations: system calls at most (raw ones, sys.h).
 */
#ifndef PYIO_TRACE_CORE_H
#define PYIO_TRACE_CORE_H

#include "log_format.h"
#include "sys.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define PT_LIKELY(x) __builtin_expect(!!(x), 1)
#define PT_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define PT_API __attribute__((visibility("default")))
/* The core's own variables: nobody may take their place, so the core reaches
 * them without a detour through its global offset table. */
#ifdef PT_BUILDING_CORE
#define PT_DATA __attribute__((visibility("protected")))
#else
#define PT_DATA PT_API
#endif
#define PT_COLD __attribute__((noinline, cold))

enum pt_op {
#define OP(id, name, layer, klass, shape) PT_OP_##id,
#include "operations.def"
#undef OP
    PT_OP_COUNT
};

/* ---- per-thread state -------------------------------------------------- */

/* An open run of like tiny calls on a Python file object (ext/filecall.c). */
struct pt_run {
    struct pt_record *record; /* NULL: none */
    const void *object;       /* Borrowed, compared only */
    const void *site[6];      /* frames and instructions that must be the same */
    uint64_t first;           /* ticks at the first begin */
    uint64_t timed;           /* ticks at the end of the last call that was timed and had nothing beneath it */
    uint64_t opened;          /* ticks when the span of the call under way was opened */
    uint32_t parent, link;
    uint32_t usual;   /* ticks of that call: what an untimed one counts as */
    uint8_t granted;  /* calls after it that may go untimed ... */
    uint8_t untimed;  /* ... and those of them that are still to come */
    uint8_t op;
} __attribute__((aligned(64))); /* found fast: its size is a power of two */
/* An open run of like tiny calls on a stream of C or a directory (runs.c). */
struct pt_stream_run {
    struct pt_record *record; /* NULL: none */
    const void *stream;       /* Borrowed, compared only */
    uint64_t begin; /* ticks: of the record */
    uint64_t last;            /* ticks at the last end */
};
#define PT_RUNS 4
#define PT_LATEST 8
#define PT_STACKS 16

/* Reasons for a thread to leave the usual path. */
enum pt_gate_bits {
    PT_GATE_SUPPRESSED = 1,
    PT_GATE_VFORK = 2,
    PT_GATE_PENDING = 4 /* the next operation opens the span of pt_thread.pending */
};

/* Reasons for a whole process to. */
enum pt_process_gate { PT_GATE_OFF = 1, PT_GATE_PAUSED = 2 };

/* What becomes of an operation that has no record of its own. */
enum pt_apart {
    PT_RECORDED = 0,
    PT_COUNTED = 1,  /* the log is full: per operation only */
    PT_PROFILED = 2, /* added to the entry of its file, operation and stack */
    PT_LEFT_OUT = 3, /* by the user's choice: counted by reason */
    PT_BY_SIZE = 4   /* in pt.apart only: left out if it asks for less than pt.min_size */
};

struct pt_thread {
    uintptr_t next; /* address of the next free record; advanced signal-atomically */
    uintptr_t end;  /* end of the chunk; 0: none */
    uint32_t gate;  /* enum pt_gate_bits */
    uint32_t parent; /* id of the innermost open span */
    uint32_t link;   /* enum pt_link of that parent */
    uint32_t depth;  /* > 0: inside a Python file object's method */
    uint32_t tid;
    uint32_t sequence;  /* chunks claimed so far */
    uint32_t suppress;  /* nesting of suppress() */
    uint32_t forking; /* record of the fork or vfork under way */
    struct pt_process *process; /* the process its operations belong to */
    uint32_t process_id;
    uint32_t epoch;    /* pt.epoch when its chunk was claimed */
    uint32_t in_use;   /* atomic */
    bool borrowed_memory; /* a vfork child: the descriptor table is the parent's ... */
    struct pt_own_fds *own_fds; /* ... and this what it has made itself; Owned; NULL for others */
    struct pt_thread *vfork_child; /* Owned; made on the first vfork */
    bool vfork_seen; /* the child of the latest vfork has been in a hook */
    uint16_t vfork_doubts; /* hooks of this process since then, until that */
    struct pt_thread *all_next;
    struct pt_chunk *ring_chunk; /* ring: the chunk it writes to, to be given back */
    uint32_t number; /* of this state: no two live threads of a process share one */
    uint64_t stack_hash[PT_STACKS]; /* of stacks met lately, by their lowest bits */
    uint32_t stack_id[PT_STACKS];
    uint32_t call_stack; /* depth > 0: the stack that the method was called from ... */
    const void *call_site[2]; /* ... and its innermost frame and instruction; Borrowed, compared only */
    void *call_thread; /* ... and the PyThreadState that makes the call; NULL: to be asked for; Borrowed */
    struct pt_run *pending; /* of a tiny call under way that had nothing beneath it so far; NULL once its span is open */
    uint32_t sums[PT_LATEST]; /* ids of the entries it added to last, by operation; 0: none */
    struct pt_run runs[PT_RUNS];
    struct pt_stream_run streams[PT_RUNS];
};

/* Initial-exec: a hook must not enter the dynamic TLS allocator.  musl has
 * allocated all TLS when dlopen returns, so there the default model is safe; the
 * other it refuses in a library that comes by dlopen. */
#if defined(__GLIBC__)
#define PT_THREAD_LOCAL __thread __attribute__((tls_model("initial-exec")))
#else
#define PT_THREAD_LOCAL __thread
#endif
extern PT_API PT_THREAD_LOCAL struct pt_thread *pt_self;

/* ---- per-process state ------------------------------------------------- */

struct pt_options {
    const char *path;  /* of the live log, absolute */
    uint64_t budget;
    uint32_t stacks;   /* enum pt_stack_state */
    bool create;       /* false: join the run at path */
    char const *version; /* "3.11.7" */
    char const *executable;
    const char *argv;  /* NUL-separated */
    uint32_t argv_length;
    uint32_t mode;     /* enum pt_mode */
    uint64_t ring;     /* bytes of records that a ring keeps */
    const struct pt_selection *selection; /* NULL: the defaults */
};

/* What is recorded and what only counted (select.c); words as in --include and --exclude. */
struct pt_selection {
    const char *include; /* comma-separated; NULL or empty: everything but the defaults */
    const char *exclude;
    uint64_t min_duration; /* ns */
    uint64_t min_size;     /* bytes, of calls that move some */
};

struct pt_state {
    /* What the usual path looks at comes first, together. */
    uint32_t gate; /* enum pt_process_gate */
    uint32_t tick_kind;
    uint32_t (*stack_function)(struct pt_thread *); /* set by the extension */
    uint64_t drop_below; /* ticks: shorter calls are looked at by pt_dropped; 0: none are */
    char *base; /* of the mapped log */
    uint64_t mapped;
    uint8_t apart[PT_MAX_OPS]; /* enum pt_apart, by operation */
    struct pt_header *header;
    struct pt_process *process;
    struct pt_counter *counters;
    uint32_t process_id;
    uint32_t pid;
    uint32_t epoch;
    uint32_t cwd; /* string id */
    uint32_t stacks;
    bool owns_run; /* this process made the log */
    struct pt_chunk *heap; /* atomic */
    struct pt_chunk *sums[2]; /* atomic: of entries without and with pt_profile_data */
    char path[4096];
    const char *const *finish; /* argv of the command run at the end of the run; NULL: none */
    bool preloaded; /* started by the constructor (preload.c); Python may take over yet */
    uint32_t left_out_kinds; /* bits of enum pt_desc_kind that are only counted */
    uint32_t mode;           /* enum pt_mode, of this process */
    uint64_t ring;           /* bytes that a ring has */
    uint64_t min_ticks;      /* shorter calls are dropped */
    uint64_t min_size;       /* bytes: smaller transfers are dropped */
};
extern PT_DATA struct pt_state pt __attribute__((aligned(64)));
/* What the stack function answers for the import machinery's own calls, where those are left out. */
#define PT_STACK_IMPORT UINT32_MAX
#define PT_STACK_UNKNOWN (UINT32_MAX - 1) /* not asked for yet */
#ifdef PT_INTERFACE /* CMakeLists.txt: a hash of this interface */
extern PT_API const char PT_INTERFACE[];
#endif

/* ---- clock (clock.c) ---------------------------------------------------- */

static inline uint64_t pt_ticks(void)
{
#if defined(__x86_64__)
    if (PT_LIKELY(pt.tick_kind == PT_TICKS_TSC))
        return __rdtsc();
#elif defined(__aarch64__)
    if (PT_LIKELY(pt.tick_kind == PT_TICKS_CNTVCT)) {
        uint64_t v;
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(v));
        return v;
    }
#endif
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
/* Roughly: for pauses and paces, not for times. */
static inline uint64_t pt_ticks_per_us(void)
{
#if defined(__x86_64__)
    if (PT_LIKELY(pt.tick_kind == PT_TICKS_TSC))
        return 3000; /* 2 to 4 GHz */
#elif defined(__aarch64__)
    if (PT_LIKELY(pt.tick_kind == PT_TICKS_CNTVCT)) {
        uint64_t hz;
        __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(hz));
        return hz < 1000000 ? 1 : hz / 1000000;
    }
#endif
    return 1000;
}
/* A pause in a run of like tiny calls ends it, so that a timeline shows it. */
#define PT_PAUSE_US 10000u
uint32_t pt_clock_choose(void);
struct pt_clock_pair pt_clock_pair(void);
uint64_t pt_clock_ticks(uint64_t ns); /* a duration; takes a millisecond to find out */

/* The log's pages have PT_PAGE bytes everywhere; the kernel's may have 64 KiB (aarch64). */
static inline uintptr_t pt_kernel_page(void)
{
    return (uintptr_t)sysconf(_SC_PAGESIZE);
}

/* ---- log (log.c) -------------------------------------------------------- */

int pt_log_create(const char *path, uint64_t budget); /* 0 or -errno */
int pt_log_join(const char *path);                    /* 0 or -errno; -EPROTO: not our log */
void pt_log_joined(void);                             /* after a join: the process has entered itself */
void pt_log_shrink(uint64_t limit);                   /* the address space is limited from now on */
bool pt_op_moves(unsigned op);
void pt_log_finish(void);                             /* give back the unused part */
bool pt_process_others_live(void);                    /* process.c */
struct pt_chunk *pt_ring_claim_slow(struct pt_thread *t); /* NULL: every part of it is in use */
void pt_ring_release(struct pt_thread *t);
PT_API int pt_log_dump(const char *path);       /* 0 or -errno */
PT_API int pt_dump_on_signal(int signal);       /* 0: on none any more */
struct pt_chunk *pt_chunk_claim_slow(uint32_t kind, uint64_t size, uint32_t process, uint32_t tid, uint32_t sequence);
PT_API void *pt_heap_alloc_slow(uint32_t size); /* NULL: the log is full */
PT_API void pt_heap_publish(void *object, uint32_t kind);
struct pt_profile *pt_sums_alloc_slow(bool data); /* NULL: the log is full */

/* 0 for what is not in the log: a call that has no record of its own keeps one on its stack. */
static inline uint32_t pt_id_of(const void *at)
{
    uintptr_t offset = (uintptr_t)at - (uintptr_t)pt.base;
    return offset < pt.mapped ? (uint32_t)(offset >> PT_ID_SHIFT) : 0;
}
static inline void *pt_at(uint32_t id)
{
    return pt.base + ((uint64_t)id << PT_ID_SHIFT);
}

/* The string of an id that may be of an earlier log (a thread within a hook while tracing stops and starts): NULL where
 * none lies whole in the log.  length: read once, others may be writing there. */
static inline const char *pt_string_at(uint32_t id, uint32_t *length, uint32_t *base)
{
    const char *start = __atomic_load_n(&pt.base, __ATOMIC_RELAXED);
    uint64_t mapped = __atomic_load_n(&pt.mapped, __ATOMIC_RELAXED), at = (uint64_t)id << PT_ID_SHIFT;
    if (!id || at + sizeof(struct pt_string) > mapped)
        return NULL;
    const struct pt_string *s = (const struct pt_string *)(start + at);
    *length = __atomic_load_n(&s->length, __ATOMIC_RELAXED);
    *base = __atomic_load_n(&s->base, __ATOMIC_RELAXED);
    return *length <= mapped - at - sizeof *s ? (const char *)(s + 1) : NULL;
}

/* ---- its blocks (blocks.c) ------------------------------------------------ */

void pt_blocks_of(int fd);                          /* the file that is mapped */
bool pt_blocks_begin(int fd, uint64_t budget);      /* its first ones, before it is mapped; false: no room */
bool pt_blocks_reserve(char *at, uint64_t size);    /* of the mapping; false: there is no room */

/* ---- interning (intern.c) ----------------------------------------------- */

PT_API uint32_t pt_intern_find(uint64_t hash);           /* 0: not there */
PT_API void pt_intern_add(uint64_t hash, uint32_t id);
PT_API uint64_t pt_hash_bytes(const void *data, size_t length, uint64_t seed);
PT_API uint32_t pt_string(const char *bytes, size_t length, uint32_t base);
PT_API uint32_t pt_detail(const char *bytes, size_t length); /* likewise, of what seldom comes again */
struct pt_named { /* a path's string, and why operations on it are left out (enum pt_desc_kind; 0: they are not) */
    uint32_t id;
    uint32_t left_out;
};
PT_API struct pt_named pt_name(const char *path);             /* relative ones to the working directory */
struct pt_named pt_name_at(int dirfd, const char *path);
PT_API struct pt_named pt_name_opened(const char *path); /* of what is opened: the file behind /dev/stdin (reopened.c) */
struct pt_named pt_name_behind_slow(const char *path, struct pt_named name); /* likewise, of a name that is left out */
static inline uint32_t pt_path(const char *path) { return pt_name(path).id; }
static inline uint32_t pt_path_at(int dirfd, const char *path) { return pt_name_at(dirfd, path).id; }
void pt_intern_reset(void);
void pt_cwd_refresh_slow(void);

/* ---- descriptors (descriptors.c) ----------------------------------------- */

/* An entry: the descriptor's id, its kind, and whether it is left out. */
typedef uint64_t pt_fd_entry;
#define PT_FD_EXCLUDED (1ull << 63)
#define PT_FD_IDENTIFIED (1ull << 62)
#define PT_FD_GAP (1ull << 61) /* it moved while nothing was recorded: its position is to be looked up */
#define PT_FD_STALE (1ull << 60) /* a program that had it too has ended: likewise, before the next call that moves it */
static inline uint32_t pt_entry_id(pt_fd_entry e) { return (uint32_t)e; }
static inline uint32_t pt_entry_kind(pt_fd_entry e) { return (uint32_t)(e >> 32) & 0xff; }

#define PT_FD_LEAF_BITS 12
#define PT_FD_TOP_BITS 18 /* 2^30 descriptors: the kernel's own limit */
extern PT_DATA pt_fd_entry *pt_fd_leaves[1u << PT_FD_TOP_BITS];
PT_API pt_fd_entry pt_fd_resolve_slow(struct pt_thread *t, int fd);

static inline pt_fd_entry pt_fd_peek(int fd)
{
    if (PT_UNLIKELY((uint32_t)fd >= (1u << (PT_FD_LEAF_BITS + PT_FD_TOP_BITS))))
        return 0;
    pt_fd_entry *leaf = __atomic_load_n(&pt_fd_leaves[(uint32_t)fd >> PT_FD_LEAF_BITS], __ATOMIC_ACQUIRE);
    return leaf ? __atomic_load_n(&leaf[(uint32_t)fd & ((1u << PT_FD_LEAF_BITS) - 1)], __ATOMIC_ACQUIRE) : 0;
}
static inline pt_fd_entry pt_fd_get(struct pt_thread *t, int fd)
{
    pt_fd_entry e = pt_fd_peek(fd);
    return PT_LIKELY(e != 0 && !t->borrowed_memory) ? e : pt_fd_resolve_slow(t, fd);
}
void pt_fd_set(struct pt_thread *t, int fd, pt_fd_entry e);
void pt_fd_forget(struct pt_thread *t, int fd);
uint32_t pt_fd_path_slow(int fd); /* a string, from /proc; 0: not known */
void pt_fd_forget_range(struct pt_thread *t, unsigned first, unsigned last);
void pt_fd_reset(void);
uint32_t pt_fd_opened(struct pt_thread *t, int fd, uint32_t path, uint32_t flags, uint32_t record);
uint32_t pt_fd_duplicated(struct pt_thread *t, int old, int fd, uint32_t record);
struct stat;
void pt_fd_identify(int fd, const struct stat *st);
void pt_fd_identify_before_close(int fd);
void pt_mappings_reset(void); /* mappings.c */
void pt_bus_guard(void); /* hooks_bus.c: a log that is cut short is no SIGBUS for the program */
void pt_bus_release(void);
PT_API uint32_t pt_mapping_desc(const void *address); /* 0: no file is mapped there */

/* ---- selection (select.c) and what has no record of its own (apart.c, profile.c) --- */

void pt_say_path(const char *before, const char *path, const char *after); /* on stderr; async-signal-safe */
int pt_select(const struct pt_selection *selection); /* 0, or -E2BIG */
bool pt_select_op(unsigned op);
bool pt_select_includes(void); /* by path: only what matches is recorded */
PT_API bool pt_select_knows_op(const char *pattern);        /* is there an operation that op:PATTERN would match? */
PT_API bool pt_select_process(const char *name);             /* is a process of this name traced? */
uint32_t pt_select_path_slow(const char *path, size_t length, uint32_t base); /* why a path is left out; 0: it is not */
static inline pt_fd_entry pt_left_out_entry(uint32_t kind)
{
    return PT_FD_EXCLUDED | PT_FD_IDENTIFIED | (pt_fd_entry)kind << 32;
}
PT_API void pt_count_left_out(struct pt_thread *t, uint32_t kind, int64_t moved);
PT_API pt_fd_entry pt_passed_by(unsigned op, int fd);
PT_API void pt_has_passed_by(pt_fd_entry left_out);
PT_API void pt_position_gap(struct pt_thread *t, int fd);
void pt_position_gap_ended(struct pt_thread *t, int fd);
void pt_positions_stale(void);
PT_API void pt_position_found_slow(struct pt_thread *t, int fd, pt_fd_entry e);
bool pt_op_moves_position(unsigned op);
void pt_profile_unplaced(int fd);
extern bool pt_positions_followed; /* atomic: by profile.c, of any descriptor */
void pt_profile_new(int fd);
void pt_profile_shared(int fd);
void pt_profile_forget_places(void);
void pt_profile_all_shared(void);
extern bool pt_ever_forked; /* this process, or what it is a fork of */
bool pt_profiling(void); /* files are told by their paths, not by each opening of them */
PT_API void pt_switch(uint32_t mode); /* enum pt_mode */
PT_API void pt_pause(bool on);

/* ---- threads and processes (threads.c, process.c) ------------------------- */

PT_API struct pt_thread *pt_enter_slow(void);
PT_API struct pt_record *pt_claim_slow(struct pt_thread *t);
struct pt_thread *pt_thread_new_slow(void);
void pt_threads_after_fork(void);
void pt_threads_forget_chunks(void);
bool pt_process_enter(uint32_t start, uint32_t started_by, uint32_t pid, uint32_t parent, struct pt_process **process,
                      uint32_t *process_id);
void pt_process_end(struct pt_process *p, uint32_t kind, int status);
void pt_process_setup_once(void);
struct pt_thread *pt_vfork_child_slow(struct pt_thread *t, uint32_t pid);
void pt_vfork_parent_slow(struct pt_thread *t);
void pt_vfork_fd_set(struct pt_thread *t, int fd, pt_fd_entry e);
bool pt_vfork_fd_get(const struct pt_thread *t, int fd, pt_fd_entry *e);
void pt_vfork_fd_forget_range(struct pt_thread *t, unsigned first, unsigned last);

/* ---- GOT patching (got.c, objects.c) ------------------------------------------ */

struct pt_hook {
    const char *name;
    void *function;  /* ours */
    void **original; /* filled in by pt_hooks_resolve */
    void *address;   /* libc's function of that name, or what stands in for it */
    const char *through; /* the name that our function goes on to in place of the original; NULL: it calls that */
    bool is_anothers; /* the name resolves to a function of the program's: slots that are still to be bound stay */
};
extern struct pt_hook pt_hooks[];
extern const unsigned pt_hook_count;
void pt_hooks_resolve(void);
void pt_got_patch(void);
void pt_got_restore(void);
void pt_got_before_fork(void);
void pt_got_after_fork(bool child);
void pt_got_patch_new(void);
struct pt_hook *pt_hook_find(const char *name);

/* ---- control (control.c): what the extension calls -------------------------- */

PT_API int pt_start(const struct pt_options *options); /* 0 or -errno; -E2BIG: too many rules */
PT_API void pt_stop(void);
PT_API void pt_finish_with(const char *const *argv);
PT_API unsigned pt_got_snapshot(uint64_t *out, unsigned room); /* slot, value pairs; for tests and doctor */
/* The slots of this name in the object that has this address lead to ours until pt_stop.  How many there were. */
PT_API unsigned pt_got_point(const void *within, const char *name, void *ours);
PT_API const char *pt_op_name(unsigned op);
PT_API const char *pt_hook_name(unsigned i); /* NULL: there are no more */
extern const struct pt_op_row pt_operation_table[PT_MAX_OPS]; /* log.c */
#ifdef PT_BUILDING_CORE
static inline const struct pt_op_row *pt_op_row(unsigned op) { return &pt_operation_table[op]; }
#endif

#endif
