"""The reducer of details that the summary needs: data loaders' calls, renames, names of tasks, sizes within sums."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.calls import sum_details
from pyio_trace.analysis.calls.details import Detail, of_rows, parse
from pyio_trace.analysis.calls.renamings import Renamings
from pyio_trace.analysis.scan.columns import Columns
from pyio_trace.analysis.sums.size_histogram import AccessSizes
from pyio_trace.analysis.view_sums.loader_calls import OPS as LOADER_OPS
from pyio_trace.analysis.view_sums.loader_calls import Call
from pyio_trace.enums import TASKS
from pyio_trace.join.base.arrow_arrays import codes, numbers
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log

RENAMES = ("rename", "renameat", "renameat2")
#: Tasks that are looked at one by one; a run of more has many of each name, and takes long to read.
MOST_TASKS = 100_000
#: Calls of data loaders that are looked at; of more, the first.
MOST_LOADER_CALLS = 4_000_000


@dataclass(frozen=True)
class TaskCall:
    """A row of a task: its id and name, the index of its process, its duration and processor time in ns (0: not known),
    and how many tasks it stands for: several in mode profile."""

    id: int
    name: str
    process: int | None
    duration: int
    cpu_time: int
    count: int


@dataclass
class Details:
    """loader_calls, tasks: in the order of the log, as many as are looked at; tasks_left_out: how many more tasks there
    are; renames: name -> the names that files got which had it; renamed: those of each file; reads, writes: sizes of
    transfers that have no row of their own."""

    loader_calls: list[Call] = field(default_factory=list)
    renames: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    renamed: Renamings = field(default_factory=Renamings)
    tasks: list[TaskCall] = field(default_factory=list)
    tasks_left_out: int = 0
    reads: AccessSizes = field(default_factory=AccessSizes)
    writes: AccessSizes = field(default_factory=AccessSizes)


@dataclass(frozen=True)
class DetailRows:
    """The reducer.

    ops: which operations to look at, of LOADER_OPS, RENAMES and TASKS; sums:
    whether there are rows for several transfers.
    """

    columns: ClassVar[tuple[str, ...]] = (
        "id", "layer", "op", "op_class", "process", "time", "duration", "path", "site", "calls", "detail", "cpu_time",
        "file", "errno",
    )  # fmt: skip

    ops: frozenset[str]
    sums: bool

    def __bool__(self) -> bool:
        """Whether there is anything to look at."""
        return bool(self.ops) or self.sums

    def partial(self, batch: pa.RecordBatch) -> Details:
        found = Details()
        self._add_named(found, batch)
        found.renamed.add(Columns(batch))
        if self.sums:
            self._add_sizes(found, batch)
        return found

    def combine(self, part: Details, later: Details) -> Details:
        part.loader_calls += later.loader_calls[: MOST_LOADER_CALLS - len(part.loader_calls)]
        for name, later_names in later.renames.items():
            part.renames[name] |= later_names
        part.renamed.update(later.renamed)
        room = MOST_TASKS - len(part.tasks)
        part.tasks += later.tasks[:room]
        part.tasks_left_out += later.tasks_left_out + sum(one.count for one in later.tasks[room:])
        part.reads.update(later.reads)
        part.writes.update(later.writes)
        return part

    def finish(self, part: Details | None, log: Log) -> Details:
        return part or Details()

    def _add_named(self, found: Details, batch: pa.RecordBatch) -> None:
        for row in _rows(batch, _coded(batch, "op", self.ops)):
            if row.op in RENAMES:
                to = row.detail.get("to")
                if row.path is not None and isinstance(to, str):
                    found.renames[row.path].add(to)
            elif row.op in TASKS:
                if len(found.tasks) < MOST_TASKS:
                    name = _name(row.op, row.detail)
                    found.tasks.append(TaskCall(row.id, name, row.process, row.duration, row.cpu, row.calls))
                else:
                    found.tasks_left_out += row.calls
            elif row.op in LOADER_OPS and row.process is not None and len(found.loader_calls) < MOST_LOADER_CALLS:
                found.loader_calls.append(Call(row.op, row.process, row.time, row.duration, row.detail, row.line))

    def _add_sizes(self, found: Details, batch: pa.RecordBatch) -> None:
        several = (numbers(batch.column("calls")) > 1) & _coded(batch, "layer", {"posix"})
        for op_class, sizes in (("read", found.reads), ("write", found.writes)):
            at = np.flatnonzero(several & _coded(batch, "op_class", {op_class}))
            for one in of_rows(batch.column("detail"), at, sum_details.parse):
                sizes.add_sum(one.sizes, one.common)


class _Row(NamedTuple):
    id: int
    op: str
    process: int | None
    time: int
    duration: int
    cpu: int
    calls: int
    path: str | None
    line: str | None
    detail: Detail


def _rows(batch: pa.RecordBatch, mask: NDArray[np.bool_]) -> Iterator[_Row]:
    """The rows of the mask, of which a log has few."""
    at = np.flatnonzero(mask)
    if not len(at):
        return
    process: list[int | None] = [one if one >= 0 else None for one in numbers(batch["process"], -1)[at].tolist()]
    names = ("id", "time", "duration", "cpu_time", "calls")
    ids, times, durations, cpu, calls = (np.maximum(numbers(batch[name])[at], 0).tolist() for name in names)
    ops = of_rows(batch["op"], at, str)
    paths, lines = (of_rows(batch[name], at, lambda text: text) for name in ("path", "site"))
    details = of_rows(batch["detail"], at, parse)
    yield from map(_Row, ids, ops, process, times, durations, cpu, calls, paths, lines, details)


def _name(op: str, detail: Detail) -> str:
    """What a task is called: Dask says prefix or function, Ray says name."""
    return str(detail.get("prefix") or detail.get("name") or detail.get("function") or op)


def _coded(batch: pa.RecordBatch, column: str, words: frozenset[str] | set[str]) -> NDArray[np.bool_]:
    """Which rows have one of these words."""
    known = [word in words for word in batch.column(column).dictionary.to_pylist()]
    found: NDArray[np.bool_] = np.array([*known, False], np.bool_).take(codes(batch.column(column)))
    return found
