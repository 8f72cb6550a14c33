"""Ranks write one file in small pieces that begin or end in the middle of a block.

Two ranks that write parts of the same block take turns: the file system hands its
lock from one client to the other, and a block that is written in part may have to
be read first. Let the pieces of each rank be whole blocks, or stripes, or let
collective calls put them together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.analysis.calls.name_patterns import role_of
from pyio_trace.insights import sql
from pyio_trace.insights.access_lines import ACCESSES
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.analysis.reducers.accesses import Access
    from pyio_trace.insights.observed import Observed

_REMEDY = Remedy(
    "Let each rank write whole blocks, or let collective calls put the pieces together.",
    "f.Write_at((n * comm.size + comm.rank) * 47008, piece)",
    "f.Write_at_all((n * comm.size + comm.rank) * 47008, piece)",
    "mpi4py",
)


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    for one in run.of(ACCESSES).rows if len(set(run.rank_of.values())) > 1 else ():
        each = one.moved_bytes // max(one.calls, 1)
        if one.direction != "write" or (one.processes or 0) < 2 or role_of(one.path) != "data":
            continue
        cut = max(one.unaligned, one.unaligned_end)
        if one.calls < limits["writes"] or each > limits["bytes"] or cut < max(limits["share"] * one.placed, 1):
            continue
        yield from _finding(run, one, limits)


def _finding(run: Observed, one: Access, limits: Mapping[str, float]) -> Iterator[Finding]:
    line = run.calls.where_line(one.line) if one.line else run.calls
    calls = line.transfers("write").where(process=list(run.rank_of)).where_paths([one.path])
    among = len({run.rank_of[process] for process in calls.codes("process")})
    if among < limits["ranks"]:
        return
    gain = run.gain(run.times(calls), "all these writes; some of the time is the writing itself")
    yield Finding(
        title=f"{number(among)} ranks write parts of blocks of {one.path.rpartition('/')[2]}",
        evidence=[
            Evidence(
                f"{number(one.unaligned)} of {number(one.placed)} writes begin and {number(one.unaligned_end)} end "
                f"inside a block of {size(one.block_bytes)}; they took {seconds(one.time_ns)}.",
                {
                    "ranks": among, "writes": one.calls, "bytes": one.moved_bytes, "unaligned": one.unaligned,
                    "unaligned_end": one.unaligned_end, "block": one.block_bytes, "time_ns": one.time_ns,
                },
            )
        ],
        remedy=_REMEDY,
        severity="warning",
        confidence=Confidence(0.5, "how long a write waited for another rank is not in the log"),
        query=sql.rows(
            {"path": one.path, "op_class": "write", "op_role": "io"},
            select="global_rank, file_offset % 4096 AS in_block, bytes_moved, duration", group="", order="time",
        ),
        **run.about(calls, gain),
    )  # fmt: skip


RULE = Rule(
    "accesses",
    find,
    limits={
        "ranks": Limit(2, "that write the file, at least"),
        "writes": Limit(100, "of them, at least"),
        "bytes": Limit(1 << 20, "of one write on average, at most"),
        "share": Limit(0.5, "of the writes that begin, or that end, inside a block, at least"),
    },
    needs=(ACCESSES,),
    topic="shared",
    yields_to=("mpi-independent",),
)
