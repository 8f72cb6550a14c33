"""Converts ticks to nanoseconds since the epoch.

The log's header and each chunk hold a reading of three clocks taken together.
The rate of the tick counter comes from readings that lie far apart.  The median
of several is taken, so that one reading interrupted by a preemption does not
shift all times.
"""

from __future__ import annotations

import os
import time
from functools import cache

import numpy as np
from numpy.typing import NDArray

from pyio_trace.light_dataclass import dataclass
from pyio_trace.log import layout
from pyio_trace.log.sorting import median

#: Readings closer together than this say nothing about the rate.
_SHORTEST_NS = 50_000
#: Plausible ns per tick: 20 GHz to 100 kHz.
_SANE = (0.05, 10_000.0)


@dataclass(frozen=True)
class Clock:
    """The start of the log in ticks and in ns since the epoch (real), and ns per tick (rate)."""

    ticks: int
    real: int
    rate: float

    def epoch(self, ticks: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Ticks as ns since the epoch."""
        since = self.span((ticks - np.uint64(self.ticks)).view(np.int64))
        since += np.int64(self.real)
        return since

    def span(self, ticks: NDArray[np.int64]) -> NDArray[np.int64]:
        """A number of ticks as ns; exact to 1 ns up to 104 days."""
        if self.rate == 1.0:
            return ticks
        with np.errstate(invalid="ignore"):  # the time of a damaged record may exceed int64
            nanoseconds: NDArray[np.int64] = np.rint(ticks * self.rate).astype(np.int64)
            return nanoseconds

    def epoch_of(self, ticks: int) -> int:
        """One moment as ns since the epoch."""
        return int(self.epoch(np.array([ticks], np.uint64))[0])


def clock_of(tick_kind: int, first: np.void, pairs: NDArray[np.void]) -> Clock:
    """The clock of a log from its tick kind, its header's reading and its chunks' readings (layout.CLOCK_PAIR)."""
    start, real = int(first["ticks"]), int(first["real"])
    if tick_kind == layout.TICKS_MONOTONIC_NS:
        return Clock(start, real, 1.0)
    ticks = (pairs["ticks"] - np.uint64(start)).view(np.int64).astype(np.float64)
    mono = (pairs["mono"] - first["mono"]).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = mono / ticks
    usable = (ticks > 0) & (mono >= _SHORTEST_NS) & (rates >= _SANE[0]) & (rates <= _SANE[1])
    if not usable.any():
        # Nothing to calibrate by.  If both clocks started at boot, the header's own reading gives a rate.
        since_boot = int(first["mono"]) / start if start else 0.0
        return Clock(start, real, since_boot if _SANE[0] <= since_boot <= _SANE[1] else 1.0)
    mono, rates = mono[usable], rates[usable]
    far = rates[mono >= mono.max() / 2]
    typical = median(rates)
    far = far[np.abs(far - typical) <= typical / 100]
    return Clock(start, real, median(far) if len(far) else typical)


def now_on(header: np.void) -> int:
    """Now as the times of this log are: ns since the epoch.  A clock that was set since the run began does not change
    it, on the machine where the log is written."""
    first = header["first"]
    if bytes(header["boot_id"]).decode("ascii", "replace") == _boot():
        return int(first["real"]) + time.clock_gettime_ns(time.CLOCK_MONOTONIC) - int(first["mono"])
    return time.time_ns()


def is_here(header: np.void) -> bool:
    """Whether process ids mean here what they mean in this log: the same boot, the same pid namespace."""
    try:
        namespace = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return False
    same_boot = bytes(header["boot_id"]).decode("ascii", "replace") == _boot()
    return same_boot and int(header["namespace_inode"]) in (0, namespace)


@cache
def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return "unknown"
