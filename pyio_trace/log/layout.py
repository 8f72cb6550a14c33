"""The live log's layout for the reader: csrc/core/format/log_*.h as numbers and numpy dtypes.

Names are those of C without PT_; fields are those of the C structs.
tests/log/test_layout.py compiles these headers and compares every number, size
and offset.  Everything in a log is little-endian.  Numbers that the capture
half needs too are in enums.py, log_constants.py and existing_files.py.
"""

from __future__ import annotations

import numpy as np

from pyio_trace import existing_files, log_constants

MAGIC = existing_files.LOG_MAGIC
VERSION = log_constants.LOG_VERSION
PAGE = 4096
ID_SHIFT = log_constants.ID_SHIFT
MAX_OPS = 256

HEADER_SIZE = log_constants.LOG_HEADER_SIZE
OPTABLE_OFFSET = 4096
OVERFLOW_OFFSET = OPTABLE_OFFSET + 8192
FIRST_CHUNK = OVERFLOW_OFFSET + 8192
BEGINNING = 1 << 16

TICKS_MONOTONIC_NS, TICKS_TSC, TICKS_CNTVCT = 0, 1, 2
NOT_FULL, FULL_BUDGET, FULL_DISK, FULL_LIMIT = 0, 1, 2, 3
FULL_REFUSED, FULL_MEMORY, FULL_QUOTA, FULL_ADDRESSES, FULL_MOVED, FULL_DAMAGED = 4, 5, 6, 7, 8, 9
#: What users are told.
FULL_REASONS = {
    FULL_BUDGET: "the log reached its size limit",
    FULL_DISK: "disk full",
    FULL_LIMIT: "file-size limit of the process",
    FULL_REFUSED: "the kernel refused room for the log (a seccomp filter, or a limit on descriptors?)",
    FULL_MEMORY: "no memory for the log's pages",
    FULL_QUOTA: "disk quota used up",
    FULL_ADDRESSES: "address-space limit of the process",
    FULL_MOVED: "the log was renamed or removed, and on this kernel room for it is reserved by its name",
    FULL_DAMAGED: "another program wrote over the log's header",
}


class Trait:
    """enum pt_trait: what an operation does, and what its record's fields hold."""

    (
        READS, WRITES, COPIES, KERNEL_COUNTS,
        USES_POSITION, SETS_POSITION, MOVES_POSITION, OUTPUT_STAYS,
        SIZE_IS_BYTES, RESULT_IS_BYTES, OFFSET_IS_PLACE, HAS_DESCRIPTOR, NAMES_PATH, AUX_IS_ID, OFFSET_IS_ID,
        HIDDEN, ENCLOSES, TAKES_PARENT,
        TAKES_NAME, GIVES_NAME, REMOVES_FOLDER,
    ) = (1 << bit for bit in range(21))  # fmt: skip


(
    SHAPE_FD, SHAPE_PATH, SHAPE_PATH2, SHAPE_OPEN, SHAPE_FD2, SHAPE_SPAN, SHAPE_SEEK, SHAPE_EXT, SHAPE_DUP,
    SHAPE_TRUNC, SHAPE_PTRUNC, SHAPE_FD2_AT, SHAPE_OUTPUT, SHAPE_COMMAND, SHAPE_WAIT, SHAPE_CPU, SHAPE_RAISED,
    SHAPE_SPAN_AT,
) = range(18)  # fmt: skip

CHUNK_MAGIC = 0x4B4E484349595021
#: How many process chunks find room on a full disk.
KEPT_SLOTS = 20
CHUNK_OPS, CHUNK_HEAP, CHUNK_PROCESS, CHUNK_PAD, CHUNK_SUMS, CHUNK_SUMS_DATA = 1, 2, 3, 4, 5, 6
CHUNK_SAMPLES, CHUNK_SYSTEM = 7, 8
OPS_START = 96
HEAP_START = 80

STATE_MASK = 0x03
EMPTY, BEGUN, DONE = 0, 1, 2
FAILED = 0x04
WIDE = 0x08
COALESCED = 0x10
LINK_SHIFT = 5
LINK_STARTED = 5  # PT_LINK_STARTED: Link.CONTEXT, of a thread that was started in the span, until the span ends
NO_BYTES = 0xFFFFFFFF
AT_END, TO_END, AT_POSITION, AT_PLACE = -2, -3, -4, -8

