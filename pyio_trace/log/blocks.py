"""A block: some rows of a live log in memory, in the order of their ids."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pyio_trace.light_dataclass import dataclass
from pyio_trace.log import layout
from pyio_trace.log.extents import WORDS

#: Rows of one block: enough that numpy's cost per call does not matter, few enough to stay in the cache.
BLOCK_ROWS = 1 << 16


@dataclass(frozen=True)
class Block:
    """Some records that are not empty, in the order of their ids.

    records: layout.RECORD (a copy); ids: int64; process: id of the writer's
    process chunk, int64; tid: int32.  sums: layout.PROFILE where the rows are
    not records of the log but sums of like operations (see block_of_sums).
    """

    records: NDArray[np.void]
    ids: NDArray[np.int64]
    process: NDArray[np.int64]
    tid: NDArray[np.int32]
    sums: NDArray[np.void] | None = None

    def __len__(self) -> int:
        return len(self.records)

    @cached_property
    def op(self) -> NDArray[np.uint8]:
        """The records' op as a contiguous array: everything asks for it."""
        return self.records["op"].copy()

    @cached_property
    def flags(self) -> NDArray[np.uint8]:
        """The records' flags as a contiguous array; read only."""
        return self.records["flags"].copy()

    def some(self, at: NDArray[np.int64]) -> NDArray[np.void]:
        """The records of these rows."""
        words = self.records.view("<u8").reshape(-1, WORDS)[at]
        return words.view(layout.RECORD).reshape(-1)

    def where(self, mask: NDArray[np.bool_]) -> Block:
        """The rows of the mask."""
        at = np.flatnonzero(mask)
        sums = None if self.sums is None else self.sums[at]
        return Block(self.some(at), self.ids.take(at), self.process.take(at), self.tid.take(at), sums)


def block_of_sums(ids: NDArray[np.int64], sums: NDArray[np.void], op_rows: NDArray[np.void], started: int) -> Block:
    """Sums of like operations (layout.PROFILE) as a block of coalesced records.

    Values that do not fit a record stay in Block.sums.  op_rows: the log's
    operation table; started: ticks, for sums of which no operation has returned.
    """
    records = np.zeros(len(ids), layout.RECORD)
    for name in ("op", "desc", "stack", "parent", "aux"):
        records[name] = sums[name]
    done = sums["count"] > 0
    records["flags"] = np.where(done, layout.DONE, layout.BEGUN) | layout.COALESCED
    records["flags"] |= np.where(sums["error"] != 0, layout.FAILED, 0).astype(np.uint8)
    records["flags"] |= (sums["link"] & 7) << layout.LINK_SHIFT
    records["begin"] = np.where(done, sums["first"], started)
    traits, shape = op_rows["traits"].take(sums["op"]), op_rows["shape"].take(sums["op"])
    transfers = (traits & (layout.Trait.READS | layout.Trait.WRITES)) != 0
    refers = (shape == layout.SHAPE_SPAN) | (shape == layout.SHAPE_OPEN)
    records["offset"] = np.where(refers, sums["opened"].astype(np.int64), -1)
    records["size"] = np.where(transfers, 0, layout.NO_BYTES)
    records["result"] = np.where(sums["error"] != 0, sums["error"], records["size"])
    commands = (shape == layout.SHAPE_COMMAND) | (shape == layout.SHAPE_WAIT)
    records["size"] = np.where(commands, sums["opened"], records["size"])
    return Block(records, ids, sums["process"].astype(np.int64), sums["tid"].view(np.int32).astype(np.int32), sums)
