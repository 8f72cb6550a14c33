"""Bytes by process and time, as the module HEATMAP has them: at most 200 intervals, which double as the run goes on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.light_dataclass import dataclass

Ints = NDArray[np.int64]

#: The first intervals are a tenth of a second.
_FIRST_NS = 100_000_000
_MOST = 200
#: Pieces of transfers that are made at once.
_AT_ONCE = 1 << 21
_KEYS = ("process", "what", "bin")


def _sums() -> GroupedSums:
    return GroupedSums(_KEYS, {"bytes": "sum"})


@dataclass
class Bins:
    """The finished sums: process, what, bin and bytes of each; width_ns: of a bin; count: of bins."""

    columns: dict[str, Ints]
    width_ns: int
    count: int


class HeatMap:
    """Sums up transfers; parts of it add up."""

    def __init__(self) -> None:
        self._sums, self._level = _sums(), 0

    def add(self, process: Ints, what: Ints, size: Ints, begin: Ints, end: Ints) -> None:
        """Adds transfers; what: any number that is a key too; begin, end: ns since the start of the run."""
        if not len(size):
            return
        begin = np.maximum(begin, 0)
        end = np.maximum(end, begin)
        self._raise(_level_of(int(end.max())))
        width = _FIRST_NS << self._level
        pieces = end // width - begin // width + 1
        ends = np.cumsum(pieces)
        for first in range(0, int(ends[-1]), _AT_ONCE):
            rows = slice(*np.searchsorted(ends, [first, first + _AT_ONCE], side="right"))
            if first + _AT_ONCE >= ends[-1]:
                rows = slice(rows.start, len(size))
            self._add(process[rows], what[rows], size[rows], begin[rows], end[rows], pieces[rows])

    def update(self, other: HeatMap) -> None:
        """Adds what another one has."""
        self._raise(other._level)
        other._raise(self._level)
        self._sums.update(other._sums)

    def finished(self, run_ns: int) -> Bins:
        """All sums, of a run that took so long."""
        self._raise(_level_of(run_ns))
        width = _FIRST_NS << self._level
        columns = self._sums.columns()
        return Bins(columns, width, max(-(-run_ns // width), int(columns["bin"].max(initial=0)) + 1, 1))

    def _add(self, process: Ints, what: Ints, size: Ints, begin: Ints, end: Ints, pieces: Ints) -> None:
        width = _FIRST_NS << self._level
        of = np.repeat(np.arange(len(size)), pieces)
        if not len(of):
            return
        number = np.arange(len(of)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        at = (begin // width)[of] + number
        took = np.maximum(end - begin, 1)
        # Bytes until the end of each piece, of which the differences are the pieces': nothing is lost by rounding.
        share = np.minimum((at + 1) * width - begin[of], took[of]) / took[of]
        until = np.where(number + 1 == pieces[of], size[of], (size[of] * share).astype(np.int64))
        moved = np.diff(until, prepend=0)
        moved[number == 0] = until[number == 0]
        self._sums.add({"process": process[of], "what": what[of], "bin": at, "bytes": moved})

    def _raise(self, level: int) -> None:
        if level > self._level:
            shift = level - self._level
            self._sums = self._sums.rekeyed(lambda columns: columns | {"bin": columns["bin"] >> shift})
            self._level = level


def _level_of(until: int) -> int:
    """How often the intervals have to be doubled, so that _MOST of them reach so far, in ns."""
    return max((until // (_FIRST_NS * _MOST)).bit_length(), 0)
