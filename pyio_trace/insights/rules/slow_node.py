"""All ranks of one node take far longer than those of the other nodes for as many bytes.

A node may have a slow network link, a full page cache, a failing disk, or a
neighbour that uses it too. Run the job without that node, or ask the operators to
look at it. Silent where the ranks of a node differ among themselves: then it is
their work (see stragglers), and where nodes move different amounts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from typing import TYPE_CHECKING

from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Query, Remedy
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import counted, number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed, Peer


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    nodes: dict[str, list[Peer]] = {}
    for _, peers in run.peers():
        for peer in peers:
            node = node_of(run.processes[peer.index])
            if node and run.processes[peer.index]["global_rank"] is not None:
                nodes.setdefault(node, []).append(peer)
    if len(nodes) < max(limits["nodes"], 2) or min(map(len, nodes.values())) < limits["ranks"]:
        return
    for node, ranks in nodes.items():
        others = [peer for other, peers in nodes.items() if other != node for peer in peers]
        if _is_slow(ranks, others, limits) and (finding := _finding(run, node, ranks, others, limits)) is not None:
            yield finding


def node_of(process: Mapping[str, object]) -> str:
    """The name of the node of a process: what the scheduler calls it, else the host's."""
    return str(process.get("node") or process["host"] or "")


def _time(peer: Peer) -> int:
    return int(peer.split.io_ns + peer.split.sync_ns)


def _is_slow(ranks: list[Peer], others: list[Peer], limits: Mapping[str, float]) -> bool:
    """Whether each rank is slower by far than each other one, and all moved about as much."""
    moved = [peer.moved for peer in (*ranks, *others)]
    if not min(moved) or max(moved) > limits["alike"] * min(moved):
        return False
    return min(map(_time, ranks)) >= limits["ratio"] * max(map(_time, others)) > 0


def _finding(
    run: Observed, node: str, ranks: list[Peer], others: list[Peer], limits: Mapping[str, float]
) -> Finding | None:
    usual = round(median(map(_time, others)))
    gain = run.gain({peer.index: _time(peer) - usual for peer in ranks}, "its I/O beyond that of the other nodes")
    if gain.ns < limits["share"] * run.wall_ns:
        return None
    took = round(median(map(_time, ranks)))
    calls = run.calls.where(process=[peer.index for peer in ranks], own=True)
    indexes = [peer.index for peer in (*ranks, *others)]
    return Finding(
        title=f"{node} takes {took / usual:.3g} times as long as the other nodes for as many bytes",
        evidence=[
            Evidence(
                f"Its {counted(len(ranks), 'rank')} moved {size(round(median(one.moved for one in ranks)))} each in "
                f"{seconds(took)}; the {number(len(others))} of other nodes needed {seconds(usual)}.",
                {"node": node, "ranks": len(ranks), "time_ns": took, "usual_ns": usual},
            )
        ],
        remedy=Remedy(f"Run the job without {node}, and have that node looked at: its link, its disk, its neighbours."),
        confidence=Confidence(0.7, "why the node is slow is not in the log"),
        query=Query(
            "SELECT process, sum(bytes_moved) AS bytes, sum(duration) / 1e9 AS seconds\nFROM operations\n"
            f"WHERE op_role IN ('io', 'sync')\n  AND {sql.condition('process', indexes)}\n"
            "GROUP BY process\nORDER BY seconds DESC"
        ),
        **{**run.about(calls, gain), "processes": [peer.index for peer in ranks]},
    )


RULE = Rule(
    "balance",
    find,
    limits={
        "nodes": Limit(3, "that the job runs on, at least: of two nobody knows which is usual"),
        "ranks": Limit(2, "on each node, at least"),
        "ratio": Limit(2, "times the time of every rank elsewhere, at least, for each rank of the node"),
        "alike": Limit(1.25, "times the bytes of the rank with the fewest, at most, for every rank"),
        "share": Limit(0.05, "of the wall time that the node's ranks lose, at least"),
    },
)
