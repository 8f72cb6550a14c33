"""How everything here is measured: bare and traced in turn, in one run, medians of the rounds' differences.

A machine's speed drifts by more in a minute than tracing costs; between a
round and the one right after it, it hardly does.  Rounds in which it ran slow
are left out and made again (gauge.py).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

from benchmarks.gauge import gauge

#: Seconds of a name that figures are written in.
SCALES = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
#: For this long, in seconds, a row waits for a machine that runs slow.
PATIENCE = 20.0
#: As many rounds at full speed are enough where its patience ended.
ENOUGH = 9


@dataclass(frozen=True)
class Rounds:
    """Seconds, of the rounds that count: those at full speed, or, where these were too few, all."""

    bare: list[float]
    traced: list[float]
    full_speed: bool


@dataclass(frozen=True)
class Pair:
    """One work, bare against traced: seconds an operation, round by round.  added_limit: seconds, None: no limit."""

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
        """Between them lies the middle half of the rounds' differences."""
        low, _, high = statistics.quantiles(self.added, n=4)
        return low, high

    @property
    def met(self) -> bool | None:
        return None if self.added_limit is None else self.median_added <= self.added_limit


@dataclass(frozen=True)
class Figure:
    """One number: a size, a time, a memory peak; the median of its repetitions.  full_speed: None: not a time."""

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
    """What a run of the benchmarks found; problems: rows that could not be measured, and why."""

    pairs: list[Pair] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def alternate(bare: Callable[[], float], traced: Callable[[], float], rounds: int) -> Rounds:
    """Runs both in turn, which of them goes first in turn too, until there are enough rounds at full speed."""
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
    kept = at_full_speed()
    enough = len(kept) >= ENOUGH
    return Rounds(*(list(times) for times in zip(*(kept if enough else every), strict=True)), full_speed=enough)


def repeat(work: Callable[[], dict[str, float]], times: int) -> tuple[list[dict[str, float]], bool]:
    """Runs long work until it has run so many times at full speed; gives what these runs returned, and True, or, if
    there was none, what all did, and False."""
    gauge.release()
    every: list[tuple[dict[str, float], float]] = []
    deadline = monotonic() + PATIENCE
    while sum(gauge.full(speed) for _, speed in every) < times and (len(every) < times or monotonic() < deadline):
        before = gauge.wait(deadline)
        found = work()
        every.append((found, max(before, gauge.read())))
    kept = [found for found, speed in every if gauge.full(speed)]
    return kept or [found for found, _ in every], bool(kept)
