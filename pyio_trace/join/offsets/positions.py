"""File offsets of plain reads and writes, worked out for each open file description.

read() and write() do not say where in the file they take place; the open file
description does.  Its position starts somewhere, each transfer advances it,
lseek sets it, and copies made by dup and fork share it.  So all such operations
are sorted by (description, begin), and the positions are cumulative sums that
restart at each seek.  Appends go to the end of the *file*: see record_offsets.py.

A C stream has a position of its own, which is ahead of the description's or behind
it by what is in its buffer; fseek and ftell say where it is.  It is followed for
each descriptor that has a stream.  How far a call on a stream moves the position
beneath it is not in the log, so that one is unknown until the next lseek
(around_streams()).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.base.records import LAST_TICK, UNKNOWN, WideValues
from pyio_trace.log import layout, runs
from pyio_trace.log.blocks import Block
from pyio_trace.log.heap import HeapSlots, ObjectNumbers
from pyio_trace.log.layout import Trait
from pyio_trace.log.sorting import distinct

#: Bits of PositionEvents.kind.
ADVANCES, SETS = 0, 1
WANTED = 2  #: the row itself has no offset and wants the one worked out
WRITES = 4  #: with SETS: it appends, and `value` is the bytes moved
_WIDE = 8
OUTPUT = 16  #: the output side of a copy
STREAM = 32  #: of a C stream
PENDS = 64  #: the stream may move the position beneath it at any moment, until SETTLES
SETTLES = 128
#: Events that are worked on at once: few enough to stay in the cache.
AT_ONCE = 1 << 16


class PositionEvents(NamedTuple):
    """Operations of one block that move a position or depend on one; parallel arrays.

    ids: uint32; slots: of the descriptor; ticks: uint64; value: int64,
    bytes moved or the position set; kind: uint8 of the flags above.
    """

    ids: NDArray[np.uint32]
    slots: NDArray[np.int64]
    ticks: NDArray[np.uint64]
    value: NDArray[np.int64]
    kind: NDArray[np.uint8]


def openings(block: Block, rows: NDArray[np.int64], slots: NDArray[np.int64]) -> list[PositionEvents]:
    """Openings, as events that set the position to 0; slots: of the new descriptor, by record."""
    return [_events(block, rows, slots, np.zeros(len(rows), np.int64), np.full(len(rows), SETS, np.uint8))]


def transfers_and_seeks(
    block: Block,
    traits: NDArray[np.uint16],
    slots: NDArray[np.int64],
    heap: HeapSlots,
    settles: NDArray[np.bool_] | None = None,
) -> list[PositionEvents]:
    """The position events of a block; slots: of its records' desc; settles: Vocabulary.settles_stream, by operation."""
    records = block.records
    coalesced = (block.flags & layout.COALESCED) != 0
    fine = (block.flags & (layout.STATE_MASK | layout.FAILED)) == layout.DONE
    seeks = (traits & Trait.SETS_POSITION) != 0
    transfers = ((traits & (Trait.USES_POSITION | Trait.COPIES)) != 0) & ~seeks
    streams = of_streams(traits)
    any_streams = bool(streams.any())
    if any_streams:
        at = streams & ((traits & (Trait.READS | Trait.WRITES)) == 0)  # fseek and ftell give the offset that they found
        seeks |= at & (records["offset"] >= 0)
        transfers |= streams & ~at
    rows = np.flatnonzero((seeks & fine & ~coalesced) | (transfers & (coalesced | (records["offset"] < 0))))
    kind = seeks * np.uint8(SETS)  # a product is several times as fast as np.where()
    kind |= ~(seeks | coalesced) * np.uint8(WANTED)
    kind |= ((traits & (Trait.WRITES | Trait.COPIES)) == Trait.WRITES) * np.uint8(WRITES)
    if any_streams:
        kind |= streams * np.uint8(STREAM)
        kind |= (streams & (coalesced | ((traits & Trait.WRITES) != 0))) * np.uint8(PENDS)
    value = _bytes_moved(records["result"][rows], fine.take(rows))
    sets = np.flatnonzero(seeks.take(rows))
    value[sets] = records["offset"][rows[sets]]
    kind = kind.take(rows)
    flagged = np.flatnonzero(transfers.take(rows) & (records["offset"][rows] < -1))
    if len(flagged):
        rows, value, kind = _by_flags(block, flagged, rows, value, kind)
    found = [_events(block, rows, slots, value, kind)]
    out = np.flatnonzero(((traits & (Trait.COPIES | Trait.OUTPUT_STAYS)) == Trait.COPIES) & fine)
    if len(out):
        value = _bytes_moved(records["result"][out], np.ones(len(out), np.bool_))
        kind = np.full(len(out), ADVANCES | WRITES | OUTPUT, np.uint8)
        found.append(_events(block, out, heap.of(records["aux"]), value, kind))
    if settles is not None:
        at = np.flatnonzero(settles.take(block.op))
        found.append(_of_kind(block, at, slots, ADVANCES | STREAM | SETTLES))
    if any_streams and len(at := np.flatnonzero(streams & coalesced)):
        ends = _of_kind(block, at, slots, ADVANCES | STREAM | SETTLES)
        length = np.clip(records["offset"][at], 0, LAST_TICK).astype(np.uint64)
        found.append(ends._replace(ticks=np.minimum(ends.ticks, np.uint64(LAST_TICK)) + length))
    return found


