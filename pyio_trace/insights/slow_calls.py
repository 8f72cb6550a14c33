"""Single calls that took longer than those on cached bytes do, for rules about order and threads.

Sums of calls say how long all calls of a line took; these also say when each
began, and in which thread.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.analysis.scan.batch_rows import places
from pyio_trace.enums import CLASSES, LAYERS, ROLES, Layer, OpClass, Role
from pyio_trace.join.base.arrow_arrays import codes, numbers, truths
from pyio_trace.join.base.roles import LEAVES
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
#: The shortest call that is kept, ns.
SHORTEST = 20_000
#: Calls that are kept.
_MOST = 1 << 20
_NAMES = ("process", "tid", "path", "site", "kind", "time", "duration", "outer", "moves")
_LATEST = 1 << 61


@dataclass
class Part:
    """What some batches have.  columns: arrays of _NAMES; kept: their rows."""

    columns: list[dict[str, Ints]] = field(default_factory=list)
    kept: int = 0


@dataclass(frozen=True)
class SlowCalls:
    """The reducer.

    Result: arrays of process (index), tid, path and site (codes), kind (OpClass), time (ns since the epoch), duration
    (ns), outer (1: an outermost request, or a call on files in none), moves (1: a read or write of POSIX or a C stream
    that succeeded), of single calls on lines, in the order of ids; the first million of them.
    """

    columns: ClassVar[tuple[str, ...]] = (
        "id", "time", "duration", "layer", "op_class", "op_role", "process", "tid", "path", "site", "request_id",
        "errno", "imported", "calls",
    )  # fmt: skip

    def partial(self, batch: pa.RecordBatch) -> Part:
        duration, layer = numbers(batch["duration"]), places(batch, "layer", LAYERS)
        slow = (duration >= SHORTEST) & (layer != Layer.USER) & (numbers(batch["calls"]) == 1)
        at = np.flatnonzero(slow & (codes(batch["site"]) >= 0) & ~truths(batch["imported"]))
        role, kind = places(batch, "op_role", ROLES)[at], places(batch, "op_class", CLASSES)[at]
        request = numbers(batch["request_id"])[at]
        outer = np.where(role == Role.REQUEST, request == numbers(batch["id"])[at], LEAVES.take(role) & (request == 0))
        moves = np.isin(kind, (OpClass.READ, OpClass.WRITE)) & (layer[at] >= Layer.STDIO)
        moves &= numbers(batch["errno"])[at] == 0
        kept = np.flatnonzero(outer | moves)[:_MOST]
        at = at[kept]
        values: dict[str, NDArray[Any]] = {
            "process": numbers(batch["process"], -1)[at], "tid": numbers(batch["tid"])[at],
            "path": codes(batch["path"])[at], "site": codes(batch["site"])[at], "kind": kind[kept],
            "time": np.clip(numbers(batch["time"])[at], 0, _LATEST), "duration": np.clip(duration[at], 0, _LATEST >> 4),
            "outer": outer[kept], "moves": moves[kept],
        }  # fmt: skip
        columns = {name: column.astype(np.int64) for name, column in values.items()}
        return Part([columns] if len(at) else [], len(at))

    def combine(self, part: Part, later: Part) -> Part:
        for columns in later.columns:
            room = _MOST - part.kept
            if room > 0:
                part.columns.append({name: column[:room] for name, column in columns.items()})
                part.kept += min(room, len(columns["time"]))
        return part

    def finish(self, part: Part | None, log: Log) -> dict[str, Ints]:
        empty = np.zeros(0, np.int64)
        parts = part.columns if part is not None else []
        return {name: np.concatenate([empty, *(columns[name] for columns in parts)]) for name in _NAMES}


#: For a rule's `needs`.
SLOW = SlowCalls()