HEAP_STRING, HEAP_STACK, HEAP_CODE, HEAP_DESC, HEAP_MAPPING, HEAP_PROFILE, HEAP_LOADED, HEAP_IMPORT = range(1, 9)
MAPPING_SHARED, MAPPING_POPULATED, MAPPING_SAMPLED, MAPPING_PARTLY, MAPPING_INHERITED = 1, 2, 4, 8, 16
MAPPING_SYNCED, MAPPING_SYNCED_OTHERS = 32, 64
MAPPING_SHARES, MAPPING_SHARES_SHIFT = 16, 8
NOT_MEASURED, MEASURED_AT_MUNMAP, MEASURED_AT_END, MEASURING_SKIPPED = range(4)
GAP_NONE, GAP_RESUMED, GAP_LOST, GAP_SUMS = range(4)
PROFILE_SIZE = 112
PROFILE_DATA_SIZE = 304
SIZE_RANGES = 10
COMMON_SIZES = 4
RING_SLOT = 65536

START_TOP, START_FORK, START_JOINED, START_VFORK, START_SPAWN, START_FOUND = range(6)
#: The same in words, by number.
STARTS = tuple(name.removeprefix("START_").lower() for name in list(globals()) if name.startswith("START_"))
END_UNKNOWN, END_EXIT, END_SIGNAL, END_EXEC, END_STOPPED = range(5)
COUNTERS_OFFSET = 4096
PROCESS_CHUNK = 4096 + MAX_OPS * 32

#: enum pt_desc_kind, by number: what a descriptor leads to, or why an operation was left out.
DESC_KINDS = (
    "unknown", "regular", "directory", "fifo", "device", "pipe", "socket", "terminal", "anon", "proc", "sys",
    "path", "operation", "import", "small", "paused",
)  # fmt: skip
#: Those that a descriptor can lead to.
FILE_KINDS = DESC_KINDS[: DESC_KINDS.index("path")]
#: enum pt_sample_state, by number: what a thread was found doing.
SAMPLE_STATES = ("running", "gil", "lock", "sleep", "poll", "wait", "system call", "fault")
SAMPLE_UNREADABLE, SAMPLE_INNERMOST = 1, 2
#: enum pt_system_kind, by number: what a row of the system is about; and what its values are.
SYSTEM_COLUMNS = {
    "machine": (
        "cpu_busy", "cpu_wait", "cores", "cpu_stall", "memory_stall", "io_stall", "io_stall_full", "available",
        "cached", "dirty", "cost", "unread",
    ),
    "disk": ("read_bytes", "written_bytes", "reads", "writes", "read_time", "write_time", "busy"),
    "network": ("read_bytes", "written_bytes", "reads", "writes", "lost"),
    "other": ("read_bytes", "written_bytes"),
    "own": ("read_bytes", "written_bytes"),
}  # fmt: skip
SYSTEM_KINDS = tuple(SYSTEM_COLUMNS)
SYSTEM_VALUES = 12
SYSTEM_UNKNOWN = (1 << 64) - 1
#: enum pt_blind, bit by bit.
BLIND = ("io_uring", "syscall", "mapped", "unpatched", "fileobjects")


CLOCK_PAIR = np.dtype([("ticks", "<u8"), ("mono", "<i8"), ("real", "<i8")], align=True)

HEADER = np.dtype(
    [
        ("magic", "V8"),
        ("version", "<u4"),
        ("first_chunk", "<u4"),
        ("budget", "<u8"),
        ("next", "<u8"),
        ("run_id", "<u8"),
        ("owner_pid", "<u4"),
        ("tick_kind", "<u4"),
        ("mode", "<u4"),
        ("full_reason", "<u4"),
        ("full_since", "<u8"),
        ("lost", "<u8"),
        ("processes", "<u4"),
        ("unfollowed", "<u4"),
        ("first", CLOCK_PAIR),
        ("boot_id", "S40"),
        ("host", "S128"),
        ("fault_count", "<u8"),
        ("forks_pending", "<u4"),
        ("ring_slots", "<u4"),
        ("ring_start", "<u8"),
        ("ring_next", "<u8"),
        ("selection", "S1024"),
        ("ring_lost", "<u8"),
        ("excluded_ops", "<u8", (16,)),
        ("excluded_bytes", "<u8", (16,)),
        ("namespace_device", "<u8"),
        ("namespace_inode", "<u8"),
        ("owner_start", "<u8"),
        ("settings", "<u4"),
        ("kept_room", "<u4"),
        ("cores", "<u4"),
        ("sampling_hz", "<u4"),
        ("sampler_refused", "<u4"),
        ("sampler_cpu", "<u8"),
        ("sampler_pid", "<u4"),
        ("sampler_unread", "<u4"),
        ("samples_lost", "<u8"),
        ("sampler_unseen", "<u4"),
        ("names_sampler", "<u4"),
        ("system_period", "<u8"),
    ],
    align=True,
)

