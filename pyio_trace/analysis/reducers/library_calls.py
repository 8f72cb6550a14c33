"""Calls of libraries, one by one: outermost requests, waits, tasks and syncs, with what went on beneath each.

The rules on libraries need more than sums: which batch was waited for, which
selection was read, which task read which file.  So each call is kept, as numbers
in arrays, with the sums of the system calls beneath it.  Calls of Python's file
objects are not kept, as there may be very many; those in tasks are summed by line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.scan.columns import MEANING, Columns
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.enums import FILE_OBJECTS, Layer, OpClass, Role
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log.sorting import find

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]

#: Calls that are kept; `dropped` counts the others.
_MOST = 1 << 21
_FILE_OBJECTS = ("open", *FILE_OBJECTS)
_KEPT_ROLES = (Role.WAIT, Role.CONTAINER, Role.STARTING)
#: Of a call: what is kept of its row.
_OWN = ("id", "op", "process", "tid", "time", "duration", "cpu", "asked", "site", "path", "task", "detail", "role",
        "calls")  # fmt: skip
#: Of the calls beneath it: ns in transfers and metadata, ns in syncs and locks, bytes, numbers of calls.
_BENEATH = ("io_ns", "sync_ns", "read", "written", "reads", "writes", "opens", "others")
_LINE = ("task", "site", "op")
_WORDS = ("op", "site", "path", "detail")


@dataclass
class Part:
    """What some batches contribute.  beneath: by outermost request; lines: of file objects' calls in tasks."""

    calls: list[dict[str, Ints]] = field(default_factory=list)
    kept: int = 0
    dropped: int = 0
    beneath: GroupedSums = field(default_factory=lambda: GroupedSums(("request",), dict.fromkeys(_BENEATH, "sum")))
    lines: GroupedSums = field(
        default_factory=lambda: GroupedSums(_LINE, {"time": "sum", "io_ns": "sum", "count": "sum"}, _MOST)
    )


class CallList:
    """The rows of calls, an element each, in the order of id.

    op, site, path, detail: indexes into the lists ops, sites, paths, details, -1
    none; role: of enums.Role; process: index, -1 none; time: epoch ns; duration,
    cpu (of the thread, -1 not measured), io_ns, sync_ns: ns; asked, read, written:
    bytes (asked -1: none); reads, writes, opens, others: calls beneath; task: id
    of the container around it in its process, 0 none; calls: how many calls the row
    stands for, several in mode profile.  A sync outside of any
    request is a call, too.  lines: time, io_ns and count of file objects' calls
    and system calls in tasks, by task, site and op.  dropped: calls beyond those
    kept.
    """

    def __init__(
        self, words: Mapping[str, list[str]], columns: dict[str, Ints], lines: dict[str, Ints], dropped: int
    ) -> None:
        """words: the dictionaries of the columns op, site, path and detail."""
        self.words, self.columns, self.lines, self.dropped = words, columns, lines, dropped
        self.ops, self.sites, self.paths, self.details = (words[name] for name in _WORDS)

    def __len__(self) -> int:
        return len(self.columns["id"])

    def __getitem__(self, name: str) -> Ints:
        return self.columns[name]

    def of(self, *ops: str) -> Ints:
        """Where the calls of these operations are; a name that ends in "." or "_" stands for all that begin so."""
        wanted = [n for n, op in enumerate(self.ops) if op in ops or op.startswith(_prefixes(ops))]
        return np.flatnonzero(np.isin(self.columns["op"], wanted))

    def site_of(self, at: int) -> str | None:
        """The line of a call."""
        code = int(self.columns["site"][at])
        return self.sites[code] if code >= 0 else None

    def path_of(self, at: int) -> str | None:
        """The path of a call."""
        code = int(self.columns["path"][at])
        return self.paths[code] if code >= 0 else None


