"""Unions of intervals: how long anything at all was going on, and which bytes were touched at all.

Operations overlap: threads work side by side, a call at one layer contains
calls at the next.  Adding their durations up says nothing about the clock;
the union does.  Everything here takes whole arrays and keeps merged intervals
only, so that memory follows the gaps, not the operations.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def merge(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Sorted, disjoint, non-touching half-open intervals with the same union as [starts, ends).

    Starts and ends are sorted apart from each other: before a start there is a
    gap just when as many intervals have ended as have started, that is when
    the i-th smallest end lies before the (i+1)-th smallest start.  That is two
    plain sorts, several times as quick as sorting pairs, and none for what is in order.
    The arrays given are sorted in place where they are not.
    """
    if len(starts) < 2:
        return starts, ends
    for values in (starts, ends):
        if not bool((values[1:] >= values[:-1]).all()):
            values.sort()
    return _between(np.flatnonzero(starts[1:] > ends[:-1]), starts, ends)


def _between(gaps: Ints, starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """What lies between gaps, each after the element of this number, as intervals."""
    firsts, lasts = np.empty(len(gaps) + 1, np.int64), np.empty(len(gaps) + 1, np.int64)
    firsts[0], firsts[1:] = starts[0], starts[1:].take(gaps)
    lasts[:-1], lasts[-1] = ends.take(gaps), ends[-1]
    return firsts, lasts


def _joined(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """The same union with fewer intervals, unsorted: where one goes on from the one before it, they are one."""
    apart = (starts[1:] > ends[:-1]) | (starts[1:] < starts[:-1]) | (ends[1:] < ends[:-1])
    return _between(np.flatnonzero(apart), starts, ends)


class BusyTime:
    """For how long each process had at least one interval open, on each of several channels.

    Times are ns since the start of the run.  All processes share one axis:
    each has its own stretch of it, so that one merge serves all of them.  When
    many intervals have gathered they are merged, and those which nothing later
    can touch are added up and forgotten.
    """

    def __init__(self, channels: int, processes: int, wall: int, limit: int = 1 << 20) -> None:
        """wall: no time is larger, ns; limit: intervals kept before merging."""
        # A year of a thousand processes does not fit 63 bits: coarser units then.
        self._shift = max(0, (max(wall, 1) * max(processes, 1)).bit_length() - 62)
        self._stretch = (max(wall, 1) >> self._shift) + 2
        self._limit = limit
        self._pending: list[list[tuple[Ints, Ints]]] = [[] for _ in range(channels)]
        self._count = 0
        self._floor = np.zeros(processes, np.int64)  # what lies before it is added up
        self._begins = np.arange(processes, dtype=np.int64) * self._stretch  # of each process's stretch
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
            if int(on_axis.max(initial=0)) >= self._stretch:
                on_axis = np.minimum(on_axis, self._stretch - 1)
            placed.append(on_axis + base)
        return placed[0], placed[1]

    def add(self, channels: tuple[int, ...], starts: Ints, ends: Ints) -> None:
        """Enter intervals of the common axis on channels, in any order; the arrays are taken over."""
        if not len(starts):
            return
        for channel in channels:
            self._pending[channel].append((starts, ends))
        self._count += len(starts) * len(channels)

    def settle(self, horizon: int) -> None:
        """Nothing of the processes seen so far begins before `horizon` (ns) from here on: add up what is over.

        Chunks of a log are claimed in the order of time, so the earliest begin
        of the newest batch is such a horizon; the rare interval that is late by
        a scheduling delay is cut to it, so a union never exceeds the clock.
        """
        if self._count <= self._limit:
            return
        floor = horizon >> self._shift
        self._count = 0
        for channels, starts, ends in self._merged():
            first, end = self._borders(starts)
            over = np.clip(np.searchsorted(ends, self._begins + floor), first, end)
            # by turns: of a process what is over, what is not
            turns = np.diff(np.stack([over, end], axis=1).ravel(), prepend=0)
            done = np.repeat(np.arange(len(turns)) % 2 == 0, turns)
            self._add_up(channels, starts[done], ends[done])
            left = starts[~done], ends[~done]
            for channel in channels:
                self._pending[channel] = [left]
            self._count += len(left[0]) * len(channels)
        self._floor[self._seen] = np.maximum(self._floor[self._seen], floor)
        self._limit = max(self._limit, 2 * self._count)  # an order that allows no horizon must not cost a merge a batch

    def _merged(self) -> Iterator[tuple[list[int], Ints, Ints]]:
        """What was entered, merged; channels on which the same was entered (calls of one layer only) at once."""
        alike: dict[tuple[int, ...], list[int]] = {}
        for channel, pending in enumerate(self._pending):
            if pending:
                alike.setdefault(tuple(id(starts) for starts, _ in pending), []).append(channel)
        for channels in alike.values():
            starts, ends = (np.concatenate(part) for part in zip(*self._pending[channels[0]], strict=True))
            yield channels, *merge(starts, ends)

    def _borders(self, starts: Ints) -> tuple[Ints, Ints]:
        """Where the intervals of each process begin and end, among sorted ones."""
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
        """(length of the union by channel and process, latest end by process), ns; ends the entering."""
        for channels, starts, ends in self._merged():
            self._add_up(channels, starts, ends)
        self._pending = [[] for _ in self._pending]
        return self._totals << self._shift, self._last << self._shift


_OFFSET_BITS = 42
_FILE_BITS = 21


class ByteRanges:
    """Which bytes of which files were touched, as merged ranges.

    A range is a pair of keys, file number above offset, so that one merge
    serves all files.  What does not fit such keys (offsets past 4 TiB, file
    numbers past two million) is kept aside, file by file.
    """

    def __init__(self, limit: int = 1 << 22) -> None:
        self._limit = limit
        self._whole = np.zeros(0, np.int64), np.zeros(0, np.int64)  # merged
        self._pending: list[tuple[Ints, Ints]] = []
        self._count = 0
        self._aside: dict[int, tuple[Ints, Ints]] = {}

    def add(self, file: Ints, starts: Ints, ends: Ints) -> None:
        """Enter ranges: file number (not negative) and [start, end) bytes of each; in any order."""
        if not len(starts):
            return
        # One bit is left over, so that a range never touches the next file's first byte.
        if int(ends.max()) >> (_OFFSET_BITS - 1) or int(file.max()) >> _FILE_BITS:
            fits = (ends < 1 << (_OFFSET_BITS - 1)) & (file < 1 << _FILE_BITS)
            self._add_aside(file[~fits], starts[~fits], ends[~fits])
            self.add(file[fits], starts[fits], ends[fits])
            return
        keys = file << _OFFSET_BITS
        self._keep(*_joined(keys + starts, keys + ends))

    def _keep(self, starts: Ints, ends: Ints) -> None:
        self._pending.append((starts, ends))
        self._count += len(starts)
        if self._count > self._limit:
            self._limit = max(self._limit, 2 * len(self._merged()[0]))

    def _add_aside(self, file: Ints, starts: Ints, ends: Ints) -> None:
        order = np.argsort(file, kind="stable")
        file, starts, ends = file[order], starts[order], ends[order]
        firsts = np.flatnonzero(np.diff(file, prepend=-1))
        for one, first, last in zip(
            file[firsts].tolist(), firsts.tolist(), [*firsts[1:].tolist(), len(file)], strict=True
        ):
            before = self._aside.get(one, (starts[:0], ends[:0]))
            self._aside[one] = merge(np.append(before[0], starts[first:last]), np.append(before[1], ends[first:last]))

    def update(self, other: ByteRanges) -> None:
        """Enter everything that another one has."""
        self._keep(*other._merged())
        for file, (starts, ends) in other._aside.items():
            self._add_aside(np.full(len(starts), file, np.int64), starts, ends)

    def _merged(self) -> tuple[Ints, Ints]:
        if self._pending:
            starts, ends = (np.concatenate(part) for part in zip(self._whole, *self._pending, strict=True))
            self._whole, self._pending = merge(starts, ends), []
            self._count = len(self._whole[0])
        return self._whole

    def total(self) -> int:
        """Bytes in the union of all ranges; one file's offsets below and past 4 TiB count apart, which is exact
        but for a range that overlaps another across that line."""
        starts, ends = self._merged()
        aside = sum(int((last - first).sum()) for first, last in self._aside.values())
        return int((ends - starts).sum()) + aside
