/* The log's layout: the contract between the capture core (writer, this side)
 * and pyio_trace/log/layout.py (reader, the Python side).
 *
 * A live log is one file per host and run, mapped shared by every process of
 * the run.  It starts with a fixed region (header, operation table, overflow
 * counters); after it come chunks, page-aligned, claimed with one atomic add
 * on header.next.  Everything is little-endian and written in place, so the
 * file is readable at any instant.
 *
 * An *id* is a file offset divided by 16: of a record (its operation id), or
 * of a heap object (string, stack, code, descriptor).  0 means "none".
 *
 * tests/test_layout.py compares every size and offset below with the reader's
 * dtypes; neither side is trusted by hand.
 */
#ifndef PYIO_TRACE_LOG_FORMAT_H
#define PYIO_TRACE_LOG_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define PT_LOG_MAGIC "PYIOLOG\n"
#define PT_LOG_VERSION 2u
#define PT_PAGE 4096u
#define PT_ID_SHIFT 4 /* id = offset >> 4 */
#define PT_MAX_OPS 256u

#define PT_HEADER_SIZE 4096u
#define PT_OPTABLE_OFFSET 4096u                      /* PT_MAX_OPS * 32 bytes */
#define PT_OVERFLOW_OFFSET (PT_OPTABLE_OFFSET + 8192u) /* PT_MAX_OPS * 32 bytes */
#define PT_FIRST_CHUNK (PT_OVERFLOW_OFFSET + 8192u)  /* 20480 */

/* A moment on three clocks.  ticks is what records hold; mono is
 * CLOCK_MONOTONIC and real CLOCK_REALTIME, both in ns. */
struct pt_clock_pair {
    uint64_t ticks;
    int64_t mono;
    int64_t real;
};

enum pt_tick_kind { PT_TICKS_MONOTONIC_NS = 0, PT_TICKS_TSC = 1, PT_TICKS_CNTVCT = 2 };
enum pt_mode { PT_MODE_TRACE = 0, PT_MODE_PROFILE = 1, PT_MODE_RING = 2 };
enum pt_full_reason { PT_NOT_FULL = 0, PT_FULL_BUDGET = 1, PT_FULL_DISK = 2, PT_FULL_LIMIT = 3 };

struct pt_header {
    char magic[8];
    uint32_t version;
    uint32_t first_chunk; /* where chunks start: PT_FIRST_CHUNK */
    uint64_t budget;      /* bytes the file may grow to; its sparse size while live */
    uint64_t next;        /* atomic: offset of the next chunk; may pass budget when full */
    uint64_t run_id;      /* random */
    uint32_t owner_pid;   /* the process that started the run */
    uint32_t tick_kind;   /* enum pt_tick_kind */
    uint32_t mode;        /* enum pt_mode */
    uint32_t full_reason; /* enum pt_full_reason: why only counters are kept */
    uint64_t full_since;  /* ticks at the first record that was not kept; 0: never */
    uint64_t lost;        /* atomic: operations counted but not recorded, all processes */
    uint32_t processes;   /* atomic: head of the process list (id of a process chunk) */
    uint32_t unfollowed;  /* atomic: children started with an environment we are not in */
    struct pt_clock_pair first;
    char boot_id[40];
    char host[128];
    uint64_t fault_count; /* atomic: faults of the tracer itself (each one warning) */
    uint32_t forks_pending; /* atomic: children forked that have not entered themselves yet */
    uint32_t ring_slots;    /* chunks of PT_RING_SLOT bytes that are used again and again; 0: none */
    uint64_t ring_start;    /* where they are */
    uint64_t ring_next;     /* atomic: claims of them so far */
    char selection[1024];   /* what was asked to be left out, as words, perhaps cut */
    uint64_t ring_lost;     /* atomic: ticks of the latest begin among the records that were written over; 0: none were */
    uint64_t excluded_ops[16]; /* as a process has them: of those that found no room for an entry */
    uint64_t excluded_bytes[16];
};
#define PT_RING_SLOT 65536u

/* In the header's page: the newest process entry of each bucket of pids (atomic ids; 0: none), for processes that look
 * for one.  A reader needs none of it. */
#define PT_PROCESS_INDEX_OFFSET 2048u
#define PT_PROCESS_BUCKETS 512u

