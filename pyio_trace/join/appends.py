"""Where O_APPEND writes went: the end of the file, as far as its size is known (sizes.py)."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join import parallel
from pyio_trace.join.files import Files
from pyio_trace.join.positions import (
    AT_ONCE,
    SETS,
    UNKNOWN,
    WANTED,
    WRITES,
    Moves,
    by_root,
    in_order,
    positions,
    squeezed,
)  # fmt: skip
from pyio_trace.join.sizes import Sizes
from pyio_trace.join.survey import Wide
from pyio_trace.join.vocabulary import Vocabulary
from pyio_trace.log.heap import HeapSlots
from pyio_trace.log.live import LiveLog


class Offsets:
    """The offsets of all plain reads and writes of a log: ids (int64, ascending) and values (UNKNOWN: not known)."""

    def __init__(
        self, log: LiveLog, words: Vocabulary, slots: HeapSlots, files: Files, moves: Moves, wide: Wide
    ) -> None:
        root = np.empty(len(moves), np.int32)
        for low in range(0, len(root), AT_ONCE):
            root[low : low + AT_ONCE] = files.root.take(moves.slots[low : low + AT_ONCE])
        if len(root) and int(root.min()) < 0:  # what they went through is no descriptor: nothing can be told
            moves.keep(root >= 0)
            root = root[root >= 0]
        # Of a ring that has lost something, the openings that are left say where a position starts.
        self._start = np.full_like(files.root_start, UNKNOWN) if log.header["ring_lost"] else files.root_start
        found = self._appended(log, words, slots, files, moves, root, wide)
        if found is None:
            found = self._solve(root, moves.ticks, moves.kind, moves.value)
        if files.root_lost.any():
            found[files.root_lost[root]] = UNKNOWN
        if log.header["full_since"]:  # from then on some have no record
            found[moves.ticks >= log.header["full_since"]] = UNKNOWN
        self._ids, self._values = squeezed((moves.kind & WANTED) != 0, moves.ids, found)

    def _appended(
        self,
        log: LiveLog,
        words: Vocabulary,
        slots: HeapSlots,
        files: Files,
        moves: Moves,
        root: NDArray[np.int32],
        wide: Wide,
    ) -> NDArray[np.int64] | None:
        """The positions of a log in which something was appended; None: nothing was."""
        appends = (files.root_flags & os.O_APPEND) != 0
        if not appends.any():
            return None
        # A write of nothing, or a failed one, goes nowhere: not even to the end.
        appending = appends[root] & ((moves.kind & (WRITES | SETS)) == WRITES) & (moves.value != 0)
        if not appending.any():
            return None
        # First without the appends, whose ends are not known yet; then the sizes; then what appends lead to.
        kind = np.where(appending, moves.kind | SETS, moves.kind)
        found = self._solve(root, moves.ticks, kind, np.where(appending, UNKNOWN, moves.value))
        if log.selective():  # what has no record may have made the file longer too
            before = after = np.full(len(moves), UNKNOWN, np.int64)
        else:
            before, after = Sizes(log, words, slots, files, wide).around(moves, root, appending, found)
        value = np.where(appending, after, moves.value)
        rows = np.flatnonzero(appends[root])
        found[rows] = self._solve(root[rows], moves.ticks[rows], kind[rows], value[rows])
        found[appending] = before[appending]
        return found

    def _solve(
        self, root: NDArray[np.int32], ticks: NDArray[np.uint64], kind: NDArray[np.uint8], value: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The position before each entry, in the entries' own order: put in the place of its value."""

        def solve(entries: NDArray[np.int64]) -> None:
            order, roots = in_order(entries, root, ticks)
            value[order] = positions(roots, value.take(order), kind.take(order), self._start)

        for _ in parallel.in_order(solve, by_root(root)):
            pass
        return value

    def of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The offsets of these records (ids ascending), UNKNOWN for what is not among them."""
        if len(ids) == 0 or len(self._ids) == 0:
            return np.full(len(ids), UNKNOWN, np.int64)
        # Of the ids' own type: for any other numpy would convert them all.
        ends = np.array([ids[0], ids[-1]], self._ids.dtype)
        low, high = np.searchsorted(self._ids, ends[0]), np.searchsorted(self._ids, ends[1], side="right")
        own, values = self._ids[low:high], self._values[low:high]
        if len(own) == len(ids) and np.array_equal(own, ids):
            return np.asarray(values)
        if len(own) == 0:
            return np.full(len(ids), UNKNOWN, np.int64)
        at = np.minimum(np.searchsorted(own, ids.astype(own.dtype)), len(own) - 1)
        return np.where(own[at] == ids, values[at], UNKNOWN)
