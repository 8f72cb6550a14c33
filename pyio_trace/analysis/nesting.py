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

#: What the innermost enclosing row is.
NOTHING, USER, DATA, OTHER = 0, 1, 2, 3

_DEPTH = 64  # of user spans within each other in one batch; deeper ones are taken as they are


_HIGH = 32  # ids of one log stay below 2**32; those of merged logs differ above


class Nesting:
    """Remembers the spans of a log, batch by batch, and answers for their children."""

    def __init__(self) -> None:
        self._tables: dict[int, NDArray[np.uint8]] = {}

    def enter(self, ids: NDArray[np.int64], kinds: NDArray[np.uint8]) -> None:
        """Remember rows that can be parents: DATA, OTHER or USER for each id."""
        for high, at in _by_log(ids):
            low = ids[at] & ((1 << _HIGH) - 1)
            self._room(high, int(low.max()) + 1)[low] = kinds[at]

    def around(self, parents: NDArray[np.int64]) -> NDArray[np.uint8]:
        """What each row is in, by the id of its parent (0: none).  NOTHING also for parents that are not in the log."""
        result = np.zeros(len(parents), np.uint8)
        for high, at in _by_log(parents):
            table = self._tables.get(high)
            if table is not None:
                low = parents[at] & ((1 << _HIGH) - 1)
                result[at] = table.take(np.where(low < len(table), low, 0))
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

    def _room(self, high: int, need: int) -> NDArray[np.uint8]:
        table = self._tables.get(high)
        if table is None or len(table) < need:
            grown = np.zeros(max(need, 1 << 20 if table is None else 2 * len(table)), np.uint8)
            if table is not None:
                grown[: len(table)] = table
            self._tables[high] = table = grown
        return table


def _by_log(ids: NDArray[np.int64]) -> list[tuple[int, slice | NDArray[np.int64]]]:
    """(log, where its ids are); 0, no id, goes with any."""
    if not len(ids):
        return []
    high = int(ids.max()) >> _HIGH
    if high == 0 or bool(((ids >> _HIGH == high) | (ids == 0)).all()):
        return [(high, slice(None))]
    highs = ids >> _HIGH
    return [(int(one), np.flatnonzero(highs == one)) for one in np.unique(highs)]
