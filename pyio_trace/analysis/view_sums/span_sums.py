"""Containers (tasks, fetches, spans of the program), and the I/O of which each is the innermost one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.analysis.scan.columns import MEANING, Columns
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.enums import Layer, Role
from pyio_trace.light_dataclass import dataclass

Ints = NDArray[np.int64]

COLUMNS = (
    *MEANING, "id", "time", "duration", "op", "process", "tid", "site", "task_id", "bytes_moved", "detail", "cpu_time",
    "in_flight",
)  # fmt: skip
#: A span that annotates a task and never encloses anything.
_STATES = "task states"
#: Containers that are remembered; of more, the longest.
_MANY = 1 << 20
_SPAN = ("duration", "time", "op", "layer", "process", "thread", "site", "detail", "cpu", "ended", "count")
_BENEATH = ("calls", "io", "sync", "lock", "requests", "request_time", "read", "written")


@dataclass
class SpanSums:
    """What some batches contribute.

    spans: by id, duration and begin (ns), codes, processor time (-1: not known),
    whether it ended, and how many containers the row stands for.  beneath: by id of the container, 0 for none.
    """

    spans: GroupedSums = field(default_factory=lambda: GroupedSums(("id",), dict.fromkeys(_SPAN, "max"), _MANY))
    beneath: GroupedSums = field(default_factory=lambda: GroupedSums(("id",), dict.fromkeys(_BENEATH, "sum"), _MANY))

    def add(self, batch: pa.RecordBatch, ops: Collection[str] | None = None) -> None:
        """Adds the containers of a batch with COLUMNS, and I/O.  ops: only containers of these operations."""
        columns = Columns(batch)
        chosen = (columns.role == Role.CONTAINER) & ~columns.of_words("op", (_STATES,))
        if ops is not None:
            chosen &= columns.of_words("op", ops)
        at = np.flatnonzero(chosen)
        values = {
            "duration": columns.duration, "time": columns.time, "op": columns.codes("op"),
            "layer": columns.layer.astype(np.int64), "process": columns.numbers("process", -1),
            "thread": columns.numbers("tid"), "site": columns.codes("site"), "detail": columns.codes("detail"),
            "cpu": columns.numbers("cpu_time", -1),
            "ended": columns.ended.astype(np.int64), "count": columns.calls,
        }  # fmt: skip
        self.spans.add({"id": columns.numbers("id")[at], **{name: one[at] for name, one in values.items()}})
        self._add_beneath(columns)

    def _add_beneath(self, columns: Columns) -> None:
        at = np.flatnonzero((columns.leaf | columns.outer) & ~columns.imported)
        reads, writes = columns.transfers
        role, duration, calls = columns.role, columns.duration, columns.calls
        request = (role == Role.REQUEST) & columns.outer
        values = {
            "calls": calls * columns.leaf, "io": duration * (columns.leaf & (role == Role.IO)),
            "sync": duration * (columns.leaf & (role == Role.SYNC)), "requests": calls * request,
            "lock": duration * (columns.leaf & (role == Role.LOCK)),
            "request_time": duration * request, "read": columns.moved * reads, "written": columns.moved * writes,
        }  # fmt: skip
        self.beneath.add({"id": columns.numbers("task_id")[at], **{name: one[at] for name, one in values.items()}})

    def update(self, later: SpanSums) -> None:
        """Adds those of later batches."""
        self.spans.update(later.spans)
        self.beneath.update(later.beneath)

    @property
    def dropped(self) -> int:
        """Containers and sums that did not fit into memory."""
        return self.spans.dropped + self.beneath.dropped

    def joined(self) -> dict[str, Ints]:
        """The containers in the order of ids, each with the sums of its own I/O; those are 0 where it has none."""
        spans, beneath = self.spans.columns(), self.beneath.columns()
        place = np.minimum(np.searchsorted(beneath["id"], spans["id"]), max(len(beneath["id"]) - 1, 0))
        known = beneath["id"][place] == spans["id"] if len(beneath["id"]) else np.zeros(len(spans["id"]), np.bool_)
        for name in _BENEATH:
            spans[name] = np.where(known, beneath[name][place], 0) if len(beneath["id"]) else known * 0
        return spans

    def outside(self) -> dict[str, int]:
        """The sums of I/O in no container."""
        beneath = self.beneath.columns()
        return {name: int(beneath[name][beneath["id"] == 0].sum()) for name in _BENEATH}


def is_of_program(layer: int) -> bool:
    """Whether a container is a span that the program named: its operation is that name."""
    return layer == Layer.USER
