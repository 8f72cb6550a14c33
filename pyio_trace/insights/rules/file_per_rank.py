"""Each of many ranks writes a file of its own.

With some ranks this is the fastest way. With hundreds, creating, opening and later
listing thousands of files in one folder loads the metadata server, and every
reader has to know how many ranks there were. Let all ranks write one file by
collective calls, or let the ranks of a node share one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.analysis.calls.name_patterns import role_of
from pyio_trace.enums import OpClass, Role
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.observed import OVERHEAD
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import number, percent, seconds, size

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed

_REMEDY = Remedy(
    "Write one file by collective calls, or one for each node.",
    "part.tofile(f'state-{comm.rank}.bin')",
    "f = MPI.File.Open(comm, path, MPI.MODE_CREATE | MPI.MODE_WRONLY)\n"
    "f.Write_at_all(comm.rank * part.nbytes, part)\nf.Close()",
    "mpi4py",
)


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    ranks = len(set(run.rank_of.values()))
    if ranks < max(limits["ranks"], 2):
        return
    writes = run.calls.where(role=Role.IO, kind=OpClass.WRITE, process=list(run.rank_of))
    writers: dict[int, set[int]] = defaultdict(set)
    pairs = writes.sums("path", "process")
    for code, process in zip(pairs["path"].tolist(), pairs["process"].tolist(), strict=True):
        if code >= 0:
            writers[code].add(run.rank_of[process])
    patterns: dict[str, list[int]] = defaultdict(list)
    for code, by in writers.items():
        path = run.calls.path(code)
        if len(by) == 1 and path is not None and role_of(path) == "data":
            patterns[run.pattern_of(path)].append(code)
    for pattern, codes in sorted(patterns.items()):
        among = {next(iter(writers[code])) for code in codes}
        if len(among) >= max(limits["share"] * ranks, limits["ranks"]):
            yield _finding(run, pattern, codes, len(among), ranks)


def _finding(run: Observed, pattern: str, codes: list[int], among: int, ranks: int) -> Finding:
    calls = run.calls.where(role=Role.IO, path=codes)
    around = calls.where(kind=OVERHEAD)
    moved = calls.where(kind=OpClass.WRITE).total("moved")
    gain = run.gain(run.times(around), "opens, closes and other metadata calls on these files; one file needs some too")
    share = around.total("time") / max(calls.total("time"), 1)
    return Finding(
        title=f"{number(among)} of {number(ranks)} ranks write files of their own, {number(len(codes))} in all",
        evidence=[
            Evidence(
                f"{pattern.rpartition('/')[2]}: {size(moved // len(codes))} each; opening, closing and the like took "
                f"{seconds(around.total('time'))}, {percent(share)} of the time of all calls on them.",
                {"ranks": among, "files": len(codes), "bytes": moved, "time_ns": around.total("time")},
            )
        ],
        remedy=_REMEDY,
        severity="warning",
        confidence=Confidence(0.5, "what the metadata server and later readers pay is not in this log"),
        query=sql.rows(
            {"path": calls.paths()[:100], "op_role": "io"},
            select="global_rank, op, " + sql.SUMS,
            group="global_rank, op",
        ),
        **run.about(calls, gain),
    )


RULE = Rule(
    "metadata",
    find,
    limits={
        "ranks": Limit(64, "that write files of one pattern, at least"),
        "share": Limit(0.9, "of the job's ranks, at least"),
    },
    topic="metadata",
)