OP_ROW = np.dtype(
    [("name", "S24"), ("layer", "u1"), ("klass", "u1"), ("shape", "u1"), ("span", "u1"), ("traits", "<u4")], align=True
)

COUNTER = np.dtype([("count", "<u8"), ("bytes", "<u8"), ("ticks", "<u8"), ("errors", "<u8")], align=True)

CHUNK = np.dtype(
    [
        ("magic", "<u8"),
        ("offset", "<u8"),
        ("size", "<u8"),
        ("kind", "<u4"),
        ("process", "<u4"),
        ("tid", "<u4"),
        ("sequence", "<u4"),
        ("cursor", "<u8"),
        ("clock", CLOCK_PAIR),
        ("busy", "<u8"),
    ],
    align=True,
)

RECORD = np.dtype(
    [
        ("op", "u1"),
        ("flags", "u1"),
        ("duration_hi", "<u2"),
        ("desc", "<u4"),
        ("begin", "<u8"),
        ("duration_lo", "<u4"),
        ("stack", "<u4"),
        ("parent", "<u4"),
        ("aux", "<u4"),
        ("offset", "<i8"),
        ("size", "<u4"),
        ("result", "<u4"),
    ],
    align=True,
)

HEAP = np.dtype([("kind", "<u4"), ("size", "<u4")], align=True)
STRING = np.dtype([("heap", HEAP), ("base", "<u4"), ("length", "<u4")], align=True)
FRAME = np.dtype([("code", "<u4"), ("line", "<u4")], align=True)
STACK = np.dtype([("heap", HEAP), ("count", "<u4"), ("truncated", "<u2"), ("submitters", "<u2")], align=True)
CODE = np.dtype(
    [("heap", HEAP), ("file", "<u4"), ("function", "<u4"), ("first_line", "<u4"), ("line_table", "<u4")], align=True
)
DESC = np.dtype(
    [
        ("heap", HEAP),
        ("fd", "<i4"),
        ("path", "<u4"),
        ("root", "<u4"),
        ("open_flags", "<u4"),
        ("opened_by", "<u4"),
        ("kind", "<u4"),
        ("dev", "<u8"),
        ("ino", "<u8"),
        ("position", "<i8"),
        ("process", "<u4"),
        ("gap", "<u4"),
    ],
    align=True,
)

PROFILE = np.dtype(
    [
        ("heap", HEAP),
        ("process", "<u4"),
        ("tid", "<u4"),
        ("op", "u1"),
        ("link", "u1"),
        ("error", "<u2"),
        ("desc", "<u4"),
        ("stack", "<u4"),
        ("parent", "<u4"),
        ("aux", "<u4"),
        ("opened", "<u4"),
        ("begun", "<u8"),
        ("count", "<u8"),
        ("asked", "<u8"),
        ("moved", "<u8"),
        ("ticks", "<u8"),
        ("longest", "<u8"),
        ("first", "<u8"),
        ("last", "<u8"),
    ],
    align=True,
)

PROFILE_DATA = np.dtype(
    [
        ("placed", "<u8"),
        ("consecutive", "<u8"),
        ("sequential", "<u8"),
        ("unaligned", "<u8"),
        ("highest", "<u8"),
        ("last_end", "<u8"),
        ("sizes", "<u8", (SIZE_RANGES,)),
        ("common", "<u8", (COMMON_SIZES, 2)),
    ],
    align=True,
)

MAPPING = np.dtype(
    [
        ("heap", HEAP),
        ("previous", "<u4"),
        ("desc", "<u4"),
        ("record", "<u4"),
        ("protection", "<u4"),
        ("flags", "<u4"),
        ("measured", "<u4"),
        ("length", "<u8"),
        ("offset", "<u8"),
        ("touched", "<u8"),
        ("at_least", "<u8"),
        ("written", "<u8"),
        ("synced", "<u8"),
        ("others_cleaned", "<u8"),
        ("file_dirty", "<u8"),
        ("made", "<u8"),
        ("measured_at", "<u8"),
    ],
    align=True,
)

ACCOUNT = np.dtype(
    [
        ("read_chars", "<u8"),
        ("write_chars", "<u8"),
        ("read_calls", "<u8"),
        ("write_calls", "<u8"),
        ("storage_read", "<u8"),
        ("storage_written", "<u8"),
        ("minor_faults", "<u8"),
        ("major_faults", "<u8"),
        ("cpu_user", "<u8"),
        ("cpu_system", "<u8"),
    ],
    align=True,
)
#: Bits of pt_process.accounts.
ACCOUNT_BEGIN, ACCOUNT_END, ACCOUNT_MIXED, ACCOUNT_WAITED = 1, 2, 4, 8

