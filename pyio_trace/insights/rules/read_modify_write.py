"""A file is read and written in turn: read a record, change it, write it back.

Each change costs two calls and a seek or two, and a buffered file throws its
buffer away at each turn. Change many records in memory and write them at once, map
the file (`mmap`, `numpy.memmap`), or use a database.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.enums import Layer, OpClass
from pyio_trace.insights import libraries, sql, words
from pyio_trace.insights.access_lines import ACCESSES
from pyio_trace.insights.finding import Confidence, Evidence, Finding
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.insights.words import mechanisms as m
from pyio_trace.units import number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.analysis.reducers.accesses import Access
    from pyio_trace.insights.observed import Observed

_MOVING = (OpClass.READ, OpClass.WRITE)


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    by_file: dict[str, list[Access]] = {}
    for one in run.of(ACCESSES).rows:
        if run.is_own(one.line) and not run.is_database(one.path):
            by_file.setdefault(one.path, []).append(one)
    for path, uses in by_file.items():
        reads = [one for one in uses if one.direction == "read" and one.switches]
        writes = [one for one in uses if one.direction == "write" and one.switches]
        switches, calls = sum(one.switches for one in uses), sum(one.placed for one in uses)
        if not reads or not writes or switches < limits["switches"] or switches < limits["share"] * calls:
            continue
        lines = {one.line or "" for one in (*reads, *writes)}
        moves = run.calls.where_lines(lines).where_paths([path])
        moves = moves.where(layer=(Layer.POSIX, Layer.STDIO), kind=_MOVING, errno=0)
        gain = run.gain(run.times(moves), "all these reads and writes; a few large ones take some of it")
        moved = sum(one.moved_bytes for one in uses)
        yield Finding(
            title=f"{path.rpartition('/')[2]} is read and written by turns, {number(switches)} times",
            evidence=[
                Evidence(
                    f"{number(calls)} reads and writes of {size(moved)} took {seconds(moves.total('time'))}.",
                    {"switches": switches, "calls": calls, "bytes": moved},
                )
            ],
            remedy=words.remedy(m.CHANGED_IN_PLACE, libraries.readers(run, moves)),
            severity="warning",
            confidence=Confidence(0.6, "how many changes can be made at once is not known"),
            query=sql.rows(
                {"path": path, "site": sorted(lines), "op_class": ["read", "write"], "layer": ["posix", "stdio"]},
                select="op, bytes_moved, file_offset, duration / 1e9 AS seconds",
                group="",
                order="time",
            ),
            **run.about(moves, gain),
        )


RULE = Rule(
    "accesses",
    find,
    limits={
        "switches": Limit(500, "from reading to writing and back, at least"),
        "share": Limit(0.4, "of the reads and writes, at least"),
    },
    needs=(ACCESSES,),
    yields_to=("hdf5-contiguous",),
)
