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

from pyio_trace.analysis.scan.batch_rows import addable, places
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.enums import CLASSES, FILE_OBJECTS, LAYERS, ROLES, Layer, OpClass, Role
from pyio_trace.join.base.arrow_arrays import codes, numbers, truths
from pyio_trace.join.base.roles import LEAVES
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log.sorting import find

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]

#: Calls that are kept; `dropped` counts the others.
_MOST = 1 << 21
_LONGEST, _FARTHEST = 1 << 58, 1 << 62  # ns
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
        "id", "time", "duration", "layer", "op", "op_class", "process", "tid", "path", "bytes_moved", "site", "calls",
        "detail", "op_role", "request_id", "task_id", "cpu_time", "imported",
    )  # fmt: skip

    def partial(self, batch: pa.RecordBatch) -> Part:
        part = Part()
        ids, request, task = numbers(batch["id"]), numbers(batch["request_id"]), numbers(batch["task_id"])
        role, layer = places(batch, "op_role", ROLES), places(batch, "layer", LAYERS)
        imported = truths(batch["imported"])
        ops = batch["op"].dictionary.to_pylist()
        files = np.array([*(op.startswith(_FILE_OBJECTS) for op in ops), False])[codes(batch["op"])]
        outer = (role == Role.REQUEST) & (request == ids)
        alone = (role == Role.SYNC) & (request == 0)
        kept = (outer & ~(files & (layer == Layer.APP))) | alone | np.isin(role, _KEPT_ROLES)
        self._keep(part, batch, np.flatnonzero(kept & ~imported), role)
        leaf = LEAVES.take(role) & (layer >= Layer.STDIO)
        beneath = np.flatnonzero(leaf & (request > 0) & ~imported)
        # Most calls beneath a file object's call are in the same batch as it.  Their sums would be dropped in finish().
        _, of_file = find(np.sort(ids[outer & ~kept]), request[beneath])
        self._beneath(part, batch, beneath[~of_file], role, request)
        in_tasks = (task > 0) & ~imported & (outer | leaf)
        self._lines(part, batch, np.flatnonzero(in_tasks), leaf, outer | (request == 0))
        return part

    def _keep(self, part: Part, batch: pa.RecordBatch, at: Ints, role: Any) -> None:
        part.dropped = max(len(at) - _MOST, 0)
        at = at[:_MOST]
        part.kept = len(at)
        if len(at):
            values = {
                "id": numbers(batch["id"]), "op": codes(batch["op"]), "process": numbers(batch["process"], -1),
                "tid": numbers(batch["tid"]), "time": np.clip(numbers(batch["time"]), -_FARTHEST, _FARTHEST),
                "duration": np.clip(numbers(batch["duration"]), 0, _LONGEST),
                "cpu": np.clip(numbers(batch["cpu_time"], -1), -1, _LONGEST),
                "asked": np.clip(numbers(batch["bytes_moved"], -1), -1, _FARTHEST), "site": codes(batch["site"]),
                "path": codes(batch["path"]), "task": numbers(batch["task_id"]), "detail": codes(batch["detail"]),
                "role": role, "calls": numbers(batch["calls"]),
            }  # fmt: skip
            part.calls.append({name: values[name].take(at).astype(np.int64) for name in _OWN})

    def _beneath(self, part: Part, batch: pa.RecordBatch, at: Ints, role: Any, request: Ints) -> None:
        if not len(at):
            return
        kind, role = places(batch, "op_class", CLASSES)[at], role[at]
        duration, moved = addable(numbers(batch["duration"])[at]), addable(numbers(batch["bytes_moved"])[at])
        count = numbers(batch["calls"])[at].astype(np.int64)
        sync = (role == Role.SYNC) | (role == Role.LOCK)
        reads, writes, opens = ((kind == one) & ~sync for one in (OpClass.READ, OpClass.WRITE, OpClass.OPEN))
        part.beneath.add(
            {
                "request": request[at], "io_ns": duration * (role == Role.IO), "sync_ns": duration * sync,
                "read": moved * reads, "written": moved * writes, "reads": count * reads, "writes": count * writes,
                "opens": count * opens, "others": count * ~(reads | writes | opens),
            }
        )  # fmt: skip

    def _lines(self, part: Part, batch: pa.RecordBatch, at: Ints, leaf: Any, outer: Any) -> None:
        if not len(at):
            return
        duration = addable(numbers(batch["duration"])[at])
        part.lines.add(
            {
                "task": numbers(batch["task_id"])[at], "site": codes(batch["site"])[at].astype(np.int64),
                "op": np.where(outer[at], codes(batch["op"])[at], -1).astype(np.int64), "time": duration * outer[at],
                "io_ns": duration * leaf[at], "count": numbers(batch["calls"])[at] * outer[at],
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
