"""How many intervals are open at each moment, from the moments at which they begin and end, in bounded memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log.sorting import distinct

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Levels:
    """time: ns at each number of open intervals, 1 upwards.  peak: the most at once; an upper bound if resolution > 1.
    resolution: ns; within that, the number is a mean.  first, last: ns, of the first begin and the last end."""

    time: list[int]
    peak: int
    resolution: int
    first: int
    last: int


class EventCounts:
    """Counts begins and ends by moment.  Where there are too many moments, those of two neighbours become one."""

    def __init__(self, most: int = 1 << 20) -> None:
        """most: moments in memory."""
        self._most, self._shift = most, 0
        self._sums = self._empty()
        self._added = 0

    def add(self, begin: Ints, end: Ints) -> None:
        """Adds intervals [begin, end) in ns."""
        some = np.flatnonzero(end > begin)
        for name, moments in (("begins", begin[some]), ("ends", end[some])):
            moment = moments >> self._shift
            rest = ((moment + 1) << self._shift) - moments
            self._sums.add({"moment": moment, name: np.ones(len(some), np.int64), f"{name}_rest": rest})
        self._added += 2 * len(some)
        if self._added > 2 * self._most:
            self._compact()

    def update(self, other: EventCounts) -> None:
        """Adds those of another one."""
        shift = max(self._shift, other._shift)
        self._widen(shift)
        other._widen(shift)
        self._sums.update(other._sums)
        self._added += other._added
        if self._added > 2 * self._most:
            self._compact()

    def _compact(self) -> dict[str, Ints]:
        columns = self._sums.columns()
        shift = self._shift
        moments = columns["moment"]
        while len(moments) > self._most:
            shift += 1
            moments = distinct(moments >> 1)
        self._widen(shift)
        self._added = len(moments)
        return self._sums.columns()

    def _widen(self, shift: int) -> None:
        if shift == self._shift:
            return
        columns = self._sums.columns()
        moment = columns["moment"] >> (shift - self._shift)
        # How much later the wide moment ends than the narrow one.
        later = ((moment + 1) << shift) - ((columns["moment"] + 1) << self._shift)
        self._shift, self._sums = shift, self._empty()
        rests = {f"{name}_rest": columns[f"{name}_rest"] + columns[name] * later for name in ("begins", "ends")}
        self._sums.add({"moment": moment, "begins": columns["begins"], "ends": columns["ends"], **rests})

    def _empty(self) -> GroupedSums:
        return GroupedSums(("moment",), dict.fromkeys(("begins", "ends", "begins_rest", "ends_rest"), "sum"))

    def levels(self, most: int = 1 << 16) -> Levels:
        """How long each number of intervals was open; numbers beyond `most` count as that."""
        columns = self._compact()
        moment, width = columns["moment"], 1 << self._shift
        if not len(moment):
            return Levels([], 0, width, 0, 0)
        after = np.cumsum(columns["begins"] - columns["ends"])
        before = np.append(0, after[:-1])
        within = before * width + columns["begins_rest"] - columns["ends_rest"]
        level = np.clip(np.append(np.rint(within / width).astype(np.int64), after), 0, most)
        gaps = np.append((np.diff(moment) - 1) << self._shift, 0)
        time = np.zeros(int(level.max()) + 1, np.int64)
        np.add.at(time, level, np.append(np.full(len(moment), width), gaps))
        peak = int((after if self._shift == 0 else before + columns["begins"]).max())
        first, last = int(moment[0]) << self._shift, (int(moment[-1]) + (self._shift > 0)) << self._shift
        return Levels(time[1:].tolist(), peak, width, first, last)
