"""Offsets of plain reads and writes, worked out per open file description.

read() and write() say nothing of where; the description they go through does:
its position starts somewhere, each transfer moves it on, lseek sets it, and
dup and fork share it.  So: all such operations sorted by (description, begin),
then sums that start anew at each seek.  Whole arrays at a time; appends, which
go to the end of the *file*, are in appends.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join import vocabulary
from pyio_trace.log import layout
from pyio_trace.log.heap import HeapSlots
from pyio_trace.log.live import Block
from pyio_trace.log.sorting import distinct

if TYPE_CHECKING:
    from pyio_trace.join.survey import Wide

#: In place of an offset: not known.
UNKNOWN = np.iinfo(np.int64).min

ADVANCES, SETS = 0, 1
WANTED = 2  #: the row itself has no offset and wants the one worked out
WRITES = 4
_WIDE = 8
#: Entries that are worked on at once: few enough to stay in the cache.
AT_ONCE = 1 << 16


class Entries(NamedTuple):
    """What moves or asks for a position; parallel arrays.

    ids: uint32; slots: of the descriptor; ticks: uint64; value: int64,
    bytes moved or the position set; kind: uint8 of the flags above.
    """

    ids: NDArray[np.uint32]
    slots: NDArray[np.int64]
    ticks: NDArray[np.uint64]
    value: NDArray[np.int64]
    kind: NDArray[np.uint8]


def opened_of(block: Block, rows: NDArray[np.int64], slots: NDArray[np.int64]) -> list[Entries]:
    """Openings as entries that set the position to the start; slots: of what was opened, by record."""
    return [_entries(block, rows, slots, np.zeros(len(rows), np.int64), np.full(len(rows), SETS, np.uint8))]


def entries_of(
    block: Block, traits: NDArray[np.uint8], slots: NDArray[np.int64], numbering: HeapSlots
) -> list[Entries]:
    """What of a block matters to positions; slots: of its records' desc."""
    records = block.records
    coalesced = (block.flags & layout.COALESCED) != 0
    fine = (block.flags & (layout.STATE_MASK | layout.FAILED)) == layout.DONE
    seeks = (traits & vocabulary.SEEKS) != 0
    transfers = ((traits & (vocabulary.PLAIN | vocabulary.COPIES)) != 0) & ~seeks
    rows = np.flatnonzero((seeks & fine & ~coalesced) | (transfers & (coalesced | (records["offset"] == -1))))
    kind = seeks * np.uint8(SETS)  # a product is several times as quick as np.where()
    kind |= ~(seeks | coalesced) * np.uint8(WANTED)
    kind |= ((traits & vocabulary.WRITES) != 0) * np.uint8(WRITES)
    value = _moved(records["result"][rows], fine.take(rows))
    sets = np.flatnonzero(seeks.take(rows))
    value[sets] = records["offset"][rows[sets]]
    found = [_entries(block, rows, slots, value, kind.take(rows))]
    out = np.flatnonzero(((traits & (vocabulary.COPIES | vocabulary.PLACED_OUTPUT)) == vocabulary.COPIES) & fine)
    if len(out):
        value = _moved(records["result"][out], np.ones(len(out), np.bool_))
        kind = np.full(len(out), ADVANCES | WRITES, np.uint8)
        found.append(_entries(block, out, numbering.of(records["aux"]), value, kind))
    return found


def resumed_of(block: Block, traits: NDArray[np.uint8], numbering: HeapSlots) -> list[Entries]:
    """Where positions were after a while in which nothing was recorded: entries that set them."""
    both = vocabulary.HIDDEN | vocabulary.SEEKS
    rows = np.flatnonzero((traits & both) == both)
    offset = block.records["offset"][rows]
    kind = np.full(len(rows), SETS, np.uint8)
    return [_entries(block, rows, numbering.of(block.records["desc"]), np.where(offset < 0, UNKNOWN, offset), kind)]


def _entries(
    block: Block, rows: NDArray[np.int64], slots: NDArray[np.int64], value: NDArray[np.int64], kind: NDArray[np.uint8]
) -> Entries:
    kind |= ((block.flags.take(rows) & layout.WIDE) != 0) * np.uint8(_WIDE)
    return Entries(block.ids.take(rows).astype(np.uint32), slots.take(rows), block.records["begin"][rows], value, kind)