/* One row of the operation table: the log describes its own vocabulary. */
enum pt_layer { PT_APP = 0, PT_USER = 1, PT_HDF5 = 2, PT_MPIIO = 3, PT_STDIO = 4, PT_POSIX = 5 };
enum pt_class { PT_META = 0, PT_READ = 1, PT_WRITE = 2, PT_SYNC = 3, PT_COPY = 4, PT_MAP = 5, PT_OPEN = 6, PT_CLOSE = 7, PT_SEEK = 8, PT_SPANS = 9, PT_INTERNAL = 10, PT_PROCESS = 11 };
/* How a record of this operation uses desc, aux, offset, size and result. */
enum pt_shape {
    PT_SHAPE_FD = 0,     /* desc: descriptor; aux: fd; offset: given, else -1; size asked; result moved */
    PT_SHAPE_PATH = 1,   /* desc: path string; aux: flags or mode */
    PT_SHAPE_PATH2 = 2,  /* desc: first path; aux: second path (rename, link, symlink) */
    PT_SHAPE_OPEN = 3,   /* desc: path string; aux: open flags; offset: new descriptor's id when done; result: fd */
    PT_SHAPE_FD2 = 4,    /* desc: descriptor read from; aux: descriptor written to; offset: given input offset or -1; size, result bytes */
    PT_SHAPE_SPAN = 5,   /* desc: path string or 0; aux: name string, or 0: the operation has one; offset: detail string (JSON) or 0; size, result bytes (0xffffffff: none) */
    PT_SHAPE_SEEK = 6,   /* as FD, but offset: the position afterwards (asked for, if failed); size: whence (| PT_SEEK_DISTANCE); no bytes */
    PT_SHAPE_EXT = 7,    /* parent: record it completes; offset: its 64-bit size; begin: its 64-bit result */
    PT_SHAPE_DUP = 8,    /* desc: old descriptor; aux: old fd; offset: new descriptor's id; result: new fd */
    PT_SHAPE_TRUNC = 9,  /* as FD (ftruncate), but offset: the new length; no bytes */
    PT_SHAPE_PTRUNC = 10, /* as PATH (truncate), but offset: the new length */
    PT_SHAPE_FD2_AT = 11 /* as FD2, the place in the output being given by the caller: its position stays */
};

struct pt_op_row {
    char name[26];
    uint8_t layer; /* enum pt_layer */
    uint8_t klass; /* enum pt_class */
    uint8_t shape; /* enum pt_shape */
    uint8_t reserved[3];
};

/* Exact counters of one operation in one process, kept for what has no record. */
struct pt_counter {
    uint64_t count;
    uint64_t bytes; /* moved */
    uint64_t ticks; /* time */
    uint64_t errors;
};

/* ---- chunks ---------------------------------------------------------- */

#define PT_CHUNK_MAGIC 0x4b4e484349595021ull

enum pt_chunk_kind { PT_CHUNK_OPS = 1, PT_CHUNK_HEAP = 2, PT_CHUNK_PROCESS = 3, PT_CHUNK_PAD = 4,
                     PT_CHUNK_SUMS = 5,      /* of pt_profile, one after the other from PT_HEAP_START */
                     PT_CHUNK_SUMS_DATA = 6 }; /* of pt_profile with pt_profile_data */

struct pt_chunk { /* 80 bytes; records start at 96 (48-byte records), heap objects at 80 */
    uint64_t magic;
    uint64_t offset; /* its own: a magic found elsewhere is not a chunk */
    uint64_t size;   /* bytes, header included; a multiple of PT_PAGE */
    uint32_t kind;   /* enum pt_chunk_kind */
    uint32_t process; /* id of the process chunk */
    uint32_t tid;     /* ops: the thread that writes here */
    uint32_t sequence; /* ops: n-th chunk of this thread */
    uint64_t cursor;  /* heap: atomic, offset in the chunk of the next free byte; ring: claims when it was let go */
    struct pt_clock_pair clock; /* when claimed */
    uint64_t busy; /* ring: id of the process that writes to it; 0: to be used again */
};
#define PT_OPS_START 96u
#define PT_HEAP_START 80u

/* ---- records --------------------------------------------------------- */

