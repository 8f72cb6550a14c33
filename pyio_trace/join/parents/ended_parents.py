"""Takes threads out of spans that have ended.

A thread or process that is started in a span is in it, and hands it on.  But it may live on
when the span has ended: a pool's thread serves others, a service's goes on.
Which spans these are is known afterwards only.  So what such a thread does after
the end of the span is in the nearest span around it that is still open, or in
none.  Work that was submitted in a span, such as a task, belongs to that span
also after its end; there the link says so.  A forked process is in the span in
which it was forked in the same way: a pool's process serves others too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyio_trace.enums import Link
from pyio_trace.join.base.records import begin_ticks
from pyio_trace.join.parents.span_table import DEPTH, SPAN
from pyio_trace.log import layout
from pyio_trace.log.blocks import Block
from pyio_trace.log.sorting import find

Ints = NDArray[np.int64]


def any_started(block: Block) -> bool:
    """Whether rows have a parent in which their thread was started."""
    return bool(((block.flags >> layout.LINK_SHIFT) == layout.LINK_STARTED).any())


class EndedParents:
    """Which spans had ended when, and what is around them."""

    def __init__(self, spans: list[NDArray[np.void]]) -> None:
        """spans: SPAN.  Their own parents are set right too."""
        table = np.concatenate([np.empty(0, SPAN), *spans])
        table = table[np.argsort(table["id"], kind="stable")]
        self._id, self._parent = table["id"].copy(), table["parent"].copy()
        self._end = table["end"].copy()
        for part in spans:
            self.correct(part)

    def correct(self, rows: NDArray[np.void]) -> None:
        """Corrects the parents of these rows in place.  Fields: parent, begin, link."""
        at = np.flatnonzero(rows["link"] == layout.LINK_STARTED)
        if len(at):
            rows["parent"][at] = self._open(rows["parent"][at], rows["begin"][at])

    def correct_records(self, block: Block) -> None:
        """Sets the parents and links of the block's records right."""
        at = np.flatnonzero((block.flags >> layout.LINK_SHIFT) == layout.LINK_STARTED)
        if block.sums is not None or not len(at):
            return
        records = block.records
        parent = self._open(records["parent"][at], begin_ticks(records["begin"][at]))
        records["parent"][at] = parent
        link = np.where(parent, Link.CONTEXT, Link.NONE).astype(np.uint8) << layout.LINK_SHIFT
        flags = (block.flags[at] & ((1 << layout.LINK_SHIFT) - 1)) | link
        records["flags"][at] = block.flags[at] = flags

    def _open(self, parents: NDArray[np.integer], begin: Ints) -> Ints:
        """From these parents outwards, the first that had not ended at `begin` (ticks); 0: none."""
        result = parents.astype(np.int64)
        rows = np.arange(len(result))
        for _ in range(DEPTH):
            if not len(rows) or not len(self._id):
                return result
            at, known = find(self._id, result[rows])
            ended = known & (self._end[at] <= begin[rows])
            rows, at = rows[ended], at[ended]
            result[rows] = self._parent[at]
        result[rows] = 0
        return result
