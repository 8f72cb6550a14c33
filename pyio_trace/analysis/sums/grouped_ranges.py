"""Ranges of bytes by group, merged: how much of a file each process, task or epoch touched."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.sums.intervals import merge
from pyio_trace.analysis.sums.packed_keys import packing_of
from pyio_trace.log import runs

Ints = NDArray[np.int64]
#: A group and a place in it, as one number, stay below it.
_MOST = 1 << 62


def group_numbers(columns: tuple[Ints, ...]) -> tuple[Ints, Ints]:
    """(number of each row's group, 0 upwards in the order of the columns; a row of each group)."""
    packing = packing_of(columns)
    if packing is not None:
        columns = (packing.pack(columns),)
    order = np.lexsort(tuple(reversed(columns))) if len(columns) > 1 else np.argsort(columns[0], kind="stable")
    new = runs.begins(*(column[order] for column in columns))
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(new) - 1
    return number, order[new]


def merged(columns: tuple[Ints, ...], starts: Ints, ends: Ints) -> tuple[tuple[Ints, ...], Ints, Ints]:
    """The same bytes in disjoint ranges within each group of equal columns, ordered by group and start."""
    if not len(starts):
        return columns, starts, ends
    group, example = group_numbers(columns)
    least = int(starts.min())
    span = int(ends.max()) - least + 1
    if len(example) * span < _MOST:
        low, high = merge(group * span + (starts - least), group * span + (ends - least))
        of, low = np.divmod(low, span)
        return tuple(column[example][of] for column in columns), low + least, high - of * span + least
    # Ranks instead of bytes: so a group and a place in it fit into 64 bits whatever the offsets are.
    borders, rank = np.unique(np.concatenate([starts, ends]), return_inverse=True)
    rank = rank.ravel().astype(np.int64)
    stride = len(borders) + 1
    low, high = merge(group * stride + rank[: len(starts)], group * stride + rank[len(starts) :])
    of = low // stride
    return tuple(column[example][of] for column in columns), borders[low % stride], borders[high % stride]


def covered_twice(file: Ints, starts: Ints, ends: Ints) -> tuple[Ints, Ints, Ints]:
    """The stretches of each file that two or more of these ranges cover."""
    files = np.concatenate([file, file])
    borders = np.concatenate([starts, ends])
    step = np.repeat([1, -1], len(file))
    order = np.lexsort((step, borders, files))  # an end before a begin at the same byte
    files, borders, depth = files[order], borders[order], np.cumsum(step[order])
    at = np.flatnonzero(depth[:-1] >= 2) if len(depth) else depth
    return files[at], borders[at], borders[at + 1]


class GroupedRanges:
    """Which bytes were touched, by key columns; memory is that of the merged ranges."""

    def __init__(self, keys: int, most: int = 1 << 22) -> None:
        """keys: number of key columns; most: ranges in memory.  Beyond that, one key column after the other becomes -1,
        the last one first, so that more ranges can be merged; the first column stays."""
        self._keys, self._most = keys, most
        self._parts: list[tuple[tuple[Ints, ...], Ints, Ints]] = []
        self._count, self._limit = 0, 1 << 18
        #: How many of the last key columns became -1.
        self.given_up = 0

    def add(self, columns: tuple[Ints, ...], starts: Ints, ends: Ints) -> None:
        """Adds ranges [start, end) of bytes."""
        if not len(starts):
            return
        self._parts.append((columns, starts, ends))
        self._count += len(starts)
        if self._count > self._limit:
            self._compact()

    def update(self, other: GroupedRanges) -> None:
        """Adds those of another one with the same keys."""
        self.given_up = max(self.given_up, other.given_up)
        for part in other._parts:
            self.add(*part)

    def _compact(self) -> tuple[tuple[Ints, ...], Ints, Ints]:
        if not self._parts:
            none = np.zeros(0, np.int64)
            return (none,) * self._keys, none, none
        columns = tuple(np.concatenate(values) for values in zip(*(part[0] for part in self._parts), strict=True))
        starts, ends = (np.concatenate([part[side] for part in self._parts]) for side in (1, 2))
        whole = merged(self._kept(columns), starts, ends)
        while len(whole[1]) > self._most and self.given_up < self._keys - 1:
            self.given_up += 1
            whole = merged(self._kept(whole[0]), whole[1], whole[2])
        self._parts, self._count = [whole], len(whole[1])
        self._limit = max(1 << 18, 2 * self._count)
        return whole

    def _kept(self, columns: tuple[Ints, ...]) -> tuple[Ints, ...]:
        kept = self._keys - self.given_up
        return tuple(one if number < kept else np.full(len(one), -1) for number, one in enumerate(columns))

    def ranges(self) -> tuple[tuple[Ints, ...], Ints, Ints]:
        """(key columns, starts, ends), disjoint within each key."""
        return self._compact()
