"""Which operations are outermost: not part of another that counts already.

A read() inside TextIOWrapper.read inside a user's span "epoch" is paid for
once.  The user's spans are names for stretches of the program, not I/O, so an
operation is outermost when nothing but user spans is around it.  Ids are
places in the log (csrc/core/log_format.h), so what is known of a span lies in
a table by id: one byte each, and only touched pages of it exist.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyio_trace.log.sorting import distinct

#: What the innermost enclosing row is.
NOTHING, USER, DATA, OTHER = 0, 1, 2, 3

_DEPTH = 64  # of user spans within each other in one batch; deeper ones are taken as they are


_HIGH = 32  # ids of one log stay below 2**32; those of merged logs differ above
#: A table is no longer than this, and so much for each row seen: a log's ids lie close together.
_ROOM, _ROOM_A_ROW = 1 << 26, 64
#: Logs that the rows of one batch can be of, and of a folder.
_MOST_AT_ONCE, _MOST_LOGS = 16, 4096


class Nesting:
    """Remembers the spans of a log, batch by batch, and answers for their children."""

    def __init__(self) -> None:
        self._tables: dict[int, NDArray[np.uint8]] = {}
        self._seen = 0
        self._far: dict[int, int] = {}  # what has ids so far apart that no table would do: a damaged or foreign log

    def enter(self, ids: NDArray[np.int64], kinds: NDArray[np.uint8]) -> None:
        """Remember rows that can be parents: DATA, OTHER or USER for each id."""
        self._seen += len(ids)
        room = _ROOM + _ROOM_A_ROW * self._seen
        for high, at in _by_log(ids):
            own, own_kinds = ids[at], kinds[at]
            low = own & ((1 << _HIGH) - 1) if high else own
            if high not in self._tables and len(self._tables) >= _MOST_LOGS:
                high = None
            if high is None or int(low.max()) >= room:
                far = (low >= room) | (high is None)
                self._far.update(zip(own[far].tolist(), own_kinds[far].tolist(), strict=True))
                low, own_kinds = low[~far], own_kinds[~far]
            if high is not None and len(low):
                self._table(high, int(low.max()) + 1)[low] = own_kinds

    def around(self, parents: NDArray[np.int64]) -> NDArray[np.uint8]:
        """What each row is in, by the id of its parent (0: none).  NOTHING also for parents that are not in the log."""
        table = self._tables.get(0)
        if table is not None and not self._far and 0 <= int(parents.max(initial=0)) < len(table):
            return table.take(parents)  # the rule: of one log
        result = np.zeros(len(parents), np.uint8)
        logs = _by_log(parents)
        if logs and logs[0][0] is None:
            logs = [(high, np.flatnonzero(parents >> _HIGH == high)) for high in self._tables]
        for high, at in logs:
            table = self._tables.get(high or 0)
            if table is not None:
                low = parents[at] & ((1 << _HIGH) - 1)
                result[at] = table.take(np.where(low < len(table), low, 0))
        if self._far:
            far = np.array([self._far.get(parent, NOTHING) for parent in parents.tolist()], np.uint8)
            result = np.where(far != NOTHING, far, result)
        return result

    def enter_user_spans(self, ids: NDArray[np.int64], parents: NDArray[np.int64]) -> None:
        """Remember user spans; one inside an operation that counts is as that operation is."""
        kinds = np.full(len(ids), USER, np.uint8)
        for _ in range(_DEPTH):
            self.enter(ids, kinds)
            inside = np.where(self.around(parents) >= DATA, OTHER, USER).astype(np.uint8)
            if bool((inside == kinds).all()):
                return
            kinds = inside

    def _table(self, high: int, need: int) -> NDArray[np.uint8]:
        table = self._tables.get(high)
        if table is None or len(table) < need:
            grown = np.zeros(max(need, 1 << 20 if table is None else 2 * len(table)), np.uint8)
            if table is not None:
                grown[: len(table)] = table
            self._tables[high] = table = grown
        return table


def _by_log(ids: NDArray[np.int64]) -> list[tuple[int | None, slice | NDArray[np.int64]]]:
    """(log, where its ids are); 0, no id, goes with any; None: of too many to be any."""
    if not len(ids):
        return []
    high = int(ids.max()) >> _HIGH
    if high == 0 or bool(((ids >> _HIGH == high) | (ids == 0)).all()):
        return [(high, slice(None))]
    highs = ids >> _HIGH
    logs = distinct(highs).tolist()
    if len(logs) > _MOST_AT_ONCE:
        return [(None, slice(None))]
    return [(one, np.flatnonzero(highs == one)) for one in logs]
