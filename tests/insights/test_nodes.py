"""Findings about the nodes of a parallel job, on logs made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.ranks import Call, findings_in, write_job

MIB = 1 << 20
NODES = ["node1", "node1", "node2", "node2", "node3", "node3"]


# ---- a slow node


def own_files(times: list[float], sizes: list[int] | None = None) -> list[list[Call]]:
    """Each rank writes a file of its own in ten calls, which take so many ms each."""
    sizes = sizes or [MIB] * len(times)
    return [
        [Call("PWRITE", f"/d/{rank}", 90 * n, time, sizes[rank], n * sizes[rank]) for n in range(10)]
        for rank, time in enumerate(times)
    ]


def test_a_slow_node(tmp_path: Path) -> None:
    # GIVEN three nodes of two ranks, of which both of one are slow
    folder = write_job(tmp_path / "logs", own_files([10, 10, 80, 70, 12, 10]), NODES)
    (finding,) = findings_in(folder, "slow-node")
    # THEN that one is named, and its ranks; stragglers say the same less exactly
    assert finding.title == "node2 takes 7.5 times as long as the other nodes for as many bytes"
    assert finding.evidence[0].values["node"] == "node2" and len(finding.processes) == 2
    assert not findings_in(folder, "stragglers")


@pytest.mark.parametrize(
    ("times", "nodes", "sizes"),
    [
        ([10, 10, 80, 10, 10, 10], NODES, None),  # one rank, not its node
        ([10, 10, 15, 15, 10, 10], NODES, None),  # not by far
        ([10, 10, 80, 80, 10, 80], NODES, None),  # a rank elsewhere is as slow
        ([10, 10, 80, 80, 10, 10], ["node1"] * 6, None),  # one node
        ([10, 10, 80, 80], NODES[:4], None),  # two: which is usual?
        ([10, 80, 10], ["node1", "node2", "node3"], None),  # a rank each
        ([10, 10, 80, 80, 10, 10], NODES, [MIB, MIB, 8 * MIB, 8 * MIB, MIB, MIB]),  # it has more to do
        ([0.1, 0.1, 0.8, 0.8, 0.1, 0.1], NODES, None),  # in no time
    ],
)
def test_no_slow_node(tmp_path: Path, times: list[float], nodes: list[str], sizes: list[int] | None) -> None:
    assert findings_in(write_job(tmp_path / "logs", own_files(times, sizes), nodes), "slow-node") == []


# ---- aggregators


def collective(
    movers: list[int], op: str = "MPI_File_write_at_all", inside: str = "PWRITE", time: float = 50
) -> list[list[Call]]:
    """Six ranks make ten collective calls; those of the movers make the system calls for all, in so many ms."""
    ranks = []
    for rank in range(6):
        calls = []
        for n in range(10):
            part = 6 * MIB // len(movers)
            beneath = (Call(inside, "/d/x", 90 * n + 1, time, part, (n * 6 + rank) * part),) if rank in movers else ()
            calls.append(Call(op, "/d/x", 90 * n, time + 10, MIB, (n * 6 + rank) * MIB, inside=beneath))
        ranks.append(calls)
    return ranks


@pytest.mark.parametrize(
    ("op", "inside", "what"),
    [("MPI_File_write_at_all", "PWRITE", "write"), ("MPI_File_read_at_all", "PREAD", "read")],
)
@pytest.mark.parametrize("movers", [[0], [2, 3]])
def test_few_aggregators(tmp_path: Path, op: str, inside: str, what: str, movers: list[int]) -> None:
    # GIVEN ranks on three nodes whose bytes go through one of them
    folder = write_job(tmp_path / "logs", collective(movers, op, inside), NODES)
    (finding,) = findings_in(folder, "few-aggregators")
    assert finding.title == f"collective calls on x {what} through 1 of 3 nodes"
    assert finding.evidence[0].values["bytes"] == 60 * MIB
    assert finding.remedy is not None and "'cb_nodes': '3'" in finding.remedy.after


@pytest.mark.parametrize(
    ("ranks", "nodes"),
    [
        (collective([0, 2, 4]), NODES),  # one on each node
        (collective([0, 2]), NODES),  # two of three
        (collective([0]), ["node1"] * 6),
        (collective([0], "MPI_File_write_at"), NODES),  # independent
        (collective([0], time=0.1), NODES),  # in no time
        ([[*one, Call("MPI_File_write_at", "/d/x", 950, 1, 100, 0)] for one in collective([0])], NODES),  # both kinds
    ],
)
def test_enough_aggregators(tmp_path: Path, ranks: list[list[Call]], nodes: list[str]) -> None:
    assert findings_in(write_job(tmp_path / "logs", ranks, nodes), "few-aggregators") == []
