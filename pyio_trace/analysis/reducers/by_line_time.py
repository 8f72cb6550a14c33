"""Wall time by line of the program, from samples: I/O, processor by library function, waits.

Result: LineTimes, whose rows are LineTime.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.results.line_time import LineTimes
from pyio_trace.analysis.scan.columns import MEANING, Columns
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.analysis.sums.time_bins import TimeBins
from pyio_trace.analysis.view_sums.key_sums import TOP
from pyio_trace.analysis.view_sums.line_times import line_times
from pyio_trace.enums import POOL_TASK, THREAD_TASK, Role
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log

#: Stretches of time in which calls of a thread are summed, how narrow they are (2 ** 20 ns), and sums that are kept.
_BINS, _NARROWEST, _MOST = 1 << 13, 20, 1 << 21


@dataclass
class Part:
    """What some batches contribute: time in calls on files by thread and time, and by line and stack; time in tasks of
    pools by thread and time."""

    when: TimeBins = field(
        default_factory=lambda: TimeBins(("process", "thread"), (), _BINS, _MOST, narrowest=_NARROWEST)
    )
    where: GroupedSums = field(
        default_factory=lambda: GroupedSums(("site", "stack"), {"io": "sum", "sync": "sum", "calls": "sum"}, _MOST)
    )
    tasks: TimeBins = field(
        default_factory=lambda: TimeBins(
            ("process", "thread", "site", "detail"), ("count",), _BINS, _MOST, narrowest=_NARROWEST
        )
    )


@dataclass(frozen=True)
class ByLineTime:
    """The reducer.  top: rows of the result."""

    top: int = TOP

    #: Its result needs all calls of a process (Log.has_whole_processes).
    whole_processes: ClassVar[bool] = True
    columns: ClassVar[tuple[str, ...]] = (
        *MEANING, "time", "duration", "process", "tid", "site", "call_stack", "in_import", "op", "detail",
    )  # fmt: skip

    def partial(self, batch: pa.RecordBatch) -> Part:
        part, columns = Part(), Columns(batch)
        _add_tasks(part.tasks, columns)
        counted = columns.leaf & np.isin(columns.role, (Role.IO, Role.SYNC, Role.LOCK)) & (columns.duration > 0)
        at = np.flatnonzero(counted & ~columns.imported & ~columns.truths("in_import"))
        if not len(at):
            return part
        duration, io = columns.duration[at], columns.role[at] == Role.IO
        threads: dict[str, NDArray[np.int64]] = {
            "process": columns.numbers("process", -1)[at], "thread": columns.numbers("tid")[at],
        }  # fmt: skip
        part.when.add(threads, columns.time[at], columns.end[at], {})
        part.where.add(
            {
                "site": columns.codes("site")[at], "stack": columns.codes("call_stack")[at], "io": duration * io,
                "sync": duration * ~io, "calls": columns.calls[at],
            }
        )  # fmt: skip
        return part

    def combine(self, part: Part, later: Part) -> Part:
        part.when.update(later.when)
        part.where.update(later.where)
        part.tasks.update(later.tasks)
        return part

    def finish(self, part: Part | None, log: Log) -> LineTimes:
        part = part or Part()
        return line_times(log, part.when, part.where, part.tasks, self.top)


def _add_tasks(tasks: TimeBins, columns: Columns) -> None:
    """The line that submitted a task of a process pool is in its detail; a thread's task has it as its site."""
    of_processes = columns.of_words("op", (POOL_TASK,))
    at = np.flatnonzero((of_processes | columns.of_words("op", (THREAD_TASK,))) & (columns.duration > 0))
    if not len(at):
        return
    site, detail = columns.codes("site")[at], columns.codes("detail")[at]
    keys: dict[str, NDArray[np.int64]] = {
        "process": columns.numbers("process", -1)[at], "thread": columns.numbers("tid")[at],
        "site": np.where(of_processes[at], -1, site), "detail": np.where(of_processes[at], detail, -1),
    }  # fmt: skip
    tasks.add(keys, columns.time[at], columns.end[at], {"count": columns.calls[at]})


REDUCER = ByLineTime
