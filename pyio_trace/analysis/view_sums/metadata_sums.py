"""Sums over metadata operations by path and line, with what depends on order: intervals, openings again, checks."""

from __future__ import annotations

import errno
from dataclasses import field
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.analysis.calls.call_order import CallOrder, Calls, OrderedSums, PendingCalls
from pyio_trace.analysis.scan.columns import MEANING, Columns
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.enums import OpClass
from pyio_trace.light_dataclass import dataclass

Ints = NDArray[np.int64]

COLUMNS = (*MEANING, "time", "duration", "op", "process", "path", "errno", "site")
#: What a metadata operation does, by its number.
KINDS = ("ask", "list", "open", "create", "remove", "rename", "close", "other")
ASK, LIST, OPEN, CREATE, REMOVE, RENAME, CLOSE, OTHER = range(8)
_OPS = {
    ASK: ("stat", "lstat", "fstatat", "statx", "access", "faccessat", "readlink", "readlinkat"),
    LIST: ("opendir", "scandir"),
    CREATE: ("mkdir", "mkdirat", "mkstemp", "mkdtemp", "creat", "tmpfile"),
    REMOVE: ("unlink", "unlinkat", "remove", "rmdir"),
    RENAME: ("rename", "renameat", "renameat2"),
}
KEYS = ("path", "site", "op")
#: Kinds whose calls are counted by path.
_COUNTED = {"asks": ASK, "opens": OPEN, "lists": LIST, "removes": REMOVE}
_COUNTS = ("calls", "time", "missing", "errors", "again", "reopens", "checked", *_COUNTED)
_MANY = 1 << 20
#: Calls that wait for their order.
PENDING = 1 << 19
#: Intervals between calls are counted in four bins an octave.
_PER_OCTAVE = 4
_LONGEST = 1 << 60


@dataclass
class PathCalls(Calls):
    """Calls on paths: file is the code of the path, kind one of KINDS; with the codes of operation and line."""

    op: Ints
    site: Ints


@dataclass
class MetadataSums(OrderedSums[PathCalls]):
    """What some batches contribute.

    sums: by KEYS (codes of path, line and operation): calls, ns, calls that found
    no such path, failed ones; again: calls of kind ask directly after such a call of
    the same process on the same path; reopens: openings of a path that the process
    had opened before; checked: openings directly after an ask.  intervals: ns between
    the begins of calls of one kind by one process on one path, in bins.
    users: calls by path and process.
    """

    summed: ClassVar[tuple[str, ...]] = ("sums", "intervals", "users")

    sums: GroupedSums = field(
        default_factory=lambda: GroupedSums(
            KEYS, dict.fromkeys(_COUNTS, "sum") | {"kind": "max", "first": "min", "last": "max"}, _MANY
        )
    )
    intervals: GroupedSums = field(default_factory=lambda: GroupedSums((*KEYS, "bin"), {"count": "sum"}, _MANY))
    users: GroupedSums = field(default_factory=lambda: GroupedSums(("path", "process"), {"calls": "sum"}, _MANY))
    pending: PendingCalls[PathCalls] = field(default_factory=lambda: PendingCalls(PENDING))

    def add(self, batch: pa.RecordBatch, imports: bool) -> None:
        """Adds the metadata operations of a batch with COLUMNS."""
        columns = Columns(batch)
        metadata = np.isin(columns.kind, (OpClass.META, OpClass.OPEN, OpClass.CLOSE, OpClass.SEEK))
        path = columns.codes("path")
        chosen = columns.leaf & metadata & (path >= 0)
        if not imports:
            chosen &= ~columns.imported
        at = np.flatnonzero(chosen)
        if not len(at):
            return
        kind = kinds(columns)[at]
        calls = PathCalls(
            process=columns.numbers("process", -1)[at], file=path[at], kind=kind.astype(np.int8),
            begin=columns.time[at], end=columns.end[at], offset=np.full(len(at), -1), size=np.zeros(len(at), np.int64),
            done=np.zeros(len(at), np.bool_), op=columns.codes("op")[at], site=columns.codes("site")[at],
        )  # fmt: skip
        number, error = columns.calls[at], columns.numbers("errno")[at]
        self.sums.add(
            _keys(calls)
            | {
                "calls": number, "time": columns.duration[at], "missing": number * (error == errno.ENOENT),
                "errors": number * (error != 0), "kind": kind, "first": calls.begin, "last": calls.begin,
            }
            | {name: number * (kind == counted) for name, counted in _COUNTED.items()}
        )  # fmt: skip
        self.users.add({"path": calls.file, "process": calls.process, "calls": number})
        self.pending.add(calls.take(np.flatnonzero((kind < CLOSE) & (number == 1))))

    @property
    def dropped(self) -> int:
        """Sums that did not fit into memory."""
        return self.sums.dropped + self.intervals.dropped + self.users.dropped

    def _add_order(self, order: CallOrder[PathCalls]) -> None:
        for name, kind, before in (("again", ASK, ASK), ("checked", OPEN, ASK)):
            calls = order.calls.take(order.directly_after(kind, before))
            self.sums.add(_keys(calls) | {name: np.ones(len(calls), np.int64)})
        for kind in (ASK, LIST, OPEN):
            at, interval = order.intervals(kind)
            calls = order.calls.take(at)
            if kind == OPEN:
                self.sums.add(_keys(calls) | {"reopens": np.ones(len(calls), np.int64)})
            self.intervals.add(_keys(calls) | {"bin": _bins(interval), "count": np.ones(len(calls), np.int64)})


def kinds(columns: Columns) -> Ints:
    """The number in KINDS of each metadata operation."""
    found = np.full(len(columns), OTHER, np.int64)
    found[columns.kind == OpClass.OPEN] = OPEN
    found[columns.kind == OpClass.CLOSE] = CLOSE
    for kind, ops in _OPS.items():
        found[columns.of_words("op", ops)] = kind
    return found


def _keys(calls: PathCalls) -> dict[str, Ints]:
    return {"path": calls.file, "site": calls.site, "op": calls.op}


def _bins(interval: Ints) -> Ints:
    found: Ints = np.floor(_PER_OCTAVE * np.log2(np.clip(interval, 1, _LONGEST))).astype(np.int64)
    return found


def quartiles(bins: Ints, counts: Ints) -> tuple[int, int, int]:
    """The quartiles of intervals (ns), to a tenth, from their bins in ascending order and the counts."""
    total = np.cumsum(counts)
    places = [int(np.searchsorted(total, -(-int(total[-1]) * part // 4))) for part in (1, 2, 3)]
    low, middle, high = (int(2 ** ((int(bins[place]) + 0.5) / _PER_OCTAVE)) for place in places)
    return low, middle, high