class Moves:
    """All entries of a log, in arrays as in Entries; those that are WANTED in the order of their ids."""

    def __init__(self, room: int) -> None:
        # A copy between descriptors makes two entries.  Pages that stay unused are never there.
        self.ids = np.empty(2 * room, np.uint32)
        self.slots = np.empty(2 * room, np.int32)
        self.ticks = np.empty(2 * room, np.uint64)
        self.value = np.empty(2 * room, np.int64)
        self.kind = np.empty(2 * room, np.uint8)
        self._used = 0

    def __len__(self) -> int:
        return len(self.ids)

    def append(self, entries: Entries) -> None:
        """Takes the entries of the next block."""
        to = slice(self._used, self._used + len(entries.ids))
        self.ids[to], self.slots[to], self.ticks[to] = entries.ids, entries.slots, entries.ticks
        self.value[to], self.kind[to] = entries.value, entries.kind
        self._used += len(entries.ids)

    def finish(self, wide: Wide) -> None:
        """Cuts the arrays to what was used; completes what did not fit into 32 bits."""
        used = slice(0, self._used)
        self.ids, self.slots, self.ticks = self.ids[used], self.slots[used], self.ticks[used]
        self.value, self.kind = self.value[used], self.kind[used]
        at = np.flatnonzero(((self.kind & _WIDE) != 0) & ((self.kind & SETS) == 0))
        if len(at):
            _, results, known = wide.of(self.ids[at].astype(np.int64))
            self.value[at] = np.where(known, results, 0)

    def forget(self, lost_until: int) -> None:
        """Some of what began up to then is lost: what was known then is not any more."""
        if lost_until:
            self.value[((self.kind & SETS) != 0) & (self.ticks <= lost_until)] = UNKNOWN

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Keeps only the entries of the mask."""
        self.ids, self.slots, self.ticks, self.value, self.kind = squeezed(
            mask, self.ids, self.slots, self.ticks, self.value, self.kind
        )


def squeezed(mask: NDArray[np.bool_], *arrays: NDArray[Any]) -> list[NDArray[Any]]:
    """The elements of the mask in each array, in its own memory: these are as large as the log."""
    used = 0
    for low in range(0, len(mask), AT_ONCE):
        at = np.flatnonzero(mask[low : low + AT_ONCE])
        for array in arrays:
            array[used : used + len(at)] = array[low : low + AT_ONCE].take(at)
        used += len(at)
    return [array[:used] for array in arrays]


def _moved(result: NDArray[np.uint32], fine: NDArray[np.bool_]) -> NDArray[np.int64]:
    moved: NDArray[np.int64] = result * (fine & (result != layout.NO_BYTES)).astype(np.int64)
    return moved


def by_root(root: NDArray[np.int32]) -> list[NDArray[np.int64]]:
    """All entries by their roots, each root's in the order in which they come: some roots at a time."""
    if not len(root):
        return []
    small = root.astype(np.uint16) if int(root.max()) < 1 << 16 else root
    order = np.argsort(small, kind="stable")
    cuts = np.searchsorted(root, root[order[AT_ONCE::AT_ONCE]], side="right", sorter=order)
    return [part for part in np.split(order, distinct(cuts)) if len(part)]


def in_order(
    entries: NDArray[np.int64], root: NDArray[np.int32], ticks: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Entries that are in the order of their roots in the order of (root, ticks), ties as they come; their roots.

    A description is mostly used by one thread at a time, whose entries come in
    order already: only the others are sorted by time.
    """
    time, group = ticks.take(entries), root.take(entries)
    back = (time[1:] < time[:-1]) & (group[1:] == group[:-1])
    if back.any():
        marked = np.zeros(int(group[-1]) + 1, np.bool_)
        marked[group[1:][back]] = True
        rows = np.flatnonzero(marked[group])
        entries = entries.copy()
        entries[rows] = entries[rows][_by_time(group[rows], time[rows])]
    return entries, group


def _by_time(group: NDArray[np.int32], time: NDArray[np.uint64]) -> NDArray[np.int64]:
    """np.lexsort((time, group)), by one sort of both packed into 64 bits where they fit."""
    time = time - time.min()
    bits = int(time.max()).bit_length()
    if int(group.max()).bit_length() + bits > 64:
        return np.lexsort((time, group))
    key = group.astype(np.uint64) << np.uint64(bits) | time
    order = np.argsort(key)
    key = key[order]
    tied = key[1:] == key[:-1]
    if tied.any():  # the sort is not stable
        rows = np.flatnonzero(np.append(tied, False) | np.append(False, tied))
        order[rows] = order[rows][np.lexsort((order[rows], key[rows]))]
    return order


def positions(
    root: NDArray[np.int32], value: NDArray[np.int64], kind: NDArray[np.uint8], start: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The position before each entry (UNKNOWN where it cannot be told).

    root, value, kind: of entries in order; start: each root's first position, UNKNOWN if not known.
    A SETS entry whose value is UNKNOWN leaves the position unknown until the next one.
    """
    sets = (kind & SETS) != 0
    moved = value * ~sets
    before = np.cumsum(moved)
    before -= moved
    first = np.ones(len(root), np.bool_)
    first[1:] = root[1:] != root[:-1]
    begins = np.flatnonzero(first | sets)
    base = np.where(sets[begins], value[begins], start[root[begins]])
    known = base != UNKNOWN
    base -= before[begins]
    lengths = np.diff(begins, append=len(root))
    before += np.repeat(base, lengths)
    if not known.all():
        before[np.repeat(~known, lengths)] = UNKNOWN
    return before
