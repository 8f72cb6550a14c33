/* The log's layout: the contract between the capture core, which writes it,
 * and the reader (pyio_trace/log/layout.py; pyio_trace/enums.py, values.py, log_constants.py, existing_files.py).
 *
 * A live log is one file for each run and host.  All processes of the run map
 * it shared.  It starts with a fixed region: header, operation table, overflow
 * counters.  Chunks follow, page-aligned; a writer claims one by adding to
 * header.next atomically.  Everything is little-endian and written in place, so
 * the file is readable at any instant.
 *
 * An *id* is a file offset divided by 16: of a record (its operation id), of a
 * process chunk, or of a heap object (string, stack, code, descriptor).  0
 * means "none".
 *
 * This file has the fixed region, the chunks and the processes; log_records.h
 * has what chunks hold.  tests/log/test_layout.py compares every number, size
 * and offset of both with the reader's.
 */
#ifndef PYIO_TRACE_LOG_FORMAT_H
#define PYIO_TRACE_LOG_FORMAT_H

#include "format/log_records.h"

#include <stdint.h>

#define PT_LOG_MAGIC "PYIOLOG\n"
#define PT_LOG_VERSION 4u
#define PT_PAGE 4096u
#define PT_ID_SHIFT 4 /* id = offset >> 4 */
#define PT_MAX_OPS 256u

#define PT_HEADER_SIZE 4096u
#define PT_OPTABLE_OFFSET 4096u                        /* PT_MAX_OPS * 32 bytes */
#define PT_OVERFLOW_OFFSET (PT_OPTABLE_OFFSET + 8192u) /* PT_MAX_OPS * 32 bytes */
#define PT_FIRST_CHUNK (PT_OVERFLOW_OFFSET + 8192u)    /* 20480 */
#define PT_BEGINNING 65536u                            /* up to here, the log is written before it is mapped */

/* One moment on three clocks: ticks, the unit of records; CLOCK_MONOTONIC and CLOCK_REALTIME in ns. */
struct pt_clock_pair {
    uint64_t ticks;
    int64_t mono;
    int64_t real;
};

enum pt_tick_kind { PT_TICKS_MONOTONIC_NS = 0, PT_TICKS_TSC = 1, PT_TICKS_CNTVCT = 2 };
enum pt_mode { PT_MODE_TRACE = 0, PT_MODE_PROFILE = 1, PT_MODE_RING = 2 };
enum pt_full_reason {
    PT_NOT_FULL = 0,
    PT_FULL_BUDGET = 1, /* the log's own size limit */
    PT_FULL_DISK = 2,
    PT_FULL_LIMIT = 3,     /* the process's limit on file sizes */
    PT_FULL_REFUSED = 4,   /* the kernel refused to reserve room: a seccomp filter, a limit on descriptors */
    PT_FULL_MEMORY = 5,    /* no memory for the log's pages */
    PT_FULL_QUOTA = 6,     /* the user's disk quota */
    PT_FULL_ADDRESSES = 7, /* the process's limit on its address space */
    PT_FULL_MOVED = 8,     /* the log was renamed, and this kernel can reserve blocks by name only */
    PT_FULL_DAMAGED = 9    /* another program wrote over the header */
};