def _prefixes(ops: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(op for op in ops if op.endswith((".", "_")))


@dataclass(frozen=True)
class LibraryCalls:
    """The reducer."""

    columns: ClassVar[tuple[str, ...]] = (
        *MEANING, "id", "time", "duration", "op", "process", "tid", "path", "bytes_moved", "site", "detail",
        "request_id", "task_id", "cpu_time",
    )  # fmt: skip

    def partial(self, batch: pa.RecordBatch) -> Part:
        part, columns = Part(), Columns(batch)
        ids, request, task = columns.numbers("id"), columns.numbers("request_id"), columns.numbers("task_id")
        role, leaf = columns.role, columns.leaf
        files = np.array([*(op.startswith(_FILE_OBJECTS) for op in columns.words("op")), False])[columns.codes("op")]
        outer = columns.outer & (role == Role.REQUEST)
        alone = columns.outer & (role == Role.SYNC)
        kept = (outer & ~(files & (columns.layer == Layer.APP))) | alone | np.isin(role, _KEPT_ROLES)
        self._keep(part, columns, np.flatnonzero(kept & ~columns.imported))
        beneath = np.flatnonzero(leaf & (request > 0) & ~columns.imported)
        # Most calls beneath a file object's call are in the same batch as it.  Their sums would be dropped in finish().
        _, of_file = find(np.sort(ids[outer & ~kept]), request[beneath])
        self._beneath(part, columns, beneath[~of_file])
        in_tasks = (task > 0) & ~columns.imported & (outer | leaf)
        self._lines(part, columns, np.flatnonzero(in_tasks), outer | (request == 0))
        return part

    def _keep(self, part: Part, columns: Columns, at: Ints) -> None:
        part.dropped = max(len(at) - _MOST, 0)
        at = at[:_MOST]
        part.kept = len(at)
        if len(at):
            numbers, codes = columns.numbers, columns.codes
            values: dict[str, NDArray[Any]] = {
                "id": numbers("id"), "op": codes("op"), "process": numbers("process", -1), "tid": numbers("tid"),
                "time": columns.time, "duration": columns.duration, "cpu": numbers("cpu_time", -1),
                "asked": numbers("bytes_moved", -1), "site": codes("site"), "path": codes("path"),
                "task": numbers("task_id"), "detail": codes("detail"), "role": columns.role, "calls": columns.calls,
            }  # fmt: skip
            part.calls.append({name: values[name].take(at).astype(np.int64) for name in _OWN})

    def _beneath(self, part: Part, columns: Columns, at: Ints) -> None:
        if not len(at):
            return
        kind, role, request = columns.kind[at], columns.role[at], columns.numbers("request_id")
        duration, moved, count = columns.duration[at], columns.moved[at], columns.calls[at]
        sync = (role == Role.SYNC) | (role == Role.LOCK)
        reads, writes, opens = ((kind == one) & ~sync for one in (OpClass.READ, OpClass.WRITE, OpClass.OPEN))
        part.beneath.add(
            {
                "request": request[at], "io_ns": duration * (role == Role.IO), "sync_ns": duration * sync,
                "read": moved * reads, "written": moved * writes, "reads": count * reads, "writes": count * writes,
                "opens": count * opens, "others": count * ~(reads | writes | opens),
            }
        )  # fmt: skip

    def _lines(self, part: Part, columns: Columns, at: Ints, outer: NDArray[np.bool_]) -> None:
        if not len(at):
            return
        duration = columns.duration[at]
        part.lines.add(
            {
                "task": columns.numbers("task_id")[at], "site": columns.codes("site")[at],
                "op": np.where(outer[at], columns.codes("op")[at], -1), "time": duration * outer[at],
                "io_ns": duration * columns.leaf[at], "count": columns.calls[at] * outer[at],
            }
        )  # fmt: skip

    def combine(self, part: Part, later: Part) -> Part:
        room = max(_MOST - part.kept, 0)
        for calls in later.calls:
            taken = {name: values[:room] for name, values in calls.items()}
            part.calls.append(taken)
            size = len(taken["id"])
            part.dropped += len(calls["id"]) - size
            part.kept, room = part.kept + size, room - size
        part.dropped += later.dropped
        part.beneath.update(later.beneath)
        part.lines.update(later.lines)
        return part

    def finish(self, part: Part | None, log: Log) -> CallList:
        part = part or Part()
        empty = np.zeros(0, np.int64)
        columns = {name: np.concatenate([empty, *(calls[name] for calls in part.calls)]) for name in _OWN}
        order = np.argsort(columns["id"], kind="stable")
        columns = {name: values[order] for name, values in columns.items()}
        below = part.beneath.columns()
        at, there = find(below["request"], columns["id"])
        for name in _BENEATH:
            columns[name] = np.where(there, below[name][at] if len(below["request"]) else 0, 0)
        alone = columns["role"] == Role.SYNC
        columns["sync_ns"] = np.where(alone, columns["duration"], columns["sync_ns"])
        words = {name: [text or "" for text in log.dictionary(name).to_pylist()] for name in _WORDS}
        return CallList(words, columns, part.lines.columns(), part.dropped)


REDUCER = LibraryCalls
