"""Unions of intervals: how long any operation was open.

Operations overlap: threads run in parallel, and a call at one layer contains
calls at the next.  A sum of durations says nothing about elapsed time; the
length of their union does.  Everything here works on whole arrays and keeps
only merged intervals, so memory grows with the gaps and not with the
operations.  byte_ranges.py has the same for the bytes of files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def merge(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Sorted, disjoint, non-touching half-open intervals with the same union as [starts, ends).

    Starts and ends are sorted independently.  There is a gap before a start just
    when as many intervals have ended as have started: when the i-th smallest end
    lies before the (i+1)-th smallest start.  Two plain sorts are several times
    as fast as sorting pairs, and sorted arrays need none.
    Sorts the given arrays in place.
    """
    if len(starts) < 2:
        return starts, ends
    for values in (starts, ends):
        if not bool((values[1:] >= values[:-1]).all()):
            values.sort()
    return _between(np.flatnonzero(starts[1:] > ends[:-1]), starts, ends)


def _between(gaps: Ints, starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """The intervals between gaps; gaps: indexes of the elements before them."""
    firsts, lasts = np.empty(len(gaps) + 1, np.int64), np.empty(len(gaps) + 1, np.int64)
    firsts[0], firsts[1:] = starts[0], starts[1:].take(gaps)
    lasts[:-1], lasts[-1] = ends.take(gaps), ends[-1]
    return firsts, lasts


def joined(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """The same union with fewer intervals, unsorted: joins each interval that continues the one before it."""
    separate = (starts[1:] > ends[:-1]) | (starts[1:] < starts[:-1]) | (ends[1:] < ends[:-1])
    return _between(np.flatnonzero(separate), starts, ends)


class Horizon:
    """The time before which no later operation of the log begins.

    Threads claim chunks of the log in the order of time and fill them one after
    another, so whatever follows began after the earliest of the newest rows,
    where these are as many as a chunk has.  Between claiming a chunk and its first
    operation a thread may have to wait for a processor, hence the margin.
    """

    _ROWS = 1 << 17
    _MARGIN = 100_000_000  # ns

    def __init__(self) -> None:
        self.time = -(1 << 62)
        self._newest: deque[tuple[int, int]] = deque()  # of each batch: rows, earliest begin
        self._rows = 0

    def add(self, times: Ints) -> int:
        """Adds the begins of the next rows, ns; returns the new horizon."""
        self._newest.append((len(times), int(times.min())))
        self._rows += len(times)
        while self._rows - self._newest[0][0] >= self._ROWS:
            self._rows -= self._newest.popleft()[0]
        if self._rows >= self._ROWS:
            self.time = max(self.time, min(time for _, time in self._newest) - self._MARGIN)
        return self.time


class BusyTime:
    """For how long each process had at least one interval open, on each of several channels.

    Times are ns since the start of the run.  All processes share one axis, on
    which each has its own range, so that one merge serves all of them.  When
    many intervals have been collected they are merged, and those that no later
    interval can touch are added to the totals and dropped.
    """

    def __init__(self, channels: int, processes: int, wall: int, limit: int = 1 << 20) -> None:
        """wall: ns that no time exceeds; limit: intervals collected before they are merged."""
        # A year of a thousand processes does not fit into 63 bits: the unit is then coarser.
        self._shift = max(0, (max(wall, 1) * max(processes, 1)).bit_length() - 62)
        self._range = (max(wall, 1) >> self._shift) + 2
        self._limit = limit
        self._pending: list[list[tuple[Ints, Ints]]] = [[] for _ in range(channels)]
        self._count = 0
        self._floor = np.zeros(processes, np.int64)  # intervals before it have been added up
        self._begins = np.arange(processes, dtype=np.int64) * self._range  # of each process's range
        self._seen = np.zeros(processes, np.bool_)
        self._totals = np.zeros((channels, processes), np.int64)
        self._last = np.zeros(processes, np.int64)

    def on_axis(self, process: Ints, starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
        """Intervals [start, end) of processes (indexes) on the axis of all."""
        self._seen[process[np.flatnonzero(process[1:] != process[:-1])]] = True
        self._seen[process[-1:]] = True
        base = self._begins.take(process)
        placed = []
        for times in (starts, ends):
            on_axis = times >> self._shift if self._shift else times
            if len(times) and int(on_axis.min()) < int(self._floor.max()):
                on_axis = np.maximum(on_axis, self._floor.take(process))
            if int(on_axis.max(initial=0)) >= self._range:
                on_axis = np.minimum(on_axis, self._range - 1)
            placed.append(on_axis + base)
        return placed[0], placed[1]

    def add(self, channels: tuple[int, ...], starts: Ints, ends: Ints) -> None:
        """Adds intervals of the common axis to channels, in any order; the arrays must not be used afterwards."""
        if not len(starts):
            return
        for channel in channels:
            self._pending[channel].append((starts, ends))
        self._count += len(starts) * len(channels)

    def add_up_before(self, horizon: int) -> None:
        """Adds up the intervals that end before `horizon` (ns), if many have been collected.

        No later interval of the processes seen so far may begin before it, as
        Horizon has it.  The rare interval that a scheduling delay makes late is
        cut to it, so that a union never exceeds the elapsed time.
        """
        if self._count <= self._limit:
            return
        floor = horizon >> self._shift
        self._count = 0
        for channels, starts, ends in self._merged():
            first, end = self._borders(starts)
            over = np.clip(np.searchsorted(ends, self._begins + floor), first, end)
            # For each process in turn: the number of intervals that are over, then of the others.
            lengths = np.diff(np.stack([over, end], axis=1).ravel(), prepend=0)
            done = np.repeat(np.arange(len(lengths)) % 2 == 0, lengths)
            self._add_up(channels, starts.compress(done), ends.compress(done))
            left = starts.compress(~done), ends.compress(~done)
            for channel in channels:
                self._pending[channel] = [left]
            self._count += len(left[0]) * len(channels)
        self._floor[self._seen] = np.maximum(self._floor[self._seen], floor)
        self._limit = max(self._limit, 2 * self._count)  # if nothing can be added up, do not merge again for each batch

    def update(self, other: BusyTime) -> None:
        """Adds everything of another one with the same channels, processes and wall.  No process may have intervals in
        both."""
        self._totals += other._totals
        for pending, more in zip(self._pending, other._pending, strict=True):
            pending += more
        self._count += other._count
        self._floor = np.maximum(self._floor, other._floor)
        self._seen |= other._seen
        self._last = np.maximum(self._last, other._last)

    def compact(self, horizon: int) -> None:
        """Adds up the intervals that end before `horizon`, however few have been collected."""
        limit, self._limit = self._limit, -1
        self.add_up_before(horizon)
        self._limit = max(limit, self._limit)

    def _merged(self) -> Iterator[tuple[list[int], Ints, Ints]]:
        """(channels, merged intervals); channels with the same intervals (calls of a single layer) are merged once."""
        alike: dict[tuple[int, ...], list[int]] = {}
        for channel, pending in enumerate(self._pending):
            if pending:
                alike.setdefault(tuple(id(starts) for starts, _ in pending), []).append(channel)
        for channels in alike.values():
            starts, ends = (np.concatenate(part) for part in zip(*self._pending[channels[0]], strict=True))
            yield channels, *merge(starts, ends)

    def _borders(self, starts: Ints) -> tuple[Ints, Ints]:
        """Where the intervals of each process begin and end in sorted arrays."""
        first = np.searchsorted(starts, self._begins)
        return first, np.append(first[1:], len(starts))

    def _add_up(self, channels: list[int], starts: Ints, ends: Ints) -> None:
        first, end = self._borders(starts)
        there = np.flatnonzero(first < end)
        if len(there):
            lengths = np.add.reduceat(ends - starts, first[there])
            for channel in channels:
                self._totals[channel, there] += lengths
            last = ends[end[there] - 1] - self._begins[there]
            self._last[there] = np.maximum(self._last[there], last)

    def finish(self) -> tuple[Ints, Ints]:
        """(length of the union by channel and process, latest end by process), ns.  No intervals may be added later."""
        for channels, starts, ends in self._merged():
            self._add_up(channels, starts, ends)
        self._pending = [[] for _ in self._pending]
        return self._totals << self._shift, self._last << self._shift
