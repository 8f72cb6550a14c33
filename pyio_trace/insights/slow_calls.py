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

from pyio_trace.analysis.scan.columns import MEANING, Columns
from pyio_trace.enums import Layer, OpClass
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
#: The shortest call that is kept, ns.
SHORTEST = 20_000
#: Calls that are kept.
_MOST = 1 << 20
_NAMES = ("process", "tid", "path", "site", "kind", "time", "duration", "outer", "moves", "bytes")


@dataclass
class Part:
    """What some batches have.  columns: arrays of _NAMES; kept: their rows."""

    columns: list[dict[str, Ints]] = field(default_factory=list)
    kept: int = 0


@dataclass(frozen=True)
class SlowCalls:
    """The reducer.

    Result: arrays of process (index), tid, path and site (codes), kind (OpClass), time (ns since the epoch), duration
    (ns), bytes (moved), outer (1: an outermost request, or a call on files in none), moves (1: a read or write of POSIX
    or a C stream that succeeded), of single calls on lines that are one of these two, or for a lock, in the order of
    ids; the first million of them.
    """

    columns: ClassVar[tuple[str, ...]] = (
        *MEANING,
        "time",
        "duration",
        "process",
        "tid",
        "path",
        "site",
        "errno",
        "bytes_moved",
    )

    def partial(self, batch: pa.RecordBatch) -> Part:
        columns = Columns(batch)
        duration, layer, kind, site = columns.duration, columns.layer, columns.kind, columns.codes("site")
        slow = (duration >= SHORTEST) & (layer != Layer.USER) & (columns.calls == 1)
        moves = np.isin(kind, (OpClass.READ, OpClass.WRITE)) & (layer >= Layer.STDIO) & (columns.numbers("errno") == 0)
        chosen = columns.outer | moves | (kind == OpClass.LOCK)
        at = np.flatnonzero(slow & (site >= 0) & ~columns.imported & chosen)[:_MOST]
        values: dict[str, NDArray[Any]] = {
            "process": columns.numbers("process", -1), "tid": columns.numbers("tid"), "path": columns.codes("path"),
            "site": site, "kind": kind, "time": columns.time, "duration": duration, "outer": columns.outer,
            "moves": moves, "bytes": columns.moved,
        }  # fmt: skip
        kept = {name: column[at].astype(np.int64) for name, column in values.items()}
        return Part([kept] if len(at) else [], len(at))

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
