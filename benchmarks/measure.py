"""How everything here is measured: bare and traced alternate in one run, and the median of their differences counts.

The speed of a machine drifts by more in a minute than tracing costs, but hardly
from one round to the next.  Rounds on a slow machine are dropped and repeated
(gauge.py).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

from benchmarks.gauge import gauge

#: Seconds per unit that figures are written in.
SCALES = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
#: Seconds that a row waits for a slow machine.
PATIENCE = 20.0
#: Rounds at full speed that are enough once that time is over.
ENOUGH = 9


@dataclass(frozen=True)
class Rounds:
    """Seconds of each round that counts: of those at full speed, or of all where those were too few."""

    bare: list[float]
    traced: list[float]
    full_speed: bool


@dataclass(frozen=True)
class Pair:
    """One piece of work, bare and traced: seconds per operation, by round.  added_limit: seconds; None: no limit."""

    work: str
    where: str
    unit: str
    rounds: Rounds
    added_limit: float | None = None

    @property
    def bare(self) -> list[float]:
        return self.rounds.bare

    @property
    def traced(self) -> list[float]:
        return self.rounds.traced

    @property
    def added(self) -> list[float]:
        return [traced - bare for bare, traced in zip(self.bare, self.traced, strict=True)]

    @property
    def median_added(self) -> float:
        return statistics.median(self.added)

    @property
    def ratio(self) -> float:
        return statistics.median(traced / bare for bare, traced in zip(self.bare, self.traced, strict=True))

    @property
    def quartiles(self) -> tuple[float, float]:
        """The bounds of the middle half of the rounds' differences."""
        low, _, high = statistics.quantiles(self.added, n=4)
        return low, high

    @property
    def met(self) -> bool | None:
        return None if self.added_limit is None else self.median_added <= self.added_limit


@dataclass(frozen=True)
class Figure:
    """One number (a size, a time, a memory peak): the median of its repetitions.  full_speed: None if it is no time."""

    work: str
    unit: str
    values: list[float]
    limit: float | None = None
    full_speed: bool | None = None

    @property
    def value(self) -> float:
        return statistics.median(self.values)

    @property
    def met(self) -> bool | None:
        return None if self.limit is None else self.value <= self.limit


@dataclass
class Results:
    """What a run of the benchmarks found.  problems: rows that could not be measured, and why."""

    pairs: list[Pair] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def alternate(bare: Callable[[], float], traced: Callable[[], float], rounds: int) -> Rounds:
    """Alternates both, and which of them goes first, until there are enough rounds at full speed."""
    gauge.choose()
    bare(), traced()
    every: list[tuple[float, float]] = []
    speeds: list[float] = []
    deadline = monotonic() + PATIENCE

    def at_full_speed() -> list[tuple[float, float]]:
        return [times for times, speed in zip(every, speeds, strict=True) if gauge.full(speed)]

    while len(at_full_speed()) < rounds and (len(every) < rounds or monotonic() < deadline):
        before = gauge.wait(deadline)
        if len(every) % 2 == 0:
            first, second = bare(), traced()
            every.append((first, second))
        else:
            first, second = traced(), bare()
            every.append((second, first))
        speeds.append(max(before, gauge.read()))
    fast = at_full_speed()
    enough = len(fast) >= ENOUGH
    return Rounds(*(list(times) for times in zip(*(fast if enough else every), strict=True)), full_speed=enough)


def repeat(work: Callable[[], dict[str, float]], times: int) -> tuple[list[dict[str, float]], bool]:
    """Runs long work until it has run often enough at full speed.  Returns the results of those runs and True, or the
    results of all runs and False if none was at full speed."""
    gauge.release()
    every: list[tuple[dict[str, float], float]] = []
    deadline = monotonic() + PATIENCE
    while sum(gauge.full(speed) for _, speed in every) < times and (len(every) < times or monotonic() < deadline):
        before = gauge.wait(deadline)
        found = work()
        every.append((found, max(before, gauge.read())))
    fast = [found for found, speed in every if gauge.full(speed)]
    return fast or [found for found, _ in every], bool(fast)
