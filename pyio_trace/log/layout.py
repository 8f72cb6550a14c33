"""The live log's layout for the reader: csrc/core/log_format.h as numpy dtypes.

Field names are those of the C structs.  tests/log/test_layout.py compiles the
header and compares every size, offset and constant; neither side is trusted by
hand.  Everything in a log is little-endian.
"""

from __future__ import annotations

import numpy as np

MAGIC = b"PYIOLOG\n"
VERSION = 1
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
CHUNK_OPS, CHUNK_HEAP, CHUNK_PROCESS, CHUNK_PAD = 1, 2, 3, 4
OPS_START = 96
HEAP_START = 80

STATE_MASK = 0x03
EMPTY, BEGUN, DONE = 0, 1, 2
FAILED = 0x04
WIDE = 0x08
COALESCED = 0x10
LINK_SHIFT = 5
NO_BYTES = 0xFFFFFFFF

HEAP_STRING, HEAP_STACK, HEAP_CODE, HEAP_DESC = 1, 2, 3, 4

START_TOP, START_FORK, START_JOINED, START_VFORK, START_SPAWN = range(5)
END_UNKNOWN, END_EXIT, END_SIGNAL, END_EXEC, END_STOPPED = range(5)
COUNTERS_OFFSET = 4096
PROCESS_CHUNK = 4096 + MAX_OPS * 32

#: enum pt_desc_kind, by number: what a descriptor leads to.
DESC_KINDS = (
    "unknown", "regular", "directory", "fifo", "device", "pipe", "socket", "terminal", "anon", "proc",
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
        ("reserved", "<u4"),
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
        ("reserved", "<u8"),
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
        ("reserved", "<u4"),
    ],
    align=True,
)

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
    "pt_process": PROCESS_ENTRY,
}
