"""From values to places on an axis, and the ticks beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pyio_trace.light_dataclass import dataclass
from pyio_trace.units import number, seconds, size

_STEPS = (1, 2, 5)
#: Steps of an axis of seconds beyond a minute.
_LONG = tuple(n * 1_000_000_000 for n in (60, 120, 300, 600, 1200, 1800, 3600, 7200, 21600, 43200, 86400))
#: Shades of a heat map.
SHADES = 10


@dataclass(frozen=True)
class Axis:
    """A linear axis of whole numbers from low to high, drawn from the place `start` on, `length` long."""

    low: int
    high: int
    start: float
    length: float

    def __call__(self, value: float) -> float:
        """The place of a value; values beyond the ends are put there."""
        share = (value - self.low) / max(self.high - self.low, 1)
        return self.start + self.length * min(max(share, 0.0), 1.0)


def time_ticks(low: int, high: int, most: int) -> list[int]:
    """At most `most` round times (ns) from low to high."""
    span = max(high - low, 1)
    step = next((one for one in _LONG if span <= one * most), None) if span > 60_000_000_000 else None
    return _ticks(low, high, _decimal_step(span, most) if step is None else step, most)


def byte_ticks(low: int, high: int, most: int) -> list[int]:
    """At most `most` round sizes."""
    step = 1 << max(math.ceil(math.log2(max(high - low, 1) / most)), 0)
    return _ticks(low, high, step, most)


def count_ticks(low: int, high: int, most: int) -> list[int]:
    """At most `most` round numbers."""
    return _ticks(low, high, _decimal_step(max(high - low, 1), most), most)


def _decimal_step(span: int, most: int) -> int:
    power = int(10 ** max(math.floor(math.log10(span / most)), 0))
    return next(one * power for one in (*_STEPS, 10, 20, 50) if one * power * most >= span)


def _ticks(low: int, high: int, step: int, most: int) -> list[int]:
    first = -(-low // step) * step
    return list(range(first, high + 1, step))[: most + 1]


def time_label(ns: int) -> str:
    """A tick of an axis of time; before the start of the run it is negative."""
    return "0" if ns == 0 else seconds(ns) if ns > 0 else f"-{seconds(-ns)}"


def byte_label(count: int) -> str:
    return "0" if count == 0 else size(count)


def count_label(count: int) -> str:
    return number(count)


#: An axis' values: ticks(low, high, most) and the label of a value.
Unit = tuple[Callable[[int, int, int], list[int]], Callable[[int], str]]
TIME: Unit = (time_ticks, time_label)
BYTES: Unit = (byte_ticks, byte_label)
COUNT: Unit = (count_ticks, count_label)


@dataclass(frozen=True)
class Heat:
    """Shades of positive numbers, by equal ratios from low to high."""

    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Heat:
        """For these values, of which those that are not positive have no shade."""
        some = [one for one in values if one > 0]
        return cls(min(some, default=1), max(some, default=1))

    def shade(self, value: float) -> int:
        """0 to SHADES - 1; the largest value has the last one."""
        if self.high <= self.low:
            return SHADES - 1
        share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return min(int(share * SHADES), SHADES - 1)