struct pt_header {
    char magic[8];
    uint32_t version;
    uint32_t first_chunk; /* where chunks start: PT_FIRST_CHUNK */
    uint64_t budget;      /* size limit of the file, and its sparse size while live */
    uint64_t next;        /* atomic: offset of the next chunk */
    uint64_t run_id;      /* random */
    uint32_t owner_pid;   /* the process that started the run */
    uint32_t tick_kind;   /* enum pt_tick_kind */
    uint32_t mode;        /* enum pt_mode */
    uint32_t full_reason; /* enum pt_full_reason: why the log takes no more records */
    uint64_t full_since;  /* ticks when the first record was lost; 0: none was */
    uint64_t lost;        /* atomic: operations of all processes that were counted but not recorded */
    uint32_t processes;   /* atomic: head of the process list (id of a process chunk) */
    uint32_t unfollowed;  /* atomic: children started without our variables in their environment */
    struct pt_clock_pair first;
    char boot_id[40];
    char host[128];
    uint64_t fault_count;      /* atomic: faults of the tracer itself, one warning each */
    uint32_t forks_pending;    /* atomic: forked children that have no process entry yet */
    uint32_t ring_slots;       /* reused chunks of PT_RING_SLOT bytes; 0: no ring */
    uint64_t ring_start;       /* offset of the first one */
    uint64_t ring_next;        /* atomic: how often a slot has been claimed */
    char selection[1024];      /* the rules of --include and --exclude, possibly truncated */
    uint64_t ring_lost;        /* atomic: latest begin, in ticks, of an overwritten record; 0: none was overwritten */
    uint64_t excluded_ops[16]; /* as in pt_process, for processes that found no room for an entry */
    uint64_t excluded_bytes[16];
    uint64_t namespace_device; /* of /proc/self/ns/pid of the process that made the log; 0: unreadable */
    uint64_t namespace_inode;
    uint64_t owner_start; /* start_time of owner_pid: detects a reused pid */
    uint32_t settings;    /* atomic: string of NUL-separated NAME=value settings for the run's processes; 0: none */
    /* Id of the room for PT_KEPT_SLOTS process chunks, usable when the disk is full (log/spare.c); 0: none. */
    uint32_t kept_room;
    uint32_t cores; /* that the process which made the log could run on; 0: unknown */
    /* The sampler beside the run.  Logs of before it have zeros here. */
    uint32_t sampling_hz;     /* how often a second it was asked to look at each thread; 0: there is none */
    uint32_t sampler_refused; /* atomic: errno of the first process that it was not allowed to read; 0: none */
    uint64_t sampler_cpu;     /* atomic: ns of processor time that it has used itself */
    uint32_t sampler_pid;     /* atomic: its process; 0: it was not started, and sampler_refused is why */
    uint32_t sampler_unread;  /* atomic: processes that it was not allowed to read: it knows their kernel's figures */
    uint64_t samples_lost;    /* atomic: looks that found no room in the log */
    uint32_t sampler_unseen;  /* atomic: processes and threads that it did not look at at all: there were too many */
    uint32_t names_sampler;   /* 1: Yama lets nobody read but whom a process names, so each names the sampler */
    uint64_t system_period;   /* ns between two looks at the system, as asked for; 0: none was */
};
#define PT_RING_SLOT 65536u
#define PT_SETTINGS_MOST 65536u /* bytes of settings at most */
#define PT_KEPT_SLOTS 20u

/* An index of processes, in the header's page: for each bucket of pids the id of its newest process entry (atomic;
 * 0: none).  Only writers use it. */
#define PT_PROCESS_INDEX_OFFSET 2048u
#define PT_PROCESS_BUCKETS 512u

