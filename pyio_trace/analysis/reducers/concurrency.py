"""How many calls and requests are in flight at once.

Result: Concurrency, whose rows are Level.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pyio_trace.analysis.scan.columns import MEANING, Columns
from pyio_trace.analysis.sums.event_counts import EventCounts, Levels
from pyio_trace.enums import Role
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log

#: Moments in memory.
MOMENTS = 1 << 20


@dataclass(frozen=True)
class Level:
    """calls_ns: how long just this many calls of POSIX and C streams on files were in flight, over all processes;
    requests_ns: likewise outermost requests, and calls that are in none."""

    in_flight: int
    calls_ns: int
    requests_ns: int


@dataclass(frozen=True)
class Concurrency:
    """rows: by number in flight, 1 upwards.

    peak_calls, peak_requests: the most at once.  mean_calls, mean_requests: while
    any was in flight (None: none was).  busy_ns: while any call was, io_ns: the sum of
    their durations.  resolution_ns: 1 if all this is exact; else, within so many ns the
    number is a mean, and the peaks are upper bounds.  Rows that stand for
    several calls have no times of their own, and are left out: unplaced_ns.
    """

    peak_calls: int
    peak_requests: int
    mean_calls: float | None
    mean_requests: float | None
    busy_ns: int
    io_ns: int
    unplaced_ns: int
    resolution_ns: int
    rows: list[Level]


@dataclass
class Part:
    """What some batches contribute.  unplaced: ns of calls that are left out."""

    calls: EventCounts
    requests: EventCounts
    unplaced: int = 0


class ConcurrencyOfRun:
    """The reducer."""

    columns: ClassVar[tuple[str, ...]] = (*MEANING, "time", "duration")

    def __init__(self, imports: bool = False) -> None:
        """imports: also what Python's imports did."""
        self.imports = imports

    def partial(self, batch: pa.RecordBatch) -> Part:
        part = _empty()
        columns = Columns(batch)
        counted = columns.leaf | columns.outer
        if not self.imports:
            counted = counted & ~columns.imported
        placed = counted & (columns.calls == 1)
        calls = np.isin(columns.role, (Role.IO, Role.SYNC, Role.LOCK))
        for events, chosen in ((part.calls, calls & columns.leaf), (part.requests, columns.outer)):
            at = np.flatnonzero(placed & chosen)
            events.add(columns.time[at], columns.end[at])
        part.unplaced = int(columns.duration[counted & calls & columns.leaf & (columns.calls > 1)].sum())
        return part

    def combine(self, part: Part, later: Part) -> Part:
        part.calls.update(later.calls)
        part.requests.update(later.requests)
        part.unplaced += later.unplaced
        return part

    def finish(self, part: Part | None, log: Log) -> Concurrency:
        part = part or _empty()
        calls, requests = part.calls.levels(), part.requests.levels()
        size = max(len(calls.time), len(requests.time))
        both = (one.time + [0] * (size - len(one.time)) for one in (calls, requests))
        rows = [Level(number, *times) for number, times in enumerate(zip(*both, strict=True), 1) if any(times)]
        weighted = sum(number * time for number, time in enumerate(calls.time, 1))
        return Concurrency(
            peak_calls=calls.peak, peak_requests=requests.peak, mean_calls=_mean(calls), mean_requests=_mean(requests),
            busy_ns=sum(calls.time), io_ns=weighted, unplaced_ns=part.unplaced,
            resolution_ns=max(calls.resolution, requests.resolution), rows=rows,
        )  # fmt: skip


def _empty() -> Part:
    return Part(EventCounts(MOMENTS), EventCounts(MOMENTS))


def _mean(levels: Levels) -> float | None:
    time = sum(levels.time)
    return sum(number * one for number, one in enumerate(levels.time, 1)) / time if time else None


REDUCER = ConcurrencyOfRun
