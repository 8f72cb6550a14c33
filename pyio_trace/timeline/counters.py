"""Counters of a picture, by process: bytes read and written in a second, and operations in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.analysis.scan.columns import MEANING, Columns
from pyio_trace.analysis.sums.time_bins import TimeBins
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]

#: Bins of a run, each at least 2 ** _NARROWEST ns, about 1 ms, wide.
_BINS, _NARROWEST = 512, 20
_READ, _WRITTEN, _IN_FLIGHT = range(3)
#: (name, unit)
NAMES = (("bytes read per second", "B/s"), ("bytes written per second", "B/s"), ("operations in flight", "calls"))


@dataclass(frozen=True)
class Counter:
    """One counter of a process (index).  time: ns since the epoch; value: from then on."""

    process: int
    name: str
    unit: str
    time: Ints
    value: NDArray[np.float64]


Counters = list[Counter]


class CounterBins:
    """The reducer.  Bytes count when a call begins; what is in flight is a mean over the bin, of single calls."""

    columns: ClassVar[tuple[str, ...]] = (*MEANING, "time", "duration", "process", "bytes_moved")

    def __init__(self, imports: bool) -> None:
        self._imports = imports

    def partial(self, batch: pa.RecordBatch) -> TimeBins:
        part = TimeBins(("process", "what"), ("bytes",), _BINS, narrowest=_NARROWEST)
        columns = Columns(batch)
        counted = columns.called if self._imports else columns.called & ~columns.imported
        process = columns.numbers("process", -1)
        reads, writes = columns.moves
        for what, mask, end in (
            (_READ, reads & (columns.moved > 0), columns.time), (_WRITTEN, writes & (columns.moved > 0), columns.time),
            (_IN_FLIGHT, columns.calls == 1, columns.end),
        ):  # fmt: skip
            at = np.flatnonzero(counted & mask)
            keys = {"process": process[at], "what": np.full(len(at), what, np.int64)}
            part.add(keys, columns.time[at], end[at], {"bytes": columns.moved[at]})
        return part

    def combine(self, part: TimeBins, later: TimeBins) -> TimeBins:
        part.update(later)
        return part

    def finish(self, part: TimeBins | None, log: Log) -> Counters:
        if part is None:
            return []
        found, width = part.columns(), part.width
        rates = found["bytes"] * (1e9 / width)
        values = np.where(found["what"] == _IN_FLIGHT, found["time"] / width, rates)
        order = np.lexsort((found["bin"], found["what"], found["process"]))
        key = found["process"][order] * len(NAMES) + found["what"][order]
        ends = np.append(np.flatnonzero(np.diff(key)) + 1, len(key))
        return [
            _counter(int(found["process"][at[0]]), int(found["what"][at[0]]), found["bin"][at], values[at], width)
            for at in np.split(order, ends[:-1])
            if len(at)
        ]


def _counter(process: int, what: int, time: Ints, value: NDArray[np.float64], width: int) -> Counter:
    """With zeros where nothing was counted."""
    after = time + width
    gaps = ~np.isin(after, time)
    times = np.concatenate([time, after[gaps]])
    order = np.argsort(times, kind="stable")
    values = np.concatenate([value, np.zeros(int(gaps.sum()))])
    return Counter(process, *NAMES[what], times[order], values[order])
