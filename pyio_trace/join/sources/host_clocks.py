"""The clocks of several hosts, aligned on a moment that the ranks of a job share.

All ranks of one launch leave MPI_Init at nearly the same time: where each log has its end, the
clock of a host is moved so that its ranks left it when those of the first host
did.  No rank leaves before all have entered: that bounds the error.  Without such a
moment clocks stay as they are, and the error is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pyio_trace.join.sources.source import Source

#: A clock that is farther off (36 years, in ns) is none.
_FARTHEST = 1 << 60


class Moment(NamedTuple):
    """When a rank entered MPI_Init, and when it left, ns since the epoch."""

    begin: int
    end: int


class Clocks(NamedTuple):
    """By log: offsets to add to its times, ns; error: how far aligned times of hosts may differ, ns; None: unknown."""

    offsets: list[int]
    error: int | None


def shared_moment(source: Source) -> Moment | None:
    """The first MPI_Init of a log; None: it has none that ended."""
    known = [(row["mpi_init_begin"], row["mpi_init_end"]) for row in source.processes()]
    return min((Moment(begin, end) for begin, end in known if begin is not None and end is not None), default=None)


def aligned_by_run(hosts: Sequence[str], runs: Sequence[str], moments: Sequence[Moment | None]) -> Clocks:
    """hosts, runs, moments: of each log.  The first run that was on all hosts, and has all moments, tells."""
    for run in dict.fromkeys(runs):
        own = [at for at, one in enumerate(runs) if one == run]
        if len({hosts[at] for at in own}) < len(set(hosts)):
            continue
        clocks = aligned([hosts[at] for at in own], [moments[at] for at in own])
        if clocks.error is not None:
            offsets = {hosts[at]: offset for at, offset in zip(own, clocks.offsets, strict=True)}
            return Clocks([offsets[host] for host in hosts], clocks.error)
    return Clocks([0] * len(hosts), None)


def aligned(hosts: Sequence[str], moments: Sequence[Moment | None]) -> Clocks:
    """hosts, moments: of each log."""
    from statistics import median_low  # slow to import, and the end of most runs needs no clocks

    by_host: dict[str, list[Moment]] = {}
    for host, moment in zip(hosts, moments, strict=True):
        if moment is None:
            return Clocks([0] * len(hosts), None)
        by_host.setdefault(host, []).append(moment)
    first = by_host[hosts[0]]
    offsets: dict[str, int] = {}
    errors: list[int | None] = []
    for host, own in by_host.items():
        offset = median_low(one.end for one in first) - median_low(one.end for one in own)
        least = max(one.begin for one in first) - min(one.end for one in own)
        most = min(one.end for one in first) - max(one.begin for one in own)
        if host == hosts[0]:
            continue
        offsets[host] = min(max(offset, least), most) if least <= most else offset
        errors.append(max(offsets[host] - least, most - offsets[host]) if least <= most else None)
    if any(abs(offset) > _FARTHEST for offset in offsets.values()):
        return Clocks([0] * len(hosts), None)
    known = sorted(error for error in errors if error is not None)
    # two hosts that are each aligned to a third may be wrong in opposite directions
    return Clocks([offsets.get(host, 0) for host in hosts], sum(known[-2:]) if len(known) == len(errors) else None)
