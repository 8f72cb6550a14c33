"""What was added to a growing log between two looks, and what had begun and not returned."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.log import layout

#: What operations added since the last look: id of the record or sum, process (id), tid, number of the operation, ids
#: of what it is on and of its stack; calls, bytes moved, ticks in calls.
ADDED = np.dtype(
    [
        ("id", "<i8"), ("process", "<i8"), ("tid", "<i4"), ("op", "u1"), ("desc", "<u4"), ("stack", "<u4"),
        ("calls", "<i8"), ("moved", "<i8"), ("ticks", "<i8"),
    ]
)  # fmt: skip


class Begun(NamedTuple):
    """An operation that has not returned.  record: layout.RECORD, of a sum one made of it; since_is_known: False for
    a sum, whose last earlier call then ended at record["begin"]."""

    id: int
    process: int
    tid: int
    record: np.void
    since_is_known: bool = True


class Meaning:
    """What a log's operations are, by number: hidden (no rows), extends (completes a record with large numbers), moves
    (the result is bytes)."""

    def __init__(self, op_rows: NDArray[np.void]) -> None:
        traits = op_rows["traits"]
        self.hidden: NDArray[np.bool_] = (traits & layout.Trait.HIDDEN) != 0
        self.hidden[0] = True
        self.extends: NDArray[np.bool_] = op_rows["shape"] == layout.SHAPE_EXT
        self.moves: NDArray[np.bool_] = (traits & layout.Trait.RESULT_IS_BYTES) != 0

    def added(self, process: int, tid: int, ids: NDArray[np.int64], records: NDArray[np.void]) -> NDArray[np.void]:
        """What records that are done add."""
        added = np.zeros(len(records), ADDED)
        added["id"], added["process"], added["tid"] = ids, process, np.uint32(tid & 0xFFFFFFFF).view(np.int32)
        for name in ("op", "desc", "stack"):
            added[name] = records[name]
        flags = records["flags"]
        added["calls"] = np.where((flags & layout.COALESCED) != 0, records["aux"], 1)
        moves = self.moves.take(records["op"]) & ((flags & (layout.FAILED | layout.WIDE)) == 0)
        added["moved"] = np.where(moves & (records["result"] != layout.NO_BYTES), records["result"], 0)
        added["ticks"] = records["duration_lo"].astype(np.int64) + (records["duration_hi"].astype(np.int64) << 32)
        return added


def amounts(record: np.void) -> tuple[int, int, int]:
    """Calls, bytes and ticks of a series."""
    moved = int(record["result"])
    ticks = int(record["duration_lo"]) + (int(record["duration_hi"]) << 32)
    return int(record["aux"]), 0 if moved == layout.NO_BYTES else moved, ticks
