"""Reads and writes by line, for rules about their sizes and order."""

from __future__ import annotations

from collections.abc import Iterator

from pyio_trace.analysis.calls.name_patterns import role_of
from pyio_trace.analysis.reducers.accesses import Access, AccessesByLine
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Query
from pyio_trace.insights.observed import Observed, site_of

#: The reducer, for a rule's `needs`.  One object: equal ones would be summed twice.  With the lines, and the files of
#: each, that take the most time: far more than findings are listed.
ACCESSES = AccessesByLine(top=2000, by_line=True)
#: Bytes from storage below this share of what was read mean that it came from memory.
_CACHED = 0.01
#: A read or write from here on moves bytes for most of its time.
_LARGE = 262_144
#: ns for a byte of large accesses where a run has none: a copy from the page cache, and one into new pages of it.
_NS_PER_BYTE = {"read": 0.25, "write": 1.0}


def lines(run: Observed, direction: str | None = None) -> Iterator[Access]:
    """The reads ("read"), the writes ("write") or both of each line of the program, on its data; not those that SQLite
    makes on a database."""
    for one in run.of(ACCESSES).lines:
        if one.line is None or not run.is_own(one.line) or site_of(one.line) is None or role_of(one.path) != "data":
            continue
        if direction in (None, one.direction) and not run.is_database(one.path):
            yield one


def time_by_process(run: Observed, one: Access) -> dict[int, int]:
    """The time of a line's reads or writes by process, ns."""
    calls = run.calls.where_line(one.line or "")
    return run.times(calls.transfers(one.direction))


def empty_calls(one: Access) -> int:
    """How many of a line's reads moved nothing: they find the end of a file."""
    return sum(count for bytes_, count in one.common_sizes if not bytes_)


def from_memory(run: Observed) -> bool:
    """Whether next to nothing that was read came from storage, by the kernel's account of every process."""
    storage = run.overview.storage
    moved = run.summary.bytes.posix_read + run.summary.bytes.stream_read
    return storage.read is not None and not storage.processes and storage.read <= _CACHED * moved


def ns_per_byte(run: Observed, direction: str) -> float:
    """What a byte costs in the large reads, or writes, of this run."""
    accesses = [one for one in run.of(ACCESSES).lines if one.direction == direction and one.calls]
    large = [one for one in accesses if one.moved_bytes >= _LARGE * one.calls]
    moved = sum(one.moved_bytes for one in large)
    return sum(one.time_ns for one in large) / moved if moved >= 1 << 24 else _NS_PER_BYTE[direction]


def query(one: Access) -> Query:
    """The reads or writes of a line, with their sizes and offsets."""
    return sql.rows(
        {"site": one.line, "op_class": one.direction, "layer": ["posix", "stdio"]},
        select="path, bytes_moved, file_offset, duration / 1e9 AS seconds",
        group="",
        order="time",
    )
