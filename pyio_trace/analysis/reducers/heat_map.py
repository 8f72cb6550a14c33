"""Bytes read and written by process and time, as Darshan's heat map.

Result: HeatMap, whose rows are HeatRow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pyio_trace.analysis.scan.columns import MEANING, Columns
from pyio_trace.analysis.sums.time_bins import TimeBins
from pyio_trace.analysis.view_sums.key_sums import TOP, processes_called
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log.sorting import distinct

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log

_VALUES = ("read_bytes", "written_bytes")
#: Bins of Darshan's heat maps, at most.
_BINS = 200


@dataclass(frozen=True)
class HeatRow:
    """One process: bytes of the calls that began in each bin; io_ns: in POSIX and C streams, over all threads."""

    process: str
    read_bytes: list[int]
    written_bytes: list[int]
    io_ns: list[int]


@dataclass(frozen=True)
class HeatMap:
    """begin_ns: of the first bin, since the start of the run; width_ns, bins: of the bins; rows: by process, in the
    order of the process table; more: further processes; dropped: sums that did not fit into memory."""

    begin_ns: int
    width_ns: int
    bins: int
    rows: list[HeatRow]
    more: int
    dropped: int


class Heat:
    """The reducer."""

    columns: ClassVar[tuple[str, ...]] = (*MEANING, "time", "duration", "bytes_moved", "process")

    def __init__(self, top: int = TOP, bins: int = _BINS, imports: bool = False) -> None:
        """top: processes of the result; bins: at most; imports: also what Python's imports did."""
        self.top, self.bins, self.imports = top, bins, imports

    def partial(self, batch: pa.RecordBatch) -> TimeBins:
        part = TimeBins(("process",), _VALUES, self.bins)
        columns = Columns(batch)
        at = np.flatnonzero(columns.leaf if self.imports else columns.leaf & ~columns.imported)
        reads, writes = columns.transfers
        values = {"read_bytes": (columns.moved * reads)[at], "written_bytes": (columns.moved * writes)[at]}
        part.add({"process": columns.numbers("process", -1)[at]}, columns.time[at], columns.end[at], values)
        return part

    def combine(self, part: TimeBins, later: TimeBins) -> TimeBins:
        part.update(later)
        return part

    def finish(self, part: TimeBins | None, log: Log) -> HeatMap:
        part = part or TimeBins(("process",), _VALUES, self.bins)
        found = part.columns()
        if not len(found["bin"]):
            return HeatMap(0, part.width, 0, [], 0, part.dropped)
        first = int(found["bin"][0])
        place = (found["bin"] - first) // part.width
        size = int(place[-1]) + 1
        processes = distinct(found["process"])
        chosen = processes[: self.top]
        names = processes_called(log, chosen)
        mine = np.flatnonzero(np.isin(found["process"], chosen))
        row = np.searchsorted(chosen, found["process"][mine])
        series = []
        for column in ("read_bytes", "written_bytes", "time"):
            values = np.zeros((len(chosen), size), np.int64)
            np.add.at(values, (row, place[mine]), found[column][mine])
            series.append(values.tolist())
        rows = [HeatRow(name or "", *own) for name, *own in zip(names, *series, strict=True)]
        begin = first - int(log.info()["start"])
        return HeatMap(begin, part.width, size, rows, len(processes) - len(rows), part.dropped)


REDUCER = Heat
