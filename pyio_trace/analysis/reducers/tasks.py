"""Tasks of Dask, Ray and pools, one row each, with the I/O in them.

Result: Tasks, whose rows are Task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pyio_trace.analysis.calls.code_texts import texts
from pyio_trace.analysis.calls.details import parsed, text
from pyio_trace.analysis.view_sums.key_sums import TOP, processes_called
from pyio_trace.analysis.view_sums.span_sums import COLUMNS, SpanSums
from pyio_trace.enums import TASKS, THREAD_TASK
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log


@dataclass(frozen=True)
class Task:
    """One execution of a task; in mode profile, several of them, which a row stands for.

    key: Dask's key, Ray's task id, a name of ours in a process pool, "" in a thread
    pool.  name: Dask's prefix, Ray's name, the function in a pool.  process: in
    which it ran; thread: its number in the system.  line: that submitted it to a
    pool; None: not known.  begin_ns: since the start of the run.  time_ns: its
    duration; ended: whether it has one.  cpu_ns: processor time of its thread,
    None: not known.  calls, io_ns, sync_ns, lock_ns, read_bytes, written_bytes: of
    POSIX and C streams in it; request_ns: of its outermost requests.  failed: it raised.
    """

    SHOWN: ClassVar[tuple[str, ...]] = ("name", "time_ns", "io_ns", "request_ns", "read_bytes", "written_bytes")

    key: str
    name: str
    op: str
    process: str
    thread: int
    line: str | None
    begin_ns: int
    time_ns: int
    ended: bool
    cpu_ns: int | None
    calls: int
    io_ns: int
    sync_ns: int
    lock_ns: int
    request_ns: int
    read_bytes: int
    written_bytes: int
    failed: bool


@dataclass(frozen=True)
class Tasks:
    """rows: longest first.  count, time_ns: of all tasks.  more: further rows; dropped: tasks and sums that did not fit
    into memory (0: all figures are exact)."""

    count: int
    time_ns: int
    rows: list[Task]
    more: int
    dropped: int


class TasksOfRun:
    """The reducer."""

    columns: ClassVar[tuple[str, ...]] = COLUMNS

    def __init__(self, top: int = TOP) -> None:
        """top: rows of the result."""
        self.top = top

    def partial(self, batch: pa.RecordBatch) -> SpanSums:
        part = SpanSums()
        part.add(batch, TASKS)
        return part

    def combine(self, part: SpanSums, later: SpanSums) -> SpanSums:
        part.update(later)
        return part

    def finish(self, part: SpanSums | None, log: Log) -> Tasks:
        part = part or SpanSums()
        spans = part.joined()
        order = np.lexsort((spans["time"], -spans["duration"]))[: self.top]
        chosen = {name: values[order] for name, values in spans.items()}
        details = parsed(log, chosen["detail"])
        start = int(log.info()["start"])
        named = zip(texts(log, "op", chosen["op"]), processes_called(log, chosen["process"]), strict=True)
        lines = texts(log, "site", chosen["site"])
        rows = []
        for place, (op, process) in enumerate(named):
            one = {name: int(values[place]) for name, values in chosen.items()}
            about = details[one["detail"]]
            rows.append(
                Task(
                    key=text(about, "key") or text(about, "task") or "", op=op or "",
                    name=text(about, "prefix") or text(about, "name") or "", process=process or "",
                    thread=one["thread"], line=lines[place] if op == THREAD_TASK else text(about, "submitted"),
                    begin_ns=one["time"] - start, time_ns=one["duration"], ended=bool(one["ended"]),
                    cpu_ns=one["cpu"] if one["cpu"] >= 0 else None, calls=one["calls"], io_ns=one["io"],
                    sync_ns=one["sync"], lock_ns=one["lock"], request_ns=one["request_time"], read_bytes=one["read"],
                    written_bytes=one["written"], failed="failed" in about or "raised" in about,
                )
            )  # fmt: skip
        count, time = int(spans["count"].sum()), int(spans["duration"].sum())
        return Tasks(count, time, rows, len(spans["id"]) - len(rows), part.dropped)


REDUCER = TasksOfRun
