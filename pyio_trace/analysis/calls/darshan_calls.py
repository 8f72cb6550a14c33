"""Which operations Darshan's counters count, and Darshan's names of the counters.

Names and meanings are those of Darshan 3.4's POSIX and STDIO modules.  How the
counters here differ from Darshan's is in docs/reference/counters.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.sums.size_histogram import BINS
from pyio_trace.enums import Layer


class Call:
    """The kinds of calls, each of which has its own counters."""

    OPEN, DUP, CLOSE, READ, WRITE, SEEK, STAT, MMAP, FSYNC, FDSYNC, RENAME = range(11)
    STREAM_OPEN, FDOPEN, STREAM_CLOSE, STREAM_READ, STREAM_WRITE, STREAM_SEEK, FLUSH = range(11, 18)


#: Kinds of calls of C streams are those from this one on.
FIRST_STREAM_CALL = Call.STREAM_OPEN

_POSIX = {
    Call.OPEN: ("open", "openat", "creat", "mkstemp"),
    Call.DUP: ("dup", "dup2", "dup3"),
    Call.CLOSE: ("close",),
    Call.READ: ("read", "pread", "readv", "preadv", "preadv2"),
    Call.WRITE: ("write", "pwrite", "writev", "pwritev", "pwritev2"),
    Call.SEEK: ("lseek",),
    Call.STAT: ("stat", "lstat", "fstat", "fstatat", "statx"),
    Call.MMAP: ("mmap",),
    Call.FSYNC: ("fsync",),
    Call.FDSYNC: ("fdatasync",),
    Call.RENAME: ("rename", "renameat"),
}
_STDIO = {
    Call.STREAM_OPEN: ("fopen", "freopen", "tmpfile"),
    Call.FDOPEN: ("fdopen",),
    Call.STREAM_CLOSE: ("fclose",),
    Call.STREAM_READ: ("fread", "fgets", "fgetc", "__uflow", "getline", "fscanf", "scanf",
                       "fgetwc", "fgetws", "fwscanf"),
    Call.STREAM_WRITE: ("fwrite", "fputs", "fprintf", "fputc", "__overflow", "printf", "puts",
                        "fputwc", "fputws", "fwprintf"),
    Call.STREAM_SEEK: ("fseek",),
    Call.FLUSH: ("fflush",),
}  # fmt: skip
_KINDS = {
    layer: {name: kind for kind, names in calls.items() for name in names}
    for layer, calls in ((Layer.POSIX, _POSIX), (Layer.STDIO, _STDIO))
}
#: Each moves one byte where it succeeds, so its bytes say how many of a run of calls did.
ONE_BYTE = ("fgetc", "fputc", "__uflow", "__overflow")

#: The timer that a call adds to, by kind; -1: none.
READ_TIME, WRITE_TIME, META_TIME = range(3)
TIMER = np.full(18, META_TIME, np.int64)
TIMER[[Call.READ, Call.STREAM_READ]] = READ_TIME
TIMER[[Call.WRITE, Call.STREAM_WRITE, Call.FSYNC, Call.FDSYNC, Call.FLUSH]] = WRITE_TIME
TIMER[Call.MMAP] = -1

BIN_NAMES = tuple(label.replace("-", "_").replace("+", "_PLUS") for label, _ in BINS)
BIN_LIMITS = np.array([limit for _, limit in BINS if limit is not None], np.int64)
COMMON = 4


def kinds(layer: NDArray[np.int8], op: NDArray[np.int64], names: list[str]) -> NDArray[np.int8]:
    """The kind of each row, or -1, from its layer and the code of its operation; names: of operations, by code."""
    found = np.full(len(layer), -1, np.int8)
    for number, known in _KINDS.items():
        table = np.array([*(known.get(name, -1) for name in names), -1], np.int8)  # the last: null
        found = np.where(layer == number, table.take(op), found)
    return found
