"""Files that several processes use: who reads and writes how much, and which bytes more than one of them touches.

Result: SharedFiles, whose rows are SharedFile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pyio_trace.analysis.calls.file_names import COLUMNS as NAME_COLUMNS
from pyio_trace.analysis.calls.file_names import FileNames
from pyio_trace.analysis.scan.columns import MEANING, Columns
from pyio_trace.analysis.sums.balance import balance
from pyio_trace.analysis.sums.grouped_ranges import GroupedRanges, Ints, covered_twice, merged
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.analysis.view_sums.key_sums import TOP, process_names
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log

_VALUES = ("time", "reads", "writes", "read", "written")
_MANY = 1 << 21


@dataclass(frozen=True)
class SharedFile:
    """A file from which, or to which, two or more processes move bytes.

    processes; readers, writers: those that read, that write.  read_bytes,
    written_bytes, time_ns: of transfers of POSIX and C streams, over all.  common_bytes:
    different bytes that more than one process touched; conflict_bytes: of these, that
    one of them wrote; None: memory did not suffice to tell.  bytes_ratio, time_ratio:
    of the process with most bytes, or time, over the mean of the processes; most: the
    process with most bytes; slowest: with most time.
    """

    SHOWN: ClassVar[tuple[str, ...]] = (
        "processes", "readers", "writers", "read_bytes", "written_bytes", "common_bytes", "time_ns",
    )  # fmt: skip

    path: str
    processes: int
    readers: int
    writers: int
    read_bytes: int
    written_bytes: int
    time_ns: int
    common_bytes: int | None
    conflict_bytes: int | None
    bytes_ratio: float | None
    time_ratio: float | None
    most: str
    slowest: str


@dataclass(frozen=True)
class SharedFiles:
    """rows: most time first.  more: further files; dropped: sums that did not fit into memory (0: all figures are
    exact; else they are lower bounds)."""

    rows: list[SharedFile]
    more: int
    dropped: int


@dataclass
class Part:
    """What some batches contribute.  ranges: of bytes by file, process, and whether they were written."""

    sums: GroupedSums = field(
        default_factory=lambda: GroupedSums(("file", "process"), dict.fromkeys(_VALUES, "sum"), _MANY)
    )
    ranges: GroupedRanges = field(default_factory=lambda: GroupedRanges(3))
    names: FileNames = field(default_factory=FileNames)


class FilesOfSeveral:
    """The reducer."""

    columns: ClassVar[tuple[str, ...]] = tuple(
        dict.fromkeys((*MEANING, *NAME_COLUMNS, "bytes_moved", "file_offset", "errno", "process"))
    )

    def __init__(self, top: int = TOP, imports: bool = False) -> None:
        """top: rows of the result; imports: also what Python's imports read."""
        self.top, self.imports = top, imports

    def partial(self, batch: pa.RecordBatch) -> Part:
        part = Part()
        columns = Columns(batch)
        reads, writes = columns.transfers
        counted = (reads | writes) & (columns.numbers("errno") == 0) & (columns.file != 0) & (columns.moved > 0)
        if not self.imports:
            counted &= ~columns.imported
        at = np.flatnonzero(counted)
        if not len(at):
            return part
        file, process, moved = columns.file[at], columns.numbers("process", -1)[at], columns.moved[at]
        write = writes[at] & ~reads[at]  # a copy reads this file, and writes another
        calls = columns.calls[at]
        values = {
            "time": columns.duration[at], "reads": calls * ~write, "writes": calls * write, "read": moved * ~write,
            "written": moved * write,
        }  # fmt: skip
        part.sums.add({"file": file, "process": process, **values})
        part.names.add(columns, at)
        placed = np.flatnonzero((columns.offset[at] >= 0) & (calls == 1))
        keys = file[placed], process[placed], write[placed].astype(np.int64)
        start = columns.offset[at][placed]
        part.ranges.add(keys, start, start + moved[placed])
        return part

    def combine(self, part: Part, later: Part) -> Part:
        for name in ("sums", "ranges", "names"):
            getattr(part, name).update(getattr(later, name))
        return part

    def finish(self, part: Part | None, log: Log) -> SharedFiles:
        part = part or Part()
        sums = part.sums.columns()
        files, first, count = np.unique(sums["file"], return_index=True, return_counts=True)
        time = np.add.reduceat(sums["time"], first) if len(first) else first
        shared = np.flatnonzero(count > 1)
        order = shared[np.lexsort((files[shared], -time[shared]))][: self.top]
        common, conflicts = _overlaps(part.ranges)
        called = process_names(log)
        rows = []
        for name, at in zip(part.names.of(files[order], log), order.tolist(), strict=True):
            mine = {column: values[first[at] : first[at] + count[at]] for column, values in sums.items()}
            file = int(files[at])
            both, conflict = (None if known is None else known.get(file, 0) for known in (common, conflicts))
            rows.append(_row(name, mine, both, conflict, called))
        return SharedFiles(rows, len(shared) - len(rows), part.sums.dropped)


def _row(
    name: str, mine: dict[str, Ints], common: int | None, conflict: int | None, called: Callable[[int], str | None]
) -> SharedFile:
    among = mine["process"].tolist()
    moved = balance(mine["process"], mine["read"] + mine["written"], among)
    time = balance(mine["process"], mine["time"], among)
    return SharedFile(
        path=name, processes=len(among), readers=int((mine["reads"] > 0).sum()),
        writers=int((mine["writes"] > 0).sum()), read_bytes=int(mine["read"].sum()),
        written_bytes=int(mine["written"].sum()), time_ns=time.total, common_bytes=common, conflict_bytes=conflict,
        bytes_ratio=moved.ratio, time_ratio=time.ratio, most=called(moved.most) or "", slowest=called(time.most) or "",
    )  # fmt: skip


def _overlaps(ranges: GroupedRanges) -> tuple[dict[int, int] | None, dict[int, int] | None]:
    """(file -> bytes that several processes touched, file -> such bytes that one of them wrote).

    None: there were too many ranges to remember which process touched them, or
    whether it wrote.
    """
    (file, process, write), starts, ends = ranges.ranges()
    if ranges.given_up > 1:
        return None, None
    (of, _), first, last = merged((file, process), starts, ends)
    several = covered_twice(of, first, last)
    if ranges.given_up:
        return _lengths(*several), None
    at = np.flatnonzero(write == 1)
    (of,), first, last = merged((file[at],), starts[at], ends[at])
    written = of, first, last
    both = [np.concatenate(pair) for pair in zip(several, written, strict=True)]
    conflict = covered_twice(both[0], both[1], both[2])
    return _lengths(*several), _lengths(*conflict)


def _lengths(file: Ints, starts: Ints, ends: Ints) -> dict[int, int]:
    found, number = np.unique(file, return_inverse=True)
    sums = np.zeros(len(found), np.int64)
    np.add.at(sums, number.ravel(), ends - starts)
    return dict(zip(found.tolist(), sums.tolist(), strict=True))


REDUCER = FilesOfSeveral
