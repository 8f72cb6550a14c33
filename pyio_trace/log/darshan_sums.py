"""What Darshan's counters count: a table of operations for each of its modules, and the details of their sums.

The details have the keys of sums in mode profile (docs/reference/modes.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace.enums import Layer, OpClass
from pyio_trace.light_dataclass import dataclass

Ints = NDArray[np.int64]

#: Darshan's ranges of sizes, as details name them: labels, and where each but the last ends, bytes.
_RANGES = ("0-100", "100-1K", "1K-10K", "10K-100K", "100K-1M", "1M-4M", "4M-10M", "10M-100M", "100M-1G", "1G+")
_LIMITS = np.array([100, 1 << 10, 10 << 10, 100 << 10, 1 << 20, 4 << 20, 10 << 20, 100 << 20, 1 << 30], np.int64)
_COMMON = 4


@dataclass(frozen=True)
class Sum:
    """An operation that a module counts.

    calls: its counters; less: those that count calls of another operation too;
    timer, stamp: the counters of its time, and of when it was first and last
    called.  Of several with one timer, the first that was called has the time.
    """

    op: str
    op_class: int
    calls: tuple[str, ...]
    timer: str = ""
    stamp: str = ""
    less: str = ""


#: Reads and writes of MPI-IO by kind -> the call that stands for the kind.
KINDS = {"INDEP": "MPI_File_{}", "COLL": "MPI_File_{}_all", "SPLIT": "MPI_File_{}_all_begin", "NB": "MPI_File_i{}"}
SUMS: dict[str, tuple[int, tuple[Sum, ...]]] = {
    "POSIX": (Layer.POSIX, (
        Sum("read", OpClass.READ, ("READS", "FREADS"), "READ_TIME", "READ"),
        Sum("write", OpClass.WRITE, ("WRITES", "FWRITES"), "WRITE_TIME", "WRITE"),
        Sum("fsync", OpClass.SYNC, ("FSYNCS",), "WRITE_TIME"),
        Sum("fdatasync", OpClass.SYNC, ("FDSYNCS",), "WRITE_TIME"),
        Sum("open", OpClass.OPEN, ("OPENS",), "META_TIME", "OPEN", "DUPS"),
        Sum("stat", OpClass.META, ("STATS",), "META_TIME"),
        Sum("lseek", OpClass.SEEK, ("SEEKS",), "META_TIME"),
        Sum("dup", OpClass.META, ("DUPS",), "META_TIME"),
        Sum("rename", OpClass.META, ("RENAME_SOURCES",), "META_TIME"),
        Sum("mmap", OpClass.MAP, ("MMAPS",)),
    )),
    "STDIO": (Layer.STDIO, (
        Sum("fread", OpClass.READ, ("READS",), "READ_TIME", "READ"),
        Sum("fwrite", OpClass.WRITE, ("WRITES",), "WRITE_TIME", "WRITE"),
        Sum("fflush", OpClass.SYNC, ("FLUSHES",), "WRITE_TIME"),
        Sum("fopen", OpClass.OPEN, ("OPENS",), "META_TIME", "OPEN", "FDOPENS"),
        Sum("fdopen", OpClass.META, ("FDOPENS",), "META_TIME", "OPEN"),
        Sum("fseek", OpClass.SEEK, ("SEEKS",), "META_TIME"),
    )),
    "MPI-IO": (Layer.MPIIO, (
        Sum("MPI_File_read", OpClass.READ, tuple(f"{kind}_READS" for kind in KINDS), "READ_TIME", "READ"),
        Sum("MPI_File_write", OpClass.WRITE, tuple(f"{kind}_WRITES" for kind in KINDS), "WRITE_TIME", "WRITE"),
        Sum("MPI_File_sync", OpClass.SYNC, ("SYNCS",), "WRITE_TIME"),
        Sum("MPI_File_open", OpClass.OPEN, ("INDEP_OPENS", "COLL_OPENS"), "META_TIME", "OPEN"),
        Sum("MPI_File_set_view", OpClass.META, ("VIEWS",), "META_TIME"),
    )),
    "H5F": (Layer.HDF5, (
        Sum("H5Fopen", OpClass.OPEN, ("OPENS",), "META_TIME", "OPEN"),
        Sum("H5Fflush", OpClass.SYNC, ("FLUSHES",), "META_TIME"),
    )),
    "H5D": (Layer.HDF5, (
        Sum("H5Dread", OpClass.READ, ("READS",), "READ_TIME", "READ"),
        Sum("H5Dwrite", OpClass.WRITE, ("WRITES",), "WRITE_TIME", "WRITE"),
        Sum("H5Dflush", OpClass.SYNC, ("FLUSHES",), "WRITE_TIME"),
        Sum("H5Dopen", OpClass.META, ("OPENS",), "META_TIME", "OPEN"),
    )),
}  # fmt: skip
BYTES = {OpClass.READ: "BYTES_READ", OpClass.WRITE: "BYTES_WRITTEN"}

_READS = [one for _, sums in SUMS.values() for one in sums if one.op_class == OpClass.READ]
#: Key of a detail -> how Darshan's counters of it begin.
_ORDER = {"consecutive": "CONSEC", "sequential": "SEQ"}


class Single:
    """The calls of one file and direction that DXT has: how many, their bytes and ns, and how many of each size."""

    def __init__(self) -> None:
        self.calls = self.bytes = self.time = 0
        self.sizes = np.zeros(len(_RANGES), np.int64)

    def add(self, moved: Ints, duration: Ints) -> None:
        self.calls += len(moved)
        self.bytes += int(moved.sum(dtype=object))
        self.time += int(duration.sum(dtype=object))
        self.sizes += np.bincount(np.searchsorted(_LIMITS, moved, "left"), minlength=len(_RANGES))


def transfers(module: str, one: Sum, ints: dict[str, Ints], times: dict[str, Ints], at: int) -> dict[str, Any]:
    """The detail of reads or writes: sizes, places, the longest."""
    word, past = ("READ", "READ") if one.op_class == OpClass.READ else ("WRITE", "WRITTEN")
    found: dict[str, Any] = {"longest_ns": int(times.get(f"MAX_{word}_TIME", times["READ_TIME"] * 0)[at])}
    if f"MAX_BYTE_{past}" in ints:
        found["highest"] = int(ints[f"MAX_BYTE_{past}"][at]) + 1
    if module == "STDIO":
        return found
    prefix = f"SIZE_{word}" if module == "POSIX" else f"SIZE_{word}_AGG"
    names = [f"{prefix}_{label.replace('-', '_').replace('+', '_PLUS')}" for label in _RANGES]
    sizes = {label: int(ints[name][at]) for label, name in zip(_RANGES, names, strict=True)}
    found["sizes"] = {label: count for label, count in sizes.items() if count}
    found |= _common(ints, at, sizes, "WRITE" if word == "READ" else "READ", prefix.replace(word, "{}"))
    if module == "POSIX":
        found["placed"] = sum(int(ints[name][at]) for name in one.calls if name in ints)
        found |= {name: int(ints[f"{short}_{word}S"][at]) for name, short in _ORDER.items()}
    return found


def _common(ints: dict[str, Ints], at: int, sizes: dict[str, int], other: str, prefix: str) -> dict[str, Any]:
    """The common sizes of this direction.  Darshan has them for both together: each is of the direction that had more
    calls of its range; strides and switches are with the reads, or with the writes where there are none."""
    found: dict[str, Any] = {}
    common = {}
    for number in range(1, _COMMON + 1):
        moved, count = (int(ints[f"ACCESS{number}_{part}"][at]) for part in ("ACCESS", "COUNT"))
        label = _RANGES[int(np.searchsorted(_LIMITS, moved, "left"))]
        name = f"{prefix.format(other)}_{label.replace('-', '_').replace('+', '_PLUS')}"
        theirs = int(ints[name][at])
        if count and (sizes[label] > theirs or (sizes[label] == theirs and other == "WRITE")):
            common[str(moved)] = count
    found["common_sizes"] = common
    reads = sum(
        int(ints[name][at]) for name in ints if name.endswith("READS") and not name.startswith(("CONSEC", "SEQ"))
    )
    if other == "WRITE" or not reads:
        found["switches"] = int(ints["RW_SWITCHES"][at])
        strides = [(f"STRIDE{number}_STRIDE", f"STRIDE{number}_COUNT") for number in range(1, _COMMON + 1)]
        pairs = {str(int(ints[a][at])): int(ints[b][at]) for a, b in strides if a in ints}
        found["strides"] = {stride: count for stride, count in pairs.items() if count}
    return found


def rest(detail: dict[str, Any], row: dict[str, Ints], at: int, single: Single) -> dict[str, Any]:
    """Takes off a sum what DXT has as single calls, and gives the detail of what is left."""
    for name, amount in (("calls", single.calls), ("moved", single.bytes), ("duration", single.time)):
        row[name][at] = max(int(row[name][at]) - amount, 0)
    numbers = dict(zip(_RANGES, single.sizes.tolist(), strict=True))
    sizes = {label: max(count - numbers[label], 0) for label, count in detail.get("sizes", {}).items()}
    return {"highest": detail.get("highest", 0), "sizes": {label: count for label, count in sizes.items() if count}}
