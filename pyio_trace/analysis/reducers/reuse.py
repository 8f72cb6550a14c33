"""Bytes that were read again: by the same process, by another one, in another epoch, in another task.

Result: Reuse, whose rows are FileReuse.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pyio_trace.analysis.calls.code_texts import texts
from pyio_trace.analysis.calls.details import parse
from pyio_trace.analysis.calls.file_names import COLUMNS as NAME_COLUMNS
from pyio_trace.analysis.calls.file_names import FileNames
from pyio_trace.analysis.scan.columns import MEANING, Columns
from pyio_trace.analysis.sums.grouped_ranges import GroupedRanges, Ints, group_numbers, merged
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.analysis.sums.ranked import most_common
from pyio_trace.analysis.view_sums.key_sums import TOP
from pyio_trace.enums import TASKS
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log.sorting import distinct

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log

_FETCH = "DataLoader.fetch"
_MANY = 1 << 21
#: How many of the keys of ranges are given up when it is not known which processes touched them.
_WITHOUT_PROCESSES = 2
_MAY_BE_UNKNOWN = (
    "in_process_bytes", "other_process_bytes", "processes", "other_epoch_bytes", "other_task_bytes", "epochs", "tasks",
)  # fmt: skip


@dataclass(frozen=True)
class FileReuse:
    """The reads of one file.

    reads, read_bytes: of POSIX and C streams, that succeeded.  distinct_bytes:
    different ones; times: how often each was read, on average.  unplaced_bytes:
    read at an offset that is not known, and so in neither of these nor in the
    following.  again_bytes: placed bytes less distinct ones, and that is
    in_process_bytes (a process read them again) plus other_process_bytes (another
    process had read them).
    other_epoch_bytes: bytes that were read in several epochs of a DataLoader, once
    for each epoch but one; other_task_bytes: likewise in several tasks of Dask, Ray or
    a pool.  These two are parts of again_bytes.  processes, epochs, tasks: that read the
    file.  None: memory did not suffice to tell.  line: with most of the bytes.
    """

    SHOWN: ClassVar[tuple[str, ...]] = (
        "read_bytes", "distinct_bytes", "again_bytes", "in_process_bytes", "other_process_bytes", "other_epoch_bytes",
    )  # fmt: skip

    path: str
    line: str | None
    reads: int
    read_bytes: int
    distinct_bytes: int
    times: float | None
    unplaced_bytes: int
    again_bytes: int
    in_process_bytes: int | None
    other_process_bytes: int | None
    other_epoch_bytes: int | None
    other_task_bytes: int | None
    processes: int | None
    epochs: int | None
    tasks: int | None
    time_ns: int


@dataclass(frozen=True)
class Reuse:
    """rows: most bytes read again first.  The single figures are sums over all files; None: memory did not suffice to
    tell.  more: further files, with less; dropped: sums that did not fit into memory (0: all figures are exact; else
    they are lower bounds)."""

    read_bytes: int
    distinct_bytes: int
    again_bytes: int
    in_process_bytes: int | None
    other_process_bytes: int | None
    other_epoch_bytes: int | None
    other_task_bytes: int | None
    rows: list[FileReuse]
    more: int
    dropped: int


def _sums() -> GroupedSums:
    return GroupedSums(("file", "site"), dict.fromkeys(("bytes", "reads", "unplaced", "time"), "sum"), _MANY)


@dataclass
class Part:
    """What some batches contribute.  spans: id of a container -> codes of its operation and detail."""

    sums: GroupedSums = field(default_factory=_sums)
    ranges: GroupedRanges = field(default_factory=lambda: GroupedRanges(3))
    spans: GroupedSums = field(default_factory=lambda: GroupedSums(("id",), {"op": "max", "detail": "max"}, _MANY))
    names: FileNames = field(default_factory=FileNames)


class ReuseOfBytes:
    """The reducer."""

    columns: ClassVar[tuple[str, ...]] = tuple(
        dict.fromkeys(
            (
                *MEANING,
                "id",
                "in_flight",
                *NAME_COLUMNS,
                "bytes_moved",
                "file_offset",
                "errno",
                "process",
                "site",
                "task_id",
                "op",
                "detail",
            )
        )
    )

    def __init__(self, top: int = TOP, imports: bool = False) -> None:
        """top: rows of the result; imports: also what Python's imports read."""
        self.top, self.imports = top, imports

    def partial(self, batch: pa.RecordBatch) -> Part:
        part = Part()
        columns = Columns(batch)
        spans = np.flatnonzero(columns.of_words("op", (_FETCH, *TASKS)))
        codes = {name: columns.codes(name)[spans] for name in ("op", "detail")}
        part.spans.add({"id": columns.numbers("id")[spans], **codes})
        reads, _ = columns.transfers
        counted = reads & (columns.numbers("errno") == 0) & (columns.file != 0) & columns.ended & (columns.moved > 0)
        if not self.imports:
            counted &= ~columns.imported
        at = np.flatnonzero(counted)
        if not len(at):
            return part
        file, moved, offset = columns.file[at], columns.moved[at], columns.offset[at]
        placed = (offset >= 0) & (columns.calls[at] == 1)
        sums = {"bytes": moved, "reads": columns.calls[at], "unplaced": moved * ~placed, "time": columns.duration[at]}
        part.sums.add({"file": file, "site": columns.codes("site")[at], **sums})
        part.names.add(columns, at)
        known = at[placed]
        keys = columns.file[known], columns.numbers("process", -1)[known], columns.numbers("task_id")[known]
        part.ranges.add(keys, offset[placed], offset[placed] + moved[placed])
        return part

    def combine(self, part: Part, later: Part) -> Part:
        for name in ("sums", "ranges", "spans", "names"):
            getattr(part, name).update(getattr(later, name))
        return part

    def finish(self, part: Part | None, log: Log) -> Reuse:
        part = part or Part()
        sums = part.sums.columns()
        files = distinct(sums["file"])
        (file, process, task), starts, ends = _of_files(files, *part.ranges.ranges())
        kind, epoch = _of_tasks(part.spans, task, log)
        is_epoch, is_task = kind == _IS_EPOCH, kind == _IS_TASK
        touched = _Touched(files, file, starts, ends)
        touched_bytes = touched.total(None)
        figures = {
            "read_bytes": _by(files, sums["file"], sums["bytes"]),
            "unplaced_bytes": _by(files, sums["file"], sums["unplaced"]),
            "reads": _by(files, sums["file"], sums["reads"]),
            "time_ns": _by(files, sums["file"], sums["time"]),
            "distinct_bytes": touched_bytes,
        }
        placed = figures["read_bytes"] - figures["unplaced_bytes"]
        figures["again_bytes"] = np.maximum(placed - touched_bytes, 0)  # negative where sums were dropped
        if part.ranges.given_up < _WITHOUT_PROCESSES:
            by_process = touched.total(process)
            figures["in_process_bytes"] = np.maximum(placed - by_process, 0)
            figures["other_process_bytes"] = by_process - touched_bytes
            figures["processes"] = touched.number(process)
        if not part.ranges.given_up:
            figures["epochs"], figures["tasks"] = touched.number(epoch, is_epoch), touched.number(task, is_task)
            figures["other_epoch_bytes"] = touched.total(epoch, is_epoch) - touched.total(None, is_epoch)
            figures["other_task_bytes"] = touched.total(task, is_task) - touched.total(None, is_task)
        return self._result(part, files, figures, sums, log)

    def _result(self, part: Part, files: Ints, figures: dict[str, Ints], sums: dict[str, Ints], log: Log) -> Reuse:
        order = np.lexsort((files, -figures["read_bytes"], -figures["again_bytes"]))[: self.top]
        lines = most_common((sums["file"],), sums["site"], sums["bytes"], 1)
        site = np.array([lines[file,][0][0] for file in files[order].tolist()], np.int64)
        rows = []
        named = zip(part.names.of(files[order], log), texts(log, "site", site), order.tolist(), strict=True)
        for path, line, at in named:
            values: dict[str, Any] = dict.fromkeys(_MAY_BE_UNKNOWN)
            values |= {name: int(one[at]) for name, one in figures.items()}
            placed = values["read_bytes"] - values["unplaced_bytes"]
            times = placed / values["distinct_bytes"] if values["distinct_bytes"] else None
            rows.append(FileReuse(path=path, line=line, times=times, **values))
        whole: dict[str, Any] = {
            name: int(figures[name].sum()) if name in figures else None
            for name in Reuse.__dataclass_fields__
            if name.endswith("_bytes")
        }
        dropped = part.sums.dropped + part.spans.dropped
        return Reuse(rows=rows, more=len(files) - len(rows), dropped=dropped, **whole)


