"""Sorted arrays: distinct values, medians, places and look-ups, without numpy.ma.

np.unique() and np.median() import numpy.ma for masked arrays, which never occur
here.  The import takes as long as reading a hundred thousand operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

_Number = TypeVar("_Number", bound=np.number[Any])


def distinct(values: NDArray[_Number]) -> NDArray[_Number]:
    """The distinct values, ascending."""
    ordered = np.sort(values)
    first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def distinct_pairs(
    first: NDArray[np.integer[Any]], second: NDArray[np.integer[Any]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct pairs, ascending.  second: -1 and up; the product of both ranges must fit in 63 bits."""
    width = int(second.max(initial=0)) + 2
    pairs = distinct(first.astype(np.int64) * width + second + 1)
    return pairs // width, pairs % width - 1


class Places:
    """Where values are in an array.  It is sorted once, so that looking up a value does not read all of it."""

    def __init__(self, values: NDArray[Any]) -> None:
        self._order = np.argsort(values, kind="stable")
        self._values = values[self._order]

    def of(self, wanted: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
        """The places of all of these values, which are distinct; ascending."""
        begins, ends = (np.searchsorted(self._values, wanted, side) for side in ("left", "right"))
        parts = [self._order[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
        return np.sort(np.concatenate([np.zeros(0, np.int64), *parts]))


def median(values: NDArray[np.float64]) -> float:
    """The median; there must be at least one value."""
    ordered = np.sort(values)
    middle = len(ordered) // 2
    return float(ordered[middle] + ordered[~middle]) / 2


def find(table: NDArray[Any], values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """(where each value is in an ascending table, whether it is there); the place of a missing one is any valid place,
    or 0 in an empty table."""
    if len(table) == 0:
        return np.zeros(len(values), np.int64), np.zeros(len(values), np.bool_)
    at = np.minimum(np.searchsorted(table, values), len(table) - 1)
    return at, table[at] == values
