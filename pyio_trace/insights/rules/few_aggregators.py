"""The bytes of collective calls go through few of the nodes of a job.

In a collective call of MPI-IO a few ranks, the aggregators, make the system calls
for all. If they are on one node of many, that node's link to the file system is
what all wait for. How many there are is a hint: `cb_nodes` of MPICH's ROMIO,
`io_ompio_num_aggregators` of Open MPI. Nothing is said of jobs on one node, where
one aggregator is usual, nor of calls that are not collective.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.analysis.reducers.mpi_calls import is_collective
from pyio_trace.enums import Layer, OpClass
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.insights.rules.slow_node import node_of
from pyio_trace.units import counted, number, percent, seconds, size

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import CallTable, Group
    from pyio_trace.insights.observed import Observed


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    calls = run.calls.where(layer=Layer.MPIIO, kind=(OpClass.READ, OpClass.WRITE))
    together = [run.calls.op(code) for code in calls.codes("op") if is_collective(run.calls.op(code))]
    alone = calls.where(op=[run.calls.op(code) for code in calls.codes("op") if not is_collective(run.calls.op(code))])
    independent = {(one["path"], one["kind"]) for one in alone.by("path", "kind")}
    for use in calls.where(op=together).by("path", "kind"):
        if use["path"] < 0 or (use["path"], use["kind"]) in independent:  # whose system calls they are is not known
            continue
        beneath = run.calls.where(layer=Layer.POSIX, kind=use["kind"], path=use["path"])
        finding = _finding(run, use, beneath, limits)
        if finding is not None:
            yield finding


def _finding(run: Observed, use: Group, beneath: CallTable, limits: Mapping[str, float]) -> Finding | None:
    nodes = {node_of(run.processes[one["process"]]) for one in use.rows.by("process")}
    through: Counter[str] = Counter()
    for one in beneath.by("process"):
        through[node_of(run.processes[one["process"]])] += one.moved
    moved = sum(through.values())
    busy = [node for node, some in through.items() if some >= limits["bytes_share"] * moved]
    if not moved or len(nodes) < limits["nodes"] or not 0 < len(busy) <= limits["of_nodes"] * len(nodes):
        return None
    times = {process: time * (len(nodes) - len(busy)) // len(nodes) for process, time in run.times(beneath).items()}
    gain = run.gain(times, "the system calls of these ranks, shared by all nodes")
    if gain.ns < limits["share"] * run.wall_ns:
        return None
    path = run.calls.path(use["path"]) or ""
    what = "read" if use["kind"] == OpClass.READ else "write"
    most = max(through.values()) / moved
    return Finding(
        title=f"collective calls on {path.rpartition('/')[2]} {what} through {number(len(busy))} of {len(nodes)} nodes",
        evidence=[
            Evidence(
                f"{counted(beneath.distinct('process'), 'rank')} made the system calls for {size(moved)}, which took "
                f"{seconds(beneath.total('time'))}; one node moved {percent(most)} of it.",
                {"nodes": len(nodes), "through": len(busy), "bytes": moved, "time_ns": int(beneath.total("time"))},
            )
        ],
        remedy=Remedy(
            "Let a rank of each node aggregate.",
            "f = MPI.File.Open(comm, path, mode)",
            f"hints = MPI.Info.Create({{'cb_nodes': '{len(nodes)}'}})\nf = MPI.File.Open(comm, path, mode, hints)",
            "mpi4py",
        ),
        severity="warning",
        confidence=Confidence(0.4, "whether the file system serves several nodes faster than one is not known"),
        query=sql.rows(
            {"path": path, "layer": "posix", "op_class": what},
            select="global_rank, op, " + sql.SUMS, group="global_rank, op",
        ),
        **run.about(use.rows, gain),
    )  # fmt: skip


RULE = Rule(
    "balance",
    find,
    limits={
        "nodes": Limit(2, "whose ranks make the calls, at least"),
        "of_nodes": Limit(0.5, "of the nodes that move the bytes, at most"),
        "bytes_share": Limit(0.01, "of the bytes that a node must move to count, at least"),
        "share": Limit(0.05, "of the wall time that these system calls take on too few nodes, at least"),
    },
    topic="shared",
)
