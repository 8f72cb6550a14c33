"""Ticks to nanoseconds since the epoch.

A log holds many moments on three clocks: one in its header and one in each
chunk.  The rate of the tick counter comes from pairs that lie far apart; the
median of several keeps one that was taken across a preemption from bending
all times.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyio_trace.log import layout
from pyio_trace.log.sorting import median

#: Pairs closer together than this say nothing about the rate.
_SHORTEST_NS = 50_000
#: ns per tick a counter can have: 20 GHz to 100 kHz.
_SANE = (0.05, 10_000.0)


@dataclass(frozen=True)
class Clock:
    """Where ticks start (in ticks and in ns since the epoch) and how long one is in ns."""

    ticks: int
    real: int
    rate: float

    def epoch(self, ticks: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Ticks as ns since the epoch."""
        since = self.span((ticks - np.uint64(self.ticks)).view(np.int64))
        since += np.int64(self.real)
        return since

    def span(self, ticks: NDArray[np.int64]) -> NDArray[np.int64]:
        """A number of ticks as ns: exact to 1 ns for runs of up to 104 days."""
        if self.rate == 1.0:
            return ticks
        with np.errstate(invalid="ignore"):  # a damaged record's time may be beyond all int64
            nanoseconds: NDArray[np.int64] = np.rint(ticks * self.rate).astype(np.int64)
            return nanoseconds

    def epoch_of(self, ticks: int) -> int:
        """One moment as ns since the epoch."""
        return int(self.epoch(np.array([ticks], np.uint64))[0])


def clock_of(tick_kind: int, first: np.void, pairs: NDArray[np.void]) -> Clock:
    """The clock of a log from its tick kind, its header's pair and its chunks' pairs (layout.CLOCK_PAIR)."""
    start, real = int(first["ticks"]), int(first["real"])
    if tick_kind == layout.TICKS_MONOTONIC_NS:
        return Clock(start, real, 1.0)
    ticks = (pairs["ticks"] - np.uint64(start)).view(np.int64).astype(np.float64)
    mono = (pairs["mono"] - first["mono"]).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = mono / ticks
    usable = (ticks > 0) & (mono >= _SHORTEST_NS) & (rates >= _SANE[0]) & (rates <= _SANE[1])
    if not usable.any():
        # Nothing to calibrate by: the header's own pair gives a rate if both clocks started together, else 1.
        since_boot = int(first["mono"]) / start if start else 0.0
        return Clock(start, real, since_boot if _SANE[0] <= since_boot <= _SANE[1] else 1.0)
    mono, rates = mono[usable], rates[usable]
    far = rates[mono >= mono.max() / 2]
    typical = median(rates)
    far = far[np.abs(far - typical) <= typical / 100]
    return Clock(start, real, median(far) if len(far) else typical)