PROCESS_ENTRY = np.dtype(
    [
        ("chunk", CHUNK),
        ("previous", "<u4"),
        ("pid", "<u4"),
        ("ppid", "<u4"),
        ("parent", "<u4"),
        ("started_by", "<u4"),
        ("start", "<u4"),
        ("begin", "<u8"),
        ("end", "<u8"),
        ("end_kind", "<u4"),
        ("end_status", "<i4"),
        ("start_time", "<u8"),
        ("followed", "<u4"),
        ("blind", "<u4"),
        ("cwd", "<u4"),
        ("stack_state", "<u4"),
        ("lost", "<u8"),
        ("end_clock", CLOCK_PAIR),
        ("excluded_ops", "<u8", (16,)),
        ("excluded_bytes", "<u8", (16,)),
        ("version", "S32"),
        ("note", "S128"),
        ("executable", "S512"),
        ("argv_length", "<u4"),
        ("argv", "V2048"),
        ("accounts", "<u4"),
        ("mappings", "<u4"),
        ("mappings_unlisted", "<u4"),
        ("bucket_next", "<u4"),
        ("begin_account", ACCOUNT),
        ("end_account", ACCOUNT),
        ("children_account", ACCOUNT),
        ("own_read", "<u8"),
        ("unrecorded_read", "<u8"),
        ("unrecorded_written", "<u8"),
        ("python_since", "<u8"),
        ("exec_by", "<u4"),
        ("awaited", "<u4"),
        ("shells", "<u4", (8,)),
        ("full_reason", "<u4"),
        ("end_by", "<u4"),
        ("loaded", "<u4"),
        ("name", "<u4"),
        ("kind", "<u4"),
        ("global_rank", "<u4"),
        ("local_rank", "<u4"),
        ("world_size", "<u4"),
        ("imports", "<u4"),
        ("import_ticks", "<u8"),
        ("script_since", "<u8"),
        ("namespace_inode", "<u8"),
        ("outer_pid", "<u4"),
        ("sent", "<u4"),
        ("asked_from", "<u4"),
        ("packages", "<u4"),
        ("watch_ticks", "<u8"),
        ("program", "<u4"),
        ("early_import_ticks", "<u8"),
        ("layout", "<u8", (11,)),  # struct pt_layout, which only the sampler reads
        ("node", "<u4"),
        ("job", "<u4"),
        ("step", "<u4"),
        ("job_run", "<u4"),
        ("init_begun", "<u8"),
        ("init_ended", "<u8"),
    ],
    align=True,
)

PACKAGE = np.dtype([("heap", HEAP), ("previous", "<u4"), ("name", "<u4"), ("ticks", "<u8")], align=True)

SAMPLE = np.dtype(
    [
        ("begin", "<u8"), ("ticks", "<u8"), ("cpu_ns", "<u8"), ("delay_ns", "<u8"), ("process", "<u4"), ("tid", "<u4"),
        ("stack", "<u4"), ("samples", "<u2"), ("state", "u1"), ("flags", "u1"),
    ],
    align=True,
)  # fmt: skip

SYSTEM = np.dtype(
    [
        ("begin", "<u8"), ("ticks", "<u8"), ("kind", "<u4"), ("pid", "<u4"), ("device", "<u8"), ("name", "S32"),
        ("values", "<u8", (SYSTEM_VALUES,)),
    ],
    align=True,
)  # fmt: skip

#: C struct name -> dtype, for tests/log/test_layout.py.
STRUCTS: dict[str, np.dtype[np.void]] = {
    "pt_clock_pair": CLOCK_PAIR,
    "pt_header": HEADER,
    "pt_op_row": OP_ROW,
    "pt_counter": COUNTER,
    "pt_chunk": CHUNK,
    "pt_record": RECORD,
    "pt_heap": HEAP,
    "pt_string": STRING,
    "pt_frame": FRAME,
    "pt_stack": STACK,
    "pt_code": CODE,
    "pt_desc": DESC,
    "pt_mapping": MAPPING,
    "pt_package": PACKAGE,
    "pt_account": ACCOUNT,
    "pt_profile": PROFILE,
    "pt_profile_data": PROFILE_DATA,
    "pt_process": PROCESS_ENTRY,
    "pt_sample": SAMPLE,
    "pt_system": SYSTEM,
}
