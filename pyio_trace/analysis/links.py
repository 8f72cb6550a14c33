"""How sure the parents of the operations are that reach the system: a table by class of link.

An operation without a parent is none of the log's fault where no span was open
in its process at all.  So the times at which any was are noted in the pass over
the log, and a log that has spans is gone through once more, a few columns of it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.analysis import facts
from pyio_trace.analysis.intervals import merge
from pyio_trace.analysis.rows import PROCESS, READ, WRITE, Rows, addable, numbers, places, present, truths
from pyio_trace.events import CLASSES, LAYERS, LINKS
from pyio_trace.log.sorting import distinct

Ints = NDArray[np.int64]

COLUMNS = ("parent", "link", "time", "layer", "op_class", "process", "moved", "count", "imported")
#: Beyond the links: an operation while no span was open.
OUTSIDE = len(LINKS)
_SPAN = CLASSES.index("span")
_APP, _STDIO = LAYERS.index("app"), LAYERS.index("stdio")
#: Calls of Python's file objects (csrc/ext/files.def): operations of the application layer that are no named spans.
FILE_CALLS = ("FileIO.", "BufferedReader.", "BufferedWriter.", "Buffered.", "TextIOWrapper.", "mmap.")
_BELOW = ("stdio", "posix")  # a stream's calls stand for those that libc makes beneath them
_MANY = 1 << 20


class SpanTimes:
    """When any named span was open, by process; ns since the start of the run."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[Ints, Ints]] = {}
        self._pending: list[tuple[Ints, Ints, Ints]] = []
        self._waiting = 0
        self._named: NDArray[np.bool_] | None = None

    def __bool__(self) -> bool:
        return bool(self._open or self._pending)

    def add(self, rows: Rows, ops: list[str]) -> None:
        """Takes note of the spans among the rows; ops: the names that their op stands for."""
        if self._named is None:
            self._named = np.array([not name.startswith(FILE_CALLS) for name in ops], np.bool_)
        at = np.flatnonzero(rows.layer < _STDIO)
        kind, app = rows.kind[at], rows.layer[at] == _APP
        data = (kind == READ) | (kind == WRITE)
        at = at[~app | (kind == _SPAN) | (data & self._named[rows.op[at]])]
        if len(at):
            self._pending.append((rows.process[at], rows.time[at], rows.time[at] + rows.duration[at]))
            self._waiting += len(at)
            if self._waiting > _MANY:
                self._settle()

    def _settle(self) -> None:
        if not self._pending:
            return
        process, starts, ends = (np.concatenate(part) for part in zip(*self._pending, strict=True))
        self._pending, self._waiting = [], 0
        nothing = np.empty(0, np.int64)
        for one in distinct(process).tolist():
            before, mine = self._open.get(one, (nothing, nothing)), process == one
            joined = (np.concatenate([old, new[mine]]) for old, new in zip(before, (starts, ends), strict=True))
            self._open[one] = merge(*joined)

    def at(self, process: Ints, time: Ints) -> NDArray[np.bool_]:
        """Whether any was open in that process at that time."""
        self._settle()
        result = np.zeros(len(time), np.bool_)
        for one in distinct(process).tolist():
            if one in self._open:
                mine, (starts, ends) = np.flatnonzero(process == one), self._open[one]
                before = np.searchsorted(starts, time[mine], side="right") - 1
                result[mine] = (before >= 0) & (time[mine] < ends[np.maximum(before, 0)])
        return result


def shares(batches: Iterable[pa.RecordBatch], spans: SpanTimes, start: int, processes: int) -> list[facts.Link]:
    """The table: what there is, the surest first.  batches: with COLUMNS; start: of the run, ns since the epoch;
    processes: how many, the last one for operations of none."""
    count, moved = np.zeros(OUTSIDE + 1, np.int64), np.zeros(OUTSIDE + 1, np.int64)
    for batch in batches:
        if not batch.num_rows:
            continue
        at = np.flatnonzero(_counted(batch))
        known = present(batch.column("parent"))[at]
        link = np.where(known, places(batch, "link", LINKS)[at], 0)
        alone = np.flatnonzero(link == 0)
        process = numbers(batch.column("process"), processes - 1)[at[alone]]
        inside = spans.at(process, numbers(batch.column("time"))[at[alone]] - start)
        link[alone[~inside]] = OUTSIDE
        calls = addable(numbers(batch.column("count")))[at]
        for total, weights in ((count, calls), (moved, addable(numbers(batch.column("moved")))[at])):
            total += np.rint(np.bincount(link, weights=weights, minlength=OUTSIDE + 1)).astype(np.int64)
    whole = int(count[:OUTSIDE].sum())
    order = [*range(1, OUTSIDE), 0, OUTSIDE]
    return [
        facts.Link(
            "outside" if one == OUTSIDE else LINKS[one],
            int(count[one]),
            int(moved[one]),
            int(count[one]) / whole if one != OUTSIDE and whole else None,
        )
        for one in order
        if count[one]
    ]


def _counted(batch: pa.RecordBatch) -> NDArray[np.bool_]:
    below = np.isin(places(batch, "layer", LAYERS), [LAYERS.index(layer) for layer in _BELOW])
    imported: NDArray[np.bool_] = truths(batch.column("imported"))
    counted: NDArray[np.bool_] = below & (places(batch, "op_class", CLASSES) != PROCESS) & ~imported
    return counted
