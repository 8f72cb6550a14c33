"""Runs of equal neighbours in columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def begins(*columns: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows are the first of their run: one of the columns differs from the row before, or there is none."""
    found = np.ones(len(columns[0]), np.bool_)
    np.not_equal(columns[0][1:], columns[0][:-1], out=found[1:])
    for column in columns[1:]:
        found[1:] |= column[1:] != column[:-1]
    return found


def starts(*columns: NDArray[Any]) -> NDArray[np.int64]:
    """Where the runs begin."""
    return np.flatnonzero(begins(*columns))
