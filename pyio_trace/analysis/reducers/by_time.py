"""Sums over time: I/O, bytes and calls by time bin.

Result: TimeTable, whose rows are TimeBin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pyio_trace.analysis.scan.columns import MEANING, Columns
from pyio_trace.analysis.sums.time_bins import TimeBins
from pyio_trace.enums import OpClass
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log

_METADATA = (OpClass.META, OpClass.OPEN, OpClass.CLOSE, OpClass.SEEK)
_VALUES = ("calls", "read_bytes", "written_bytes", "metadata")


@dataclass(frozen=True)
class TimeBin:
    """What POSIX and C streams did between begin_ns and begin_ns + width_ns (since the start of the run).

    io_ns: in calls, summed over threads, so io_ns / width_ns is how many were in
    flight on average.  calls, metadata, read_bytes, written_bytes: of calls that
    began in the bin.
    """

    begin_ns: int
    io_ns: int
    calls: int
    metadata: int
    read_bytes: int
    written_bytes: int


@dataclass(frozen=True)
class TimeTable:
    """rows: bins in which a call was in flight, in order of time; width_ns: of each; dropped: sums that did not fit
    into memory (0: all figures are exact)."""

    width_ns: int
    rows: list[TimeBin]
    dropped: int


class ByTime:
    """The reducer."""

    columns: ClassVar[tuple[str, ...]] = (*MEANING, "time", "duration", "bytes_moved")

    def __init__(self, bins: int = 512, imports: bool = False) -> None:
        """bins: rows of the result, at most; imports: also what Python's imports did."""
        self.bins, self.imports = bins, imports

    def partial(self, batch: pa.RecordBatch) -> TimeBins:
        part = TimeBins((), _VALUES, self.bins)
        columns = Columns(batch)
        counted = columns.leaf if self.imports else columns.leaf & ~columns.imported
        at = np.flatnonzero(counted)
        reads, writes = columns.transfers
        values = {
            "calls": columns.calls, "metadata": columns.calls * np.isin(columns.kind, _METADATA),
            "read_bytes": columns.moved * reads, "written_bytes": columns.moved * writes,
        }  # fmt: skip
        part.add({}, columns.time[at], columns.end[at], {name: one[at] for name, one in values.items()})
        return part

    def combine(self, part: TimeBins, later: TimeBins) -> TimeBins:
        part.update(later)
        return part

    def finish(self, part: TimeBins | None, log: Log) -> TimeTable:
        part = part or TimeBins((), _VALUES, self.bins)
        start = int(log.info()["start"])
        found = part.columns()
        names = ("bin", "time", "calls", "metadata", "read_bytes", "written_bytes")
        rows = [
            TimeBin(begin - start, *rest)
            for begin, *rest in zip(*(found[name].tolist() for name in names), strict=True)
        ]
        return TimeTable(part.width, rows, part.dropped)


REDUCER = ByTime
