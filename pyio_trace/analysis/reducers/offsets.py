"""Where in its file each transfer went, and when, for the files with the most time.

Result: Offsets, whose rows are FileOffsets.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pyio_trace.analysis.calls.file_names import COLUMNS as NAME_COLUMNS
from pyio_trace.analysis.calls.file_names import FileNames
from pyio_trace.analysis.scan.columns import MEANING, Columns
from pyio_trace.analysis.sums.place_bins import PlaceBins, coarser
from pyio_trace.analysis.view_sums.key_sums import process_names
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log.sorting import distinct

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.analysis.scan.columns import Ints
    from pyio_trace.join.sources.facade import Log

#: Files, and cells and processes of each.
_FILES, _CELLS, _PROCESSES = 10, 4096, 64
#: Parts of a file for which the bytes of each process are told.
PARTS = 128


@dataclass(frozen=True)
class OffsetCell:
    """Transfers in one direction that began near each other, in time and in the file: one, as a rule.

    direction: read or write.  begin_ns, end_ns: of the first and last, since the start of the run; low_bytes,
    high_bytes: the first byte that they touched, and one past the last.  time_ns: in the calls, summed.
    """

    direction: str
    begin_ns: int
    end_ns: int
    low_bytes: int
    high_bytes: int
    calls: int
    moved_bytes: int
    time_ns: int


@dataclass(frozen=True)
class ProcessRange:
    """What one process transferred, by part of the file (PARTS equal ones from its first byte to the last that was
    touched)."""

    process: str
    read_bytes: list[int]
    written_bytes: list[int]


@dataclass(frozen=True)
class FileOffsets:
    """One file.  calls, time_ns, read_bytes, written_bytes: of transfers at known offsets that succeeded; end_bytes:
    one past the last byte touched.  users: processes, most bytes first."""

    SHOWN: ClassVar[tuple[str, ...]] = ("path", "calls", "time_ns", "read_bytes", "written_bytes", "end_bytes")

    path: str
    calls: int
    time_ns: int
    read_bytes: int
    written_bytes: int
    end_bytes: int
    cells: list[OffsetCell]
    users: list[ProcessRange]
    more_users: int


@dataclass(frozen=True)
class Offsets:
    """rows: most time first.  time_ns, moved_bytes: of the transfers of all files.  more: further files; unplaced:
    transfers whose offset is not known; dropped: sums that did not fit into memory (0: all figures are exact)."""

    time_ns: int
    moved_bytes: int
    rows: list[FileOffsets]
    more: int
    unplaced: int
    dropped: int


@dataclass
class Part:
    """What some batches contribute."""

    places: PlaceBins = field(default_factory=PlaceBins)
    names: FileNames = field(default_factory=FileNames)
    unplaced: int = 0


class OffsetsOfFiles:
    """The reducer."""

    columns: ClassVar[tuple[str, ...]] = tuple(
        dict.fromkeys(
            (*MEANING, *NAME_COLUMNS, "time", "duration", "bytes_moved", "file_offset", "errno", "in_flight", "process")
        )
    )

    def __init__(self, top: int = _FILES, imports: bool = False) -> None:
        """top: files of the result; imports: also what Python's imports read."""
        self.top, self.imports = top, imports

    def partial(self, batch: pa.RecordBatch) -> Part:
        part, columns = Part(), Columns(batch)
        reads, writes = columns.transfers
        counted = (reads | writes) & (columns.moved > 0) & columns.ended & (columns.file != 0)
        if not self.imports:
            counted &= ~columns.imported
        placed = counted & (columns.offset >= 0) & (columns.calls == 1)
        part.unplaced = int(columns.calls[counted & ~placed].sum())
        at = np.flatnonzero(placed)
        read, moved = reads[at].astype(np.int64), columns.moved[at]
        values = {
            "time": columns.duration[at],
            "calls": columns.calls[at],
            "read": moved * read,
            "written": moved * (1 - read),
        }
        part.places.add(
            columns.file[at], 1 - read, columns.numbers("process", -1)[at], columns.time[at], columns.end[at],
            columns.offset[at], values,
        )  # fmt: skip
        part.names.add(columns, at)
        return part

    def combine(self, part: Part, later: Part) -> Part:
        part.places.update(later.places)
        part.names.update(later.names)
        part.unplaced += later.unplaced
        return part

    def finish(self, part: Part | None, log: Log) -> Offsets:
        part = part or Part()
        sums = part.places.columns()
        files = distinct(sums["file"])
        time, moved = np.zeros(len(files), np.int64), np.zeros(len(files), np.int64)
        number = np.searchsorted(files, sums["file"])
        np.add.at(time, number, sums["time"])
        np.add.at(moved, number, sums["read"] + sums["written"])
        order = np.lexsort((files, -moved, -time))[: self.top]
        rows = []
        for path, one in zip(part.names.of(files[order], log), order.tolist(), strict=True):
            own = np.flatnonzero(number == one)
            rows.append(_file(path, {name: values[own] for name, values in sums.items()}, log))
        return Offsets(
            int(time.sum()), int(moved.sum()), rows, len(files) - len(rows), part.unplaced, part.places.dropped
        )


def _file(path: str, sums: dict[str, Ints], log: Log) -> FileOffsets:
    start, called = int(log.info()["start"]), process_names(log)
    cells = coarser(sums, _CELLS, "process")
    columns = (
        cells[name].tolist() for name in ("write", "first", "last", "low", "high", "calls", "read", "written", "time")
    )
    shown = [
        OffsetCell("write" if write else "read", first - start, last - start, low, high, calls, read + written, time)
        for write, first, last, low, high, calls, read, written, time in zip(*columns, strict=True)
    ]
    shown.sort(key=lambda cell: (cell.begin_ns, cell.low_bytes, cell.direction))
    end = int(sums["high"].max())
    processes, number = np.unique(sums["process"], return_inverse=True)
    bytes_of = np.zeros(len(processes), np.int64)
    np.add.at(bytes_of, number.ravel(), sums["read"] + sums["written"])
    users = [
        ProcessRange(
            called(int(processes[one])) or "",
            *(_parts(sums, number.ravel() == one, name, end) for name in ("read", "written")),
        )
        for one in np.lexsort((processes, -bytes_of))[:_PROCESSES].tolist()
    ]  # fmt: skip
    totals = {name: int(sums[name].sum()) for name in ("calls", "time", "read", "written")}
    return FileOffsets(
        path=path,
        calls=totals["calls"],
        time_ns=totals["time"],
        read_bytes=totals["read"],
        written_bytes=totals["written"],
        end_bytes=end,
        cells=shown,
        users=users,
        more_users=len(processes) - len(users),
    )


def _parts(sums: dict[str, Ints], mine: Ints, name: str, end: int) -> list[int]:
    """The bytes of these sums by part of a file that ends there; those of one sum are spread over what it touched."""
    at = np.flatnonzero(mine & (sums[name] > 0))
    borders = end * np.arange(PARTS + 1, dtype=np.float64) / PARTS
    extent = np.maximum(sums["high"][at] - sums["low"][at], 1)
    low, wide, moved = (one.astype(np.float64)[:, None] for one in (sums["low"][at], extent, sums[name][at]))
    whole = np.zeros(PARTS)
    step = 1 << 14
    for first in range(0, len(at), step):
        rows = slice(first, first + step)
        inside = np.clip((borders - low[rows]) / wide[rows], 0, 1) * moved[rows]
        whole += np.diff(inside, axis=1).sum(axis=0)
    return [int(one) for one in np.rint(whole)]


REDUCER = OffsetsOfFiles
