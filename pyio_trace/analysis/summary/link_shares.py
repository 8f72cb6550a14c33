"""How the parents of operations are known: calls and bytes by link.

An operation without a parent either began while no span was open in its process,
or its parent is unknown.  The times of the spans decide, so such operations wait
until all spans that began before them have been read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.results import figures
from pyio_trace.analysis.scan.batch_rows import PROCESS, READ, WRITE
from pyio_trace.analysis.scan.saturation import addable
from pyio_trace.analysis.sums.dense_sums import add_at
from pyio_trace.analysis.sums.intervals import merge
from pyio_trace.enums import LINKS, Layer, OpClass
from pyio_trace.join.base.roles import MOVING
from pyio_trace.log.sorting import distinct

if TYPE_CHECKING:
    from pyio_trace.analysis.summary.summary_rows import SummaryRows

Ints = NDArray[np.int64]

#: One more than the links: the operation began while no span was open.
OUTSIDE = len(LINKS)
#: Calls of Python's file objects (csrc/ext/files/methods.def): operations of the application layer, not named spans.
FILE_CALLS = ("FileIO.", "BufferedReader.", "BufferedWriter.", "Buffered.", "TextIOWrapper.", "mmap.")
_MANY = 1 << 18
_NEVER = 1 << 62


class LinkShares:
    """Calls and bytes of POSIX and C streams by link, batch by batch, in the order of the log."""

    def __init__(self) -> None:
        self._count, self._moved = np.zeros(OUTSIDE + 1, np.int64), np.zeros(OUTSIDE + 1, np.int64)
        self._any = False  # whether there was any named span
        self._spans: list[tuple[Ints, Ints, Ints]] = []  # process, begin, end
        self._alone: list[tuple[Ints, Ints, Ints, Ints]] = []  # process, begin, calls, bytes
        self._waiting, self._limit = 0, _MANY

    def add(self, read: SummaryRows, horizon: int) -> None:
        """Adds rows; horizon: ns before which no later row begins."""
        self._add_spans(read)
        rows, link = read.rows, read.link
        counted = ((rows.layer == MOVING[0]) | (rows.layer == MOVING[1])) & (rows.kind != PROCESS)
        if read.imported is not None:
            counted &= ~read.imported
        fields = rows.process, rows.time, rows.count.astype(np.int64, copy=False), rows.moved
        alone = np.flatnonzero(counted & (link <= 0))
        if len(alone) == len(link):
            self._alone.append(fields)
        else:
            with_parent = np.flatnonzero(counted & (link > 0))
            self._add_up(*(field.take(with_parent) for field in (link, *fields[2:])))
            process, time, count, moved = (field.take(alone) for field in fields)
            self._alone.append((process, time, count, moved))
        self._waiting += len(alone)
        if self._waiting > self._limit:
            self.compact(horizon)

    def _add_spans(self, read: SummaryRows) -> None:
        rows = read.rows
        at = np.flatnonzero(rows.layer < Layer.STDIO)
        if not len(at):
            return
        named = np.array([not name.startswith(FILE_CALLS) for name in read.op_names], np.bool_)
        kind, app = rows.kind[at], rows.layer[at] == Layer.APP
        data = (kind == READ) | (kind == WRITE)
        at = at[~app | (kind == OpClass.SPAN) | (data & named[rows.op[at]])]
        if len(at):
            self._any = True
            self._spans.append((rows.process[at], rows.time[at], rows.time[at] + rows.duration[at]))
            self._waiting += len(at)

    def update(self, other: LinkShares) -> None:
        """Adds those of a log with other processes."""
        for part in (self, other):
            part.compact(_NEVER)
        self._count, self._moved = addable(self._count + other._count), addable(self._moved + other._moved)
        self._any |= other._any

    def compact(self, horizon: int) -> None:
        """Counts the operations that began before `horizon`, and forgets the spans that had ended by then."""
        alone = [np.concatenate(part) for part in zip(*self._alone, strict=True)] or [np.zeros(0, np.int64)] * 4
        spans = [np.concatenate(part) for part in zip(*self._spans, strict=True)] or [np.zeros(0, np.int64)] * 3
        known = alone[1] < horizon
        at = np.flatnonzero(known)
        process, time, count, moved = (values.take(at) for values in alone)
        outside = np.ones(len(time), np.bool_)
        kept = []
        for one in distinct(spans[0]).tolist():
            own = np.flatnonzero(spans[0] == one)
            starts, ends = merge(spans[1].take(own), spans[2].take(own))
            chosen = np.flatnonzero(process == one)
            begun = time.take(chosen)
            before = np.searchsorted(starts, begun, side="right") - 1
            outside[chosen] = (before < 0) | (begun >= ends.take(np.maximum(before, 0)))
            later = np.flatnonzero(ends > horizon)
            kept.append((np.full(len(later), one, np.int64), starts.take(later), ends.take(later)))
        self._add_up(np.where(outside, OUTSIDE, 0), count, moved)
        at = np.flatnonzero(~known)
        process, time, count, moved = (values.take(at) for values in alone)
        self._alone, self._spans = [(process, time, count, moved)], kept
        self._waiting = len(time) + sum(len(starts) for _, starts, _ in kept)
        self._limit = max(_MANY, 3 * self._waiting)  # if few had ended, do not try again at each batch

    def _add_up(self, link: Ints, count: Ints, moved: Ints) -> None:
        for total, weights in ((self._count, count), (self._moved, moved)):
            add_at(total, link, addable(weights))
        self._count, self._moved = addable(self._count), addable(self._moved)

    def shares(self) -> list[figures.Link]:
        """The links that occur, in the order of LINKS, with "none" and "outside" last; nothing for a log without
        spans."""
        if not self._any:
            return []
        self.compact(_NEVER)
        whole = int(self._count[:OUTSIDE].sum())
        order = [*range(1, OUTSIDE), 0, OUTSIDE]
        return [
            figures.Link(
                "outside" if one == OUTSIDE else LINKS[one],
                int(self._count[one]),
                int(self._moved[one]),
                int(self._count[one]) / whole if one != OUTSIDE and whole else None,
            )
            for one in order
            if self._count[one]
        ]
