"""How long calls took: reads, writes, metadata, and syncs, by three bins a decade.

Result: Latencies, whose rows are LatencyBin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pyio_trace.analysis.scan.columns import MEANING, Columns
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.enums import OpClass, Role
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log

KINDS = ("read", "write", "metadata", "sync")
#: Where bins begin, ns: 0, 1, 2, 5, 10, 20, 50 ...
_EDGES = np.array([0, *(step * 10**power for power in range(18) for step in (1, 2, 5))], np.int64)


@dataclass(frozen=True)
class LatencyBin:
    """Calls of POSIX and C streams on files that took from_ns or more, and less than to_ns.

    kind: read, write (a copy reads), metadata (opens, closes, seeks, stats ...) or sync (and locks).  time_ns: in all
    of them; longest_ns: of one.
    """

    kind: str
    from_ns: int
    to_ns: int
    calls: int
    time_ns: int
    longest_ns: int


@dataclass(frozen=True)
class Latencies:
    """rows: by kind and time, those that occur.  averaged: calls that are in a row of several; of these the mean
    counts."""

    averaged: int
    rows: list[LatencyBin]


class LatenciesOfCalls:
    """The reducer."""

    columns: ClassVar[tuple[str, ...]] = (*MEANING, "duration", "in_flight")

    def __init__(self, imports: bool = False) -> None:
        """imports: also what Python's imports did."""
        self.imports = imports

    def partial(self, batch: pa.RecordBatch) -> GroupedSums:
        part, columns = _empty(), Columns(batch)
        counted = columns.leaf & columns.ended & (columns.role != Role.MAP)
        if not self.imports:
            counted &= ~columns.imported
        at = np.flatnonzero(counted)
        kind = columns.kind[at]
        syncs = np.isin(columns.role[at], (Role.SYNC, Role.LOCK))
        reads = np.isin(kind, (OpClass.READ, OpClass.COPY))
        calls, time = columns.calls[at], columns.duration[at]
        each = time // calls
        part.add(
            {
                "kind": np.select([syncs, reads, kind == OpClass.WRITE], [3, 0, 1], 2),
                "bin": np.searchsorted(_EDGES, each, side="right") - 1, "calls": calls, "time": time,
                "averaged": calls * (calls > 1), "longest": each,
            }
        )  # fmt: skip
        return part

    def combine(self, part: GroupedSums, later: GroupedSums) -> GroupedSums:
        part.update(later)
        return part

    def finish(self, part: GroupedSums | None, log: Log) -> Latencies:
        found = (part or _empty()).columns()
        edges = [*_EDGES.tolist(), 1 << 62]
        columns = (found[name].tolist() for name in ("kind", "bin", "calls", "time", "longest"))
        rows = [
            LatencyBin(KINDS[kind], edges[place], edges[place + 1], calls, time, longest)
            for kind, place, calls, time, longest in zip(*columns, strict=True)
        ]
        return Latencies(int(found["averaged"].sum()), rows)


def _empty() -> GroupedSums:
    sums = dict.fromkeys(("calls", "time", "averaged"), "sum")
    return GroupedSums(("kind", "bin"), sums | {"longest": "max"})


REDUCER = LatenciesOfCalls
