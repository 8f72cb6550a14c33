"""The heap of a live log: strings, stacks, code objects and descriptors, found by id.

An id may be anything (a damaged record, a writer that died before its object
was whole): one that leads to no whole object of the right kind is "missing",
None or a False in a mask, never an error.  Objects cannot overlap in a sound
log, so what is read of it in all is bounded by its size; a forged log that
would unfold to more is cut there.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from pyio_trace.log import layout
from pyio_trace.log.chunks import gather
from pyio_trace.log.live import LiveLog

_TWO_WORDS = struct.Struct("<IIII")  # kind, size and two more: the start of every heap object
_CODE = struct.Struct("<IIIIII")
#: Ids of one page.
_PER_PAGE = layout.PAGE >> layout.ID_SHIFT
_MAX_FRAMES = 4096


class Heap:
    """Objects of one log by id (uint32: file offset / 16)."""

    def __init__(self, log: LiveLog) -> None:
        self._data = log.data
        self._end = len(log.data)
        # One string can be a path, a name and a detail: each reader takes it once.
        self._left = 4 * self._end + (1 << 20)

    def string(self, identity: int) -> tuple[bytes, int] | None:
        """A string's bytes and the id of its base; None: missing."""
        found = self._object(identity, layout.HEAP_STRING)
        if found is None:
            return None
        at, size, base, length = found
        if length > size - layout.STRING.itemsize or length > self._left:
            return None
        self._left -= length
        start = at + layout.STRING.itemsize
        return self._data[start : start + length], base

    def text(self, identity: int) -> str | None:
        """A string as text, what is no UTF-8 in it backslash-escaped; None: missing."""
        found = self.string(identity)
        return None if found is None else found[0].decode("utf-8", "backslashreplace")

    def frames(self, identity: int) -> tuple[list[tuple[int, int]], bool] | None:
        """A stack as (code id, line) pairs, innermost first, and whether outer frames were left off."""
        found = self._object(identity, layout.HEAP_STACK)
        if found is None:
            return None
        at, size, count, truncated = found
        room = (size - layout.STACK.itemsize) // layout.FRAME.itemsize
        if count > room or count > _MAX_FRAMES or count * 8 > self._left:
            return None
        self._left -= count * 8
        words = struct.unpack_from(f"<{2 * count}I", self._data, at + layout.STACK.itemsize)
        return list(zip(words[::2], words[1::2], strict=True)), truncated != 0

    def code(self, identity: int) -> tuple[int, int] | None:
        """A code object's (file string id, function string id)."""
        if self._object(identity, layout.HEAP_CODE) is None:
            return None
        at = identity << layout.ID_SHIFT
        if at + _CODE.size > self._end:
            return None
        _, _, file, function, _, _ = _CODE.unpack_from(self._data, at)
        return file, function

    def descriptors(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.void], NDArray[np.bool_]]:
        """(layout.DESC, which of them are there) of many ids at once; a missing one is all zero."""
        offsets = ids << layout.ID_SHIFT
        inside = (ids > 0) & (offsets + layout.DESC.itemsize <= self._end)
        found = gather(self._data, np.where(inside, offsets, 0), layout.DESC)
        valid = inside & (found["heap"]["kind"] == layout.HEAP_DESC) & (found["heap"]["size"] >= layout.DESC.itemsize)
        found[~valid] = np.zeros((), layout.DESC)
        return found, valid

    def kinds(self, ids: NDArray[np.int64]) -> NDArray[np.uint32]:
        """What kind of object each id leads to; 0: missing."""
        offsets = ids << layout.ID_SHIFT
        inside = (ids > 0) & (offsets + layout.HEAP.itemsize <= self._end)
        found = gather(self._data, np.where(inside, offsets, 0), layout.HEAP)
        return np.where(inside, found["kind"], 0).astype(np.uint32)

    def _object(self, identity: int, kind: int) -> tuple[int, int, int, int] | None:
        """(offset, size, third word, fourth word) of a whole object of this kind."""
        at = identity << layout.ID_SHIFT
        if at < layout.FIRST_CHUNK or at + _TWO_WORDS.size > self._end:
            return None
        found, size, third, fourth = _TWO_WORDS.unpack_from(self._data, at)
        if found != kind or size < _TWO_WORDS.size or at + size > self._end:
            return None
        return at, size, third, fourth


class HeapSlots:
    """A dense numbering of the ids that heap chunks can have.

    Tables over all ids would be as large as the records; over the slots of the
    heap alone they are small, and looking one up is two array reads.  Slots
    below NONE stand for "no such object".
    """

    NONE = _PER_PAGE

    def __init__(self, log: LiveLog) -> None:
        headers, sizes = log.chunks.of_kind(layout.CHUNK_HEAP)
        first = headers["offset"].astype(np.int64) // layout.PAGE
        counts = -(-sizes // layout.PAGE)
        starts = np.cumsum(counts) - counts
        #: page of the file of each run of slots; the first run is "none"
        within = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(starts, counts)
        self._pages = np.concatenate([np.zeros(1, np.int64), np.repeat(first, counts) + within])
        self._base = np.zeros(len(log.data) // layout.PAGE + 2, np.int32)
        self._base[self._pages[1:]] = np.arange(1, len(self._pages), dtype=np.int32) * _PER_PAGE
        self.count = len(self._pages) * _PER_PAGE

    def of(self, ids: NDArray[np.uint32]) -> NDArray[np.int32]:
        """The slots of ids; below NONE for what no heap chunk holds."""
        slots: NDArray[np.int32] = self._base.take(ids >> np.uint32(8), mode="clip")
        slots += (ids & np.uint32(_PER_PAGE - 1)).astype(np.int32)
        return slots

    def ids(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """The ids of slots (at or above NONE)."""
        return self._pages[slots // _PER_PAGE] * _PER_PAGE + slots % _PER_PAGE
