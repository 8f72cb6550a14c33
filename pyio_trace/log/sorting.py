"""Sorted values and their middle, without numpy.ma.

np.unique() and np.median() import it, for data that we never have, and that
takes as long as reading a hundred thousand operations.
"""

from __future__ import annotations

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


def median(values: NDArray[np.float64]) -> float:
    """The middle one, or the mean of the two in the middle; there is at least one."""
    ordered = np.sort(values)
    middle = len(ordered) // 2
    return float(ordered[middle] + ordered[~middle]) / 2
