"""Counts and times by integer keys of any size, as many as occur."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.scan.saturation import addable
from pyio_trace.log import runs

Ints = NDArray[np.int64]


class KeyedSums:
    """Counts and times (ns) by an integer key; memory grows with the distinct keys, up to a number of them."""

    def __init__(self, limit: int = 1 << 20, most: int | None = None) -> None:
        """limit: elements that are collected before equal keys are added up; most: distinct keys, beyond which the half
        with the least time is dropped, None: no bound."""
        self._limit, self._most = limit, most
        self._parts: list[tuple[Ints, Ints, Ints]] = []
        self._kept = 0
        #: Keys that were dropped; one that is dropped twice counts twice.
        self.given_up = 0

    def add(self, keys: Ints, count: Ints, time: Ints) -> None:
        """Adds a count and a time at each key."""
        if len(keys):
            self._parts.append(_added_up(*_neighbours_added_up(keys, count, time)))
            self._kept += len(self._parts[-1][0])
            if self._kept > self._limit:
                self.sums()
                self._limit = max(self._limit, 2 * self._kept)

    def update(self, other: KeyedSums) -> None:
        """Adds the sums of another one."""
        self.add(*other.sums())
        self.given_up += other.given_up

    def __getstate__(self) -> dict[str, Any]:
        self.sums()
        return self.__dict__

    def sums(self) -> tuple[Ints, Ints, Ints]:
        """(key, count, time), keys ascending."""
        parts = self._parts or [(np.zeros(0, np.int64),) * 3]
        if len(parts) > 1:
            parts = [self._not_too_many(*_added_up(*(np.concatenate(part) for part in zip(*parts, strict=True))))]
        self._parts, self._kept = parts, len(parts[0][0])
        return parts[0]

    def _not_too_many(self, keys: Ints, count: Ints, time: Ints) -> tuple[Ints, Ints, Ints]:
        if self._most is None or len(keys) <= self._most:
            return keys, count, time
        less = len(keys) - self._most // 2
        self.given_up += less
        kept = np.sort(np.argpartition(time, less)[less:])
        return keys.take(kept), count.take(kept), time.take(kept)


def _neighbours_added_up(keys: Ints, count: Ints, time: Ints) -> tuple[Ints, Ints, Ints]:
    """The same sums, with one element for equal neighbours, of which most rows have some."""
    first = runs.starts(keys)
    if len(first) == len(keys):
        return keys, count, time
    return keys.take(first), _sums(count, first), _sums(time, first)


def _added_up(keys: Ints, count: Ints, time: Ints) -> tuple[Ints, Ints, Ints]:
    """The distinct keys, ascending, and their sums."""
    if not len(keys):
        return keys, count, time
    order = np.argsort(keys)
    ordered = keys.take(order)
    first = runs.starts(ordered)
    return ordered.take(first), _sums(count.take(order), first), _sums(time.take(order), first)


def _sums(values: Ints, first: Ints) -> Ints:
    """The sums of the values from each of these places up to the next."""
    last = np.append(first[1:], len(values)) - 1
    upto = np.cumsum(addable(values), dtype=np.int64).take(last)  # faster than reduceat()
    upto[1:] -= upto[:-1].copy()
    return upto
