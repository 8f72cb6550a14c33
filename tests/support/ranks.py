"""Logs of a parallel job made by hand: one for each rank, with the calls that a test says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pyio_trace.insights import insights, registry
from pyio_trace.insights.finding import Finding
from pyio_trace.insights.settings import Settings
from pyio_trace.join.sources.opening import open_log
from pyio_trace.log import layout
from tests.support.findings import check
from tests.support.logwriter import LogWriter

MS = 1_000_000


class Call(NamedTuple):
    """A call of one rank.  begin, duration: ms; detail: JSON, of a call that has one; inside: calls that it makes."""

    op: str
    path: str
    begin: float
    duration: float
    size: int = 0
    offset: int = -1
    line: int = 10
    detail: str = ""
    inside: tuple[Call, ...] = ()


def write_job(
    folder: Path, ranks: Sequence[Sequence[Call]], nodes: Sequence[str] = (), wall: float = 1000, helpers: int = 0
) -> Path:
    """A folder with a live log of each rank; nodes: of each rank; wall: ms; helpers: processes without calls in the log
    of each rank, beside the rank itself.  Returns the folder."""
    folder.mkdir()
    for rank, calls in enumerate(ranks):
        writer = LogWriter(host=nodes[rank] if nodes else "node1")
        writer.header["run_id"] = rank + 1
        process = writer.process(
            100 + rank, argv=["python", "/w/job.py"], version="3.11.7", begin=0, end=round(wall * MS),
            end_kind=layout.END_EXIT, global_rank=rank + 1, world_size=len(ranks),
            node=writer.string(nodes[rank]) if nodes else 0,
        )  # fmt: skip
        for helper in range(helpers):
            writer.process(
                1000 + rank * helpers + helper, version="3.11.7", begin=MS, end=2 * MS,
                end_kind=layout.END_EXIT, global_rank=rank + 1, world_size=len(ranks),
            )  # fmt: skip
        thread = writer.thread(process, 100 + rank)
        for call in calls:
            _write(writer, thread, call, 0)
        writer.save(folder / f"rank{rank}.pyio")
    return folder


def _write(writer: LogWriter, thread, call: Call, parent: int) -> None:  # type: ignore[no-untyped-def]
    stack = writer.stack((writer.code("/w/job.py", "main"), call.line))
    moved = {"size": call.size, "result": call.size} if call.size else {"result": 0}
    op = call.op
    if op.startswith("MPI_File_"):
        where = {
            "desc": writer.string(call.path),
            "aux": writer.string(call.detail or "{}", writer.string(op)),
            "offset": call.offset,
        }
        op = "MPI_FILE_READ" if "read" in op else "MPI_FILE_WRITE"
    elif op.startswith("H5"):
        where = {"desc": writer.string(call.path), "aux": 0, "offset": writer.string(call.detail) if call.detail else 0}
    elif call.op in ("OPEN", "STAT"):
        where = {"desc": writer.string(call.path), "aux": 0}
    else:
        where = {
            "desc": writer.desc(3, call.path, kind=1, dev=1, ino=abs(hash(call.path)) % 1000 + 1),
            "aux": 3,
            "offset": call.offset,
        }
    identity = thread.record(
        op, begin=round(call.begin * MS), duration=round(call.duration * MS), stack=stack, parent=parent,
        link=1 if parent else 0, **where, **moved,
    )  # fmt: skip
    for one in call.inside:
        _write(writer, thread, one, identity)


def findings_in(folder: Path, slug: str) -> list[Finding]:
    """What a rule finds in a folder of logs, by its own thresholds; no rule failed."""
    log = open_log(folder)
    _, found = insights.find(log, registry.found(), Settings())
    assert found.failed == {}
    for finding in found.findings:
        check(finding, log)
    return [one for one in found.findings if one.slug == slug]
