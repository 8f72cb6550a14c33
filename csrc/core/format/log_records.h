/* The log's layout, continued: the records and the heap objects that its chunks hold (log_format.h). */
#ifndef PYIO_TRACE_LOG_RECORDS_H
#define PYIO_TRACE_LOG_RECORDS_H

#include <stddef.h>
#include <stdint.h>

/* ---- records --------------------------------------------------------- */

#define PT_STATE_MASK 0x03u
#define PT_EMPTY 0u
#define PT_BEGUN 1u
#define PT_DONE 2u
#define PT_FAILED 0x04u /* result is an errno; 0: an exception without one, see PT_SHAPE_RAISED */
#define PT_WIDE 0x08u   /* size or result did not fit, or it failed after a part; an EXT record has both */
#define PT_COALESCED \
    0x10u /* several similar calls; aux: how many; offset: ticks from first begin to last end; duration: sum */
#define PT_LINK_SHIFT 5 /* 3 bits: enum pt_link */
enum pt_link {
    PT_LINK_NONE = 0,
    PT_LINK_THREAD = 1,
    PT_LINK_CONTEXT = 2,
    PT_LINK_DESCRIPTOR = 3,
    PT_LINK_INFERRED = 4
};
/* Only in records: as PT_LINK_CONTEXT, but the span started the thread or process, so the link ends with the span. */
#define PT_LINK_STARTED 5u

#define PT_SEEK_DISTANCE 256u   /* set in the size of an lseek relative to the end, unless it went to the end itself */
#define PT_NO_BYTES 0xffffffffu /* the operation has no size, or no result */

/* The offset field of a pwritev2 whose flags say where it writes. */
#define PT_AT_END (-2)      /* RWF_APPEND: at the end of the file; the position stays */
#define PT_TO_END (-3)      /* RWF_APPEND, without an offset: at the end, which becomes the position */
#define PT_AT_POSITION (-4) /* RWF_NOAPPEND, without an offset: at the position, in spite of O_APPEND */
#define PT_AT_PLACE (-8)    /* RWF_NOAPPEND: PT_AT_PLACE - offset; it writes at the offset in spite of O_APPEND */

struct pt_record { /* 48 bytes: one operation */
    uint8_t op;    /* index into the operation table; 0 is no operation */
    uint8_t flags; /* state, PT_FAILED, PT_WIDE, PT_COALESCED, link; written last */
    uint16_t duration_hi;
    uint32_t desc;
    uint64_t begin; /* ticks */
    uint32_t duration_lo;
    uint32_t stack;  /* id of a stack; 0: none */
    uint32_t parent; /* id of the span it happened in */
    uint32_t aux;
    int64_t offset;
    uint32_t size;
    uint32_t result;
};

/* ---- heap objects (16-byte aligned) ----------------------------------- */

enum pt_heap_kind {
    PT_HEAP_STRING = 1,
    PT_HEAP_STACK = 2,
    PT_HEAP_CODE = 3,
    PT_HEAP_DESC = 4,
    PT_HEAP_MAPPING = 5,
    PT_HEAP_PROFILE = 6,
    PT_HEAP_LOADED = 7,
    PT_HEAP_IMPORT = 8
};

struct pt_heap {
    uint32_t kind; /* written last; 0: the writer died before */
    uint32_t size; /* bytes, header included */
};

struct pt_string { /* bytes follow, then a NUL */
    struct pt_heap heap;
    uint32_t base;   /* string of the folder that this relative path starts from; 0: none */
    uint32_t length; /* bytes */
};

struct pt_frame {
    uint32_t code; /* id */
    uint32_t line; /* computed when the stack was first met */
};

struct pt_stack { /* count frames follow, innermost first */
    struct pt_heap heap;
    uint32_t count;
    uint16_t truncated; /* 1: outer frames are missing */
    /* So many more frames follow.  Their code is the id of a stack: the one that submitted this work to its thread, the
     * one that submitted that work, and so on. */
    uint16_t submitters;
};

struct pt_code {
    struct pt_heap heap;
    uint32_t file;     /* string */
    uint32_t function; /* string: the qualified name */
    uint32_t first_line;
    uint32_t line_table; /* hash of its line table; 0: not known */
};

enum pt_desc_kind {
    PT_DESC_UNKNOWN = 0,
    PT_DESC_REGULAR = 1,
    PT_DESC_DIRECTORY = 2,
    PT_DESC_FIFO = 3,
    PT_DESC_DEVICE = 4,
    PT_DESC_PIPE = 5,
    PT_DESC_SOCKET = 6,
    PT_DESC_TERMINAL = 7,
    PT_DESC_ANON = 8,
    PT_DESC_PROC = 9,
    PT_DESC_SYS = 10,
    /* Other reasons to leave an operation out. */
    PT_LEFT_PATH = 11,
    PT_LEFT_OPERATION = 12,
    PT_LEFT_IMPORT = 13,
    PT_LEFT_SMALL = 14,
    PT_LEFT_PAUSED = 15
};