#define PT_STATE_MASK 0x03u
#define PT_EMPTY 0u
#define PT_BEGUN 1u
#define PT_DONE 2u
#define PT_FAILED 0x04u    /* result is an errno */
#define PT_WIDE 0x08u      /* size or result did not fit: an EXT record has them */
#define PT_COALESCED 0x10u /* aux: how many like calls; offset: ticks from first begin to last end; duration: their sum */
#define PT_LINK_SHIFT 5    /* 3 bits: enum pt_link */
enum pt_link { PT_LINK_NONE = 0, PT_LINK_THREAD = 1, PT_LINK_CONTEXT = 2, PT_LINK_DESCRIPTOR = 3, PT_LINK_INFERRED = 4 };

#define PT_SEEK_DISTANCE 256u /* in the size of an lseek from the end: not to the end itself */
#define PT_NO_BYTES 0xffffffffu /* size or result of an operation that has none */

struct pt_record { /* 48 bytes: one operation */
    uint8_t op;    /* index into the operation table; 0 is no operation */
    uint8_t flags; /* state, FAILED, WIDE, COALESCED, link; written last */
    uint16_t duration_hi;
    uint32_t desc;
    uint64_t begin; /* ticks */
    uint32_t duration_lo;
    uint32_t stack; /* id of a stack; 0: none */
    uint32_t parent; /* id of the span it happened in */
    uint32_t aux;
    int64_t offset;
    uint32_t size;
    uint32_t result;
};

/* ---- heap objects (16-byte aligned) ----------------------------------- */

enum pt_heap_kind { PT_HEAP_STRING = 1, PT_HEAP_STACK = 2, PT_HEAP_CODE = 3, PT_HEAP_DESC = 4, PT_HEAP_MAPPING = 5, PT_HEAP_PROFILE = 6 };

struct pt_heap {
    uint32_t kind; /* written last; 0: the writer died here */
    uint32_t size; /* bytes, header included */
};

struct pt_string { /* bytes follow, then a NUL */
    struct pt_heap heap;
    uint32_t base;   /* string this relative path starts from; 0: none */
    uint32_t length; /* bytes */
};

struct pt_frame {
    uint32_t code; /* id */
    uint32_t line; /* worked out when the stack was first met */
};

struct pt_stack { /* count frames follow, innermost first */
    struct pt_heap heap;
    uint32_t count;
    uint32_t truncated; /* 1: outer frames were left off */
};

struct pt_code {
    struct pt_heap heap;
    uint32_t file;     /* string */
    uint32_t function; /* string: the qualified name */
    uint32_t first_line;
    uint32_t reserved;
};

enum pt_desc_kind {
    PT_DESC_UNKNOWN = 0, PT_DESC_REGULAR = 1, PT_DESC_DIRECTORY = 2, PT_DESC_FIFO = 3, PT_DESC_DEVICE = 4,
    PT_DESC_PIPE = 5, PT_DESC_SOCKET = 6, PT_DESC_TERMINAL = 7, PT_DESC_ANON = 8, PT_DESC_PROC = 9, PT_DESC_SYS = 10,
    /* Reasons to leave an operation out that are not the descriptor's kind. */
    PT_LEFT_PATH = 11, PT_LEFT_OPERATION = 12, PT_LEFT_IMPORT = 13, PT_LEFT_SMALL = 14, PT_LEFT_PAUSED = 15
};

struct pt_desc { /* one descriptor number in one process, from open or dup to close */
    struct pt_heap heap;
    int32_t fd;
    uint32_t path; /* string */
    uint32_t root; /* the open file description: id of the descriptor it was first opened as */
    uint32_t open_flags;
    uint32_t opened_by; /* record of the open or dup; 0: found open */
    uint32_t kind; /* enum pt_desc_kind; UNKNOWN: opened by path, not looked at yet */
    uint64_t dev; /* 0 until known */
    uint64_t ino;
    int64_t position; /* when found open; 0 when opened; -1 not known */
    uint32_t process;
    uint32_t gap; /* enum pt_gap */
};
/* Whether the description's position moved while nothing was recorded: not; (resume) records say where it
 * then was; its positions cannot be told. */
enum pt_gap { PT_GAP_NONE = 0, PT_GAP_RESUMED = 1, PT_GAP_LOST = 2 };

/* Sums of like operations: one process, thread, operation, file, stack, parent
 * and error.  What the fields of a record that are not sums mean is as there.
 * Sizes are counted in Darshan's ten ranges, up to 100, 1 K, 10 K, 100 K, 1 M,
 * 4 M, 10 M, 100 M, 1 G bytes and above. */