_IS_NONE, _IS_EPOCH, _IS_TASK = range(3)


def _of_files(files: Ints, columns: tuple[Ints, ...], starts: Ints, ends: Ints) -> tuple[tuple[Ints, ...], Ints, Ints]:
    """The ranges of these files (ascending identities): the sums of others may have been dropped."""
    at = np.flatnonzero(np.isin(columns[0], files))
    return tuple(column[at] for column in columns), starts[at], ends[at]


class _Touched:
    """Placed ranges of files (ascending identities)."""

    def __init__(self, files: Ints, file: Ints, starts: Ints, ends: Ints) -> None:
        self._files, self._file, self._starts, self._ends = files, file, starts, ends

    def total(self, key: Ints | None, chosen: Ints | None = None) -> Ints:
        """By file, the distinct bytes of each value of a key, added up; chosen: the ranges to look at, None: all."""
        at = np.arange(len(self._file)) if chosen is None else np.flatnonzero(chosen)
        columns = (self._file[at],) if key is None else (self._file[at], key[at])
        (file, *_), starts, ends = merged(columns, self._starts[at], self._ends[at])
        return _by(self._files, file, ends - starts)

    def number(self, key: Ints, chosen: Ints | None = None) -> Ints:
        """By file, how many values of a key there are."""
        at = np.arange(len(self._file)) if chosen is None else np.flatnonzero(chosen)
        file = self._file[at]
        _, pairs = group_numbers((file, key[at]))
        return _by(self._files, file[pairs], np.ones(len(pairs), np.int64))


