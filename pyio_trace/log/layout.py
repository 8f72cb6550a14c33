"""The live log's layout for the reader: csrc/core/log_format.h as numpy dtypes.

Field names are those of the C structs.  tests/log/test_layout.py compiles the
header and compares every size, offset and constant; neither side is trusted by
hand.  Everything in a log is little-endian.
"""

from __future__ import annotations

import numpy as np

MAGIC = b"PYIOLOG\n"
VERSION = 2
PAGE = 4096
ID_SHIFT = 4
MAX_OPS = 256

HEADER_SIZE = 4096
OPTABLE_OFFSET = 4096
OVERFLOW_OFFSET = OPTABLE_OFFSET + 8192
FIRST_CHUNK = OVERFLOW_OFFSET + 8192

TICKS_MONOTONIC_NS, TICKS_TSC, TICKS_CNTVCT = 0, 1, 2
MODE_TRACE, MODE_PROFILE, MODE_RING = 0, 1, 2
NOT_FULL, FULL_BUDGET, FULL_DISK, FULL_LIMIT = 0, 1, 2, 3

APP, USER, HDF5, MPIIO, STDIO, POSIX = range(6)
META, READ, WRITE, SYNC, COPY, MAP, OPEN, CLOSE, SEEK, SPANS, INTERNAL, PROCESS = range(12)
(
    SHAPE_FD,
    SHAPE_PATH,
    SHAPE_PATH2,
    SHAPE_OPEN,
    SHAPE_FD2,
    SHAPE_SPAN,
    SHAPE_SEEK,
    SHAPE_EXT,
    SHAPE_DUP,
    SHAPE_TRUNC,
    SHAPE_PTRUNC,
    SHAPE_FD2_AT,
) = range(12)

CHUNK_MAGIC = 0x4B4E484349595021
CHUNK_OPS, CHUNK_HEAP, CHUNK_PROCESS, CHUNK_PAD, CHUNK_SUMS, CHUNK_SUMS_DATA = 1, 2, 3, 4, 5, 6
OPS_START = 96
HEAP_START = 80

STATE_MASK = 0x03
EMPTY, BEGUN, DONE = 0, 1, 2
FAILED = 0x04
WIDE = 0x08
COALESCED = 0x10
LINK_SHIFT = 5
NO_BYTES = 0xFFFFFFFF

HEAP_STRING, HEAP_STACK, HEAP_CODE, HEAP_DESC, HEAP_MAPPING, HEAP_PROFILE = range(1, 7)
MAPPING_SHARED, MAPPING_POPULATED, MAPPING_SAMPLED, MAPPING_PARTLY, MAPPING_INHERITED = 1, 2, 4, 8, 16
NOT_MEASURED, MEASURED_AT_MUNMAP, MEASURED_AT_END, MEASURING_SKIPPED = range(4)
GAP_NONE, GAP_RESUMED, GAP_LOST = 0, 1, 2
PROFILE_SIZE = 112
PROFILE_DATA_SIZE = 304
SIZE_RANGES = 10
COMMON_SIZES = 4
RING_SLOT = 65536

START_TOP, START_FORK, START_JOINED, START_VFORK, START_SPAWN = range(5)
END_UNKNOWN, END_EXIT, END_SIGNAL, END_EXEC, END_STOPPED = range(5)
COUNTERS_OFFSET = 4096
PROCESS_CHUNK = 4096 + MAX_OPS * 32

#: enum pt_desc_kind, by number: what a descriptor leads to, or why an operation was left out.
DESC_KINDS = (
    "unknown", "regular", "directory", "fifo", "device", "pipe", "socket", "terminal", "anon", "proc", "sys",
    "path", "operation", "import", "small", "paused",
)  # fmt: skip
#: enum pt_blind, bit by bit.
BLIND = ("io_uring", "syscall", "mapped", "unpatched", "fileobjects")
#: enum pt_stack_state, by number.
STACK_STATES = ("none", "full", "site", "off")
MODES = ("trace", "profile", "ring")


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
    ],
    align=True,
)

OP_ROW = np.dtype([("name", "S26"), ("layer", "u1"), ("klass", "u1"), ("shape", "u1"), ("reserved", "V3")], align=True)

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
STACK = np.dtype([("heap", HEAP), ("count", "<u4"), ("truncated", "<u4")], align=True)
CODE = np.dtype(
    [("heap", HEAP), ("file", "<u4"), ("function", "<u4"), ("first_line", "<u4"), ("reserved", "<u4")], align=True
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
    ],
    align=True,
)
#: Bits of pt_process.accounts.
ACCOUNT_BEGIN, ACCOUNT_END, ACCOUNT_MIXED = 1, 2, 4

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
    ],
    align=True,
)

#: C struct name -> dtype, for the parity test.
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
    "pt_account": ACCOUNT,
    "pt_profile": PROFILE,
    "pt_profile_data": PROFILE_DATA,
    "pt_process": PROCESS_ENTRY,
}
