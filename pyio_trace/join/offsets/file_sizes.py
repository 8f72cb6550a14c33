"""The sizes of files that are appended to, as far as the log tells them.

A file's size is known once it is created empty, truncated, or sought to its
end.  From then on every write changes it: an append adds to it, any other write
raises it to where that write ended.  Both have the form s -> max(s + a, b), and
such functions compose to one of the same form.  So the sizes after all writes
are cumulative sums and cumulative maxima that restart wherever the size is set.

Whatever changes the size by an amount that the log does not have makes it
unknown again.  A wrong size is worse than none.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.base.records import LAST_TICK, UNKNOWN, WideValues, begin_ticks, ids_in
from pyio_trace.join.offsets.positions import WRITES, AllPositionEvents, of_streams
from pyio_trace.join.references.log_parts import LogParts
from pyio_trace.log import layout, runs
from pyio_trace.log.blocks import BLOCK_ROWS, Block
from pyio_trace.log.layout import Trait
from pyio_trace.log.sorting import distinct

#: Effects on a size: set to the value, raise to it, add it, make the size unknown.
_SET, _RAISE, _APPEND, _LOSE = 0, 1, 2, 3
_NEW = os.O_CREAT | os.O_EXCL

Ints = NDArray[np.int64]


class _SizeEvents(NamedTuple):
    """Events that change file sizes; parallel arrays."""

    ids: Ints
    file: Ints
    ticks: Ints
    effect: Ints
    value: Ints

    @classmethod
    def joined(cls, parts: list[_SizeEvents]) -> _SizeEvents:
        return cls(*(np.concatenate(column) for column in zip(*parts, strict=True)))


class FileSizes:
    """The sizes of a log's files that are appended to, from a pass over all records of its own.

    The pass collects events.  Some cannot be judged before all records were
    seen, and wait in lists of their own until _resolve().
    """

    def __init__(self, parts: LogParts, wide: WideValues, by_flag: Ints) -> None:
        """by_flag: object numbers of the descriptors that have appends without O_APPEND."""
        log, words, self._numbers, files = parts
        self._words, self._files, self._wide = words, files, wide
        self._appends = (files.root_flags & os.O_APPEND) != 0
        appended = np.append(files.root_file[self._appends], files.file.take(by_flag))
        self._appended = distinct(appended[appended != 0])
        self._lost_until = int(log.header["ring_lost"])
        self._events: list[_SizeEvents] = []
        self._may_be_new: list[_SizeEvents] = []  # openings that may have met a new file under a used inode
        self._truncated_names: list[tuple[Ints, Ints, Ints, Ints]] = []  # ids, file, ticks, value
        self._placed: list[Ints] = []  # ids of appends that leave the position
        self._renames = False
        self._all_flushed: list[Ints] = []  # ticks at which all streams were written out
        names = np.array(words.names)
        #: After these calls a name may lead to another file, and an inode number may be another inode's.
        self._renaming = words.with_traits(Trait.TAKES_NAME | Trait.GIVES_NAME)
        self._reserves: NDArray[np.bool_] = names == "posix_fallocate"
        self._reserves_by_mode: NDArray[np.bool_] = names == "fallocate"  # its mode is not in the log
        for block in log.blocks(BLOCK_ROWS):
            self._collect(block)
        self._losses = self._resolve()

    def at_appends(
        self, events: AllPositionEvents, appending: NDArray[np.bool_], offsets: Ints
    ) -> tuple[Ints, Ints, tuple[Ints, Ints]]:
        """The sizes (before, after) each appending event; UNKNOWN elsewhere and where not known.  And (ids, sizes
        before) of the appends that leave the position, which are no events.

        offsets: of the events, as far as they are known without the appends.
        """
        before = np.full(len(events), UNKNOWN, np.int64)
        after = before.copy()
        file = self._files.file.take(events.descs)
        writing = ((events.kind & WRITES) != 0) & np.isin(file, self._appended)
        rows = np.flatnonzero(writing & (events.value != 0))
        written = self._plain_writes(events, rows, file[rows], appending[rows], offsets[rows])
        every = _SizeEvents.joined([written, *self._events])
        order = np.lexsort((every.ids, every.ticks, every.file))
        first, last = _cumulative_sizes(_SizeEvents(*(column[order] for column in every)), self._losses)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        appends = appending[rows]
        own = place[: len(rows)][appends]  # the plain writes come first in `every`
        before[rows[appends]] = first[own]
        after[rows[appends]] = last[own]
        placed = np.isin(every.ids, np.concatenate([np.empty(0, np.int64), *self._placed]))
        return before, after, (every.ids[placed], first[place[placed]])

    def _plain_writes(
        self, events: AllPositionEvents, rows: Ints, file: Ints, appending: NDArray[np.bool_], offsets: Ints
    ) -> _SizeEvents:
        moved = events.value[rows]
        lost = ~appending & (offsets == UNKNOWN)
        effect = np.where(appending, _APPEND, np.where(lost, _LOSE, _RAISE))
        value = np.where(appending | lost, moved, offsets + moved)
        return _SizeEvents(events.ids[rows].astype(np.int64), file, events.ticks[rows].view(np.int64), effect, value)

    # ---- collecting

    def _collect(self, block: Block) -> None:
        records, words = block.records, self._words
        flags, shape, traits = records["flags"], words.shape.take(records["op"]), words.traits.take(records["op"])
        fine = (flags & (layout.STATE_MASK | layout.FAILED | layout.COALESCED)) == layout.DONE
        self._renames |= bool((fine & self._renaming.take(records["op"])).any())
        self._collect_truncations(block, fine, shape, traits)
        self._collect_openings(block, np.flatnonzero(fine & (shape == layout.SHAPE_OPEN)))
        writes = ((traits & Trait.USES_POSITION) != 0) & ((traits & Trait.WRITES) != 0)
        placed = writes & (records["offset"] != -1) & (records["offset"] != layout.TO_END)
        wide = (flags & layout.WIDE) != 0
        self._collect_placed_writes(block, np.flatnonzero(fine & placed & (wide | (records["result"] != 0))))
        self._collect_reservations(block, fine)
        self._collect_streams(block, traits)
        copies = np.flatnonzero(fine & ((traits & Trait.OUTPUT_STAYS) != 0) & (records["result"] != 0))
        self._add(self._events, block, copies, self._file(records["aux"][copies]), _LOSE)

    def _file(self, descs: NDArray[np.uint32]) -> Ints:
        return self._files.file.take(self._numbers.of(descs))

    def _add(
        self,
        to: list[_SizeEvents],
        block: Block,
        rows: Ints,
        file: Ints,
        effect: int | Ints,
        value: Ints | None = None,
        later: int | Ints = 0,
    ) -> None:
        """Adds events of files that are appended to; value None: 0; later: ticks after the record's begin."""
        ticks = begin_ticks(block.records["begin"][rows]) + later
        keep = np.isin(file, self._appended) & (ticks > self._lost_until)
        effects = np.broadcast_to(np.asarray(effect, np.int64), len(rows))
        values = np.zeros(len(rows), np.int64) if value is None else value
        to.append(_SizeEvents(*(column[keep] for column in (block.ids[rows], file, ticks, effects, values))))

    def _collect_truncations(
        self, block: Block, fine: NDArray[np.bool_], shape: NDArray[np.uint8], traits: NDArray[np.uint16]
    ) -> None:
        """Truncations, and seeks to the end, which return the size."""
        records = block.records
        to_end = ((traits & Trait.SETS_POSITION) != 0) & (records["size"] == os.SEEK_END)
        rows = np.flatnonzero(fine & ((shape == layout.SHAPE_TRUNC) | to_end))
        self._add(self._events, block, rows, self._file(records["desc"][rows]), _SET, records["offset"][rows])
        rows = np.flatnonzero(fine & (shape == layout.SHAPE_PTRUNC))
        file, ticks = self._file(records["desc"][rows]), records["begin"][rows].view(np.int64)
        self._truncated_names.append((block.ids[rows], file, ticks, records["offset"][rows]))

    def _collect_openings(self, block: Block, rows: Ints) -> None:
        """Openings that leave the file empty, and those that may create a new file."""
        flags = block.records["aux"][rows].astype(np.int64)
        empty = ((flags & os.O_TRUNC) != 0) | ((flags & _NEW) == _NEW)
        maybe = ((flags & os.O_CREAT) != 0) & ~empty
        for mask, effect, to in ((empty, _SET, self._events), (maybe, _LOSE, self._may_be_new)):
            chosen = rows[mask]
            self._add(to, block, chosen, self._file(ids_in(block.records["offset"][chosen])), effect)

    def _collect_placed_writes(self, block: Block, rows: Ints) -> None:
        """Writes that name an offset.  With O_APPEND, Linux appends all the same (pwrite(2), BUGS); pwritev2 has flags
        to say either."""
        records = block.records[rows]
        numbers = self._numbers.of(records["desc"])
        file, offset = self._files.file.take(numbers), records["offset"]
        appends = (offset == layout.AT_END) | ((offset >= 0) & self._files.appends(numbers))
        moved = records["result"].astype(np.int64)
        wide = (records["flags"] & layout.WIDE) != 0
        moved = np.where(wide, self._wide.of(block.ids[rows])[1], moved)
        effect = np.where(appends, _APPEND, np.where(offset == layout.AT_POSITION, _LOSE, _RAISE))
        place = np.where(offset <= layout.AT_PLACE, layout.AT_PLACE - offset, offset)
        self._add(self._events, block, rows, file, effect, np.where(appends, moved, place + moved))
        self._placed.append(block.ids[rows[appends]])

    def _collect_reservations(self, block: Block, fine: NDArray[np.bool_]) -> None:
        records = block.records
        rows = np.flatnonzero(fine & self._reserves.take(records["op"]))
        size = records["size"][rows].astype(np.int64)
        effect = np.where(size == layout.NO_BYTES, _LOSE, _RAISE)
        self._add(self._events, block, rows, self._file(records["desc"][rows]), effect, records["offset"][rows] + size)
        rows = np.flatnonzero(fine & self._reserves_by_mode.take(records["op"]))
        self._add(self._events, block, rows, self._file(records["desc"][rows]), _LOSE)

    def _collect_streams(self, block: Block, traits: NDArray[np.uint16]) -> None:
        """What is written into a C stream reaches the file at some later moment."""
        records, op = block.records, block.op
        settles = self._words.settles_stream.take(op)
        writes = of_streams(traits) & ((traits & Trait.WRITES) != 0)
        rows = np.flatnonzero(writes | settles)
        if not len(rows):
            return
        self._add(self._events, block, rows, self._file(records["desc"][rows]), _LOSE)
        series = rows[writes[rows] & ((block.flags[rows] & layout.COALESCED) != 0)]
        length = np.clip(records["offset"][series], 0, LAST_TICK)
        self._add(self._events, block, series, self._file(records["desc"][series]), _LOSE, later=length)
        self._all_flushed.append(begin_ticks(records["begin"][rows[settles[rows] & (records["desc"][rows] == 0)]]))

    def _resolve(self) -> Ints:
        """Decides on the events that had to wait; returns the ticks at which any size may have changed, sorted."""
        if self._renames:
            self._events += self._may_be_new
        flushed = np.concatenate([np.empty(0, np.int64), *self._all_flushed])
        columns = [np.concatenate(column) for column in zip(*self._truncated_names, strict=True)]
        if not columns:
            return np.sort(flushed)
        ids, file, ticks, value = columns
        # A name that no descriptor was opened by may be a link to any file.
        uncertain = (file <= 0) | self._renames
        sets = ~uncertain & np.isin(file, self._appended) & (ticks > self._lost_until)
        effect = np.full(int(sets.sum()), _SET)
        self._events.append(_SizeEvents(ids[sets], file[sets], ticks[sets], effect, value[sets]))
        return np.sort(np.append(ticks[uncertain], flushed))


