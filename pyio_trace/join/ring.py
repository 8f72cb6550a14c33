"""Parents in a log whose room was used again (--mode ring).

An id is a place, and what is there now may not be what was there when a child
noted it.  A parent is believed only if it can be one: an operation above the
system calls, of the same thread (unless context was handed over), during which
the child began.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.vocabulary import Vocabulary
from pyio_trace.log import layout
from pyio_trace.log.live import Block


class Ring:
    """All operations of such a log that can be parents: ids (ascending), ticks, threads."""

    def __init__(self, blocks: list[Block], words: Vocabulary) -> None:
        above = words.layer != layout.POSIX
        kept = [block.where(above.take(block.records["op"])) for block in blocks]
        records = np.concatenate([np.empty(0, layout.RECORD), *(block.records for block in kept)])
        self._ids = np.concatenate([np.empty(0, np.int64), *(block.ids for block in kept)])
        self._tids = np.concatenate([np.empty(0, np.int32), *(block.tid for block in kept)])
        self._begin = records["begin"].view(np.int64)
        ticks = records["duration_lo"].astype(np.int64) + (records["duration_hi"].astype(np.int64) << 32)
        # A run of like calls lasts to the end of its last one; what is in flight, to the end of the log.
        ticks = np.where(records["flags"] & layout.COALESCED, records["offset"], ticks)
        done = (records["flags"] & layout.STATE_MASK) == layout.DONE
        self._end = np.where(done, self._begin + ticks, np.iinfo(np.int64).max)

    def overwritten(self, parents: NDArray[np.int64], children: Block) -> NDArray[np.bool_]:
        """Which of the children's parents are gone."""
        if len(self._ids) == 0:
            return np.ones(len(parents), np.bool_)
        at = np.minimum(np.searchsorted(self._ids, parents), len(self._ids) - 1)
        began = children.records["begin"].view(np.int64)
        handed_over = (children.records["flags"] >> layout.LINK_SHIFT) == 2  # enum pt_link: CONTEXT
        there = self._ids[at] == parents
        there &= (self._begin[at] <= began) & (began <= self._end[at])
        there &= handed_over | (self._tids[at] == children.tid)
        gone: NDArray[np.bool_] = np.logical_not(there)
        return gone
