"""The spans of a log as one table: when each was open, what encloses it, which file it declared.

Operations without a parent on their own thread are looked up in this table
afterwards (parent_finder.py).  The first pass collects spans, and the openings
within them, block by block; a log without spans costs it nothing.
"""

from __future__ import annotations

from dataclasses import field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.enums import Layer
from pyio_trace.join.base.records import begin_ticks, duration_ticks
from pyio_trace.join.base.vocabulary import Vocabulary
from pyio_trace.join.references.file_table import Files
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log import layout
from pyio_trace.log.blocks import Block
from pyio_trace.log.heap import ObjectNumbers
from pyio_trace.log.sorting import find

#: Nested spans that are followed outwards; what encloses deeper ones is not found.
DEPTH = 64
NEVER = np.iinfo(np.int64).max

SPAN = np.dtype(
    [("id", "<i8"), ("parent", "<i8"), ("process", "<i8"), ("tid", "<i4"), ("desc", "<u4"),
     ("begin", "<i8"), ("end", "<i8"), ("named", "?"), ("link", "u1")]
)  # fmt: skip
_OPENED = np.dtype([("desc", "<u4"), ("parent", "<u4")])

Ints = NDArray[np.int64]


class BlockSpans(NamedTuple):
    """Of one block: what can enclose operations (SPAN), and openings of descriptors within it (_OPENED)."""

    spans: NDArray[np.void]
    opened: NDArray[np.void]


@dataclass
class SpanRecords:
    """What the first pass collects of a whole log.  summed: some spans that declare files have no record of their
    own, but are only in sums."""

    spans: list[NDArray[np.void]] = field(default_factory=list)
    opened: list[NDArray[np.void]] = field(default_factory=list)
    summed: bool = False

    def add(self, found: BlockSpans) -> None:
        self.spans.append(found.spans)
        self.opened.append(found.opened)


def spans_in(block: Block, words: Vocabulary) -> BlockSpans:
    """The spans of a block and its openings.

    Opening calls of file objects count as spans here: they stand between the
    span and the opening of the descriptor.
    """
    rows = np.flatnonzero(words.encloses.take(block.op))
    shape = words.shape.take(block.op.take(rows))
    enclosed = block.records["parent"][rows] != 0
    chosen = enclosed | (shape == layout.SHAPE_SPAN)
    rows, shape = rows[chosen], shape[chosen]
    records = block.some(rows)
    named, above = shape == layout.SHAPE_SPAN, words.layer.take(records["op"]) < Layer.STDIO
    state = records["flags"] & (layout.STATE_MASK | layout.FAILED)
    return BlockSpans(
        _spans(block, rows, named, (named | above) & (records["flags"] & layout.COALESCED == 0)),
        _openings(block, rows[~named & ~above & (state == layout.DONE) & (shape == layout.SHAPE_OPEN)]),
    )


def _spans(block: Block, rows: Ints, named: NDArray[np.bool_], chosen: NDArray[np.bool_]) -> NDArray[np.void]:
    rows, named = rows[chosen], named[chosen]
    records, spans = block.some(rows), np.zeros(len(rows), SPAN)
    spans["id"], spans["process"], spans["tid"] = block.ids[rows], block.process[rows], block.tid[rows]
    spans["parent"], spans["desc"], spans["named"] = records["parent"], records["desc"], named
    spans["begin"], spans["link"] = begin_ticks(records["begin"]), records["flags"] >> layout.LINK_SHIFT
    done = (records["flags"] & layout.STATE_MASK) == layout.DONE
    spans["end"] = np.where(done, spans["begin"] + duration_ticks(records), NEVER)
    return spans


def _openings(block: Block, rows: Ints) -> NDArray[np.void]:
    records, opened = block.some(rows), np.zeros(len(rows), _OPENED)
    desc = records["offset"]
    opened["desc"] = np.where((desc > 0) & (desc <= 0xFFFFFFFF), desc, 0)
    opened["parent"] = records["parent"]
    return opened


class Spans:
    """All spans of a log, in the order of their ids; parallel arrays.

    id; enclosing: index of the span it is in, -1 none known; process: id of
    the process entry; tid; begin, end: ticks, end exclusive, NEVER if it was not
    seen; named: can be a parent that is found afterwards (others only lead to
    one); file, path: identity of the file it declared, 0 none, and index of its
    path, -1 none.
    """

    def __init__(self, found: list[NDArray[np.void]], numbers: ObjectNumbers, files: Files) -> None:
        table = np.concatenate([np.empty(0, SPAN), *found])
        table = table[np.argsort(table["id"], kind="stable")]
        self.id, self.process, self.tid = table["id"].copy(), table["process"].copy(), table["tid"].copy()
        self.begin, self.end, self.named = table["begin"].copy(), table["end"].copy(), table["named"].copy()
        self.enclosing = self.index(table["parent"])
        declared = numbers.of(table["desc"].copy())
        self.file = np.where(self.named, files.file.take(declared), 0)
        self.path = np.where(self.named, files.path.take(declared), -1)

    def __len__(self) -> int:
        return len(self.id)

    def index(self, ids: Ints) -> Ints:
        """Where these ids are in the table; -1: they are not spans."""
        at, known = find(self.id, ids)
        return np.where(known, at, -1)

    def innermost_open(self, first: Ints, process: Ints, begin: Ints, last: Ints) -> Ints:
        """From the span `first` (index; -1 none) outwards, the first that was open in this process from begin to last
        (ticks); -1: none was."""
        result = np.full(len(first), -1, np.int64)
        rows = np.flatnonzero(first >= 0)
        current = first[rows]
        for _ in range(DEPTH):
            if not len(rows):
                break
            fits = self.named[current] & (self.process[current] == process[rows])
            fits &= (self.begin[current] <= begin[rows]) & (last[rows] < self.end[current])
            result[rows[fits]] = current[fits]
            current = self.enclosing[current]
            on = ~fits & (current >= 0)
            rows, current = rows[on], current[on]
        return result

    def within(self, inner: Ints, outer: Ints) -> NDArray[np.bool_]:
        """Whether the one span is inside the other, on the same thread."""
        found, current = np.zeros(len(inner), np.bool_), self.enclosing[inner]
        for _ in range(DEPTH):
            if not (current >= 0).any():
                break
            found |= current == outer
            current = np.where(current >= 0, self.enclosing[current], -1)
        same: NDArray[np.bool_] = found & (self.tid[inner] == self.tid[outer])
        return same

    def nesting(self, which: Ints, key: Ints) -> Ints:
        """How many spans of the same key enclose each of these spans (indexes), on the same thread, by their parents
        and by their times.  key: by span, -1 none."""
        nearest = np.full(len(self), -1, np.int64)
        rows, current = which, self.enclosing[which]
        for _ in range(DEPTH):
            on = current >= 0
            rows, current = rows[on], current[on]
            if not len(rows):
                break
            encloses = (key[current] == key[rows]) & (self.tid[current] == self.tid[rows])
            encloses &= (self.begin[current] <= self.begin[rows]) & (self.end[rows] <= self.end[current])
            nearest[rows[encloses]] = current[encloses]
            rows, current = rows[~encloses], self.enclosing[current[~encloses]]
        depth = np.zeros(len(which), np.int64)
        current = nearest[which]
        for _ in range(DEPTH):
            on = current >= 0
            if not on.any():
                break
            depth += on
            current = np.where(on, nearest[current], -1)
        return depth
