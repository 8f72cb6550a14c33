"""Whether the machine runs at full speed right now.

A virtual machine shares its cores with others.  It may run at half speed for
seconds or minutes, and then every time doubles, the cost of tracing included.
The gauge times a fixed piece of arithmetic that is independent of what is
measured.  A round is dropped if the gauge read clearly slower than its fastest
just before or after it, whatever the round itself found.  Each row runs on the
processor that is disturbed least.
"""

from __future__ import annotations

import math
import os
import statistics
from dataclasses import dataclass, field
from time import monotonic, perf_counter, sleep

#: A reading counts as full speed up to this multiple of the fastest of the run.
TOLERANCE = 1.12
#: Seconds to watch the processors: before the first row, to learn what full speed is, and before each row.
WATCH, LOOK = 10.0, 1.0
#: Seconds on one processor at a time.
TURN = 0.1
#: The processors that this process may run on.
PROCESSORS = os.sched_getaffinity(0)
#: Seconds between two readings of a slow machine.
PAUSE = 0.02


@dataclass
class Gauge:
    """Readings of one run of the benchmarks, in seconds."""

    readings: list[float] = field(default_factory=list)
    least: float = math.inf

    def choose(self, seconds: float = LOOK) -> None:
        """Watches the processors in turn, and moves to the one that is at full speed most often."""
        readings: dict[int, list[float]] = {processor: [] for processor in sorted(PROCESSORS)}
        end = monotonic() + seconds
        while monotonic() < end:
            for processor, found in readings.items():
                os.sched_setaffinity(0, {processor})
                turn = monotonic() + TURN
                while monotonic() < turn:
                    found.append(self.read())
        best = max(readings, key=lambda processor: statistics.mean(map(self.full, readings[processor])))
        os.sched_setaffinity(0, {best})

    def release(self) -> None:
        """Allows all processors again, for work with several threads."""
        os.sched_setaffinity(0, PROCESSORS)

    def read(self) -> float:
        """Takes a reading, in about 0.2 ms: the best of three, so that an interrupt does not count."""
        reading = min(_work() for _ in range(3))
        self.readings.append(reading)
        self.least = min(self.least, reading)
        return reading

    def full(self, reading: float) -> bool:
        """Whether a reading shows full speed, judged by the fastest so far."""
        return reading <= TOLERANCE * self.least

    def wait(self, deadline: float) -> float:
        """Waits for full speed, at most until the deadline (of time.monotonic()); returns the last reading."""
        while not self.full(reading := self.read()) and monotonic() < deadline:
            sleep(PAUSE)
        return reading

    def describe(self) -> str:
        """One line for the page: how fast the machine was, and how much of the time."""
        full = sum(self.full(reading) for reading in self.readings) / len(self.readings)
        least, middle = self.least * 1e6, statistics.median(self.readings) * 1e6
        return (
            f"gauge of the machine's speed: {least:.1f} us at its fastest, {middle:.1f} us in the median; "
            f"at full speed in {full:.0%} of {len(self.readings)} readings"
        )


def _work() -> float:
    begin = perf_counter()
    total = 0
    for number in range(2000):
        total += number & 15
    return perf_counter() - begin


#: The gauge of this run.
gauge = Gauge()
