"""Tells reads that went to storage from reads of the page cache.

The kernel says how much each process fetched from storage, but not by which
calls.  Their latency does: a read of cached bytes costs a system call and a
copy.  So a read is slow if it took longer than BASE and PER_BYTE allow for its
size.  A file whose fastest quarter of reads comes near that bound (a slow
machine, a file system that costs more) has a higher one: four times what these
took.

A busy machine makes reads slow too.  So no read is slow in a process for which
the kernel fetched nothing, and the slow reads of a process have at most as many
bytes as it fetched.  The slowest for their size count first, so that a read of
cached bytes that had to wait for a processor takes no byte from one that waited
for storage.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.results.overview_figures import BASE, PER_BYTE, SlowReads
from pyio_trace.analysis.scan.batch_rows import READ, Rows
from pyio_trace.analysis.scan.saturation import addable
from pyio_trace.analysis.summary.places import MOVES
from pyio_trace.analysis.sums.counts_and_times import KeyedSums
from pyio_trace.enums import Role

Ints = NDArray[np.int64]

#: Reads that take less than a quarter of that are fast.  The others are counted by their ratio to it, in steps of an
#: eighth root of 2.
_FAST, _STEPS, _BINS = 4, 8, 128
_BOUND = 2 * _STEPS  #: the bin of reads that take just as long
#: A slow read takes 4 times as long as the fastest quarter of its file's reads.
_RAISED = 2 * _STEPS
_FASTEST = 4
_PROCESSES, _FILES = 1 << 22, 1 << 32  # a log with higher numbers is damaged


class ReadLatencies:
    """Collects the latencies of reads by process and file, batch by batch."""

    def __init__(self, processes: int) -> None:
        self._reads = np.zeros(0, np.int64)  # by file
        self._compared = np.zeros((2, processes), np.int64)  # reads, and their ns, by process
        #: Those that are not fast, by (process * _FILES + file) * _BINS + bin.
        self._times = KeyedSums()  # reads, ns
        self._bytes = KeyedSums()  # reads, bytes

    def add(self, rows: Rows, chosen: NDArray[np.bool_], files: int) -> None:
        """Adds the reads among the chosen rows; files: how many the log has so far.  Rows that stand for several calls
        have no latency of their own."""
        reads = np.flatnonzero((rows.kind == READ) & (rows.role == Role.IO) & chosen)
        file, moved = rows.file.take(reads), rows.moved.take(reads)
        fit = (moved > 0) & (file > 0) & (file < _FILES) & (rows.count.take(reads) == 1) & ~rows.in_flight.take(reads)
        fit &= MOVES.take(rows.layer.take(reads))
        if not fit.all():
            fitting = np.flatnonzero(fit)
            reads, file, moved = reads.take(fitting), file.take(fitting), moved.take(fitting)
        if not len(reads):
            return
        self._make_room(files)
        np.add.at(self._reads, file, 1)
        process, duration = rows.process.take(reads), rows.duration.take(reads)
        np.add.at(self._compared[0], process, 1)
        np.add.at(self._compared[1], process, duration)
        self._compared = addable(self._compared)
        at = np.flatnonzero((duration >= (BASE + PER_BYTE * moved) // _FAST) & (process < _PROCESSES))
        if len(at):
            file, moved, duration = file[at], moved[at], duration[at]
            keys = (process[at].astype(np.int64) * _FILES + file) * _BINS + _bins(duration, moved)
            ones = np.ones(len(at), np.int64)
            self._times.add(keys, ones, duration)
            self._bytes.add(keys, ones, moved)

    def update(self, other: ReadLatencies, files: Ints) -> None:
        """Adds what another one collected in the same log; files: the number here of each file number there."""
        known = other._reads[: len(files)]
        if len(known):
            self._make_room(int(files.max()) + 1)
            np.add.at(self._reads, files[: len(known)], known)
        self._compared = addable(self._compared + other._compared)
        for own, others in ((self._times, other._times), (self._bytes, other._bytes)):
            keys, calls, amounts = others.sums()
            moved = files.take(keys // _BINS % _FILES) - keys // _BINS % _FILES
            own.add(keys + moved * _BINS, calls, amounts)

    def _make_room(self, files: int) -> None:
        if files > len(self._reads):
            self._reads = np.append(self._reads, np.zeros(files * 3 // 2 - len(self._reads), np.int64))

    def finish(self, fetched: Sequence[int | None]) -> tuple[SlowReads, dict[int, SlowReads]]:
        """(the slow reads of all processes, those of each file that has any, by its number).

        fetched: by process, bytes that the kernel fetched from storage for it; None: not known, its reads are not
        compared.
        """
        keys, calls, times = self._times.sums()
        moved = self._bytes.sums()[2]
        process, file = keys // _BINS // _FILES, keys // _BINS % _FILES
        limits = np.array([*(-1 if one is None else min(max(one, 0), 1 << 62) for one in fetched), -1], np.int64)
        slow = (limits.take(process) > 0) & (keys % _BINS >= self._bounds(file, keys % _BINS, calls))
        parts: dict[int, tuple[int, int, int]] = {}
        nothing = 0, 0, 0
        left = limits.copy()
        slow_at = np.flatnonzero(slow)
        for at in slow_at[np.lexsort((file[slow_at], -(keys[slow_at] % _BINS)))].tolist():
            most, size = int(left[process[at]]), int(moved[at])
            if most <= 0:
                continue
            fitting = min(size, most)
            left[process[at]] -= fitting
            of_it = -(-int(calls[at]) * fitting // size)
            sums = of_it, fitting, int(times[at]) * of_it // int(calls[at])
            before = parts.get(int(file[at]), nothing)
            parts[int(file[at])] = before[0] + sums[0], before[1] + sums[1], before[2] + sums[2]
        count, size, time = (sum(column) for column in zip(nothing, *parts.values(), strict=True))
        whole = SlowReads(count, size, time, *self._compared[:, limits >= 0].sum(axis=1).tolist())
        return whole, {number: SlowReads(*sums, sums[0], sums[2]) for number, sums in parts.items()}

    def _bounds(self, file: Ints, bins: Ints, calls: Ints) -> Ints:
        """The first bin of slow reads of the file of each element."""
        if not len(file):
            return np.zeros(0, np.int64)
        order = np.lexsort((bins, file))
        first = np.flatnonzero(np.append(True, np.diff(file[order]) != 0))
        group = np.repeat(np.arange(len(first)), np.diff(first, append=len(order)))
        summed = np.cumsum(calls[order])
        counted, whole = np.add.reduceat(calls[order], first), self._reads.take(file[order][first])
        # The fast reads of the file come before those that have bins.
        before = np.append(0, summed)[first] - (whole - counted)
        reached = (summed - before.take(group)) * _FASTEST >= whole.take(group)
        fastest = np.minimum.reduceat(np.where(reached, bins[order], _BINS), first)
        fastest = np.where((whole - counted) * _FASTEST >= whole, 0, fastest)
        bounds = np.where(fastest < _BOUND, np.maximum(fastest + _RAISED, _BOUND), _BOUND)
        result = np.zeros(len(file), np.int64)
        result[order] = bounds.take(group)
        return result


def _bins(duration: Ints, moved: Ints) -> Ints:
    """How long reads took against the bound for their size, as bins."""
    ratio = np.maximum(duration, 1) / (BASE + PER_BYTE * moved.astype(np.float64))
    bins: Ints = np.clip(np.floor(np.log2(ratio) * _STEPS).astype(np.int64) + _BOUND, 0, _BINS - 1)
    return bins
