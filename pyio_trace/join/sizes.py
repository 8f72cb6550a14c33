"""The size of each file that is appended to, as far as the log tells it.

It becomes known when the file is created empty or truncated, and by lseek to
its end; from then on every write moves it: an append adds, another write
raises it to where it ended.  In max-plus terms a write is s -> max(s + a, b),
so the sizes after all of them are running sums and running maxima, started
anew where the size is set: no loop over operations.

It is lost again by whatever changes it by an amount that the log does not
have.  A wrong size is worse than none.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join import vocabulary
from pyio_trace.join.files import Files
from pyio_trace.join.positions import ADVANCES, SETS, UNKNOWN, WRITES, Moves
from pyio_trace.join.survey import BLOCK_ROWS, Wide, identities
from pyio_trace.join.vocabulary import Vocabulary
from pyio_trace.log import layout
from pyio_trace.log.heap import HeapSlots
from pyio_trace.log.live import Block, LiveLog
from pyio_trace.log.sorting import distinct

_SET, _RAISE, _APPEND, _LOSE = 0, 1, 2, 3
#: Calls after which a name may be another file's, or a number another inode's.
_RENAMING = ("rename", "renameat", "link", "linkat", "symlink", "symlinkat", "unlink", "unlinkat", "remove")
_NEW = os.O_CREAT | os.O_EXCL


class Sizes:
    """Everything that changes the size of files that are appended to, collected in a pass of its own."""

    def __init__(self, log: LiveLog, words: Vocabulary, slots: HeapSlots, files: Files, wide: Wide) -> None:
        self._words, self._slots, self._files, self._wide = words, slots, files, wide
        self._appends = (files.root_flags & os.O_APPEND) != 0
        appended = files.root_file[self._appends]
        self._appended = distinct(appended[appended != 0])
        self._lost_until = int(log.header["ring_lost"])
        self._parts: list[tuple[NDArray[np.int64], ...]] = []
        self._reopened: list[tuple[NDArray[np.int64], ...]] = []
        self._truncated_names: list[tuple[NDArray[np.int64], ...]] = []
        self._renames = False
        names = np.array(words.names)
        self._renaming: NDArray[np.bool_] = np.isin(names, _RENAMING)
        self._reserves: NDArray[np.bool_] = names == "posix_fallocate"
        self._reserves_somehow: NDArray[np.bool_] = names == "fallocate"  # its mode is not in the log
        for block in log.blocks(BLOCK_ROWS):
            self._look(block)
        self._losses = self._settle()

    def _file(self, descs: NDArray[np.uint32]) -> NDArray[np.int64]:
        return self._files.file.take(self._slots.of(descs))

    def _keep(
        self, to: list[tuple[NDArray[np.int64], ...]], block: Block, rows: NDArray[np.int64], file: NDArray[np.int64],
        effect: int | NDArray[np.int64], value: NDArray[np.int64],
    ) -> None:  # fmt: skip
        ticks = block.records["begin"][rows].view(np.int64)
        keep = np.isin(file, self._appended) & (ticks > self._lost_until)
        effects = np.broadcast_to(np.asarray(effect, np.int64), len(rows))
        to.append(tuple(part[keep] for part in (block.ids[rows], file, ticks, effects, value)))

    def _look(self, block: Block) -> None:
        records, words = block.records, self._words
        flags, shape, traits = records["flags"], words.shape.take(records["op"]), words.traits.take(records["op"])
        fine = (flags & (layout.STATE_MASK | layout.FAILED | layout.COALESCED)) == layout.DONE
        self._renames |= bool((fine & self._renaming.take(records["op"])).any())
        to_end = ((traits & vocabulary.SEEKS) != 0) & (records["size"] == os.SEEK_END)
        rows = np.flatnonzero(fine & ((shape == layout.SHAPE_TRUNC) | to_end))
        self._keep(self._parts, block, rows, self._file(records["desc"][rows]), _SET, records["offset"][rows])
        rows = np.flatnonzero(fine & (shape == layout.SHAPE_PTRUNC))
        file, ticks = self._file(records["desc"][rows]), records["begin"][rows].view(np.int64)
        self._truncated_names.append((block.ids[rows], file, ticks, records["offset"][rows]))
        self._look_at_opens(block, np.flatnonzero(fine & (shape == layout.SHAPE_OPEN)))
        placed = ((traits & vocabulary.PLAIN) != 0) & ((traits & vocabulary.WRITES) != 0) & (records["offset"] != -1)
        self._look_at_writes(block, np.flatnonzero(fine & placed & (records["result"] != layout.NO_BYTES)))
        self._look_at_others(block, fine, traits)

    def _look_at_opens(self, block: Block, rows: NDArray[np.int64]) -> None:
        """Opens that leave the file empty; others may meet a new file under the number of one that was removed."""
        flags = block.records["aux"][rows].astype(np.int64)
        empty = ((flags & os.O_TRUNC) != 0) | ((flags & _NEW) == _NEW)
        maybe = ((flags & os.O_CREAT) != 0) & ~empty
        for kind, effect, to in ((empty, _SET, self._parts), (maybe, _LOSE, self._reopened)):
            chosen = rows[kind]
            file = self._file(identities(block.records["offset"][chosen]))
            self._keep(to, block, chosen, file, effect, np.zeros(len(chosen), np.int64))

    def _look_at_writes(self, block: Block, rows: NDArray[np.int64]) -> None:
        """Writes at a given place; on Linux an append goes to the end all the same (pwrite(2), BUGS)."""
        records = block.records[rows]
        slots = self._slots.of(records["desc"])
        root = self._files.root.take(slots)
        appends = (root >= 0) & self._appends.take(np.maximum(root, 0)) if len(self._appends) else np.zeros(0, np.bool_)
        moved = records["result"].astype(np.int64)
        wide = (records["flags"] & layout.WIDE) != 0
        moved = np.where(wide, self._wide.of(block.ids[rows])[1], moved)
        value = np.where(appends, moved, records["offset"] + moved)
        some = moved > 0
        effect = np.where(appends, _APPEND, _RAISE)[some]
        self._keep(self._parts, block, rows[some], self._files.file.take(slots)[some], effect, value[some])

    def _look_at_others(self, block: Block, fine: NDArray[np.bool_], traits: NDArray[np.uint8]) -> None:
        """Blocks reserved, and copies to a place that is not in the log."""
        records = block.records
        rows = np.flatnonzero(fine & self._reserves.take(records["op"]))
        size = records["size"][rows].astype(np.int64)
        effect = np.where(size == layout.NO_BYTES, _LOSE, _RAISE)
        self._keep(self._parts, block, rows, self._file(records["desc"][rows]), effect, records["offset"][rows] + size)
        rows = np.flatnonzero(fine & self._reserves_somehow.take(records["op"]))
        nothing = np.zeros(len(rows), np.int64)
        self._keep(self._parts, block, rows, self._file(records["desc"][rows]), _LOSE, nothing)
        rows = np.flatnonzero(fine & ((traits & vocabulary.PLACED_OUTPUT) != 0) & (records["result"] != 0))
        nothing = np.zeros(len(rows), np.int64)
        self._keep(self._parts, block, rows, self._file(records["aux"][rows]), _LOSE, nothing)

    def _settle(self) -> NDArray[np.int64]:
        """Takes in what could not be judged before all was seen; the ticks at which any size may have changed."""
        if self._renames:
            self._parts += self._reopened
        columns = [np.concatenate(column) for column in zip(*self._truncated_names, strict=True)]
        if not columns:
            return np.empty(0, np.int64)
        ids, file, ticks, value = columns
        # A name that nothing was opened by may be a link to any file.
        uncertain = (file <= 0) | self._renames
        sets = ~uncertain & np.isin(file, self._appended) & (ticks > self._lost_until)
        self._parts.append((ids[sets], file[sets], ticks[sets], np.full(int(sets.sum()), _SET), value[sets]))
        return np.sort(ticks[uncertain])

    def around(
        self, moves: Moves, root: NDArray[np.int32], appending: NDArray[np.bool_], found: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The sizes (before, after) each appending entry of moves; UNKNOWN elsewhere and where not known."""
        before = np.full(len(moves), UNKNOWN, np.int64)
        after = before.copy()
        file = self._files.file.take(moves.slots)
        writing = ((moves.kind & (WRITES | SETS)) == (WRITES | ADVANCES)) & np.isin(file, self._appended)
        rows = np.flatnonzero(writing & (moves.value != 0))
        lost = ~appending[rows] & (found[rows] == UNKNOWN)
        effect = np.where(appending[rows], _APPEND, np.where(lost, _LOSE, _RAISE))
        value = np.where(appending[rows] | lost, moves.value[rows], found[rows] + moves.value[rows])
        own = (moves.ids[rows].astype(np.int64), file[rows], moves.ticks[rows].view(np.int64), effect, value)
        ids, every, ticks, effects, values = (np.concatenate(column) for column in zip(own, *self._parts, strict=True))
        order = np.lexsort((ids, ticks, every))
        first, last = _running(every[order], ticks[order], effects[order], values[order], self._losses)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        mine = back[: len(rows)]
        chosen = appending[rows]
        before[rows[chosen]] = first[mine[chosen]]
        after[rows[chosen]] = last[mine[chosen]]
        return before, after


def _running(
    file: NDArray[np.int64],
    ticks: NDArray[np.int64],
    effect: NDArray[np.int64],
    value: NDArray[np.int64],
    losses: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sizes (before, after) each of the entries, which are sorted by file and time; losses: ticks, sorted."""
    count = len(file)
    sets = (effect == _SET) | (effect == _LOSE)
    first = np.ones(count, np.bool_)
    first[1:] = file[1:] != file[:-1]
    segment = np.cumsum(first | sets) - 1
    begins = np.flatnonzero(first | sets)
    known = (effect[begins] == _SET)[segment]
    epoch = np.searchsorted(losses, ticks)
    known &= epoch == epoch[begins][segment]
    added = np.where(effect == _APPEND, value, 0)
    total = np.cumsum(added)
    floor = np.where(effect == _APPEND, np.iinfo(np.int64).min // 2, value - total)
    # The running maximum within each segment: of ranks, raised by segment so that one pass does all.
    levels, rank = np.unique(floor, return_inverse=True)
    highest = np.maximum.accumulate(segment * len(levels) + rank) - segment * len(levels)
    after = np.where(known, levels[highest] + total, UNKNOWN)
    before = np.where(known & (effect == _APPEND), after - added, UNKNOWN)
    return before, after
