"""Where O_APPEND writes went: the end of the file, as far as its size is known.

The size of a file becomes known when it is created empty or truncated, and by
lseek to its end; from then on every write moves it: an append adds, another
write raises it to where it ended.  In max-plus terms a write is
s -> max(s + a, b), so the sizes after all of them are running sums and running
maxima, started anew where the size is set: no loop over operations.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join import vocabulary
from pyio_trace.join.files import Files
from pyio_trace.join.positions import ADVANCES, SETS, UNKNOWN, WANTED, WRITES, Moves, in_order, positions
from pyio_trace.join.survey import BLOCK_ROWS, Wide, identities
from pyio_trace.join.vocabulary import Vocabulary
from pyio_trace.log import layout
from pyio_trace.log.heap import HeapSlots
from pyio_trace.log.live import Block, LiveLog

_SET, _RAISE, _APPEND = 0, 1, 2


class Offsets:
    """The offsets of all plain reads and writes of a log: ids (int64, ascending) and values (UNKNOWN: not known)."""

    def __init__(
        self, log: LiveLog, words: Vocabulary, slots: HeapSlots, files: Files, moves: Moves, wide: Wide
    ) -> None:
        root = files.root.take(moves.slots)
        if len(root) and int(root.min()) < 0:  # what they went through is no descriptor: nothing can be told
            moves.keep(root >= 0)
            root = root[root >= 0]
        found = self._appended(log, words, slots, files, moves, root, wide)
        if found is None:
            found = _solve(root, moves.ticks, moves.kind, moves.value, files)
        wanted = (moves.kind & WANTED) != 0
        self._ids = moves.ids[wanted]
        self._values = found[wanted]

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
        appending = appends[root] & ((moves.kind & (WRITES | SETS)) == WRITES)
        if not appending.any():
            return None
        # First without the appends, whose ends are not known yet; then the sizes; then what appends lead to.
        kind = np.where(appending, moves.kind | SETS, moves.kind)
        found = _solve(root, moves.ticks, kind, np.where(appending, UNKNOWN, moves.value), files)
        before, after = _Sizes(log, words, slots, files, wide).around(moves, root, appending, found)
        value = np.where(appending, after, moves.value)
        rows = np.flatnonzero(appends[root])
        found[rows] = _solve(root[rows], moves.ticks[rows], kind[rows], value[rows], files)
        found[appending] = before[appending]
        return found

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


def _solve(
    root: NDArray[np.int32],
    ticks: NDArray[np.uint64],
    kind: NDArray[np.uint8],
    value: NDArray[np.int64],
    files: Files,
) -> NDArray[np.int64]:
    """The position before each entry, in the entries' own order."""
    order = in_order(root, ticks)
    result = np.empty(len(root), np.int64)
    result[order] = positions(root[order], value[order], kind[order], files.root_start)
    return result


