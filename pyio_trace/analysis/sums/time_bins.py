"""Sums by time bin and key, in bounded memory, whatever the run's length.

Bins are powers of two of nanoseconds wide, and their borders multiples of that.
Where there would be too many, two neighbours become one.  So the width follows
from the first and last time alone, and the sums do not depend on the order in
which operations came.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.sums.grouped_sums import GroupedSums

Ints = NDArray[np.int64]
#: Elements of the arrays that spread long calls over their bins.
_AT_ONCE = 1 << 22


class TimeBins:
    """Sums by bin and key columns."""

    def __init__(
        self,
        keys: tuple[str, ...],
        values: tuple[str, ...],
        bins: int = 512,
        most: int = 1 << 21,
        *,
        narrowest: int = 0,
    ) -> None:
        """values: what is summed, besides "time", which is spread over the bins of a call.  bins: as many there are at
        most; most: sums in memory; narrowest: bins are at least 2 ** narrowest ns wide."""
        self._keys, self._values, self._bins, self._most = keys, values, bins, most
        self._shift = narrowest
        self._first, self._last = 1 << 62, -(1 << 62)  # ns since the epoch
        self._sums = self._empty()

    def add(self, keys: Mapping[str, Ints], begin: Ints, end: Ints, values: Mapping[str, Ints]) -> None:
        """Adds calls: their keys, begin and end (ns since the epoch), and values, which count where a call begins."""
        if not len(begin):
            return
        self._widen(min(self._first, int(begin.min())), max(self._last, int(end.max())), self._shift)
        low, high = begin >> self._shift, end >> self._shift
        here = np.minimum(end, (low + 1) << self._shift) - begin
        self._sums.add({"bin": low, **keys, **values, "time": here})
        across = np.flatnonzero(high > low)
        step = max(_AT_ONCE // (self._bins + 1), 1)
        for first in range(0, len(across), step):
            self._spread(keys, low, high, end, across[first : first + step])

    def _spread(self, keys: Mapping[str, Ints], low: Ints, high: Ints, end: Ints, at: Ints) -> None:
        """Adds the time of calls in the bins after that in which they began."""
        length = high[at] - low[at]
        row = np.repeat(at, length)
        rank = np.arange(len(row)) - np.repeat(np.cumsum(length) - length, length)
        bin_of = low[row] + 1 + rank
        time = np.minimum(end[row] - (bin_of << self._shift), 1 << self._shift)
        self._sums.add({"bin": bin_of, **{name: values[row] for name, values in keys.items()}, "time": time})

    def update(self, other: TimeBins) -> None:
        """Adds the sums of another one with the same columns."""
        if other._first > other._last:
            return
        self._widen(min(self._first, other._first), max(self._last, other._last), max(self._shift, other._shift))
        other._widen(other._first, other._last, self._shift)
        self._sums.update(other._sums)

    def _widen(self, first: int, last: int, shift: int) -> None:
        """Makes bins as wide as these times need, at least 2 ** shift."""
        self._first, self._last = first, last
        while (last >> shift) - (first >> shift) >= self._bins:
            shift += 1
        if shift == self._shift:
            return
        before, by = self._sums, shift - self._shift
        self._shift, self._sums = shift, self._empty()
        self._sums.dropped = before.dropped
        columns = before.columns()
        columns["bin"] = columns["bin"] >> by
        self._sums.add(columns)

    def _empty(self) -> GroupedSums:
        return GroupedSums(("bin", *self._keys), dict.fromkeys(("time", *self._values), "sum"), self._most)

    @property
    def width(self) -> int:
        """ns of a bin."""
        return 1 << self._shift

    @property
    def dropped(self) -> int:
        """Sums that did not fit into memory."""
        return self._sums.dropped

    def columns(self, *without: str) -> dict[str, Ints]:
        """Keys, sums, and bin (begin of the bin, ns since the epoch), sorted by bin."""
        found = self._sums.columns(*without)
        return found | {"bin": found["bin"] << self._shift}
