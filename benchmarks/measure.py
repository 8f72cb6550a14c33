"""How everything here is measured: bare and traced in turn, in one run, medians of the rounds' differences.

A machine's speed drifts by more in a minute than tracing costs; between a
round and the one right after it, it hardly does.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field

#: Seconds of a name that figures are written in.
SCALES = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True)
class Pair:
    """One work, bare against traced: seconds an operation, round by round.  added_limit: seconds, None: no limit."""

    work: str
    where: str
    unit: str
    bare: list[float]
    traced: list[float]
    added_limit: float | None = None

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
    """One number: a size, a time, a memory peak; the median of its repetitions."""

    work: str
    unit: str
    values: list[float]
    limit: float | None = None

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


def alternate(bare: Callable[[], float], traced: Callable[[], float], rounds: int) -> tuple[list[float], list[float]]:
    """Runs both in turn, which of them goes first in turn too; gives what each returned, round by round."""
    bare(), traced()
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            times[which].append((bare, traced)[which]())
    return times