/* The operation table: the log describes its own vocabulary. */
enum pt_layer { PT_APP = 0, PT_USER = 1, PT_HDF5 = 2, PT_MPIIO = 3, PT_STDIO = 4, PT_POSIX = 5 };
enum pt_class {
    PT_META = 0,
    PT_READ = 1,
    PT_WRITE = 2,
    PT_SYNC = 3,
    PT_COPY = 4,
    PT_MAP = 5,
    PT_OPEN = 6,
    PT_CLOSE = 7,
    PT_SEEK = 8,
    PT_SPAN = 9,
    PT_INTERNAL = 10,
    PT_PROCESS = 11,
    PT_LOCK = 12 /* what takes or releases a lock; of fcntl(), the command says so, and records have META */
};
/* How a record uses desc, aux, offset, size and result. */
enum pt_shape {
    PT_SHAPE_FD =
        0, /* desc: descriptor; aux: fd; offset: the one given, or -1; size: bytes asked for; result: bytes moved */
    PT_SHAPE_PATH = 1,  /* desc: path string; aux: flags or mode */
    PT_SHAPE_PATH2 = 2, /* desc: first path; aux: second path (rename, link, symlink) */
    PT_SHAPE_OPEN = 3,  /* desc: path string; aux: open flags; offset: new descriptor's id when done; result: fd */
    /* desc: descriptor read from; aux: descriptor written to; offset: given input offset or -1; size, result bytes */
    PT_SHAPE_FD2 = 4,
    /* desc: path string or 0; aux: name string, or 0 for the operation's own name; offset: detail string (JSON) or 0;
     * size, result: bytes (0xffffffff: none) */
    PT_SHAPE_SPAN = 5,
    /* as FD, but offset: the new position (the requested one after a failure); size: whence (| PT_SEEK_DISTANCE) */
    PT_SHAPE_SEEK = 6,
    PT_SHAPE_EXT = 7,     /* parent: record it completes; offset: its 64-bit size; begin: its 64-bit result */
    PT_SHAPE_DUP = 8,     /* desc: old descriptor; aux: old fd; offset: new descriptor's id; result: new fd */
    PT_SHAPE_TRUNC = 9,   /* as FD, but offset: the new length; no bytes */
    PT_SHAPE_PTRUNC = 10, /* as PATH, but offset: the new length */
    PT_SHAPE_FD2_AT = 11, /* as FD2, but the caller gave the output's offset, so the output's position stays */
    PT_SHAPE_OUTPUT = 12, /* parent, begin: of the FD2_AT record that it completes; offset: in the output.
                           * Among sums: parent: the copy's entry, which describes the input; this one, the output. */
    /* as FD, but size: the number that says what the call does (flock's operation, fcntl's command); no bytes */
    PT_SHAPE_COMMAND = 13,
    PT_SHAPE_WAIT = 14, /* size: options; result: id of the child that was waited for, 0: none */
    PT_SHAPE_CPU =
        15, /* parent, begin: of the span that it completes; offset: ns of processor time of the span's thread in it */
    PT_SHAPE_RAISED = 16, /* parent, begin: of the record that it completes; offset: string, type of the exception */
    /* as SPAN, but aux: detail string, whose base is the name; offset: in the file; -1: not known */
    PT_SHAPE_SPAN_AT = 17
};

/* The kind of a span: a span is an operation above POSIX, inside which others happen. */
enum pt_span_kind {
    PT_SPAN_NONE = 0,      /* no span */
    PT_SPAN_REQUEST = 1,   /* asks storage for bytes or names */
    PT_SPAN_WAIT = 2,      /* waits for another thread or process */
    PT_SPAN_CONTAINER = 3, /* only groups: adds no time and no bytes of its own */
    PT_SPAN_STARTING = 4   /* starts what others wait for, such as worker processes */
};
/* What an operation does, and what its record's fields hold.  Bits, set in operations.c. */
enum pt_trait {
    /* Data */
    PT_READS = 1 << 0,         /* moves bytes from a file */
    PT_WRITES = 1 << 1,        /* moves bytes to a file */
    PT_COPIES = 1 << 2,        /* moves bytes from one descriptor to another */
    PT_KERNEL_COUNTS = 1 << 3, /* the kernel counts these bytes in /proc/PID/io */
    /* The position of the open file description */
    PT_USES_POSITION = 1 << 4,  /* POSIX: reads or writes there and moves it, unless the call gives an offset */
    PT_SETS_POSITION = 1 << 5,  /* POSIX: the record's offset is the new position */
    PT_MOVES_POSITION = 1 << 6, /* these two, copies and calls of C streams: the position may change */
    PT_OUTPUT_STAYS = 1 << 7,   /* a copy to a given offset: the output's position stays */
    /* Fields of the record */
    PT_SIZE_IS_BYTES = 1 << 8,
    PT_RESULT_IS_BYTES = 1 << 9,  /* bytes moved, not a descriptor or a process id */
    PT_OFFSET_IS_PLACE = 1 << 10, /* in the file; -1: not given */
    PT_HAS_DESCRIPTOR = 1 << 11,  /* desc is a descriptor; of an opening, offset is */
    PT_NAMES_PATH = 1 << 12,      /* desc is a path */
    PT_AUX_IS_ID = 1 << 13,       /* a second path or descriptor, or the name of a span */
    PT_OFFSET_IS_ID = 1 << 14,    /* a new descriptor, or the detail of a span */
    /* Rows of the operations table */
    PT_HIDDEN = 1 << 15,       /* never a row */
    PT_ENCLOSES = 1 << 16,     /* a named span or an opening: can be the parent of others */
    PT_TAKES_PARENT = 1 << 17, /* without a parent of its own, the reader looks for one */
    /* Names of files; after these calls a name may lead to another file */
    PT_TAKES_NAME = 1 << 18,    /* the first path no longer leads to the file */
    PT_GIVES_NAME = 1 << 19,    /* the second path (symlink: the first) leads to the file */
    PT_REMOVES_FOLDER = 1 << 20 /* the path no longer leads to the folder */
};

