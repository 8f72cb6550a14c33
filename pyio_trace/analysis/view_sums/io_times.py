"""The time that each process was in I/O, in stretches of time that are given later."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from pyio_trace.analysis.sums.intervals import merge
from pyio_trace.analysis.view_sums.phase_sums import Ints, OverPhases, phase_bins
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    from pyio_trace.analysis.sums.time_bins import TimeBins
    from pyio_trace.join.sources.facade import Log


@dataclass(frozen=True)
class TimesInBins:
    """bin: where bins of `width` ns begin; time: ns in calls of POSIX and C streams on files that a process (index)
    spent there, over its threads; kind: index into phase_sums.KINDS."""

    bin: Ints
    process: Ints
    kind: Ints
    time: Ints
    width: int

    def bursts(self, gap: int) -> list[Ints]:
        """The rows of each stretch of time between two gaps of at least so many ns in which no process was in I/O."""
        if not len(self.bin):
            return []
        order = np.argsort(self.bin, kind="stable")
        begins = self.bin[order]
        return np.split(order, np.flatnonzero(np.diff(begins) - self.width >= max(gap, 1)) + 1)

    def within(self, begins: Ints, ends: Ints) -> dict[int, int]:
        """By process, ns in any of some stretches of time, as far as bins tell."""
        found: Counter[int] = Counter()
        for begin, end in zip(*(part.tolist() for part in merge(begins, ends)), strict=True):
            low, high = np.maximum(self.bin, begin), np.minimum(self.bin + self.width, end)
            at = np.flatnonzero(high > low)
            time = self.time[at] * ((high[at] - low[at]) / self.width)
            for process, one in zip(self.process[at].tolist(), time.tolist(), strict=True):
                found[process] += int(one)
        return {process: time for process, time in found.items() if process >= 0}


class IoTimes(OverPhases):
    """The reducer; for rules."""

    def __init__(self, bins: int = 4096) -> None:
        super().__init__(bins=bins)

    def finish(self, part: TimeBins | None, log: Log) -> TimesInBins:
        part = part or phase_bins(self.bins)
        found = part.columns()
        return TimesInBins(found["bin"], found["process"], found["kind"], found["time"], part.width)


#: The reducer, for a rule's `needs`.  One object: equal ones would be summed twice.
IO_TIMES = IoTimes()
