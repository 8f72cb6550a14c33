"""Time and number of operations in equal parts of the run: what stands for operations too many to be drawn."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Grid(NamedTuple):
    """first, last: ns; between them so many bins."""

    first: float
    last: float
    bins: int

    @property
    def width(self) -> float:
        """ns of a bin."""
        return (self.last - self.first) / self.bins


class Bins(NamedTuple):
    """time: ns, calls: operations that began, both strand by strand and bin by bin."""

    time: Floats
    calls: Floats


def binned(grid: Grid, strand: Ints, strands: int, begin: Ints, length: Ints, busy: Ints) -> Bins:
    """Rows in bins.  An operation's time is spread evenly over its length; what lies outside of the grid does not
    count."""
    size = strands * grid.bins
    from_, to = ((one - grid.first) / grid.width for one in (begin, begin + length.astype(np.float64)))
    density = busy / np.maximum(to - from_, 1e-12)
    starts = (from_ >= 0) & (from_ < grid.bins)
    calls = np.bincount(strand[starts] * grid.bins + from_[starts].astype(np.int64), minlength=size)
    seen = np.flatnonzero((to >= 0) & (from_ < grid.bins))
    low, high = np.clip(from_[seen], 0, grid.bins), np.clip(to[seen], 0, grid.bins)
    first = np.minimum(low.astype(np.int64), grid.bins - 1)
    last = np.minimum(high.astype(np.int64), grid.bins - 1)
    at, rate = strand[seen] * grid.bins, density[seen]
    one = first == last
    # What begins and ends in one bin is the usual case; of such a call all time counts, however short it is.
    whole = one & (from_[seen] >= 0) & (to[seen] <= grid.bins)
    amount = np.where(whole, busy[seen], (np.where(one, high, first + 1) - low) * rate)
    time = np.bincount(at + first, amount, size)
    more = ~one
    if more.any():
        at, rate, first, last, high = at[more], rate[more], first[more], last[more], high[more]
        time += np.bincount(at + last, (high - last) * rate, size)
        # a column more for what ends at the last bin
        wide = at // grid.bins * (grid.bins + 1)
        steps = np.bincount(wide + first + 1, rate, strands * (grid.bins + 1))
        steps -= np.bincount(wide + last, rate, strands * (grid.bins + 1))
        between = np.cumsum(steps.reshape(strands, -1), axis=1)[:, :-1]
        time += np.maximum(between, 0).reshape(-1)
    return Bins(*(one.astype(np.float64).reshape(strands, -1) for one in (time, calls)))


def summed(bins: Bins, factor: int) -> Bins:
    """The same in bins that are `factor` times as wide."""
    if factor == 1:
        return bins
    return Bins(*(one.reshape(len(one), one.shape[1] // factor, factor).sum(axis=2) for one in bins))
