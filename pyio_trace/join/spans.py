"""The spans of a log as one table: how long each was open, what it is in, which file it declared.

What has no parent on its own thread is held against these afterwards
(links.py).  The survey collects them block by block, and the openings within
them; a log without spans costs it nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.files import Files
from pyio_trace.join.vocabulary import Vocabulary
from pyio_trace.log import layout
from pyio_trace.log.heap import HeapSlots
from pyio_trace.log.live import Block

#: Spans within each other that are followed; what lies deeper is not found.
DEPTH = 64
NEVER = np.iinfo(np.int64).max

_SPAN = np.dtype(
    [("id", "<i8"), ("parent", "<i8"), ("process", "<i8"), ("tid", "<i4"), ("desc", "<u4"),
     ("begin", "<i8"), ("end", "<i8"), ("named", "?")]
)  # fmt: skip
_OPENED = np.dtype([("desc", "<u4"), ("parent", "<u4")])


class Enclosing(NamedTuple):
    """Of one block: what operations can be in (_SPAN), and openings that happened in something (_OPENED)."""

    spans: NDArray[np.void]
    opened: NDArray[np.void]


def enclosing(block: Block, words: Vocabulary) -> Enclosing:
    """Spans, and the opening calls of file objects, which stand between a span and the descriptor; descriptors."""
    rows = np.flatnonzero(words.encloses.take(block.op))
    shape = words.shape.take(block.op.take(rows))
    within = block.records["parent"][rows] != 0
    rows, shape = rows[within | (shape == layout.SHAPE_SPAN)], shape[within | (shape == layout.SHAPE_SPAN)]
    records = block.some(rows)
    named, above = shape == layout.SHAPE_SPAN, words.layer.take(records["op"]) < layout.STDIO
    state = records["flags"] & (layout.STATE_MASK | layout.FAILED)
    return Enclosing(
        _spans(block, rows, named, (named | above) & (records["flags"] & layout.COALESCED == 0)),
        _opened(block, rows[~named & ~above & (state == layout.DONE) & (shape == layout.SHAPE_OPEN)]),
    )


def _spans(
    block: Block, rows: NDArray[np.int64], named: NDArray[np.bool_], chosen: NDArray[np.bool_]
) -> NDArray[np.void]:
    rows, named = rows[chosen], named[chosen]
    records, spans = block.some(rows), np.zeros(len(rows), _SPAN)
    spans["id"], spans["process"], spans["tid"] = block.ids[rows], block.process[rows], block.tid[rows]
    spans["parent"], spans["desc"], spans["named"] = records["parent"], records["desc"], named
    spans["begin"] = begins(records)
    ticks = records["duration_lo"].astype(np.int64) + (records["duration_hi"].astype(np.int64) << 32)
    done = (records["flags"] & layout.STATE_MASK) == layout.DONE
    spans["end"] = np.where(done, spans["begin"] + ticks, NEVER)
    return spans


def _opened(block: Block, rows: NDArray[np.int64]) -> NDArray[np.void]:
    records, opened = block.some(rows), np.zeros(len(rows), _OPENED)
    desc = records["offset"]
    opened["desc"] = np.where((desc > 0) & (desc <= 0xFFFFFFFF), desc, 0)
    opened["parent"] = records["parent"]
    return opened


def begins(records: NDArray[np.void]) -> NDArray[np.int64]:
    """When records began, in ticks; forged ones no later than what a duration can be added to."""
    begin: NDArray[np.int64] = np.minimum(records["begin"], np.uint64(1 << 61)).astype(np.int64)
    return begin


class Spans:
    """All spans of a log, in the order of their ids; parallel arrays.

    id; up: index of what it is in, -1 none that is known; process: id of the
    process entry; tid; begin, end: ticks, end exclusive, NEVER if it was not
    seen; named: can be a parent that is found afterwards (else it only leads on
    to one); file, path: identity of the file it declared, 0 none, and index of
    its path, -1 none.
    """

    def __init__(self, found: list[NDArray[np.void]], slots: HeapSlots, files: Files) -> None:
        table = np.concatenate([np.empty(0, _SPAN), *found])
        table = table[np.argsort(table["id"], kind="stable")]
        self.id, self.process, self.tid = table["id"].copy(), table["process"].copy(), table["tid"].copy()
        self.begin, self.end, self.named = table["begin"].copy(), table["end"].copy(), table["named"].copy()
        self.up = self.index(table["parent"])
        declared = slots.of(table["desc"].copy())
        self.file = np.where(self.named, files.file.take(declared), 0)
        self.path = np.where(self.named, files.path.take(declared), -1)

    def __len__(self) -> int:
        return len(self.id)

    def index(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where these ids are in the table; -1: they are no spans."""
        if len(self.id) == 0:
            return np.full(len(ids), -1, np.int64)
        at = np.minimum(np.searchsorted(self.id, ids), len(self.id) - 1)
        return np.where(self.id[at] == ids, at, -1)

    def still_open(
        self, first: NDArray[np.int64], process: NDArray[np.int64], begin: NDArray[np.int64], last: NDArray[np.int64]
    ) -> NDArray[np.int64]:
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
            current = self.up[current]
            on = ~fits & (current >= 0)
            rows, current = rows[on], current[on]
        return result

    def within(self, inner: NDArray[np.int64], outer: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the one is in the other, on one thread."""
        found, current = np.zeros(len(inner), np.bool_), self.up[inner]
        for _ in range(DEPTH):
            if not (current >= 0).any():
                break
            found |= current == outer
            current = np.where(current >= 0, self.up[current], -1)
        same: NDArray[np.bool_] = found & (self.tid[inner] == self.tid[outer])
        return same

    def nesting(self, which: NDArray[np.int64], key: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many of the same key each of these spans (indexes) is nested in: in one another, on one thread, by their
        parents and by their times.  key: by span, -1 none."""
        nearest = np.full(len(self), -1, np.int64)
        rows, current = which, self.up[which]
        for _ in range(DEPTH):
            on = current >= 0
            rows, current = rows[on], current[on]
            if not len(rows):
                break
            around = (key[current] == key[rows]) & (self.tid[current] == self.tid[rows])
            around &= (self.begin[current] <= self.begin[rows]) & (self.end[rows] <= self.end[current])
            nearest[rows[around]] = current[around]
            rows, current = rows[~around], self.up[current[~around]]
        depth = np.zeros(len(which), np.int64)
        current = nearest[which]
        for _ in range(DEPTH):
            on = current >= 0
            if not on.any():
                break
            depth += on
            current = np.where(on, nearest[current], -1)
        return depth