def _cumulative_sizes(events: _SizeEvents, losses: Ints) -> tuple[Ints, Ints]:
    """Sizes (before, after) each of the events, which are sorted by file and time; losses: ticks, sorted.

    A segment begins at each new file and at each event that sets or loses the
    size.  Let total be the cumulative sum of appended bytes.  Then the size
    after an event is total + max(value - total) over the segment's events so
    far that set or raise it: an append since then has added to both.
    A size is known if its segment began with a SET and no loss lies between.
    """
    file, ticks, effect, value = events.file, events.ticks, events.effect, events.value
    sets = (effect == _SET) | (effect == _LOSE)
    first = runs.begins(file)
    segment = np.cumsum(first | sets) - 1
    begins = np.flatnonzero(first | sets)
    known = (effect[begins] == _SET)[segment]
    losses_before = np.searchsorted(losses, ticks)
    known &= losses_before == losses_before[begins][segment]
    added = np.where(effect == _APPEND, value, 0)
    total = np.cumsum(added)
    floor = np.where(effect == _APPEND, np.iinfo(np.int64).min // 2, value - total)
    # The cumulative maximum within each segment: of ranks, raised by the segment's number so that one pass does all.
    levels, rank = np.unique(floor, return_inverse=True)
    highest = np.maximum.accumulate(segment * len(levels) + rank) - segment * len(levels)
    after = np.where(known, levels[highest] + total, UNKNOWN)
    before = np.where(known & (effect == _APPEND), after - added, UNKNOWN)
    return before, after