struct pt_op_row {
    char name[24];
    uint8_t layer;   /* enum pt_layer */
    uint8_t klass;   /* enum pt_class */
    uint8_t shape;   /* enum pt_shape */
    uint8_t span;    /* enum pt_span_kind */
    uint32_t traits; /* bits of enum pt_trait */
};

/* Exact counters of one operation in one process: the calls that have no record. */
struct pt_counter {
    uint64_t count;
    uint64_t bytes; /* moved */
    uint64_t ticks; /* time */
    uint64_t errors;
};

/* ---- chunks ---------------------------------------------------------- */

#define PT_CHUNK_MAGIC 0x4b4e484349595021ull

enum pt_chunk_kind {
    PT_CHUNK_OPS = 1,
    PT_CHUNK_HEAP = 2,
    PT_CHUNK_PROCESS = 3,
    PT_CHUNK_PAD = 4,
    PT_CHUNK_SUMS = 5,      /* an array of pt_profile from PT_HEAP_START on */
    PT_CHUNK_SUMS_DATA = 6, /* an array of pt_profile followed by pt_profile_data */
    PT_CHUNK_SAMPLES = 7,   /* an array of pt_sample from PT_HEAP_START on; of any process: process, tid are 0 */
    PT_CHUNK_SYSTEM = 8     /* an array of pt_system from PT_HEAP_START on; of no process */
};

struct pt_chunk { /* 80 bytes; records start at 96 (48-byte records), heap objects at 80 */
    uint64_t magic;
    uint64_t offset;   /* the chunk's own: a magic at another offset is not a chunk's */
    uint64_t size;     /* bytes, header included; a multiple of PT_PAGE */
    uint32_t kind;     /* enum pt_chunk_kind */
    uint32_t process;  /* id of the process chunk */
    uint32_t tid;      /* ops: the writing thread */
    uint32_t sequence; /* ops: the chunk's number within its thread */
    uint64_t cursor; /* heap: atomic, offset of the next free byte in the chunk; ring: ring_next when it was released */
    struct pt_clock_pair clock; /* when it was claimed */
    uint64_t busy;              /* ring: id of the process that writes to it; 0: free for reuse */
};
#define PT_OPS_START 96u
#define PT_HEAP_START 80u

/* ---- processes --------------------------------------------------------- */

enum pt_start {
    PT_START_TOP = 0,
    PT_START_FORK = 1,
    PT_START_JOINED = 2,
    PT_START_VFORK = 3,
    PT_START_SPAWN = 4,
    /* not by this run: it is older than the tracing, or such a process has started it */
    PT_START_FOUND = 5
};
enum pt_end { PT_END_UNKNOWN = 0, PT_END_EXIT = 1, PT_END_SIGNAL = 2, PT_END_EXEC = 3, PT_END_STOPPED = 4 };

/* What the kernel counted for a process: /proc/PID/io and its page faults. */
struct pt_account {
    uint64_t read_chars; /* bytes moved by read-like system calls on files, pipes and sockets */
    uint64_t write_chars;
    uint64_t read_calls;
    uint64_t write_calls;
    uint64_t storage_read;    /* bytes fetched from storage for this process */
    uint64_t storage_written; /* bytes of page cache that this process made dirty */
    uint64_t minor_faults;
    uint64_t major_faults; /* faults that waited for storage */
    uint64_t cpu_user;     /* ns of processor time in the program's own code */
    uint64_t cpu_system;   /* ns in the kernel */
};
#define PT_SHELLS 8

