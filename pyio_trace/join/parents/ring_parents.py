"""Checks parents in a log whose chunks are reused (--mode ring).

An id is a place in the file, and the record there now may not be the one whose
id a child noted.  A parent counts only if it can be one: an operation above the
system calls, on the same thread (unless the context was handed over), during
which the child began.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyio_trace.enums import Layer, Link
from pyio_trace.join.base.records import duration_ticks
from pyio_trace.join.base.vocabulary import Vocabulary
from pyio_trace.log import layout
from pyio_trace.log.blocks import Block
from pyio_trace.log.sorting import find


class RingParents:
    """All operations of such a log that can be parents."""

    def __init__(self, blocks: list[Block], words: Vocabulary) -> None:
        above = words.layer != Layer.POSIX
        parents = [block.where(above.take(block.records["op"])) for block in blocks]
        records = np.concatenate([np.empty(0, layout.RECORD), *(block.records for block in parents)])
        self._ids = np.concatenate([np.empty(0, np.int64), *(block.ids for block in parents)])
        self._tids = np.concatenate([np.empty(0, np.int32), *(block.tid for block in parents)])
        self._begin = records["begin"].view(np.int64)
        # Coalesced calls last until the last of them ended; an operation in flight, until the end of the log.
        ticks = np.where(records["flags"] & layout.COALESCED, records["offset"], duration_ticks(records))
        done = (records["flags"] & layout.STATE_MASK) == layout.DONE
        self._end = np.where(done, self._begin + ticks, np.iinfo(np.int64).max)

    def overwritten(self, parents: NDArray[np.int64], children: Block) -> NDArray[np.bool_]:
        """Which of the children's parents are not in the log any more."""
        if len(self._ids) == 0:
            return np.ones(len(parents), np.bool_)
        at, there = find(self._ids, parents)
        began = children.records["begin"].view(np.int64)
        handed_over = (children.records["flags"] >> layout.LINK_SHIFT) == Link.CONTEXT
        there &= (self._begin[at] <= began) & (began <= self._end[at])
        there &= handed_over | (self._tids[at] == children.tid)
        gone: NDArray[np.bool_] = np.logical_not(there)
        return gone
