"""The ranks of an MPI job read or write one file in small independent calls.

Each rank then asks the file system by itself, and on a parallel file system their
locks collide. In collective calls (`Write_at_all`) a few ranks, the aggregators,
collect what all of them want and move it in large pieces. This holds only where
all ranks make the call equally often, because a collective call waits for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.analysis.reducers.mpi_calls import is_collective
from pyio_trace.enums import Layer, OpClass
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import counted, number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import CallTable, Group
    from pyio_trace.insights.observed import Observed

_REMEDIES = {
    OpClass.READ: Remedy(
        "Read by collective calls, which all ranks make equally often.",
        "for n in range(count):\n    f.Read_at((n * comm.size + comm.rank) * part.nbytes, part)",
        "for n in range(count):\n    f.Read_at_all((n * comm.size + comm.rank) * part.nbytes, part)",
        "mpi4py",
    ),
    OpClass.WRITE: Remedy(
        "Write by collective calls, which all ranks make equally often.",
        "for n in range(count):\n    f.Write_at((n * comm.size + comm.rank) * part.nbytes, part)",
        "for n in range(count):\n    f.Write_at_all((n * comm.size + comm.rank) * part.nbytes, part)",
        "mpi4py",
    ),
}


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    calls = run.calls.where(layer=Layer.MPIIO, kind=(OpClass.READ, OpClass.WRITE), own=True)
    alone = [code for code in calls.codes("op") if not is_collective(run.calls.op(code))]
    for place in calls.where(op=[run.calls.op(code) for code in alone]).by("path", "site", "kind"):
        ranks = place.rows.distinct("process")
        each = place.moved // max(place.calls, 1)
        if place.calls < limits["calls"] * ranks or not 0 < each <= limits["bytes"]:
            continue
        if ranks < limits["ranks"] or not _by_all(run, place.rows):
            continue
        yield _finding(run, place, ranks, each)


def _by_all(run: Observed, calls: CallTable) -> bool:
    """Whether all ranks of the job make these calls, equally often."""
    often = {group["process"]: group.calls for group in calls.by("process")}
    sizes = {run.processes[process]["world_size"] for process in often}
    return sizes == {len(often)} and len(set(often.values())) == 1


def _finding(run: Observed, place: Group, ranks: int, each: int) -> Finding:
    path = run.calls.path(place["path"]) or ""
    what = "read" if place["kind"] == OpClass.READ else "write"
    gain = run.gain(run.times(place.rows), "all these calls; moving the bytes takes some of the time in any way")
    return Finding(
        title=f"{number(ranks)} ranks {what} {path.rpartition('/')[2]} independently, {size(each)} at a time",
        evidence=[
            Evidence(
                f"{counted(place.calls, 'call')} for {size(place.moved)} took {seconds(place.time)} over all ranks, "
                "each rank equally often.",
                {"ranks": ranks, "calls": place.calls, "bytes": place.moved, "time_ns": place.time},
            )
        ],
        remedy=_REMEDIES[place["kind"]],
        severity="warning",
        confidence=Confidence(0.5, "whether the ranks reach these calls at the same time is not known"),
        query=sql.rows(
            {"path": path, "site": run.calls.site(place["site"]), "layer": "mpiio", "op_class": what},
            select="global_rank, op, " + sql.SUMS, group="global_rank, op",
        ),
        **run.about(place.rows, gain),
    )  # fmt: skip


RULE = Rule(
    "balance",
    find,
    limits={
        "ranks": Limit(2, "that make the calls, at least"),
        "calls": Limit(50, "of each rank, at least", few=10),
        "bytes": Limit(1 << 20, "moved by one call on average, at most"),
    },
    topic="shared",
)