struct pt_desc { /* a descriptor number of one process, from open or dup to close */
    struct pt_heap heap;
    int32_t fd;
    uint32_t path; /* string */
    uint32_t root; /* identifies the open file description: id of its first descriptor */
    uint32_t open_flags;
    uint32_t opened_by; /* record of the open or dup; 0: it was open before tracing */
    uint32_t kind;      /* enum pt_desc_kind; UNKNOWN: opened by path and not identified yet */
    uint64_t dev;       /* 0 until known */
    uint64_t ino;
    int64_t position; /* at the start: 0 after an open, else what was found; -1: not known */
    uint32_t process;
    uint32_t gap; /* enum pt_gap */
};
/* Whether the position moved while nothing was recorded.  RESUMED: (resume) records have the position after each gap.
 * LOST: positions of this description are unknown.  SUMS: likewise, and `position` has the ticks of its opening, or of
 * the first one if several openings share this descriptor. */
enum pt_gap { PT_GAP_NONE = 0, PT_GAP_RESUMED = 1, PT_GAP_LOST = 2, PT_GAP_SUMS = 3 };

struct pt_loaded { /* a library that was patched in a process, or code that it has sent to others */
    struct pt_heap heap;
    uint32_t previous; /* next older one of the process */
    uint32_t path;     /* string; of code that was sent: its id */
};

struct pt_package { /* time that importing a package took at once, without the other packages that it imported */
    struct pt_heap heap;
    uint32_t previous; /* next older one of the process */
    uint32_t name;     /* string: the first part of the module's name */
    uint64_t ticks;
};

/* Sums over operations of the same process, thread, operation, file, stack,
 * parent and error.  desc, stack, parent and aux mean what they mean in a record.
 * Sizes are counted in Darshan's ten ranges: up to 100, 1 K, 10 K, 100 K, 1 M,
 * 4 M, 10 M, 100 M and 1 G bytes, and above. */
#define PT_PROFILE_SIZE 112u
#define PT_PROFILE_DATA_SIZE 304u
#define PT_SIZE_RANGES 10
#define PT_COMMON_SIZES 4
struct pt_profile {
    struct pt_heap heap;
    uint32_t process;
    uint32_t tid; /* 0: several threads, one after the other */
    uint8_t op;
    uint8_t link; /* enum pt_link, of the parent */
    uint16_t error;
    uint32_t desc;
    uint32_t stack;
    uint32_t parent;
    uint32_t aux;
    uint32_t opened; /* of an opening: the descriptor it returned last; of a span: its detail; of a transfer: the entry
                      * whose last_end it is compared with; of shapes COMMAND and WAIT: what a record has in `size` */
    uint64_t begun;  /* calls so far; count has those that ended */
    uint64_t count;
    uint64_t asked;   /* bytes */
    uint64_t moved;   /* bytes */
    uint64_t ticks;   /* sum of durations */
    uint64_t longest; /* ticks of the longest call */
    uint64_t first;   /* ticks at the first begin */
    uint64_t last;    /* ticks at the last end */
};
struct pt_profile_data {  /* follows the entry of an operation that moves bytes */
    uint64_t placed;      /* calls whose offset is known: the next four fields count these only */
    uint64_t consecutive; /* began where this process's latest read, or write, of the file ended, in any entry */
    uint64_t sequential;  /* began there or beyond */
    uint64_t unaligned;   /* offset was no multiple of 4096 */
    uint64_t highest;     /* highest offset at which a transfer ended */
    uint64_t
        last_end; /* where the file's latest transfer ended, plus 1; used in entries that others name in `opened` */
    uint64_t sizes[PT_SIZE_RANGES];
    uint64_t common[PT_COMMON_SIZES][2]; /* (size, count) of the first distinct sizes moved */
};

/* A mapped file, and what the page tables said about it when it was measured.  Page faults leave no other trace. */
struct pt_mapping {
    struct pt_heap heap;
    uint32_t previous;   /* next older mapping of the process */
    uint32_t desc;       /* descriptor that was mapped */
    uint32_t record;     /* of the mmap; 0: not recorded, or inherited over fork */
    uint32_t protection; /* PROT_* when it was made */
    uint32_t flags;      /* bits of enum pt_mapping_flag */
    uint32_t measured;   /* enum pt_measured; written last */
    uint64_t length;
    uint64_t offset;   /* in the file */
    uint64_t touched;  /* estimate, upper bound: bytes of the file's pages in this process's page tables */
    uint64_t at_least; /* lower bound: bytes of the fewest pages whose faults explain `touched` */
    /* Estimate: bytes of pages that became dirty, counted again after each msync; shared writable mappings only. */
    uint64_t written;
    uint64_t synced;            /* of these: what msync has made clean */
    uint64_t others_cleaned;    /* bytes that its msyncs have cleaned besides, which others have written */
    uint64_t file_dirty;        /* bytes of the whole file that were dirty when it was measured; 0: not known */
    uint64_t made, measured_at; /* ticks; `made`, of an inherited one: when the child got it */
};
enum pt_mapping_flag {
    PT_MAPPING_SHARED = 1,
    PT_MAPPING_POPULATED = 2,
    PT_MAPPING_SAMPLED = 4,
    PT_MAPPING_PARTLY = 8,
    PT_MAPPING_INHERITED = 16,
    PT_MAPPING_SYNCED = 32,       /* `written` includes what was synced */
    PT_MAPPING_SYNCED_OTHERS = 64 /* ... some of it perhaps made dirty by a relative */
};
/* A mapping is divided into shares.  Each has one bit of the flags, from SHIFT on: whether any page of it was touched. */
#define PT_MAPPING_SHARES 16u
#define PT_MAPPING_SHARES_SHIFT 8u
enum pt_measured { PT_NOT_MEASURED = 0, PT_MEASURED_AT_MUNMAP = 1, PT_MEASURED_AT_END = 2, PT_MEASURING_SKIPPED = 3 };

