"""Intervals on tracks, so that on each track one lies within another or apart from it.

What a thread does is nested by itself.  Rows that stand for several calls, spans
of asyncio tasks, and calls of several threads on one track may overlap.  These get
further lanes of their track.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from pyio_trace.light_dataclass import dataclass
from pyio_trace.log import runs

Ints = NDArray[np.int64]
#: Lanes of a track in which intervals are nested; in further ones they are side by side.
_NESTED = 64


@dataclass
class Nesting:
    """order: the intervals by track and begin, outer ones first.  depth: of each in this order.  until: the place in
    this order after the last interval within it."""

    order: Ints
    depth: Ints
    until: Ints

    def events(self) -> tuple[Ints, Ints]:
        """(interval, 1 where it begins and 0 where it ends) of the begins and ends of all, track by track, in an order
        that is valid also where times are equal."""
        at = np.arange(len(self.order))
        found, kinds = np.empty(2 * len(at), np.int64), np.zeros(2 * len(at), np.int64)
        begins = 2 * at - self.depth
        found[begins], kinds[begins] = self.order, 1
        found[2 * self.until - 1 - self.depth] = self.order
        return found, kinds


def nested(track: Ints, begin: Ints, end: Ints) -> Nesting:
    """The nesting of intervals that do not overlap; see lanes()."""
    order = np.lexsort((-end, begin, track))
    until, depth = _structure(track[order], begin[order], end[order])
    return Nesting(order, depth, until)


def lanes(track: Ints, begin: Ints, end: Ints) -> Ints:
    """The lane of each interval on its track, from 0 on."""
    found = np.zeros(len(track), np.int64)
    order = np.lexsort((-end, begin, track))
    track, begin, end = track[order], begin[order], end[order]
    bad = np.flatnonzero(_overlapping(*_structure(track, begin, end), end))
    first = runs.starts(track)
    after = np.append(first[1:], len(track))
    for number in np.unique(np.searchsorted(first, bad, "right") - 1).tolist():
        part = slice(int(first[number]), int(after[number]))
        found[order[part]] = _first_fit(begin[part].tolist(), end[part].tolist())
    return found


def _structure(track: Ints, begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """(place after the last interval that begins within it, how many it begins in) of intervals in order."""
    count = len(track)
    moments, place = np.unique(np.concatenate([begin, end]), return_inverse=True)
    base = track.astype(np.int64) * (len(moments) + 1)
    begins, ends = base + place[:count], base + place[count:]
    until = np.maximum(np.searchsorted(begins, ends), np.arange(1, count + 1))
    ended = np.cumsum(np.bincount(until, minlength=count + 1))[:count]
    return until, np.arange(count) - ended


def _overlapping(until: Ints, depth: Ints, end: Ints) -> NDArray[np.bool_]:
    """Which intervals in order end after the one that they begin in."""
    count = len(until)
    at = np.arange(count)
    # the one around an interval is the last one before it of the depth above
    keys = depth * (count + 1) + at
    order = np.argsort(keys, kind="stable")
    around = np.searchsorted(keys[order], (depth - 1) * (count + 1) + at) - 1
    outer = order[np.maximum(around, 0)]
    return (depth > 0) & ((end > end[outer]) | (until[outer] <= at))


def _first_fit(begin: list[int], end: list[int]) -> list[int]:
    """The lane of each interval of a track where some overlap: the first one in which it lies within or apart."""
    stacks: list[list[int]] = []
    others: list[tuple[int, int]] = []  # (end, lane) of the lanes without nesting
    found = []
    for first, last in zip(begin, end, strict=True):
        for lane, stack in enumerate(stacks):
            while stack and stack[-1] <= first:
                stack.pop()
            if not stack or last <= stack[-1]:
                stack.append(last)
                found.append(lane)
                break
        else:
            if len(stacks) < _NESTED:
                stacks.append([last])
                found.append(len(stacks) - 1)
            elif others and others[0][0] <= first:
                lane = others[0][1]
                heapq.heapreplace(others, (last, lane))
                found.append(lane)
            else:
                lane = _NESTED + len(others)
                heapq.heappush(others, (last, lane))
                found.append(lane)
    return found