/* Where a Python's frames are found from outside: offsets in the interpreter's own structures, which csrc/ext/frames
 * fills in for the version that it is built for, and csrc/sampler checks before it uses them. */
struct pt_layout {
    uint64_t runtime;                           /* address of _PyRuntime in the process */
    uint32_t co_shim;                           /* bits of co_flags: a frame of no code that anybody wrote */
    uint32_t str_kind, str_ascii, str_compact;  /* bits of the word at str_state */
    uint16_t rt_head, is_next, is_threads;      /* _PyRuntime, interpreters */
    uint16_t gil, gil_size;                     /* in 3.11 in _PyRuntime; later in the interpreter, a pointer to it */
    uint16_t ts_next, ts_tid, ts_chunk, ts_top; /* thread states */
    uint16_t ts_frame, cframe;                  /* the innermost frame, in 3.11 and 3.12 by way of a _PyCFrame */
    uint16_t fr_code, fr_instruction, fr_previous; /* frames */
    uint16_t fr_top;                        /* of its stack, kept while the frame does not run (csrc/sampler/stack.c) */
    uint16_t fr_entry;                      /* 3.11: whether C called it */
    uint16_t fr_owner, fr_size, owner_most; /* owners beyond it stand for the C stack, and have no code */
    uint16_t co_file, co_name, co_first, co_flags; /* code objects */
    uint16_t co_table, co_bytes;
    uint16_t str_state, str_length, str_ascii_data, str_wide_data, bytes_size, bytes_data;
    uint16_t version; /* 0x30b for 3.11; written last: 0: not known */
};

