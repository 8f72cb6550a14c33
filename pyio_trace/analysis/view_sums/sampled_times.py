"""The time of each sample, split: exact I/O out of it, then processor, delay and waits.

Samples say where a thread was; how much is known exactly: how long the thread's
calls on files took (the operations), how much processor time it had, and how long
it waited for a processor (both from the kernel).  So within each second of a thread,
call it a window,

- the exact time in calls on files is taken away from the samples that were made in
  such calls: their innermost line does I/O, and they lie where the calls lie;
- what is left is divided into time on or for a processor and time blocked.  The exact
  figures of the kernel limit it; where calls on files took part of them, samples decide;
- each of the two is shared out by how long the thread was found so: runnable samples get
  the first, the others the second.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.base.samples import Samples
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log import layout, runs

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_RUNNING = layout.SAMPLE_STATES.index("running")
#: ns of a window, at least; and in terms of the width in which times of calls are known.
_WINDOW, _WIDTHS = 1_000_000_000, 4


class ThreadCalls(NamedTuple):
    """Time in calls on files, by thread and stretch of time; sorted.  width: ns of a stretch."""

    process: Ints
    thread: Ints
    begin: Ints
    time: Ints
    width: int


@dataclass(frozen=True)
class Split:
    """By sample, ns: cpu, delay, blocked (in the sample's state; of a running one: not seen in what)."""

    cpu: Floats
    delay: Floats
    blocked: Floats


def split(samples: Samples, in_calls: Bools, calls: ThreadCalls, whole: bool = False) -> Split:
    """Splits each sample.

    in_calls: samples at lines that make calls on files; whole: a thread's calls are known as sums only, so its whole
    time is one window.
    """
    duration = samples["duration"].astype(np.float64)
    io = _overlaps(samples, calls)
    window = _windows(samples, 1 << 62 if whole else max(_WINDOW, _WIDTHS * calls.width))
    windows = int(window[-1]) + 1 if len(window) else 0

    def summed(values: Floats) -> Floats:
        return np.bincount(window, values, windows).astype(np.float64)

    def shared(amount: Floats, *ways: Floats) -> Floats:
        """An amount of each window, by the first of these weights that are not all 0 there."""
        found, left = np.zeros(len(window)), amount
        for weight in ways:
            total = summed(weight)
            usable = total > 0
            found += weight * (np.divide(left, total, out=np.zeros(windows), where=usable))[window]
            left = np.where(usable, 0, left)
        return found

    exact = np.minimum(summed(io), summed(duration))
    taken = np.minimum(np.where(in_calls, io, 0), duration)
    # Calls are placed as finely as they are kept; what seems to lie beside them belongs to them.
    for room in (np.where(in_calls, duration, 0), duration):
        free = np.maximum(room - taken, 0)
        taken += np.minimum(shared(np.maximum(exact - summed(taken), 0), free), free)
    left = np.maximum(duration - taken, 0)
    running = left * (samples["state"] == _RUNNING)
    room = summed(left)
    cpu, delay = summed(samples["cpu"].astype(np.float64)), summed(samples["delay"].astype(np.float64))
    runnable = np.clip(
        summed(running), np.minimum(np.maximum(cpu + delay - exact, 0), room), np.minimum(cpu + delay, room)
    )
    part = np.divide(cpu, cpu + delay, out=np.ones(windows), where=cpu + delay > 0)
    on = shared(runnable, running, left)
    blocked = shared(room - runnable, left - running, left)
    return Split(on * part[window], on * (1 - part)[window], blocked)


def _windows(samples: Samples, width: int) -> Ints:
    """By sample: the number of its window."""
    first = runs.starts(samples["process"], samples["thread"])
    lengths = np.diff(np.append(first, len(samples)))
    place = (samples["time"] - np.repeat(samples["time"][first], lengths)) // width
    return np.cumsum(runs.begins(samples["process"], samples["thread"], place)) - 1 if len(samples) else place


def _overlaps(samples: Samples, calls: ThreadCalls) -> Floats:
    """By sample: ns of its thread's calls on files in it."""
    found = np.zeros(len(samples))
    if not len(calls.time):
        return found
    begins = np.append(runs.starts(samples["process"], samples["thread"]), len(samples)).tolist()
    of_calls = _key(calls.process, calls.thread)
    for first, end in pairwise(begins):
        key = _key(samples["process"][first : first + 1], samples["thread"][first : first + 1])[0]
        low, high = np.searchsorted(of_calls, [key, key + 1]).tolist()
        if low == high:
            continue
        amounts = calls.time[low:high].astype(np.float64)
        found[first:end] = within(
            samples["time"][first:end], samples["duration"][first:end], calls.begin[low:high], amounts, calls.width
        )
    return found


def within(time: Ints, duration: Ints, stretches: Ints, amounts: Floats, width: int) -> Floats:
    """How much of what is spread over stretches of this width, sorted by begin, lies in each interval."""
    base = int(stretches[0])
    begin = stretches - base  # exact as integers; as floats it then has the precision that is needed
    edges = np.stack([begin, begin + width], 1).reshape(-1).astype(np.float64)
    done = np.cumsum(amounts)
    until = np.stack([done - amounts, done], 1).reshape(-1)
    since = (time - base).astype(np.float64)
    found: Floats = np.interp(since + duration, edges, until) - np.interp(since, edges, until)
    return np.maximum(found, 0)


def _key(process: Ints, thread: Ints) -> Ints:
    """A thread of a process as one number, in the order of both."""
    return (process + 1 << 32) + thread
