"""What other threads and processes did while a line waited: the lines at which they worked then, or waited."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.base.samples import Samples

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

#: Lines whose waits are looked at, those that waited longest, and lines that each of them gets.
_WAITING, _WORKING = 16, 3


def meanwhile(
    samples: Samples, line: Ints, waiting: Floats, working: Floats, asleep: Floats, joins: Bools
) -> dict[int, list[tuple[int, int, int]]]:
    """Number of a line that waited -> (number of a line, ns of work at it meanwhile, ns of waits there), most work
    first.

    line: by sample, the number of its innermost line, -1: none; waiting, working: ns of it that the thread waited for
    others, and worked; asleep: that a worker waited or slept itself.  That is named where nobody worked for most of the
    time; of threads of the same process only where the line waited as join() does: joins, by sample.  Others may be
    asleep for reasons of their own.
    """
    found: dict[int, list[tuple[int, int, int]]] = {}
    waits, others = np.flatnonzero((waiting > 0) & (line >= 0)), np.flatnonzero((working + asleep > 0) & (line >= 0))
    if not len(waits) or not len(others):
        return found
    base = int(samples["time"].min())
    begin = (samples["time"] - base).astype(np.float64)
    end = begin + samples["duration"]
    shares = [amount[others] / np.maximum(samples["duration"][others], 1) for amount in (working, asleep)]
    sums = np.bincount(line[waits], waiting[waits])
    for one in np.argsort(-sums, kind="stable")[:_WAITING].tolist():
        at = waits[line[waits] == one]
        if not len(at):
            break
        edges, waited = _waited(begin[at], end[at])
        during = np.interp(end[others], edges, waited) - np.interp(begin[others], edges, waited)
        worked, slept = (np.bincount(line[others], during * share) for share in shares)
        if waiting[at][joins[at]].sum() * 2 < sums[one]:
            elsewhere = during * shares[1] * (samples["process"][others] != samples["process"][at[0]])
            slept = np.bincount(line[others], elsewhere, len(worked))
        worked[one : one + 1] = slept[one : one + 1] = 0
        if worked.sum() * 2 >= sums[one]:
            slept[:] = 0
        times = worked + slept
        order = np.argsort(-times, kind="stable")[:_WORKING].tolist()
        found[one] = [
            (other, round(float(worked[other])), round(float(slept[other]))) for other in order if times[other] >= 1
        ]
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
