"""The clocks of several hosts, aligned on a moment that the ranks of a job share.

All ranks leave MPI_Init at nearly the same time: where each log has its end, the
clock of a host is moved so that its ranks left it when those of the first host did.
How far ranks are then apart is the error.  Without such a moment clocks stay as
they are, and the error is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low
from typing import NamedTuple

import numpy as np

from pyio_trace.join.base.arrow_arrays import codes
from pyio_trace.join.sources.source import Source

#: Operations whose end is the shared moment.
_INITS = ("MPI_Init", "MPI_Init_thread")
_COLUMNS = ("op", "time", "duration")


class Clocks(NamedTuple):
    """By log: offsets to add to its times, ns; error: how far aligned times of hosts may differ, ns; None: unknown."""

    offsets: list[int]
    error: int | None


def shared_moment(source: Source) -> int | None:
    """When the first MPI_Init of a log ended, ns since the epoch; None: it has none that did."""
    names = source.values("op").to_pylist()
    wanted = np.isin(np.array(names, object), _INITS)
    if not wanted.any():
        return None
    ends = []
    for batch in source.batches(_COLUMNS, 1 << 20):
        number = codes(batch.column("op"))
        at = np.flatnonzero((number >= 0) & wanted[number])
        duration = batch.column("duration").fill_null(-1).to_numpy(zero_copy_only=False)[at]
        time = batch.column("time").to_numpy(zero_copy_only=False)[at]
        ends += (time + duration)[duration >= 0].tolist()
    return min(ends, default=None)


def aligned(hosts: Sequence[str], moments: Sequence[int | None]) -> Clocks:
    """hosts, moments: of each log."""
    if None in moments:
        return Clocks([0] * len(hosts), None)
    known = [moment for moment in moments if moment is not None]
    by_host: dict[str, list[int]] = {}
    for host, moment in zip(hosts, known, strict=True):
        by_host.setdefault(host, []).append(moment)
    middle = {host: median_low(own) for host, own in by_host.items()}
    first = middle[hosts[0]]
    offsets = [first - middle[host] for host in hosts]
    ends = [moment + offset for moment, offset in zip(known, offsets, strict=True)]
    return Clocks(offsets, max(ends) - min(ends))
