/* The capture core's inner interface: what hooks, the log writer and the
 * Python extension share.
 *
 * The core knows nothing of Python.  A hook's way through it is always
 *   pt_enter -> pt_begin_* -> the original -> pt_end_*
 * which on the usual path takes no lock, no allocation and no system call,
 * leaves errno alone and is async-signal-safe.  Functions ending in _slow are
 * its rare continuations: system calls at most (raw ones, sys.h).
 */
#ifndef PYIO_TRACE_CORE_H
#define PYIO_TRACE_CORE_H

#include "log_format.h"
#include "sys.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
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

/* An open run of like tiny calls on a Python file object (ext/fileobjects.c). */
struct pt_run {
    struct pt_record *record; /* NULL: none */
    const void *object;       /* Borrowed, compared only */
    const void *site[6];      /* frames and instructions that must be the same */
    uint64_t first;           /* ticks at the first begin */
    uint64_t last;            /* ticks at the last end */
    uint32_t parent;
    uint8_t op;
};
#define PT_RUNS 4

/* Reasons for a thread to leave the usual path. */
enum pt_gate_bits { PT_GATE_SUPPRESSED = 1, PT_GATE_VFORK = 2 };

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
    bool borrowed_memory; /* a vfork child: the descriptor table is the parent's */
    struct pt_thread *vfork_child; /* Owned; made on the first vfork */
    struct pt_thread *all_next;
    const void *readdir_stream; /* the directory stream of an open run */
    struct pt_record *readdir_record;
    uint64_t stack_hash; /* of the last stack */
    uint32_t stack_id;
    uint32_t call_stack; /* depth > 0: the stack that the method was called from ... */
    const void *call_site[2]; /* ... and its innermost frame and instruction; Borrowed, compared only */
    struct pt_run runs[PT_RUNS];
};

/* Initial-exec: a hook must not enter the dynamic TLS allocator.  musl lays
 * out all TLS at load, so there the default model is safe. */
#if defined(__GLIBC__)
#define PT_TLS __thread __attribute__((tls_model("initial-exec")))
#else
#define PT_TLS __thread
#endif
extern PT_API PT_TLS struct pt_thread *pt_self;

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
};

struct pt_state {
    uint32_t gate; /* non-zero: not tracing; first, for the usual path */
    uint32_t tick_kind;
    char *base; /* of the mapped log */
    uint64_t mapped;
    struct pt_header *header;
    struct pt_process *process;
    struct pt_counter *counters;
    uint32_t process_id;
    uint32_t pid;
    uint32_t epoch;
    uint32_t cwd; /* string id */
    uint32_t stacks;
    uint32_t (*stack_function)(struct pt_thread *); /* set by the extension */
    struct pt_chunk *heap; /* atomic */
    char path[4096];
    const char *const *finish; /* argv of the command run at the end of the run; NULL: none */
};
extern PT_DATA struct pt_state pt;

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
uint32_t pt_clock_choose(void);
struct pt_clock_pair pt_clock_pair(void);

/* ---- log (log.c) -------------------------------------------------------- */

int pt_log_create(const char *path, uint64_t budget); /* 0 or -errno */
int pt_log_join(const char *path);                    /* 0 or -errno; -EPROTO: not our log */
void pt_log_shrink(uint64_t limit);                   /* the address space is limited from now on */
void pt_log_finish(void);                             /* give back the unused part */
bool pt_process_others_live(void);                    /* process.c */
struct pt_chunk *pt_chunk_claim_slow(uint32_t kind, uint64_t size, uint32_t process, uint32_t tid, uint32_t sequence);
PT_API void *pt_heap_alloc_slow(uint32_t size); /* NULL: the log is full */
PT_API void pt_heap_publish(void *object, uint32_t kind);

static inline uint32_t pt_id_of(const void *at)
{
    return (uint32_t)(((uintptr_t)at - (uintptr_t)pt.base) >> PT_ID_SHIFT);
}
static inline void *pt_at(uint32_t id)
{
    return pt.base + ((uint64_t)id << PT_ID_SHIFT);
}

/* ---- interning (intern.c) ----------------------------------------------- */

PT_API uint32_t pt_intern_find(uint64_t hash);           /* 0: not there */
PT_API void pt_intern_add(uint64_t hash, uint32_t id);
PT_API uint64_t pt_hash_bytes(const void *data, size_t length, uint64_t seed);
PT_API uint32_t pt_string(const char *bytes, size_t length, uint32_t base);
uint32_t pt_path(const char *path);                      /* relative ones to the working directory */
uint32_t pt_path_at(int dirfd, const char *path);
void pt_intern_reset(void);
void pt_cwd_refresh_slow(void);

/* ---- descriptors (descriptors.c) ----------------------------------------- */

/* An entry: the descriptor's id, its kind, and whether it is left out. */
typedef uint64_t pt_fd_entry;
#define PT_FD_EXCLUDED (1ull << 63)
#define PT_FD_IDENTIFIED (1ull << 62)
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
    return leaf ? __atomic_load_n(&leaf[(uint32_t)fd & ((1u << PT_FD_LEAF_BITS) - 1)], __ATOMIC_RELAXED) : 0;
}
static inline pt_fd_entry pt_fd_get(struct pt_thread *t, int fd)
{
    pt_fd_entry e = pt_fd_peek(fd);
    return PT_LIKELY(e != 0) ? e : pt_fd_resolve_slow(t, fd);
}
void pt_fd_set(struct pt_thread *t, int fd, pt_fd_entry e);
void pt_fd_forget(struct pt_thread *t, int fd);
void pt_fd_forget_range(struct pt_thread *t, unsigned first, unsigned last);
void pt_fd_reset(void);
uint32_t pt_fd_opened(struct pt_thread *t, int fd, uint32_t path, uint32_t flags, uint32_t record);
uint32_t pt_fd_duplicated(struct pt_thread *t, int old, int fd, uint32_t record);
struct stat;
void pt_fd_identify(int fd, const struct stat *st);
void pt_fd_identify_before_close(int fd);
void pt_mappings_reset(void); /* hooks_map.c */
PT_API uint32_t pt_mapping_desc(const void *address); /* 0: no file is mapped there */

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

