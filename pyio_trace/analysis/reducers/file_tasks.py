"""Which task read how much of which file.

Result: FileTasks, whose rows are FileTask.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pyio_trace.analysis.calls.details import parsed, text
from pyio_trace.analysis.calls.file_names import COLUMNS as NAME_COLUMNS
from pyio_trace.analysis.calls.file_names import FileNames
from pyio_trace.analysis.scan.columns import MEANING, Columns
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.analysis.view_sums.key_sums import TOP
from pyio_trace.enums import TASKS
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log.sorting import distinct

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log

_MANY = 1 << 20


@dataclass(frozen=True)
class FileTask:
    """What one task of Dask, Ray or a pool read of one file.

    task: its number, in the order in which tasks began; name: Dask's prefix, Ray's name, the function in a pool.
    reads, read_bytes, time_ns: of calls of POSIX and C streams that succeeded.
    """

    path: str
    task: int
    name: str
    reads: int
    read_bytes: int
    time_ns: int


@dataclass(frozen=True)
class FileTasks:
    """rows: by path and task.  tasks: how many read files; more: further rows; dropped: sums that did not fit into
    memory (0: all figures are exact)."""

    tasks: int
    rows: list[FileTask]
    more: int
    dropped: int


@dataclass
class Part:
    """What some batches contribute.  tasks: id -> codes of its detail, and when it began."""

    sums: GroupedSums = field(
        default_factory=lambda: GroupedSums(("file", "task"), dict.fromkeys(("bytes", "reads", "time"), "sum"), _MANY)
    )
    tasks: GroupedSums = field(default_factory=lambda: GroupedSums(("id",), {"begin": "max", "detail": "max"}, _MANY))
    names: FileNames = field(default_factory=FileNames)


class TasksOfFiles:
    """The reducer."""

    columns: ClassVar[tuple[str, ...]] = tuple(
        dict.fromkeys(
            (*MEANING, *NAME_COLUMNS, "id", "time", "duration", "bytes_moved", "errno", "in_flight", "task_id", "op",
             "detail")
        )
    )  # fmt: skip

    def __init__(self, top: int = TOP, imports: bool = False) -> None:
        """top: rows of the result; imports: also what Python's imports read."""
        self.top, self.imports = top, imports

    def partial(self, batch: pa.RecordBatch) -> Part:
        part, columns = Part(), Columns(batch)
        ids, task = columns.numbers("id"), columns.numbers("task_id")
        tasks = np.flatnonzero(columns.of_words("op", TASKS))
        part.tasks.add({"id": ids[tasks], "begin": columns.time[tasks], "detail": columns.codes("detail")[tasks]})
        counted = columns.transfers[0] & (columns.moved > 0) & columns.ended & (columns.file != 0) & (task != 0)
        if not self.imports:
            counted &= ~columns.imported
        at = np.flatnonzero(counted)
        keys = {"file": columns.file[at], "task": task[at]}
        part.sums.add(keys | {"bytes": columns.moved[at], "reads": columns.calls[at], "time": columns.duration[at]})
        part.names.add(columns, at)
        return part

    def combine(self, part: Part, later: Part) -> Part:
        for name in ("sums", "tasks", "names"):
            getattr(part, name).update(getattr(later, name))
        return part

    def finish(self, part: Part | None, log: Log) -> FileTasks:
        part = part or Part()
        sums, tasks = part.sums.columns(), part.tasks.columns()
        known = np.isin(sums["task"], tasks["id"])  # other containers are no tasks: a fetch of a DataLoader
        sums = {name: values[known] for name, values in sums.items()}
        used = np.flatnonzero(np.isin(tasks["id"], sums["task"]))
        order = used[np.lexsort((tasks["id"][used], tasks["begin"][used]))]
        details = parsed(log, tasks["detail"][order])
        about = {
            one: (number, text(details[detail], "prefix") or text(details[detail], "name") or "")
            for number, (one, detail) in enumerate(
                zip(tasks["id"][order].tolist(), tasks["detail"][order].tolist(), strict=True)
            )
        }
        files = distinct(sums["file"])
        path = dict(zip(files.tolist(), part.names.of(files, log), strict=True))
        columns = (sums[name].tolist() for name in ("file", "task", "reads", "bytes", "time"))
        rows = [FileTask(path[file], *about[task], *rest) for file, task, *rest in zip(*columns, strict=True)]
        rows.sort(key=lambda row: (row.path, row.task))
        dropped = part.sums.dropped + part.tasks.dropped
        return FileTasks(len(order), rows[: self.top], max(len(rows) - self.top, 0), dropped)


REDUCER = TasksOfFiles
