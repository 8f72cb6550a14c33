"""The operations that the timeline shows, in its order: by process, thread and time, the longer one first.

Memory is bounded: of more operations than wanted, the longest are kept, which are
those that a person can see, and the spans around them.  The rest is summed by
operation, and the page says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.base.arrow_arrays import codes, numbers, present, texts_at, truths
from pyio_trace.light_dataclass import dataclass
from pyio_trace.page.depths import depths, free_from_the_start

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: Columns of numbers that may have no value, of numbers that have one, and of texts.
NULLABLE = (
    "parent", "duration", "process", "tid", "fd", "file_offset", "bytes_requested", "bytes_moved", "cpu_time",
)  # fmt: skip
NUMBERS = ("id", "time", "errno", "calls")
TEXTS = ("layer", "op", "op_class", "op_role", "link", "path", "site", "call_stack", "command", "detail")
#: What makes an operation another one to a reader.
KIND = ("layer", "op", "op_class", "op_role")
COLUMNS = (*NUMBERS, *NULLABLE, *TEXTS, "submitted")
#: Threads that the timeline has lanes for.
MOST_LANES = 2000
#: Longer than any operation: those that have not returned are kept first.
_ENDLESS = np.iinfo(np.int64).max
#: ns: what a forged log says beyond is drawn here.
FARTHEST = 1 << 61
_SPAN = re.compile(r'^\{.*"span_ns": (\d{1,18})', re.DOTALL)


@dataclass(frozen=True)
class Rest:
    """Operations of one kind that are not shown.  time: ns; moved: bytes."""

    layer: str
    op: str
    calls: int
    time: int
    moved: int


@dataclass(frozen=True)
class Rows:
    """Operations in the order of the timeline.

    values: column -> numbers, or indexes into the texts of its dictionary (-1: none), and the column depth (see
    depths.py); there: column -> where there is a value; texts: column -> its dictionary, with shown and other values;
    extent: ns from the first begin to the last end of a row that stands for several calls, 0: it stands for one; rest:
    of what is left out; of: operations in the log; longest_left_out: ns.
    """

    values: dict[str, Ints]
    there: dict[str, Mask]
    texts: dict[str, pa.Array]
    extent: Ints
    rest: list[Rest]
    of: int
    longest_left_out: int

    def __len__(self) -> int:
        return len(self.values["id"])

    def only(self, at: Ints) -> Rows:
        """These rows."""
        values = {name: one[at] for name, one in self.values.items()}
        there = {name: one[at] for name, one in self.there.items()}
        return Rows(values, there, self.texts, self.extent[at], self.rest, self.of, self.longest_left_out)


def rows_of(log: Log, most: int, progress: Callable[[int], None] | None = None) -> Rows:
    """At most so many operations of a log; progress: called with a number of rows read."""
    total = log.rows()
    least, room = _least_duration(log, most) if total > most else (-1, 0)
    texts = {name: log.dictionary(name) for name in TEXTS}
    taken, left = Taken(), _Left(texts)
    for batch in log.batches(COLUMNS, 1 << 18):
        duration = np.where(present(batch["duration"]), numbers(batch["duration"]), _ENDLESS)
        alike = np.flatnonzero(duration == least)[:room]
        room -= len(alike)
        chosen = np.sort(np.concatenate([np.flatnonzero(duration > least), alike]))
        if len(chosen) < len(batch):
            gone = np.delete(np.arange(len(batch)), chosen)
            kind = (codes(batch[name])[gone] for name in ("layer", "op"))
            left.add(*kind, *(numbers(batch[name])[gone] for name in ("calls", "duration", "bytes_moved")))
        taken.add(batch, chosen)
        if progress is not None:
            progress(len(batch))
    rows = replace(taken.rows(texts), rest=left.sums(), of=total, longest_left_out=left.longest)
    rows = in_order(rows)
    _add_depths(rows, process_ends(log))
    return rows


class Taken:
    """Collects chosen rows of batches with COLUMNS."""

    def __init__(self) -> None:
        self._parts: dict[str, list[Any]] = {name: [] for name in (*COLUMNS, *(f"?{name}" for name in NULLABLE))}

    def add(self, batch: pa.RecordBatch, at: Ints) -> None:
        """at: which of its rows."""
        for name in COLUMNS:
            column = batch[name]
            found = codes(column) if name in TEXTS else truths(column) if name == "submitted" else numbers(column)
            self._parts[name].append(found[at].astype(np.int32, copy=False) if name in TEXTS else found[at])
            if name in NULLABLE:
                self._parts[f"?{name}"].append(present(column)[at])

    def rows(self, texts: dict[str, pa.Array]) -> Rows:
        """All of them, in the order in which they came.  Nothing is left in here: nothing is to be in memory twice."""
        values = {name: _joined(self._parts.pop(name), np.int32 if name in TEXTS else np.int64) for name in COLUMNS}
        there = {name: _joined(self._parts.pop(f"?{name}"), np.bool_) for name in NULLABLE}
        return Rows(values, there, texts, np.zeros(len(values["id"]), np.int64), [], len(values["id"]), 0)


def process_ends(log: Log) -> Ints:
    """When each process ended, by index, or else the run, ns since the epoch; the last one is of rows without one."""
    info = log.info()
    end = info["end"] if info["end"] is not None else info["start"]
    ends = [end if one is None else one for one in log.processes()["end"].to_pylist()]
    return np.array([*ends, end], np.int64)


def lengths(time: Ints, duration: Ints, returned: Mask, extent: Ints, end: Ints) -> Ints:
    """How long rows are drawn, ns; end: of the process of each, for calls that had not returned."""
    drawn = np.where(returned, np.maximum(duration, extent), np.maximum(end - time, 0))
    found: Ints = np.clip(drawn, 0, FARTHEST)
    return found


def _add_depths(rows: Rows, ends: Ints) -> None:
    """The column depth, of rows in order."""
    values, there = rows.values, rows.there
    time = np.clip(values["time"], -FARTHEST, FARTHEST)
    end = ends[np.where(values["process"] < len(ends) - 1, values["process"], -1)]
    length = lengths(time, values["duration"], there["duration"], rows.extent, end)
    lane = np.zeros(len(rows), np.int64)
    lane[1:] = np.cumsum((np.diff(values["process"]) != 0) | (np.diff(values["tid"]) != 0))
    free = free_from_the_start(int(lane[-1]) + 1 if len(lane) else 0)
    values["depth"] = depths(lane, time, time + length, free)


def _joined(parts: list[NDArray[Any]], kind: Any) -> NDArray[Any]:
    return np.concatenate(parts).astype(kind, copy=False) if parts else np.zeros(0, kind)


def _least_duration(log: Log, most: int) -> tuple[int, int]:
    """(the duration of the shortest of the `most` longest operations, how many of those take exactly so long)."""
    if not most:
        return _ENDLESS, 0
    longest = np.zeros(0, np.int64)
    for batch in log.batches(("duration",), 1 << 20):
        duration = np.where(present(batch["duration"]), numbers(batch["duration"]), _ENDLESS)
        longest = np.concatenate([longest, duration])
        if len(longest) > most:
            longest = np.partition(longest, len(longest) - most)[len(longest) - most :]
    least = int(longest.min())
    return least, int((longest == least).sum())


class _Left:
    """Sums what is left out."""

    def __init__(self, texts: dict[str, pa.Array], rest: Sequence[Rest] = ()) -> None:
        self._texts = [texts[name] for name in ("layer", "op")]
        self._ops = max(len(texts["op"]), 1)
        # Sums of what a forged log says may exceed any integer.
        self._sums = np.zeros((len(texts["layer"]) * self._ops, 3))
        self._rest = {(one.layer, one.op): one for one in rest}
        self.longest = 0

    def add(self, layer: Ints, op: Ints, calls: Ints, time: Ints, moved: Ints) -> None:
        """time: 0 for those that have not returned."""
        for place, amount in enumerate((calls, time, moved)):
            np.add.at(self._sums[:, place], layer * self._ops + op, np.maximum(amount, 0))
        self.longest = max(self.longest, int(time.max(initial=0)))

    def sums(self) -> list[Rest]:
        """The most time first."""
        found = dict(self._rest)
        for at in np.flatnonzero(self._sums[:, 0]).tolist():
            layer, op = (texts[one].as_py() for texts, one in zip(self._texts, divmod(at, self._ops), strict=True))
            before = found.get((layer, op), Rest(layer, op, 0, 0, 0))
            calls, time, moved = map(int, self._sums[at].tolist())
            found[layer, op] = Rest(layer, op, before.calls + calls, before.time + time, before.moved + moved)
        return sorted(found.values(), key=lambda one: -one.time)


def in_order(rows: Rows) -> Rows:
    """The rows in the order of the timeline, with their extents."""
    values, there = rows.values, rows.there
    values["process"] = np.where(there["process"], values["process"], -1)
    values["tid"] = np.where(there["tid"], values["tid"], -1)
    length = np.where(there["duration"], values["duration"], _ENDLESS)
    order = np.lexsort((values["id"], -length, values["time"], values["tid"], values["process"]))
    for name in values:  # one after the other: a copy of all of them would double the memory
        values[name] = values[name][order]
    for name in there:
        there[name] = there[name][order]
    _add_extents(rows)
    return rows


def _add_extents(rows: Rows) -> None:
    """What the details of rows that stand for several calls say of their extent."""
    rows.extent[:] = extents(rows.values["calls"], rows.values["detail"], rows.texts["detail"])


def extents(calls: Ints, detail: Ints, texts: pa.Array) -> Ints:
    """ns from the first begin to the last end of rows that stand for several calls, by their details; 0: of others."""
    found = np.zeros(len(calls), np.int64)
    at = np.flatnonzero((calls > 1) & (detail >= 0))
    used, which = np.unique(detail[at], return_inverse=True)
    matches = [_SPAN.match(text or "") for text in texts_at(texts, used)]
    spans = np.array([int(one[1]) if one else 0 for one in matches], np.int64)
    found[at] = spans[which]
    return found


def longest(rows: Rows, most: int) -> Rows:
    """The `most` longest of these rows, in their order; the others are added to the rest."""
    length = np.where(rows.there["duration"], rows.values["duration"], _ENDLESS)
    order = np.argsort(-length, kind="stable")
    return _without(rows, np.sort(order[:most]), order[most:])


class Lane(NamedTuple):
    """A thread of the timeline.  process: index, -1: not known; tid: -1: of several threads; rows: shown; depths: lines
    that it needs; of: operations that it has; name: "" if it has none."""

    process: int
    tid: int
    rows: int
    depths: int
    of: int
    name: str = ""


def lanes_of(rows: Rows) -> tuple[Rows, list[Lane]]:
    """(the rows of at most MOST_LANES threads, those with the most operations; these threads)."""
    values = rows.values
    if not len(rows):
        return rows, []
    process, tid = values["process"], values["tid"]
    starts = np.flatnonzero(np.concatenate([[True], (np.diff(process) != 0) | (np.diff(tid) != 0)]))
    counts = np.diff(np.append(starts, len(rows)))
    if len(starts) > MOST_LANES:
        lanes = np.argsort(-counts, kind="stable")
        kept = np.zeros(len(starts), np.bool_)
        kept[lanes[:MOST_LANES]] = True
        mask = np.repeat(kept, counts)
        return lanes_of(_without(rows, np.flatnonzero(mask), np.flatnonzero(~mask)))
    deepest = np.maximum.reduceat(values["depth"], starts) + 1
    return rows, [
        Lane(int(process[start]), int(tid[start]), int(count), int(deep), int(count))
        for start, count, deep in zip(starts, counts, deepest, strict=True)
    ]


def _without(rows: Rows, kept: Ints, gone: Ints) -> Rows:
    """The rows that are kept; the others are added to the rest."""
    left, values = _Left(rows.texts, rows.rest), rows.values
    left.add(*(values[name][gone] for name in ("layer", "op", "calls", "duration", "bytes_moved")))
    return replace(rows.only(kept), rest=left.sums(), longest_left_out=max(rows.longest_left_out, left.longest))
