"""Calls whose time is the library's own, not the file system's: for the rules on parsing, formatting and unpacking."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from pyio_trace.insights.library_use import Group, calls_of
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Limit

_MS = 1_000_000
LIMITS: Mapping[str, Limit] = {
    "share": Limit(0.6, "of the calls' time that the library takes itself"),
    "ms": Limit(50, "that the library takes itself, at least"),
}


def lines(observed: Observed, ops: Collection[str], limits: Mapping[str, float]) -> Iterator[Group]:
    """The calls of each line and operation, on all files, in which the library itself takes that share of the time."""
    calls = calls_of(observed, *ops)
    for _, group in calls.by("site", "op"):
        yield from heavy(group, limits)


def heavy(group: Group, limits: Mapping[str, float]) -> Iterator[Group]:
    """The group, if the library takes that share of its time."""
    time = group.total("duration")
    if group.library_ns >= limits["ms"] * _MS and group.library_ns >= limits["share"] * time:
        yield group
