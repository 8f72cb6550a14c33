"""How the calls of lines took their time over the run: evenly, at first, or longer and longer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.scan.columns import Columns
from pyio_trace.analysis.sums.time_bins import TimeBins
from pyio_trace.insights.finding import Site
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
#: Bins of the run's time.
_BINS = 256
#: Sums of a line and a bin that are kept.
_MOST = 1 << 18
#: Calls, and bins that have some, from which on a motif is told.
_LEAST_CALLS, _LEAST_BINS = 30, 12
#: How many times as long calls take that take longer.
_LONGER = 2


class LineTimes:
    """For each line the time of its calls, and how many began, by bin, in the order of time."""

    def __init__(self, bins: Mapping[str, tuple[Ints, Ints, Ints]]) -> None:
        """bins: of each line, as the log writes it, begin of the bin, time (ns) in it, and calls."""
        self._bins = bins

    def motif(self, sites: Sequence[Site]) -> str | None:
        """What the calls of some lines did over time: a word of MOTIFS; None: none of them, or too little to tell."""
        lines = dict.fromkeys(f"{site.file}:{site.line}:{site.function}" for site in sites)
        found = [self._bins[line] for line in lines if line in self._bins]
        if not found:
            return None
        begins, where = np.unique(np.concatenate([begin for begin, _, _ in found]), return_inverse=True)
        time, calls = np.zeros(len(begins)), np.zeros(len(begins))
        np.add.at(time, where.ravel(), np.concatenate([own for _, own, _ in found]))
        np.add.at(calls, where.ravel(), np.concatenate([own for _, _, own in found]))
        if calls.sum() < _LEAST_CALLS or np.count_nonzero(calls) < _LEAST_BINS:
            return None
        return _motif(*_means(time, calls))


def _means(time: NDArray[np.float64], calls: NDArray[np.float64]) -> list[float]:
    """ns that a call took in the first, the second and the last third of the calls.

    A bin belongs to the third in which its middle call lies.
    """
    middle = (np.cumsum(calls) - calls / 2) / calls.sum()
    thirds = [(middle >= third / 3) & (middle < (third + 1) / 3) for third in range(3)]
    return [float(time[at].sum() / max(calls[at].sum(), 1)) for at in thirds]


def _motif(first: float, second: float, last: float) -> str | None:
    if first > _LONGER * max(second, last):
        return "warm-up"
    if first <= second <= last and last > _LONGER * first:
        return "worsening"
    return "steady" if max(first, second, last) <= _LONGER * min(first, second, last) else None


@dataclass(frozen=True)
class CallTimes:
    """The reducer.  It counts what LineCalls calls outermost: no time twice, and no imports."""

    columns: ClassVar[tuple[str, ...]] = ("time", "duration", "outer", "site", "calls", "imported")

    def partial(self, batch: pa.RecordBatch) -> TimeBins:
        part, columns = _empty(), Columns(batch)
        site = columns.codes("site")
        at = np.flatnonzero(columns.outer & ~columns.imported & (site >= 0))
        part.add({"site": site[at]}, columns.time[at], columns.end[at], {"calls": columns.calls[at]})
        return part

    def combine(self, part: TimeBins, later: TimeBins) -> TimeBins:
        part.update(later)
        return part

    def finish(self, part: TimeBins | None, log: Log) -> LineTimes:
        found = (part or _empty()).columns()
        order = np.argsort(found["site"], kind="stable")  # bins of a line stay in the order of time
        codes, first = np.unique(found["site"][order], return_index=True)
        rows = np.split(order, first[1:])
        words = log.dictionary("site").to_pylist()
        bins = {
            words[code]: (found["bin"][own], found["time"][own], found["calls"][own])
            for code, own in zip(codes.tolist(), rows, strict=False)
            if code < len(words)
        }
        return LineTimes(bins)


def _empty() -> TimeBins:
    return TimeBins(("site",), ("calls",), _BINS, _MOST)
