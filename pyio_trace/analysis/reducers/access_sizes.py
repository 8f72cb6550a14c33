"""Sizes of reads and writes in Darshan's bins: of outermost requests, and of the calls beneath.

Result: Sizes, whose rows are SizeBin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pyio_trace.analysis.calls.darshan_calls import BIN_LIMITS
from pyio_trace.analysis.scan.columns import MEANING, Columns
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.analysis.sums.size_histogram import BINS
from pyio_trace.enums import OpClass, Role
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.analysis.scan.columns import Bools
    from pyio_trace.join.sources.facade import Log

_LEVELS = ("requests", "calls")


@dataclass(frozen=True)
class SizeBin:
    """Transfers of one bin of sizes.

    level: "requests" are what the program asked for (outermost requests that move
    bytes), "calls" what POSIX and C streams moved; a call that is in no request is in
    "calls" alone.  direction: read or write.  size: the bin, as Darshan names it.  time_ns:
    summed over threads.  mean_bytes: of a transfer.
    """

    SHOWN: ClassVar[tuple[str, ...]] = ("level", "direction", "calls", "moved_bytes", "mean_bytes", "time_ns")

    size: str
    level: str
    direction: str
    calls: int
    moved_bytes: int
    mean_bytes: int
    time_ns: int


@dataclass(frozen=True)
class Sizes:
    """rows: by level, direction and size, those that occur.  averaged: transfers that are in a row of several calls; of
    these the mean size counts."""

    averaged: int
    rows: list[SizeBin]


class SizesOfAccesses:
    """The reducer."""

    columns: ClassVar[tuple[str, ...]] = (*MEANING, "duration", "bytes_moved", "errno", "in_transfer", "in_flight")

    def __init__(self, imports: bool = False) -> None:
        """imports: also what Python's imports read."""
        self.imports = imports

    def partial(self, batch: pa.RecordBatch) -> GroupedSums:
        part = _empty()
        columns = Columns(batch)
        counted = ((columns.numbers("errno") == 0) | (columns.moved > 0)) & columns.ended
        if not self.imports:
            counted &= ~columns.imported
        reads, writes = columns.transfers
        asks = (columns.role == Role.REQUEST) & columns.outer & columns.truths("in_transfer", negated=True)
        asks &= columns.moved > 0
        pairs: tuple[tuple[int, int, Bools], ...] = (
            (0, 0, asks & (columns.kind == OpClass.READ)), (0, 1, asks & (columns.kind == OpClass.WRITE)),
            (1, 0, reads), (1, 1, writes),
        )  # fmt: skip
        for level, write, chosen in pairs:
            at = np.flatnonzero(counted & chosen)
            calls, moved = columns.calls[at], columns.moved[at]
            part.add(
                {
                    "level": np.full(len(at), level), "write": np.full(len(at), write),
                    "bin": np.searchsorted(BIN_LIMITS, moved // calls), "calls": calls, "bytes": moved,
                    "time": columns.duration[at], "averaged": calls * (calls > 1),
                }
            )  # fmt: skip
        return part

    def combine(self, part: GroupedSums, later: GroupedSums) -> GroupedSums:
        part.update(later)
        return part

    def finish(self, part: GroupedSums | None, log: Log) -> Sizes:
        found = (part or _empty()).columns()
        rows = [
            SizeBin(BINS[place][0], _LEVELS[level], "write" if write else "read", calls, moved, moved // calls, time)
            for level, write, place, calls, moved, time in zip(
                *(found[name].tolist() for name in ("level", "write", "bin", "calls", "bytes", "time")), strict=True
            )
        ]
        return Sizes(int(found["averaged"].sum()), rows)


def _empty() -> GroupedSums:
    return GroupedSums(("level", "write", "bin"), dict.fromkeys(("calls", "bytes", "time", "averaged"), "sum"))


REDUCER = SizesOfAccesses
