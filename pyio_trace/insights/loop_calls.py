"""Calls on files that tasks and callbacks made on the thread of an event loop, for the rule about these."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.analysis.calls import sum_details
from pyio_trace.analysis.scan.columns import Columns
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.analysis.view_sums.call_table import CallTable
from pyio_trace.enums import Role
from pyio_trace.insights.event_loops import Beneath, StackKinds, beneath
from pyio_trace.join.base.arrow_arrays import codes, texts_at
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
_KEYS = ("process", "tid", "call_stack", "site", "path")
_VALUES = {
    "calls": "sum", "time": "sum", "moved": "sum", "longest": "max", "longer": "max", "first": "min", "last": "max",
}  # fmt: skip
#: Different sums that are kept.  Beyond, those of the fewest calls are added up without their paths.
MOST = 1 << 18


@dataclass(frozen=True)
class LoopTable:
    """The result.

    calls: a table with the keys process, tid, stack (index into stacks), site
    and path; beside the usual sums, of which time and outer are the same,
    `longest`, the longest call (ns), and `longer`: 1 if it may be longer, as like
    calls had one row without it.
    """

    calls: CallTable
    stacks: list[Beneath]


@dataclass(frozen=True)
class LoopCalls:
    """The reducer: outermost requests and calls (I/O, sync, lock) with no request around.  One thread makes one of
    these at a time, so their times add up to how long the loop stood still."""

    columns: ClassVar[tuple[str, ...]] = (
        "time", "duration", "op_role", "process", "tid", "path", "bytes_moved", "site", "call_stack", "calls", "outer",
        "detail",
    )  # fmt: skip

    kinds: StackKinds = field(default_factory=StackKinds, compare=False, repr=False)

    def partial(self, batch: pa.RecordBatch) -> GroupedSums:
        sums, columns = _sums(), Columns(batch)
        called = np.isin(columns.role, (Role.IO, Role.SYNC, Role.LOCK))  # within requests: how long one took, no more
        at = np.flatnonzero((called | columns.outer) & (columns.codes("site") >= 0))
        stack = columns.codes("call_stack")[at]
        chosen = self.kinds.beneath(batch["call_stack"].dictionary, stack)
        at, stack = at[chosen], stack[chosen]
        counts = columns.outer[at]
        time, duration, calls = (one[at] for one in (columns.time, columns.duration, columns.calls))
        longest, span = _of_sums(batch, at, calls)
        found: dict[str, NDArray[Any]] = {
            "process": columns.numbers("process", -1)[at], "tid": columns.numbers("tid")[at], "call_stack": stack,
            "site": columns.codes("site")[at], "path": columns.codes("path")[at],
            "calls": calls * counts, "time": duration * counts, "moved": columns.moved[at] * counts,
            "longest": np.maximum(longest, duration // calls),  # of like calls in one row, one took at least the mean
            "longer": counts & (calls > 1) & (longest == 0), "first": time, "last": time + np.maximum(duration, span),
        }  # fmt: skip
        sums.add(found)
        return sums

    def combine(self, part: GroupedSums, later: GroupedSums) -> GroupedSums:
        part.update(later)
        return part

    def finish(self, part: GroupedSums | None, log: Log) -> LoopTable:
        self.kinds.forget()
        sums = part or _sums()
        columns = sums.columns()
        found, which = np.unique(columns.pop("call_stack"), return_inverse=True)
        known = [beneath(text) for text in texts_at(log.dictionary("call_stack"), found)] if len(found) else []
        columns["stack"], columns["outer"] = which.ravel().astype(np.int64), columns["time"]
        words = {name: log.dictionary(name) for name in ("site", "path")}
        calls = CallTable(columns, words, log.own_code(), sums.dropped)
        return LoopTable(calls, [one for one in known if one is not None])


def _sums() -> GroupedSums:
    return GroupedSums(_KEYS, _VALUES, MOST, {"path": -1})


def _of_sums(batch: pa.RecordBatch, at: Ints, calls: Ints) -> tuple[Ints, Ints]:
    """By row: the longest call, and the time from the first to the last, of the sums of a profile; 0 for other rows."""
    longest, span = np.zeros((2, len(at)), np.int64)
    rows = np.flatnonzero(calls > 1)
    detail = codes(batch["detail"])[at[rows]]
    rows = rows[detail >= 0]
    distinct, which = np.unique(detail[detail >= 0], return_inverse=True)
    found = [sum_details.parse(text) for text in texts_at(batch["detail"].dictionary, distinct)]
    longest[rows] = np.array([one.longest for one in found], np.int64)[which.ravel()]
    span[rows] = np.array([one.span for one in found], np.int64)[which.ravel()]
    return longest, span


#: For a rule's `needs`.
LOOPS = LoopCalls()
