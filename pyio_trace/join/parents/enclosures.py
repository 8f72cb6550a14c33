"""What encloses each operation in its own process: the outermost request, and the innermost container.

The parents of operations form chains of spans.  A request inside another adds
nothing to the outer one; waits and containers are transparent.  A parent in another process is a cause
and encloses nothing: a forked process inherits the span in which it was forked.

Nearly all parents are requests that are in no span themselves, such as the read()
of a file object.  For these a table indexed by id, with a byte for each record, is enough.  The
others are *nested spans*: they are in a sorted table, and what encloses them is
worked out once, from the outermost ones inwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.enums import Layer, OpClass, Role
from pyio_trace.join.base.records import begin_ticks
from pyio_trace.join.base.vocabulary import Vocabulary
from pyio_trace.join.parents.span_table import DEPTH
from pyio_trace.log import layout
from pyio_trace.log.blocks import Block
from pyio_trace.log.sorting import distinct, find

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: What the table by id says of an operation: it encloses nothing; it is a request in no span, which moves no bytes, or
#: which moves some; it is a nested span.
_NOTHING, _REQUEST, _NESTED, _TRANSFER = 0, 1, 2, 3
#: Records are three ids apart or more, so the quotients of their ids are distinct.
_STEP = layout.RECORD.itemsize >> layout.ID_SHIFT
#: Longest table: so many bytes, and so many for each record.  The ids of a sound log lie close together.
_ROOM, _ROOM_A_ROW = 1 << 24, 64

NESTED = np.dtype(
    [("id", "<i8"), ("parent", "<i8"), ("process", "<i8"), ("begin", "<i8"), ("role", "u1"), ("transfers", "?"),
     ("link", "u1")]
)  # fmt: skip


class Enclosing(NamedTuple):
    """What encloses some rows: outermost request and innermost container (ids, 0 none), and whether any of the
    requests around a row moves bytes."""

    request: Ints
    task: Ints
    in_transfer: Bools


def moves_bytes(klass: NDArray[np.uint8], result: NDArray[np.uint32]) -> Bools:
    """Which operations move bytes, by class and result."""
    moves: Bools = ((klass == OpClass.READ) | (klass == OpClass.WRITE)) & (result != layout.NO_BYTES)
    return moves


class EnclosingRecords:
    """What the first pass collects: the table by id, and the nested spans of each block."""

    def __init__(self, words: Vocabulary, records: int, last_id: int) -> None:
        """records: how many there can be; last_id: the largest id."""
        self._words = words
        # stdio calls are leaves, but a stream of the program's own may do I/O within one
        self._above: Bools = (words.layer != Layer.POSIX) & (words.role != Role.NONE)
        size = min(last_id // _STEP, _ROOM + _ROOM_A_ROW * records) + 2
        self.table = np.zeros(size, np.uint8)
        self.table[-1] = _NESTED  # stands for all ids beyond
        self.nested: list[NDArray[np.void]] = []

    def look_at(self, block: Block) -> NDArray[np.void] | None:
        """Enters a block without internal records into the table; returns its nested spans (None: it has none)."""
        rows = np.flatnonzero(self._above.take(block.op))
        if not len(rows):
            return None
        op, records, ids = block.op.take(rows), block.some(rows), block.ids.take(rows)
        role, alone = self._words.role.take(op), records["parent"] == 0
        transfers = (role == Role.REQUEST) & moves_bytes(self._words.klass.take(op), records["result"])
        kind = np.where(transfers, np.uint8(_TRANSFER), np.uint8(_REQUEST))
        other = ~alone | (role != Role.REQUEST)
        kind[other] = _NESTED
        kind[alone & (role >= Role.IO)] = _NOTHING
        place = ids // _STEP
        far = place >= len(self.table) - 1
        self.table[place[~far]] = kind[~far]
        at = np.flatnonzero((kind == _NESTED) | far)
        if not len(at):
            return None
        nested = np.zeros(len(at), NESTED)
        nested["id"], nested["parent"], nested["process"] = ids[at], records["parent"][at], block.process[rows[at]]
        nested["role"], nested["transfers"] = role[at], transfers[at]
        nested["begin"], nested["link"] = begin_ticks(records["begin"][at]), records["flags"][at] >> layout.LINK_SHIFT
        return nested


class Enclosures:
    """What encloses the operations of one log."""

    def __init__(
        self, table: NDArray[np.uint8], nested: list[NDArray[np.void]], process_of: Callable[[Ints], Ints] | None
    ) -> None:
        """table: see EnclosingRecords; nested: NESTED; process_of: gives the processes of operations by their ids, as
        in NESTED and above(), -1 unknown; None: no process inherits a span of another."""
        self._table, self._process_of = table, process_of
        every = np.concatenate([np.empty(0, NESTED), *nested])
        every = every[np.argsort(every["id"], kind="stable")]
        self._id = every["id"].copy()
        role, parent = every["role"].copy(), every["parent"].copy()
        self._cut_between_processes(parent, every["process"])
        up, known = find(self._id, parent)
        up = np.where(known & (parent != 0) & (parent != self._id), up, -1)
        self._promote_waits(role, up)
        #: what encloses the children of each nested span
        self._request, self._task = np.zeros(len(every), np.int64), np.zeros(len(every), np.int64)
        self._transfers = np.zeros(len(every), np.bool_)
        self._resolve(role, every["transfers"], parent, up)

    def _cut_between_processes(self, parents: Ints, process: Ints) -> None:
        """Sets parents in other processes to 0."""
        if self._process_of is not None:
            other = self._process_of(parents)
            parents[(other >= 0) & (other != process)] = 0

    def _promote_waits(self, role: NDArray[np.uint8], up: Ints) -> None:
        """Makes waits with a container beneath them containers: the work is done within them, not waited for."""
        promoted = []
        current = up[role == Role.CONTAINER]
        for _ in range(DEPTH):
            current = distinct(current[current >= 0])
            if not len(current):
                break
            promoted.append(current[role[current] == Role.WAIT])
            current = up[current]
        found = np.concatenate([np.empty(0, np.int64), *promoted])
        role[found] = Role.CONTAINER
        #: waits that are containers
        self.working = distinct(self._id[found])

    def _resolve(self, role: NDArray[np.uint8], transfers: Bools, parent: Ints, up: Ints) -> None:
        """Works out what encloses the children of each nested span, from the outermost spans inwards."""
        left = np.flatnonzero(up >= 0)
        done = np.ones(len(up), np.bool_)
        done[left] = False
        self._enter(np.flatnonzero(up < 0), role, transfers, self._by_table(parent[up < 0]))
        for _ in range(DEPTH):
            ready = done[up[left]]
            now, left = left[ready], left[~ready]
            if not len(now):
                break
            outer = up[now]
            self._enter(
                now, role, transfers, Enclosing(self._request[outer], self._task[outer], self._transfers[outer])
            )
            done[now] = True

    def _enter(self, at: Ints, role: NDArray[np.uint8], transfers: Bools, outside: Enclosing) -> None:
        """Notes what the children of these spans are in; outside: what the spans themselves are in."""
        ids, own = self._id[at], role[at]
        self._request[at] = np.where((outside.request == 0) & (own == Role.REQUEST), ids, outside.request)
        self._task[at] = np.where(own == Role.CONTAINER, ids, outside.task)
        self._transfers[at] = outside.in_transfer | transfers[at]

    def _by_table(self, parents: Ints) -> Enclosing:
        """What encloses the children of spans, but nested ones."""
        kind = self._kinds(parents)
        request = parents * ((kind & _REQUEST) != 0)
        return Enclosing(request, np.zeros(len(parents), np.int64), kind == _TRANSFER)

    def _kinds(self, parents: Ints) -> NDArray[np.uint8]:
        return self._table.take(parents // _STEP, mode="clip")

    def above(self, parents: Ints, process: Ints) -> Enclosing:
        """What encloses rows, by their parents (ids, 0 none) and processes."""
        rows = np.flatnonzero(parents)
        request, task = np.zeros(len(parents), np.int64), np.zeros(len(parents), np.int64)
        in_transfer = np.zeros(len(parents), np.bool_)
        request[rows], task[rows], in_transfer[rows] = self._above(parents.take(rows), process.take(rows))
        return Enclosing(request, task, in_transfer)

    def _above(self, parents: Ints, process: Ints) -> Enclosing:
        found = self._by_table(parents)
        nested = np.flatnonzero(self._kinds(parents) == _NESTED) if len(self._id) else np.empty(0, np.int64)
        if len(nested):
            at, known = find(self._id, parents[nested])
            at, nested = at[known], nested[known]
            found.request[nested], found.task[nested] = self._request[at], self._task[at]
            found.in_transfer[nested] = self._transfers[at]
        if self._process_of is not None:
            rows = np.flatnonzero((found.request | found.task) != 0)
            other = self._process_of(parents[rows])
            rows = rows[(other >= 0) & (other != process[rows])]
            found.request[rows], found.task[rows], found.in_transfer[rows] = 0, 0, False
        return found