/* ---- samples ---------------------------------------------------------- */

/* What a thread was found doing, from outside. */
enum pt_sample_state {
    PT_SAMPLE_RUNNING = 0,
    PT_SAMPLE_GIL = 1,  /* waits for the interpreter's lock */
    PT_SAMPLE_LOCK = 2, /* waits for another lock, or for a condition */
    PT_SAMPLE_SLEEP = 3,
    PT_SAMPLE_POLL = 4, /* waits in poll, select or epoll */
    PT_SAMPLE_WAIT = 5, /* waits for a child process */
    PT_SAMPLE_SYSTEM_CALL = 6,
    PT_SAMPLE_FAULT = 7 /* a page fault, or stopped */
};
enum pt_sample_flag {
    PT_SAMPLE_UNREADABLE = 1, /* its stack could not be read */
    PT_SAMPLE_INNERMOST = 2   /* only the innermost frames are known */
};

/* A run of equal samples: a thread was found with the same stack in the same state, at most for a second or so.  The
 * runs of one thread follow each other in time and do not overlap.  Zeros end the array. */
struct pt_sample {
    uint64_t begin;    /* ticks; written last, so 0: the sampler died before */
    uint64_t ticks;    /* from begin until the end of this stretch of time */
    uint64_t cpu_ns;   /* processor time of the thread in this stretch: exact, from the kernel's schedstat */
    uint64_t delay_ns; /* time in this stretch in which it could run and waited for a processor: exact as well */
    uint32_t process;  /* id of the process entry */
    uint32_t tid;
    uint32_t stack;   /* id of a stack, as in records; 0: no Python frame */
    uint16_t samples; /* how often it was looked at */
    uint8_t state;    /* enum pt_sample_state */
    uint8_t flags;    /* bits of enum pt_sample_flag */
};

/* ---- the system beside the program -------------------------------------- */

/* What a row of the system is about. */
enum pt_system_kind {
    PT_SYSTEM_MACHINE = 0,
    PT_SYSTEM_DISK = 1,    /* a block device, or a partition */
    PT_SYSTEM_NETWORK = 2, /* an interface */
    PT_SYSTEM_OTHER = 3,   /* a process that does not belong to the run; pid 0: all those that have no row */
    PT_SYSTEM_OWN = 4      /* all processes of the run */
};
#define PT_SYSTEM_VALUES 12
#define PT_SYSTEM_UNKNOWN UINT64_MAX

/* What happened in a stretch of time.  layout.SYSTEM_COLUMNS, in Python, names the values of each kind.  A row of zeros
 * ends the array. */
struct pt_system {
    uint64_t begin; /* ticks; written last */
    uint64_t ticks;
    uint32_t kind;   /* enum pt_system_kind */
    uint32_t pid;    /* OTHER */
    uint64_t device; /* DISK: st_dev of the files on it */
    char name[32];   /* of the device, the interface, the program; cut off without a NUL */
    uint64_t values[PT_SYSTEM_VALUES];
};

_Static_assert(sizeof(struct pt_record) == 48, "record size");
_Static_assert(sizeof(struct pt_system) == 160, "system row size");
_Static_assert(sizeof(struct pt_sample) == 48 && offsetof(struct pt_sample, process) == 32 &&
                   offsetof(struct pt_sample, state) == 46,
               "sample layout");
_Static_assert(sizeof(struct pt_desc) == 64, "descriptor size");
_Static_assert(sizeof(struct pt_string) == 16, "string header size");
_Static_assert(sizeof(struct pt_mapping) == 112, "mapping size");
_Static_assert(sizeof(struct pt_loaded) == 16, "loaded object size");
_Static_assert(sizeof(struct pt_package) == 24, "package object size");
_Static_assert(sizeof(struct pt_stack) == 16, "stack header size");
_Static_assert(sizeof(struct pt_profile) == 104 &&
                   sizeof(struct pt_profile_data) == PT_PROFILE_DATA_SIZE - PT_PROFILE_SIZE,
               "profile entry size");
_Static_assert(offsetof(struct pt_record, begin) == 8 && offsetof(struct pt_record, parent) == 24 &&
                   offsetof(struct pt_record, offset) == 32,
               "record layout");

#endif
