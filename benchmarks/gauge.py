"""Whether the machine runs at its full speed right now.

A virtual machine shares its cores with others: for seconds or minutes it runs
at half its speed, and what tracing adds, in ns, doubles with everything else.
The gauge is a fixed piece of arithmetic that has nothing to do with what is
measured.  A round before or after which it took clearly longer than at its
fastest is left out, whatever the round itself found; and each row is measured
on the processor that is less disturbed.
"""

from __future__ import annotations

import math
import os
import statistics
from dataclasses import dataclass, field
from time import monotonic, perf_counter, sleep

#: Full speed: a reading at most this much above the least of the run.
TOLERANCE = 1.12
#: How long the processors are watched: before the first row, to know what full speed is, and before each.  Seconds.
WATCH, LOOK = 10.0, 1.0
#: ... each for so long at a time.
TURN = 0.1
#: What this process may run on.
PROCESSORS = os.sched_getaffinity(0)
#: Between two looks at a slow machine, seconds.
PAUSE = 0.02


@dataclass
class Gauge:
    """Readings of one run of the benchmarks, in seconds."""

    readings: list[float] = field(default_factory=list)
    least: float = math.inf

    def choose(self, seconds: float = LOOK) -> None:
        """Watches the processors in turn, and takes the one that is at full speed for most of the time."""
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
        """For what runs in several threads: all processors again."""
        os.sched_setaffinity(0, PROCESSORS)

    def read(self) -> float:
        """Takes a reading, about 0.2 ms: the best of three, since an interrupt is not the machine's speed."""
        reading = min(_work() for _ in range(3))
        self.readings.append(reading)
        self.least = min(self.least, reading)
        return reading

    def full(self, reading: float) -> bool:
        """Whether a reading was taken at full speed, as far as it is known by now."""
        return reading <= TOLERANCE * self.least

    def wait(self, deadline: float) -> float:
        """Waits until the machine runs at full speed, or the deadline (of time.monotonic()); gives the last reading."""
        while not self.full(reading := self.read()) and monotonic() < deadline:
            sleep(PAUSE)
        return reading

    def describe(self) -> str:
        """One line for the page: how fast the machine was, and for how much of the time."""
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