#define PT_PROFILE_SIZE 112u
#define PT_PROFILE_DATA_SIZE 304u
#define PT_SIZE_RANGES 10
#define PT_COMMON_SIZES 4
struct pt_profile {
    struct pt_heap heap;
    uint32_t process;
    uint32_t tid; /* 0: several, one after the other */
    uint8_t op;
    uint8_t link; /* enum pt_link, of the parent */
    uint16_t error;
    uint32_t desc;
    uint32_t stack;
    uint32_t parent;
    uint32_t aux;
    uint32_t opened; /* OPEN: the descriptor it became, the last time */
    uint64_t begun;  /* calls; those that have ended are in count */
    uint64_t count;
    uint64_t asked;  /* bytes */
    uint64_t moved;  /* bytes */
    uint64_t ticks;  /* sum of durations */
    uint64_t longest; /* ticks of the longest call */
    uint64_t first;  /* ticks at the first begin */
    uint64_t last;   /* ticks at the last end */
};
struct pt_profile_data { /* the rest of the entry of an operation that moves bytes */
    uint64_t placed;      /* calls whose offset is known; the next four are of these */
    uint64_t consecutive; /* began where the one before ended */
    uint64_t sequential;  /* began there or further on */
    uint64_t unaligned;   /* did not begin at a multiple of 4096 */
    uint64_t highest;     /* the end of what was moved that is farthest in the file */
    uint64_t last_end;    /* where the last one ended */
    uint64_t sizes[PT_SIZE_RANGES];
    uint64_t common[PT_COMMON_SIZES][2]; /* the first distinct sizes moved, and how often; others are in no pair */
};

/* A file mapped into a process, and what its page tables said of it when it was measured: the only trace that traffic by
 * page faults leaves. */
struct pt_mapping {
    struct pt_heap heap;
    uint32_t previous;   /* next older mapping of the process */
    uint32_t desc;       /* descriptor it was made through */
    uint32_t record;     /* of the mmap; 0: not recorded, or inherited by fork */
    uint32_t protection; /* PROT_* when it was made */
    uint32_t flags;      /* bits of enum pt_mapping_flag */
    uint32_t measured;   /* enum pt_measured; written last */
    uint64_t length;
    uint64_t offset;     /* in the file */
    uint64_t touched;    /* estimate, at most: bytes of the file's pages that were in this process's page tables */
    uint64_t at_least;   /* bytes of the fewest pages that can have brought those in */
    uint64_t written;    /* estimate: bytes of pages that became dirty, again after each msync; shared writable mappings only */
};
enum pt_mapping_flag { PT_MAPPING_SHARED = 1, PT_MAPPING_POPULATED = 2, PT_MAPPING_SAMPLED = 4, PT_MAPPING_PARTLY = 8, PT_MAPPING_INHERITED = 16 };
enum pt_measured { PT_NOT_MEASURED = 0, PT_MEASURED_AT_MUNMAP = 1, PT_MEASURED_AT_END = 2, PT_MEASURING_SKIPPED = 3 };

/* ---- processes --------------------------------------------------------- */

enum pt_start { PT_START_TOP = 0, PT_START_FORK = 1, PT_START_JOINED = 2, PT_START_VFORK = 3, PT_START_SPAWN = 4 };
enum pt_end { PT_END_UNKNOWN = 0, PT_END_EXIT = 1, PT_END_SIGNAL = 2, PT_END_EXEC = 3, PT_END_STOPPED = 4 };

/* The kernel's own account of a process: /proc/PID/io and its page faults. */
struct pt_account {
    uint64_t read_chars; /* moved by read-like system calls, of files, pipes and sockets alike */
    uint64_t write_chars;
    uint64_t read_calls;
    uint64_t write_calls;
    uint64_t storage_read; /* fetched from storage for this process */
    uint64_t storage_written; /* of page cache that this process made dirty */
    uint64_t minor_faults;
    uint64_t major_faults; /* those that waited for storage */
};
#define PT_SHELLS 8

