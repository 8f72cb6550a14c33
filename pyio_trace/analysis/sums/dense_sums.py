"""Sums by small integer keys, and what the calls of a file or a source line are counted as."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.scan.saturation import MOST, addable
from pyio_trace.enums import CLASSES, LAYERS, OpClass
from pyio_trace.join.base.roles import MOVING

Ints = NDArray[np.int64]

NLAYERS, NCLASSES = len(LAYERS), len(CLASSES)
#: Roles of an operation for its file or source line; HIGHER also of locks, which are no metadata.
READS, WRITES, OPENS, OTHERS, HIGHER = range(5)
NROLES = 5


class DenseSums:
    """Calls, time (ns) and bytes by an integer key; grows with the keys.

    Weights are added in place and as integers, so a batch makes no array as long
    as the sums.
    """

    def __init__(self, size: int = 0) -> None:
        self.count = np.zeros(size, np.int64)
        self.time = np.zeros(size, np.int64)
        self.moved = np.zeros(size, np.int64)
        self._bound = 0  # no sum over all keys is larger

    def add(self, keys: Ints, size: int, count: Ints | None, time: Ints, moved: Ints) -> None:
        """Adds weights at keys, which are below size; count None: one call for each key."""
        self._make_room(size)
        if count is None:
            np.add.at(self.count, keys, 1)
        else:
            add_at(self.count, keys, count)
        for total, weights in ((self.time, time), (self.moved, moved)):
            add_at(total, keys, weights)
        self._grew(max(len(keys) if count is None else int(count.sum()), int(time.sum()), int(moved.sum())))

    def update(self, other: DenseSums, keys: Ints | None = None, size: int = 0) -> None:
        """Adds the sums of another one; keys: the key here of each key there, below size, None: the same."""
        if keys is None:
            keys, size = np.arange(len(other.count)), len(other.count)
        self._make_room(size)
        for total, more in ((self.count, other.count), (self.time, other.time), (self.moved, other.moved)):
            total[keys] += more[: len(keys)]
        self._grew(other._bound)

    def _make_room(self, size: int) -> None:
        if size > len(self.count):
            for name in ("count", "time", "moved"):
                setattr(self, name, longer(getattr(self, name), size, 0))

    def _grew(self, by: int) -> None:
        self._bound += by
        if self._bound > MOST:
            self.count, self.time, self.moved = map(addable, (self.count, self.time, self.moved))
            self._bound = max(int(total.sum()) for total in (self.count, self.time, self.moved))


def add_at(total: Ints, keys: NDArray[np.integer], weights: NDArray[np.integer]) -> None:
    """Adds weights at keys.  numpy.add.at() is ten times as fast if it has nothing to convert, and has one index."""
    np.add.at(total, keys.astype(np.int64, copy=False), weights.astype(np.int64, copy=False))


def longer(values: Ints, size: int, fill: int) -> Ints:
    """The values with room for `size` of them and more; fill: the further ones."""
    if size <= len(values):
        return values
    grown = np.full(max(size, len(values) * 3 // 2), fill, np.int64)
    grown[: len(values)] = values
    return grown


def roles(kind: NDArray[np.int8]) -> Ints:
    """The role of operations of these classes: READS (copies too), WRITES, OPENS, OTHERS, or HIGHER for locks."""
    return _ROLES.take(kind)


def file_roles(layer_and_class: Ints) -> Ints:
    """The role of operations for their file, by layer * NCLASSES + class: HIGHER for those above MOVING."""
    return _FILE_ROLES.take(layer_and_class)


_ROLES = np.full(NCLASSES, OTHERS, np.int64)
_ROLES[[OpClass.READ, OpClass.COPY]], _ROLES[OpClass.WRITE], _ROLES[OpClass.OPEN] = READS, WRITES, OPENS
_ROLES[OpClass.LOCK] = HIGHER
_FILE_ROLES = np.full((NLAYERS, NCLASSES), HIGHER, np.int64)
_FILE_ROLES[MOVING] = _ROLES
