"""How deep in its lane an operation is drawn: below what is open in its thread when it begins.

What a thread does is nested, so a depth is how many calls are open.  Where calls
overlap instead (tasks of asyncio, rows that stand for several calls), each takes
the first line that is free.  The depth of a row depends on the rows before it only
by the moments at which the lines become free, so a log is read division by
division.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

#: Lines of a lane; what is deeper shares the last one.
DEPTHS = 12
#: Before any operation.
_NEVER = np.iinfo(np.int64).min
#: Rows of overlapping calls that are placed one by one, at a time.
_MOST_OVERLAPPING = 1 << 18


def free_from_the_start(lanes: int) -> Ints:
    """When each line of each lane becomes free, before the first row: ns."""
    return np.full((lanes, DEPTHS), _NEVER)


def depths(lane: Ints, begin: Ints, end: Ints, free: Ints) -> Ints:
    """The depth of each row; rows by lane and begin, the longer one first; free: see free_from_the_start(), which is
    changed to how it is after the last row."""
    depth = np.zeros(len(lane), np.int64)
    if not len(lane):
        return depth
    before = free.copy()
    ends = np.sort(end)
    size = len(ends) + 1
    base = lane * size
    last, first = base + np.searchsorted(ends, end) + 1, base + np.searchsorted(ends, begin, "right")
    rest, overlapping = np.arange(len(lane)), np.zeros(len(free), np.bool_)
    for level in range(DEPTHS):
        until = np.concatenate([[0], np.maximum.accumulate(last[rest])[:-1]])
        fits = (first[rest] >= until) & (begin[rest] >= free[lane[rest], level])
        np.maximum.at(free[:, level], lane[rest], end[rest])
        beyond = ~fits & (last[rest] > until) & (end[rest] > before[lane[rest], level])
        overlapping[lane[rest[beyond]]] = True
        if level == DEPTHS - 1:
            break
        rest = rest[~fits]
        depth[rest] += 1
        if not len(rest):
            break
    for one in np.flatnonzero(overlapping).tolist():
        rows = slice(*np.searchsorted(lane, [one, one + 1]).tolist())
        if rows.stop - rows.start <= _MOST_OVERLAPPING:
            depth[rows], free[one] = _first_free(begin[rows].tolist(), end[rows].tolist(), before[one].tolist())
    return depth


def _first_free(begin: list[int], end: list[int], free: list[int]) -> tuple[list[int], list[int]]:
    found = []
    for first, last in zip(begin, end, strict=True):
        level = next((at for at, until in enumerate(free) if until <= first), DEPTHS - 1)
        free[level] = max(free[level], last)
        found.append(level)
    return found, free