def _by_flags(
    block: Block, flagged: NDArray[np.int64], rows: NDArray[np.int64], value: NDArray[np.int64], kind: NDArray[np.uint8]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """The events (rows, value, kind) of transfers.  The `flagged` ones have flags that say where they write (pwritev2).

    An append that moves the position sets it: its kind has WRITES and SETS, and its value is the bytes moved.  A write
    that leaves the position alone is no event.
    """
    place = block.records["offset"][rows[flagged]]
    moves = (value[flagged] > 0) | ((block.flags[rows[flagged]] & layout.WIDE) != 0)
    kind[flagged[(place == layout.TO_END) & moves]] |= SETS
    kind[flagged[place == layout.AT_POSITION]] &= np.uint8(~WRITES & 0xFF)
    keep = np.ones(len(rows), np.bool_)
    keep[flagged[(place != layout.TO_END) & (place != layout.AT_POSITION)]] = False
    return rows[keep], value[keep], kind[keep]


def sets_position(kind: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which events have the new position as their value."""
    found: NDArray[np.bool_] = (kind & (SETS | WRITES)) == SETS
    return found


def _of_kind(block: Block, rows: NDArray[np.int64], slots: NDArray[np.int64], kind: int) -> PositionEvents:
    """Events that move nothing by themselves."""
    return _events(block, rows, slots, np.zeros(len(rows), np.int64), np.full(len(rows), kind, np.uint8))


def of_streams(traits: NDArray[np.uint16]) -> NDArray[np.bool_]:
    """Which operations, by their traits, move the position of a C stream or tell it."""
    others = Trait.USES_POSITION | Trait.SETS_POSITION | Trait.COPIES
    found: NDArray[np.bool_] = (traits & (Trait.MOVES_POSITION | others)) == Trait.MOVES_POSITION
    return found


def resumptions(block: Block, traits: NDArray[np.uint16], heap: HeapSlots) -> list[PositionEvents]:
    """Positions that the kernel reported after unrecorded operations, as events that set them."""
    both = Trait.HIDDEN | Trait.SETS_POSITION
    rows = np.flatnonzero((traits & both) == both)
    offset = block.records["offset"][rows]
    kind = np.full(len(rows), SETS, np.uint8)
    return [_events(block, rows, heap.of(block.records["desc"]), np.where(offset < 0, UNKNOWN, offset), kind)]


def _events(
    block: Block, rows: NDArray[np.int64], slots: NDArray[np.int64], value: NDArray[np.int64], kind: NDArray[np.uint8]
) -> PositionEvents:
    kind |= ((block.flags.take(rows) & layout.WIDE) != 0) * np.uint8(_WIDE)
    ids, ticks = block.ids.take(rows).astype(np.uint32), block.records["begin"][rows]
    return PositionEvents(ids, slots.take(rows), ticks, value, kind)


def _bytes_moved(result: NDArray[np.uint32], fine: NDArray[np.bool_]) -> NDArray[np.int64]:
    moved: NDArray[np.int64] = result * (fine & (result != layout.NO_BYTES)).astype(np.int64)
    return moved


class AllPositionEvents:
    """The position events of a log, in arrays as in PositionEvents, but for descs: the descriptors' object numbers.
    WANTED events are in the order of their ids."""

    def __init__(self, records: int) -> None:
        """records: the most there can be."""
        # A copy between descriptors makes two events.  Pages that stay unused take no memory.
        self.ids = np.empty(2 * records, np.uint32)
        self.descs = np.empty(2 * records, np.int32)
        self.ticks = np.empty(2 * records, np.uint64)
        self.value = np.empty(2 * records, np.int64)
        self.kind = np.empty(2 * records, np.uint8)
        self._used = 0

    def __len__(self) -> int:
        return len(self.ids)

    def append(self, events: PositionEvents) -> None:
        """Adds the events of the next block."""
        to = slice(self._used, self._used + len(events.ids))
        self.ids[to], self.descs[to], self.ticks[to] = events.ids, events.slots, events.ticks
        self.value[to], self.kind[to] = events.value, events.kind
        self._used += len(events.ids)

    def finish(self, wide: WideValues, numbers: ObjectNumbers) -> None:
        """Cuts the arrays to their used part, gives descs the numbers of the descriptors instead of their slots, and
        fills in values that did not fit into 32 bits."""
        used = slice(0, self._used)
        self.ids, self.descs, self.ticks = self.ids[used], self.descs[used], self.ticks[used]
        self.value, self.kind = self.value[used], self.kind[used]
        for low in range(0, self._used, AT_ONCE):
            self.descs[low : low + AT_ONCE] = numbers.of_slots(self.descs[low : low + AT_ONCE])
        at = np.flatnonzero(((self.kind & _WIDE) != 0) & ~sets_position(self.kind))
        if len(at):
            _, results, known = wide.of(self.ids[at].astype(np.int64))
            self.value[at] = np.where(known, results, 0)

    def forget(self, lost_until: int) -> None:
        """Makes positions set up to this moment unknown: a ring has lost some of the operations before it."""
        if lost_until:
            self.value[sets_position(self.kind) & (self.ticks <= lost_until)] = UNKNOWN

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Keeps only the events of the mask."""
        self.ids, self.descs, self.ticks, self.value, self.kind = compressed(
            mask, self.ids, self.descs, self.ticks, self.value, self.kind
        )


def compressed(mask: NDArray[np.bool_], *arrays: NDArray[Any]) -> list[NDArray[Any]]:
    """The elements of the mask in each array, moved within its own memory: these arrays are as large as the log."""
    used = 0
    for low in range(0, len(mask), AT_ONCE):
        at = np.flatnonzero(mask[low : low + AT_ONCE])
        for array in arrays:
            array[used : used + len(at)] = array[low : low + AT_ONCE].take(at)
        used += len(at)
    return [array[:used] for array in arrays]


def grouped_by_root(root: NDArray[np.int32], most: int = 1 << 22) -> Iterator[NDArray[np.int64]]:
    """Indexes of all events sorted by root, in the order they come within each root, in pieces of whole roots.

    most: how many events are sorted at once, if no root has more.
    """
    if len(root) <= most:
        yield from _grouped(np.argsort(_small(root), kind="stable"), root)
        return
    ends = np.cumsum(np.bincount(root))  # events of all roots up to each
    low = 0
    while low < len(ends):
        before = int(ends[low - 1]) if low else 0
        high = max(int(np.searchsorted(ends, before + most, side="right")), low + 1)
        chosen = np.flatnonzero((root >= low) & (root < high))
        yield from _grouped(chosen[np.argsort(_small(root[chosen]), kind="stable")], root)
        low = high


def _small(root: NDArray[np.int32]) -> NDArray[Any]:
    """The same order in a type that is sorted faster, where the values fit."""
    return root.astype(np.uint16) if len(root) and int(root.max()) < 1 << 16 else root


def _grouped(order: NDArray[np.int64], root: NDArray[np.int32]) -> Iterator[NDArray[np.int64]]:
    """Indexes that are sorted by root, in pieces of whole roots."""
    group = root.take(order)
    cuts = np.searchsorted(group, group[AT_ONCE::AT_ONCE], side="right")
    yield from (part for part in np.split(order, distinct(cuts)) if len(part))


def sorted_by_time(
    events: NDArray[np.int64], root: NDArray[np.int32], ticks: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """(events sorted by (root, ticks), their roots), for events that are sorted by root; ties stay as they come.

    A description is mostly used by one thread at a time, whose events are in
    order already.  Only the events of other descriptions are sorted.
    """
    time, group = ticks.take(events), root.take(events)
    back = (time[1:] < time[:-1]) & (group[1:] == group[:-1])
    if back.any():
        marked = np.zeros(int(group[-1]) + 1, np.bool_)
        marked[group[1:][back]] = True
        rows = np.flatnonzero(marked[group])
        events = events.copy()
        events[rows] = events[rows][_by_group_and_time(group[rows], time[rows])]
    return events, group


def _by_group_and_time(group: NDArray[np.int32], time: NDArray[np.uint64]) -> NDArray[np.int64]:
    """np.lexsort((time, group)), by one sort of both packed into 64 bits where they fit."""
    time = time - time.min()
    bits = int(time.max()).bit_length()
    if int(group.max()).bit_length() + bits > 64:
        return np.lexsort((time, group))
    key = group.astype(np.uint64) << np.uint64(bits) | time
    order = np.argsort(key)
    key = key[order]
    tied = key[1:] == key[:-1]
    if tied.any():  # this sort is not stable
        rows = np.flatnonzero(np.append(tied, False) | np.append(False, tied))
        order[rows] = order[rows][np.lexsort((order[rows], key[rows]))]
    return order


def around_streams(events: AllPositionEvents, root: NDArray[np.int32], roots: int) -> NDArray[np.int32]:
    """Leaves the streams' events out, except where the descriptor beneath was used, too: there each makes the position
    UNKNOWN.  Returns the events' roots.

    What was written into a stream, or a series of calls, may move the position later.  Until that has ended, an lseek
    does not say where the next transfer will be.
    """
    streams = (events.kind & STREAM) != 0
    plain, through = np.zeros(roots, np.bool_), np.zeros(roots, np.bool_)
    plain[root[~streams]] = True
    through[root[streams]] = True
    both = plain & through
    keep = ~streams | both[root]
    events.keep(keep)
    (root,) = compressed(keep, root)
    rows = np.flatnonzero(both[root])
    if len(rows):
        rows = rows[np.lexsort((events.ticks[rows], root[rows]))]
        kind = events.kind[rows]
        at = np.arange(1, len(rows) + 1)
        begin = np.searchsorted(root[rows], root[rows])  # nothing is pending where a root begins
        pending = np.maximum.accumulate(np.where(kind & PENDS, at, 0))
        settled = np.maximum(np.maximum.accumulate(np.where(kind & SETTLES, at, 0)), begin)
        unknown = ((kind & STREAM) != 0) | (sets_position(kind) & (pending > settled))
        events.value[rows[unknown]] = UNKNOWN
        events.kind[rows[(kind & STREAM) != 0]] = SETS
    return root


def positions(
    root: NDArray[np.int32], value: NDArray[np.int64], kind: NDArray[np.uint8], start: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The position before each event, UNKNOWN where it cannot be worked out.

    root, value, kind: of events sorted by (root, time); start: the first
    position of each root, or UNKNOWN.  A SETS event whose value is UNKNOWN
    leaves the position unknown until the next one.

    The events fall into segments, each begun by a SETS event or a new root.
    Within a segment the position is the segment's base plus the bytes moved
    since its begin: one cumulative sum over all events serves every segment,
    since base minus the sum at the segment's begin corrects for the others.
    """
    sets = (kind & SETS) != 0
    moved = value * ~sets
    before = np.cumsum(moved)
    before -= moved
    first = runs.begins(root)
    begins = np.flatnonzero(first | sets)
    base = np.where(sets[begins], value[begins], start[root[begins]])
    known = base != UNKNOWN
    base -= before[begins]
    lengths = np.diff(begins, append=len(root))
    before += np.repeat(base, lengths)
    if not known.all():
        before[np.repeat(~known, lengths)] = UNKNOWN
    return before