struct pt_process { /* at the start of a process chunk; counters follow at PT_COUNTERS_OFFSET */
    struct pt_chunk chunk;
    uint32_t previous; /* next older entry of the process list */
    uint32_t pid;
    uint32_t ppid;
    uint32_t parent;     /* process that started it; 0: not of this run */
    uint32_t started_by; /* record of the fork, spawn or exec, where known */
    uint32_t start;      /* enum pt_start */
    uint64_t begin;      /* ticks */
    uint64_t end;        /* ticks; 0: still running, or its end was not seen */
    uint32_t end_kind;   /* enum pt_end */
    int32_t end_status;  /* exit status, signal number */
    uint64_t start_time; /* field 22 of /proc/PID/stat: tells a pid's reuse */
    uint32_t followed;   /* 1: it traces itself; 2: it did, until it became another program; 0: entered by its parent only */
    uint32_t blind;      /* bits of enum pt_blind */
    uint32_t cwd;        /* string at the start */
    uint32_t stack_state; /* enum pt_stack_state */
    uint64_t lost;       /* atomic: operations counted only, of this process */
    struct pt_clock_pair end_clock; /* taken at the end: the pair farthest from the first */
    uint64_t excluded_ops[16];   /* by enum pt_desc_kind: not recorded by choice */
    uint64_t excluded_bytes[16];
    char version[32];    /* "3.11.7", empty if not Python */
    char note[128];      /* why something is off (no stacks, no file objects ...) */
    char executable[512];
    uint32_t argv_length;
    char argv[2048];     /* NUL-separated, perhaps cut */
    uint32_t accounts;   /* bits of enum pt_accounts */
    uint32_t mappings;   /* newest struct pt_mapping; 0: none */
    uint32_t mappings_unlisted; /* file mappings that got no object */
    uint32_t bucket_next; /* next older entry whose pid is in the same bucket of the index */
    struct pt_account begin_account; /* when tracing began in it; zeros after a fork */
    struct pt_account end_account;
    struct pt_account children_account; /* atomic: of children that it has waited for, which the kernel adds to its own */
    uint64_t own_read;          /* atomic: bytes that the tracer itself has read through system calls in between */
    uint64_t unrecorded_read;   /* atomic: bytes of read-like calls that were left out or suppressed: seen, without a row */
    uint64_t unrecorded_written; /* atomic */
    uint64_t python_since; /* ticks; not 0: a preloaded process in which Python's own start came later */
    uint32_t exec_by;    /* record of the exec by which it became another program */
    uint32_t awaited;    /* 1: that program, or the one it was spawned as, can be expected to join the run */
    uint32_t shells[PT_SHELLS]; /* atomic: records of system() and popen() under way; 0: free */
};
enum pt_accounts { PT_ACCOUNT_BEGIN = 1, PT_ACCOUNT_END = 2, PT_ACCOUNT_MIXED = 4 }; /* MIXED: with some child's, not known how much */
enum pt_blind { PT_BLIND_IO_URING = 1, PT_BLIND_SYSCALL = 2, PT_BLIND_MAPPED = 4, PT_BLIND_UNPATCHED = 8, PT_BLIND_FILEOBJECTS = 16 };
enum pt_stack_state { PT_STACKS_NONE = 0, PT_STACKS_FULL = 1, PT_STACKS_SITE = 2, PT_STACKS_OFF = 3 };

#define PT_COUNTERS_OFFSET 4096u
#define PT_PROCESS_CHUNK (4096u + PT_MAX_OPS * 32u) /* 12288 */

_Static_assert(sizeof(struct pt_record) == 48, "record size");
_Static_assert(sizeof(struct pt_chunk) == 80, "chunk header size");
_Static_assert(sizeof(struct pt_op_row) == 32, "operation row size");
_Static_assert(sizeof(struct pt_counter) == 32, "counter size");
_Static_assert(sizeof(struct pt_desc) == 64, "descriptor size");
_Static_assert(sizeof(struct pt_string) == 16, "string header size");
_Static_assert(sizeof(struct pt_mapping) == 72, "mapping size");
_Static_assert(sizeof(struct pt_stack) == 16, "stack header size");
_Static_assert(sizeof(struct pt_profile) == 104 && sizeof(struct pt_profile_data) == PT_PROFILE_DATA_SIZE - PT_PROFILE_SIZE, "profile entry size");
_Static_assert(sizeof(struct pt_header) <= PT_PROCESS_INDEX_OFFSET, "the header ends before the index");
_Static_assert(PT_PROCESS_INDEX_OFFSET + PT_PROCESS_BUCKETS * 4 == PT_HEADER_SIZE, "both have a page");
_Static_assert(sizeof(struct pt_process) <= PT_COUNTERS_OFFSET, "process entry fits its page");
_Static_assert(offsetof(struct pt_record, begin) == 8 && offsetof(struct pt_record, parent) == 24 &&
               offsetof(struct pt_record, offset) == 32, "record layout");

#endif
