"""What other threads and processes did while a line waited: the lines at which they worked then."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.base.samples import Samples

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Lines whose waits are looked at, those that waited longest, and lines that each of them gets.
_WAITING, _WORKING = 16, 3


def meanwhile(samples: Samples, line: Ints, waiting: Floats, working: Floats) -> dict[int, list[tuple[int, int]]]:
    """Number of a line that waited -> (number of a line, ns of work at it meanwhile), most work first.

    line: by sample, the number of its innermost line, -1: none; waiting, working: ns of it that the thread waited for
    others, and worked.
    """
    found: dict[int, list[tuple[int, int]]] = {}
    waits, works = np.flatnonzero((waiting > 0) & (line >= 0)), np.flatnonzero((working > 0) & (line >= 0))
    if not len(waits) or not len(works):
        return found
    base = int(samples["time"].min())
    begin = (samples["time"] - base).astype(np.float64)
    end = begin + samples["duration"]
    share = working[works] / np.maximum(samples["duration"][works], 1)
    sums = np.bincount(line[waits], waiting[waits])
    for one in np.argsort(-sums, kind="stable")[:_WAITING].tolist():
        at = waits[line[waits] == one]
        if not len(at):
            break
        edges, waited = _waited(begin[at], end[at])
        during = np.interp(end[works], edges, waited) - np.interp(begin[works], edges, waited)
        by_line = np.bincount(line[works], during * share)
        by_line[one : one + 1] = 0
        order = np.argsort(-by_line, kind="stable")[:_WORKING].tolist()
        found[one] = [(other, round(float(by_line[other]))) for other in order if by_line[other] >= 1]
    return found


def _waited(begin: Floats, end: Floats) -> tuple[Floats, Floats]:
    """The length of a union of intervals as a function of time: (edges, length up to each)."""
    order = np.argsort(begin, kind="stable")
    begin, reach = begin[order], np.maximum.accumulate(end[order])
    before = np.concatenate([begin[:1], reach[:-1]])
    begin = np.maximum(begin, before)
    length = np.cumsum(np.maximum(reach - begin, 0))
    edges = np.stack([begin, np.maximum(reach, begin)], 1).reshape(-1)
    until = np.stack([np.concatenate([[0.0], length[:-1]]), length], 1).reshape(-1)
    return edges, until


def numbered(names: list[str | None]) -> tuple[Ints, list[str]]:
    """Names as numbers, -1 for None, and the names by number."""
    index: dict[str, int] = {}
    numbers = [-1 if name is None else index.setdefault(name, len(index)) for name in names]
    return np.array(numbers, np.int64), list(index)