class _Sizes:
    """Everything that changes the size of files that are appended to, collected in a pass of its own."""

    def __init__(self, log: LiveLog, words: Vocabulary, slots: HeapSlots, files: Files, wide: Wide) -> None:
        self._words, self._slots, self._files, self._wide = words, slots, files, wide
        appended = files.root_file[(files.root_flags & os.O_APPEND) != 0]
        self._appended = np.unique(appended[appended != 0])
        self._parts: list[tuple[NDArray[np.int64], ...]] = []
        for block in log.blocks(BLOCK_ROWS):
            self._look(block)

    def _of_interest(self, file: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.isin(file, self._appended)

    def _add(self, block: Block, rows: NDArray[np.int64], effect: int, value: NDArray[np.int64]) -> None:
        chosen = block.records[rows]
        file = self._files.file.take(self._slots.of(chosen["desc"]))
        self._keep(block.ids[rows], file, chosen["begin"].view(np.int64), effect, value)

    def _keep(
        self,
        ids: NDArray[np.int64],
        file: NDArray[np.int64],
        ticks: NDArray[np.int64],
        effect: int,
        value: NDArray[np.int64],
    ) -> None:
        keep = self._of_interest(file)
        kinds = np.full(len(ids), effect, np.int64)
        self._parts.append(tuple(part[keep] for part in (ids, file, ticks, kinds, value)))

    def _look(self, block: Block) -> None:
        records, words = block.records, self._words
        op, flags = records["op"], records["flags"]
        fine = (flags & (layout.STATE_MASK | layout.FAILED | layout.COALESCED)) == layout.DONE
        shape = words.shape.take(op)
        traits = words.traits.take(op)
        truncated = np.flatnonzero(fine & ((shape == layout.SHAPE_TRUNC) | (shape == layout.SHAPE_PTRUNC)))
        self._add(block, truncated, _SET, records["offset"][truncated])
        to_end = ((traits & vocabulary.SEEKS) != 0) & (records["size"] == os.SEEK_END)
        ended = np.flatnonzero(fine & to_end)
        self._add(block, ended, _SET, records["offset"][ended])
        emptied = fine & (shape == layout.SHAPE_OPEN) & ((records["aux"] & (os.O_TRUNC | os.O_EXCL)) != 0)
        rows = np.flatnonzero(emptied)
        file = self._files.file.take(self._slots.of(identities(records["offset"][rows])))
        ticks = records["begin"][rows].view(np.int64)
        self._keep(block.ids[rows], file, ticks, _SET, np.zeros(len(rows), np.int64))
        placed = ((traits & vocabulary.PLAIN) != 0) & ((traits & vocabulary.WRITES) != 0) & (records["offset"] != -1)
        rows = np.flatnonzero(fine & placed & (records["result"] != layout.NO_BYTES))
        self._add(block, rows, _RAISE, records["offset"][rows] + records["result"][rows])

    def around(
        self, moves: Moves, root: NDArray[np.int32], appending: NDArray[np.bool_], found: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The sizes (before, after) each appending entry of moves; UNKNOWN elsewhere and where not known."""
        before = np.full(len(moves), UNKNOWN, np.int64)
        after = before.copy()
        file = self._files.file.take(moves.slots)
        writing = ((moves.kind & (WRITES | SETS)) == (WRITES | ADVANCES)) & self._of_interest(file)
        rows = np.flatnonzero(writing & (appending | (found != UNKNOWN)))
        effect = np.where(appending[rows], _APPEND, _RAISE)
        value = np.where(appending[rows], moves.value[rows], found[rows] + moves.value[rows])
        own = (moves.ids[rows].astype(np.int64), file[rows], moves.ticks[rows].view(np.int64), effect, value)
        ids, every, ticks, effects, values = (np.concatenate(column) for column in zip(own, *self._parts, strict=True))
        order = np.lexsort((ids, ticks, every))
        first, last = _running(every[order], effects[order], values[order])
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        mine = back[: len(rows)]
        chosen = appending[rows]
        before[rows[chosen]] = first[mine[chosen]]
        after[rows[chosen]] = last[mine[chosen]]
        return before, after


def _running(
    file: NDArray[np.int64], effect: NDArray[np.int64], value: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sizes (before, after) each of the entries, which are sorted by file and time."""
    count = len(file)
    sets = effect == _SET
    first = np.ones(count, np.bool_)
    first[1:] = file[1:] != file[:-1]
    segment = np.cumsum(first | sets) - 1
    begins = np.flatnonzero(first | sets)
    known = sets[begins][segment]
    added = np.where(effect == _APPEND, value, 0)
    total = np.cumsum(added)
    floor = np.where(effect == _APPEND, np.iinfo(np.int64).min // 2, value - total)
    # The running maximum within each segment: of ranks, raised by segment so that one pass does all.
    levels, rank = np.unique(floor, return_inverse=True)
    highest = np.maximum.accumulate(segment * len(levels) + rank) - segment * len(levels)
    after = np.where(known, levels[highest] + total, UNKNOWN)
    before = np.where(known & (effect == _APPEND), after - added, UNKNOWN)
    return before, after
