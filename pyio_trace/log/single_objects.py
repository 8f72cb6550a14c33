"""The heap of a live log that grows: each object is read by itself when it is asked for.

A reader that comes back every second needs few objects, and ids that were
written since the last time.  An image of the heap would be as long as the heap.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pyio_trace.log import layout
from pyio_trace.log.heap import Heap
from pyio_trace.log.log_file import LogFile

#: No object is longer: csrc/core/log/ids.h cuts strings there.
_LONGEST = (1 << 20) + layout.PAGE
_HEAD = 16


class SingleObjects(Heap):
    """Objects by id, as Heap has them, without numbers for all of them (slots)."""

    def __init__(self, file: LogFile, room: int) -> None:
        """room: bytes that may be read in all, which bounds what a forged log can ask for."""
        self.file = file
        self._left = room
        self._text_left = dict.fromkeys(("paths", "sites", "stacks"), room)

    @cached_property
    def _view(self) -> memoryview:
        """The object that was read last."""
        return memoryview(b"")

    def release(self) -> None:
        """Nothing is kept."""

    def _object(self, identity: int, kind: int) -> tuple[int, int, int, int] | None:
        at = identity << layout.ID_SHIFT
        head = self.file.read(at, _HEAD) if at >= layout.FIRST_CHUNK else b""
        if len(head) < _HEAD:
            return None
        found, size, third, fourth = memoryview(head).cast("I")
        if found != kind or not _HEAD <= size <= _LONGEST:
            return None
        read = head if size == _HEAD else self.file.read(at, size)
        if len(read) < size:
            return None
        self.__dict__["_view"] = memoryview(read)
        return 0, size, third, fourth

    def descriptors(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.void], NDArray[np.bool_]]:
        rows = np.zeros(len(ids), layout.DESC)
        known = np.zeros(len(ids), np.bool_)
        for row, identity in enumerate(ids.tolist()):
            if self._object(identity, layout.HEAP_DESC) is not None and len(self._view) >= layout.DESC.itemsize:
                rows[row] = np.frombuffer(self._view, layout.DESC, 1)[0]
                known[row] = True
        return rows, known