/* ---- GOT patching (got.c) -------------------------------------------------- */

struct pt_hook {
    const char *name;
    void *function;  /* ours */
    void **original; /* filled in by pt_hooks_resolve */
    void *address;   /* what the name resolves to */
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

PT_API int pt_start(const struct pt_options *options); /* 0 or -errno */
PT_API void pt_stop(void);
PT_API void pt_finish_with(const char *const *argv);
PT_API unsigned pt_got_snapshot(uint64_t *out, unsigned room); /* slot, value pairs; for tests and doctor */
PT_API const char *pt_op_name(unsigned op);

/* ---- the usual path of a hook ------------------------------------------------ */

static inline struct pt_thread *pt_enter(void)
{
    struct pt_thread *t = pt_self;
    if (PT_LIKELY(t && !(pt.gate | t->gate)))
        return t;
    return pt_enter_slow();
}

/* Fetch-and-add that a signal handler on the same thread cannot split. */
static inline uintptr_t pt_bump(uintptr_t *at, uintptr_t by)
{
#if defined(__x86_64__)
    __asm__ volatile("xaddq %0, %1" : "+r"(by), "+m"(*at) : : "memory", "cc");
    return by;
#else
    return __atomic_fetch_add(at, by, __ATOMIC_RELAXED);
#endif
}

static inline struct pt_record *pt_claim(struct pt_thread *t)
{
    uintptr_t at = pt_bump(&t->next, sizeof(struct pt_record));
    if (PT_LIKELY(at + sizeof(struct pt_record) <= t->end))
        return (struct pt_record *)at;
    return pt_claim_slow(t);
}

struct pt_call {
    struct pt_thread *thread; /* NULL: not traced */
    struct pt_record *record; /* NULL: counted only */
    uint64_t begin;
    uint64_t size;
    uint32_t process_id; /* whose record it is: a fork may come between */
    pt_fd_entry left_out;     /* not traced, because of this descriptor's kind */
    uint8_t op;
    uint8_t flags;
};

PT_API void pt_end_counted(struct pt_call *c, uint64_t ticks, int64_t moved, int error);
PT_API void pt_end_wide(struct pt_call *c, int64_t moved, int error);
void pt_count_excluded(struct pt_thread *t, pt_fd_entry e, int64_t moved);

static inline uint32_t pt_stack(struct pt_thread *t)
{
    return pt.stack_function ? pt.stack_function(t) : 0;
}

/* Writes what is known at entry.  size: PT_SIZE_NONE where there is none. */
#define PT_SIZE_NONE UINT64_MAX
static inline void pt_begin(struct pt_call *c, struct pt_thread *t, unsigned op, uint32_t desc, uint32_t aux,
                            int64_t offset, uint64_t size)
{
    c->thread = t;
    c->op = (uint8_t)op;
    c->size = size;
    c->process_id = t->process_id;
    c->flags = (uint8_t)(t->parent ? t->link << PT_LINK_SHIFT : 0);
    uint32_t stack = pt_stack(t);
    struct pt_record *r = pt_claim(t);
    c->record = r;
    if (PT_LIKELY(r != NULL)) {
        if (PT_UNLIKELY(size >= PT_NO_BYTES && size != PT_SIZE_NONE))
            c->flags |= PT_WIDE;
        r->op = (uint8_t)op;
        r->desc = desc;
        r->stack = stack;
        r->parent = t->parent;
        r->aux = aux;
        r->offset = offset;
        r->size = size >= PT_NO_BYTES ? PT_NO_BYTES : (uint32_t)size;
        r->result = PT_NO_BYTES;
        /* Further on in the chunk: its fresh line is here when its record is written. */
        __builtin_prefetch((char *)r + 8 * sizeof *r, 1);
        r->begin = c->begin = pt_ticks();
        __atomic_store_n(&r->flags, (uint8_t)(c->flags | PT_BEGUN), __ATOMIC_RELEASE);
    } else {
        c->begin = pt_ticks();
    }
}

/* Completes the record.  moved: bytes, or -1 where there are none. */
static inline void pt_end(struct pt_call *c, int64_t moved, int error)
{
    uint64_t ticks = pt_ticks() - c->begin;
    struct pt_record *r = c->record;
    if (PT_UNLIKELY(r == NULL)) {
        pt_end_counted(c, ticks, moved, error);
        return;
    }
    r->duration_lo = (uint32_t)ticks;
    r->duration_hi = ticks >> 48 ? 0xffff : (uint16_t)(ticks >> 32);
    uint8_t flags = c->flags | PT_DONE;
    if (PT_UNLIKELY(error)) {
        flags |= PT_FAILED;
        r->result = (uint32_t)error;
    } else if (PT_UNLIKELY(moved >= (int64_t)PT_NO_BYTES)) {
        flags |= PT_WIDE;
        r->result = PT_NO_BYTES;
    } else {
        r->result = (uint32_t)moved; /* -1 becomes PT_NO_BYTES */
    }
    if (PT_UNLIKELY(flags & PT_WIDE))
        pt_end_wide(c, moved, error);
    __atomic_store_n(&r->flags, flags, __ATOMIC_RELEASE);
}

#endif