def _by(files: Ints, file: Ints, values: Ints) -> Ints:
    sums = np.zeros(len(files), np.int64)
    np.add.at(sums, np.searchsorted(files, file), values)
    return sums


def _of_tasks(spans: GroupedSums, task: Ints, log: Log) -> tuple[Ints, Ints]:
    """(by range: whether it was read in a fetch of a known epoch, another task, or neither; number of the epoch)."""
    found = spans.columns()
    at = np.minimum(np.searchsorted(found["id"], task), max(len(found["id"]) - 1, 0))
    known = found["id"][at] == task if len(found["id"]) else np.zeros(len(task), np.bool_)
    ops = texts(log, "op", found["op"])
    epochs: dict[tuple[str, int], int] = defaultdict(lambda: len(epochs))
    of_span = np.full(len(ops) + 1, -1, np.int64)
    details = distinct(found["detail"])
    parsed = dict(zip(details.tolist(), map(_epoch, texts(log, "detail", details)), strict=True))
    for number, (op, detail) in enumerate(zip(ops, found["detail"].tolist(), strict=True)):
        key = parsed[detail]
        if op == _FETCH and key is not None:
            of_span[number] = epochs[key]
    fetch = np.array([*(op == _FETCH for op in ops), False], np.bool_)
    place = np.where(known, at, len(ops))
    epoch = of_span[place]
    kind = np.where(epoch >= 0, _IS_EPOCH, np.where(known & ~fetch[place], _IS_TASK, _IS_NONE))
    return kind, epoch


def _epoch(detail: str | None) -> tuple[str, int] | None:
    """(loader, epoch) of the detail of a fetch."""
    found = parse(detail)
    loader, epoch = found.get("loader"), found.get("epoch")
    return (loader, epoch) if isinstance(loader, str) and isinstance(epoch, int) else None


REDUCER = ReuseOfBytes