struct pt_process { /* at the start of a process chunk; counters follow at PT_COUNTERS_OFFSET */
    struct pt_chunk chunk;
    uint32_t previous; /* next older entry of the process list */
    uint32_t pid;
    uint32_t ppid;
    uint32_t parent;     /* the process that started it; 0: not in this run */
    uint32_t started_by; /* record of the fork, spawn or exec; 0: not known */
    uint32_t start;      /* enum pt_start */
    uint64_t begin;      /* ticks */
    uint64_t end;        /* ticks; 0: still running, or the end was not seen */
    uint32_t end_kind;   /* enum pt_end */
    int32_t end_status;  /* exit status or signal number; after an exec see log/process_table.h */
    uint64_t start_time; /* field 22 of /proc/PID/stat: detects a reused pid */
    /* 1: it traces itself.  2: it did until it became another program.  0: only its parent entered it. */
    uint32_t followed;
    uint32_t blind;                 /* bits of enum pt_blind */
    uint32_t cwd;                   /* string at the start */
    uint32_t stack_state;           /* enum pt_stack_state */
    uint64_t lost;                  /* atomic: operations of this process that were counted but not recorded */
    struct pt_clock_pair end_clock; /* taken at the end, as far as possible from the first pair */
    uint64_t excluded_ops[16];      /* by enum pt_desc_kind: operations left out by choice */
    uint64_t excluded_bytes[16];
    char version[32]; /* of Python, such as "3.11.7"; empty if it is none */
    char note[128];   /* why a feature is off: no stacks, no file objects, ... */
    char executable[512];
    uint32_t argv_length;
    char argv[2048];                 /* NUL-separated, possibly truncated */
    uint32_t accounts;               /* bits of enum pt_accounts */
    uint32_t mappings;               /* newest struct pt_mapping; 0: none */
    uint32_t mappings_unlisted;      /* file mappings for which there was no room */
    uint32_t bucket_next;            /* next older entry in the same bucket of the index */
    struct pt_account begin_account; /* when tracing began; zeros after a fork */
    struct pt_account end_account;
    /* Atomic: of children it has waited for, which the kernel adds to this process. */
    struct pt_account children_account;
    uint64_t own_read; /* atomic: bytes that the tracer itself has read in this process */
    /* Atomic: bytes that read-like calls without a row moved: left out or suppressed. */
    uint64_t unrecorded_read;
    uint64_t unrecorded_written; /* atomic */
    uint64_t python_since; /* ticks when Python started, in a process that the preloaded core was in before; else 0 */
    uint32_t exec_by;      /* record of the exec that replaced it */
    uint32_t awaited;      /* 1: the program that it becomes, or was spawned as, is expected to join the run */
    uint32_t shells[PT_SHELLS]; /* atomic: records of running system() and popen() calls; 0: free */
    uint32_t full_reason;       /* enum pt_full_reason: why this process records no more, although the log has room */
    uint32_t end_by;            /* the process that waited for it and recorded its end; 0: itself */
    uint32_t loaded;            /* newest struct pt_loaded; 0: none */
    /* Atomic: strings, what a person calls this process, and the kind that it is one of; 0: not known. */
    uint32_t name;
    uint32_t kind;
    /* Of a parallel job, from the launcher's environment. */
    uint32_t global_rank;  /* plus 1; 0: none */
    uint32_t local_rank;   /* plus 1: the rank on its host; 0: not known */
    uint32_t world_size;   /* how many ranks there are; 0: not known */
    uint32_t imports;      /* atomic: import statements that loaded modules, without those inside others */
    uint64_t import_ticks; /* atomic: time in them */
    uint64_t script_since; /* ticks when the code of __main__ began; 0: not seen */
    /* st_ino of /proc/PID/ns/pid where pid and ppid count in another pid namespace than the log's; 0: they do not. */
    uint64_t namespace_inode;
    uint32_t outer_pid;  /* then, its number in the log's namespace; 0: not known */
    uint32_t sent;       /* newest struct pt_loaded of code that it has pickled for others; 0: none */
    uint32_t asked_from; /* of what a fork server has forked: the stack that asked for it; 0: not known */
    uint32_t packages;   /* atomic: newest struct pt_package; 0: none */
    /* Atomic: time that watching has added to calls of libraries, before and after the original functions. */
    uint64_t watch_ticks;
    /* Atomic: string, names of the installed packages that are its program, separated by commas; 0: none are. */
    uint32_t program;
    uint64_t early_import_ticks; /* of import_ticks, what was there at script_since, plus 1; 0: not known */
    struct pt_layout layout;     /* only the sampler reads it */
    /* Strings, from the batch system's or the launcher's environment: the node, the job, the step in it; 0: none. */
    uint32_t node, job, step;
    uint32_t job_run;                /* likewise: an id that all processes of one launch have, on all hosts */
    uint64_t init_begun, init_ended; /* ticks when MPI_Init was called, and when it had started MPI; 0: not seen */
};
enum pt_accounts {
    PT_ACCOUNT_BEGIN = 1,
    PT_ACCOUNT_END = 2,
    PT_ACCOUNT_MIXED = 4, /* includes an unknown amount of a child's */
    /* It was killed.  The parent that waited for it has its processor time and what it read and wrote on storage,
     * both with those of the children that it had waited for. */
    PT_ACCOUNT_WAITED = 8
};
enum pt_blind {
    PT_BLIND_IO_URING = 1,
    PT_BLIND_SYSCALL = 2,
    PT_BLIND_MAPPED = 4,
    PT_BLIND_UNPATCHED = 8,
    PT_BLIND_FILEOBJECTS = 16
};
enum pt_stack_state { PT_STACKS_NONE = 0, PT_STACKS_FULL = 1, PT_STACKS_SITE = 2, PT_STACKS_OFF = 3 };

#define PT_COUNTERS_OFFSET 4096u
#define PT_PROCESS_CHUNK (4096u + PT_MAX_OPS * 32u) /* 12288 */

_Static_assert(sizeof(struct pt_chunk) == 80, "chunk header size");
_Static_assert(sizeof(struct pt_op_row) == 32, "operation row size");
_Static_assert(sizeof(struct pt_counter) == 32, "counter size");
_Static_assert(sizeof(struct pt_header) <= PT_PROCESS_INDEX_OFFSET, "the header ends before the index");
_Static_assert(PT_PROCESS_INDEX_OFFSET + PT_PROCESS_BUCKETS * 4 == PT_HEADER_SIZE, "both have a page");
_Static_assert(sizeof(struct pt_process) <= PT_COUNTERS_OFFSET, "process entry fits its page");

#endif
