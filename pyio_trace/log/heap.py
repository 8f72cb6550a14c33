"""The heap of a live log: strings, stacks, code objects and descriptors, found by id.

An id can be wrong: the record may be damaged, or the writer may have died
before its object was complete.  An id that leads to no complete object of the
right kind is "missing": None, or False in a mask, never an error.  Objects of a
sound log do not overlap, so the bytes read from its heap are bounded by its
size.  That bound is enforced, so that a forged log cannot expand beyond it.
"""

from __future__ import annotations

import struct
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pyio_trace.log import layout
from pyio_trace.log.live import LiveLog

_MAPPING = struct.Struct("<IIIIIIIIQQQQQQQQQQ")  # layout.MAPPING
_PACKAGE = struct.Struct("<IIIIQ")  # layout.PACKAGE
_TWO_WORDS = struct.Struct("<IIII")  # kind, size and two more: the start of every heap object
#: Ids in one page, and bytes that one id stands for.
_PER_PAGE = layout.PAGE >> layout.ID_SHIFT
_UNIT = 1 << layout.ID_SHIFT
_MAX_FRAMES = 4096
_MOST_SUBMITTERS = 16
#: Most characters of all paths, or of all stacks: less than one Arrow array of strings can hold.
_MOST_TEXT = 1 << 30


class HeapSlots:
    """A dense numbering of the ids that heap chunks can have.

    A table indexed by id would be as long as the log.  Indexed by slot it covers
    the heap only, and a look-up is two array reads.  Slots below NONE stand for
    "no such object".
    """

    NONE = _PER_PAGE

    def __init__(self, log: LiveLog) -> None:
        headers, sizes = log.chunks.of_kind(layout.CHUNK_HEAP)
        # Only the pages of a chunk that have been handed out: short-lived processes use few of them.
        given = np.minimum(headers["cursor"], np.uint64(1 << 40)).astype(np.int64) + (layout.PAGE - 1) & -layout.PAGE
        sizes = np.where(headers["cursor"] < layout.HEAP_START, sizes, np.minimum(given, sizes))
        #: (first byte, end) in the file of each range that has slots
        self.stretches = [
            (low // layout.PAGE * layout.PAGE, high)
            for at, size in zip(headers["offset"].tolist(), sizes.tolist(), strict=True)
            for low, high in log.file.written(at, at + size)
        ]
        first = np.array([low // layout.PAGE for low, _ in self.stretches], np.int64)
        counts = np.array([-(-(high - low) // layout.PAGE) for low, high in self.stretches], np.int64)
        starts = np.cumsum(counts) - counts
        within = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(starts, counts)
        #: by page of slots: the page of the file; the first page stands for "no such object"
        self._pages = np.concatenate([np.zeros(1, np.int64), np.repeat(first, counts) + within])
        self._base = np.zeros(int(self._pages.max()) + 2, np.int32)
        self._base[self._pages[1:]] = np.arange(1, len(self._pages), dtype=np.int32) * _PER_PAGE
        self._base_of = self._base.data  # single elements are read faster from it
        #: by page of slots: the slot at which its range ends
        self.ends = np.concatenate([np.zeros(1, np.int64), np.repeat((1 + starts + counts) * _PER_PAGE, counts)])
        self.count = len(self._pages) * _PER_PAGE

    def of(self, ids: NDArray[np.uint32]) -> NDArray[np.int64]:
        """The slots of ids; below NONE for ids that no heap chunk holds."""
        slots = ids.astype(np.int64)
        first = self._base.take(slots >> 8, mode="clip")
        slots &= _PER_PAGE - 1
        slots += first
        return slots

    def of_one(self, identity: int) -> int:
        """The slot of one id."""
        page = identity // _PER_PAGE
        return (self._base_of[page] if 0 <= page < len(self._base) else 0) + identity % _PER_PAGE

    def ids(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """The ids of slots (at or above NONE)."""
        return self._pages[slots // _PER_PAGE] * _PER_PAGE + slots % _PER_PAGE


class ObjectNumbers:
    """Numbers the objects that records refer to from 1, in the order of their ids; 0 stands for "no such object".

    A descriptor alone takes four slots and most strings more, so a table by number is much shorter than one by slot.
    """

    def __init__(self, slots: HeapSlots, used: NDArray[np.int64]) -> None:
        """used: the objects' slots, distinct and ascending."""
        used = used[np.searchsorted(used, HeapSlots.NONE) :]
        self._slots = slots
        self._number = np.zeros(slots.count, np.int32)
        self._number[used] = np.arange(1, len(used) + 1, dtype=np.int32)
        #: numbers there are, 0 included
        self.count = len(used) + 1

    def of(self, ids: NDArray[np.uint32]) -> NDArray[np.int64]:
        """The numbers of ids; 0 for ids of objects that are not in use."""
        return self._number.take(self._slots.of(ids)).astype(np.int64)

    def of_slots(self, slots: NDArray[np.integer]) -> NDArray[np.int32]:
        """The numbers of the objects in these slots."""
        return self._number.take(slots)


class Heap:
    """Objects of one log by id (uint32: file offset / 16); slots: their numbering."""

    def __init__(self, log: LiveLog) -> None:
        self.slots = HeapSlots(log)
        self._file = log.file
        self._ends = self.slots.ends.data
        # Bytes that may still be read.  One string can be a path, a name and a detail, and each is read once.
        size = self.slots.count * _UNIT
        self._left = 4 * size + (1 << 20)
        most = min(64 * size + (64 << 20), _MOST_TEXT)
        self._text_left = dict.fromkeys(("paths", "sites", "stacks"), most)

    @cached_property
    def _image(self) -> NDArray[np.uint8]:
        """The heap as it is now, slot by slot; the slots below NONE are zero."""
        image = np.zeros(self.slots.count * _UNIT, np.uint8)
        at = HeapSlots.NONE * _UNIT
        for low, high in self.slots.stretches:
            self._file.fill(low, image[at : at + high - low])
            at += -(-(high - low) // layout.PAGE) * layout.PAGE
        return image

    @cached_property
    def _view(self) -> memoryview:
        return self._image.data

    def release(self) -> None:
        """Frees the memory; the next look-up reads the heap again.  No other thread may look anything up meanwhile."""
        self.__dict__.pop("_view", None)
        self.__dict__.pop("_image", None)

    def room_for(self, what: str, length: int) -> bool:
        """Whether the "paths", "sites" or "stacks" may grow by this many characters; if so, they are counted."""
        if length > self._text_left[what]:
            return False
        self._text_left[what] -= length
        return True

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
        return bytes(self._view[start : start + length]), base

    def text(self, identity: int) -> str | None:
        """A string as text, with bytes that are not UTF-8 backslash-escaped; None: missing."""
        found = self.string(identity)
        return None if found is None else found[0].decode("utf-8", "backslashreplace")

    def base(self, identity: int) -> int:
        """The id of a string's base; 0: it has none, or is missing."""
        found = self._object(identity, layout.HEAP_STRING)
        return 0 if found is None else found[2]

    def frames(self, identity: int) -> tuple[list[tuple[int, int]], bool] | None:
        """A stack as (code id, line) pairs, innermost first, and whether outer frames were cut off."""
        found = self._object(identity, layout.HEAP_STACK)
        if found is None:
            return None
        at, size, count, flags = found
        room = (size - layout.STACK.itemsize) // layout.FRAME.itemsize
        if count > room or count > _MAX_FRAMES or count * 8 > self._left:
            return None
        self._left -= count * 8
        words = struct.unpack_from(f"<{2 * count}I", self._view, at + layout.STACK.itemsize)
        return list(zip(words[::2], words[1::2], strict=True)), flags & 0xFFFF != 0

    def submitters(self, identity: int) -> list[int]:
        """The ids of the stacks that submitted the work this stack belongs to, the latest first."""
        found = self._object(identity, layout.HEAP_STACK)
        if found is None:
            return []
        at, size, count, flags = found
        number = min(flags >> 16, _MOST_SUBMITTERS)
        if count > _MAX_FRAMES or layout.STACK.itemsize + (count + number) * layout.FRAME.itemsize > size:
            return []
        first = at + layout.STACK.itemsize + count * layout.FRAME.itemsize
        return list(struct.unpack_from(f"<{2 * number}I", self._view, first)[::2])

    def code(self, identity: int) -> tuple[int, int] | None:
        """A code object's (file string id, function string id)."""
        found = self._object(identity, layout.HEAP_CODE)
        if found is None or found[1] < layout.CODE.itemsize:
            return None
        return found[2], found[3]

    def code_key(self, identity: int) -> tuple[int, int]:
        """A code object's first line, and the hash of its line table (0: not known)."""
        found = self._object(identity, layout.HEAP_CODE)
        if found is None or found[1] < layout.CODE.itemsize:
            return 0, 0
        first_line, line_table = struct.unpack_from("<2I", self._view, found[0] + 16)
        return first_line, line_table

    def loaded(self, identity: int) -> tuple[int, int] | None:
        """An entry of a list of loaded libraries or of sent code: (id of the entry before, id of the path or code)."""
        found = self._object(identity, layout.HEAP_LOADED)
        return None if found is None else (found[2], found[3])

    def package(self, identity: int) -> tuple[int, int, int] | None:
        """An imported package: (id of the entry before, string id of its name, ticks)."""
        found = self._object(identity, layout.HEAP_IMPORT)
        if found is None or found[1] < _PACKAGE.size:
            return None
        _, _, previous, name, ticks = _PACKAGE.unpack_from(self._view, found[0])
        return previous, name, ticks

    def mapping(self, identity: int) -> tuple[int, ...] | None:
        """A mapping's fields, in the order of layout.MAPPING (its heap header as two of them); None: missing."""
        found = self._object(identity, layout.HEAP_MAPPING)
        if found is None or found[1] < _MAPPING.size:
            return None
        return _MAPPING.unpack_from(self._view, found[0])

    def descriptors(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.void], NDArray[np.bool_]]:
        """(layout.DESC, mask of those that exist) for many ids at once; a missing one is all zero."""
        slots = self.slots.of(ids.astype(np.uint32))
        units = layout.DESC.itemsize // _UNIT
        inside = slots + units <= self.slots.ends[slots // _PER_PAGE]
        # The bytes that begin at each slot, as one void element, which numpy moves as a whole.
        begins = np.ndarray(self.slots.count - units + 1, f"V{layout.DESC.itemsize}", self._view, 0, (_UNIT,))
        found = begins[np.where(inside, slots, 0)].view(layout.DESC)
        valid = inside & (found["heap"]["kind"] == layout.HEAP_DESC) & (found["heap"]["size"] >= layout.DESC.itemsize)
        found[~valid] = np.zeros((), layout.DESC)
        return found, valid

    def kinds(self, ids: NDArray[np.int64]) -> NDArray[np.uint32]:
        """What kind of object each id leads to; 0: missing."""
        at = self.slots.of(ids.astype(np.uint32)) * (_UNIT // 4)
        kinds: NDArray[np.uint32] = self._image.view(np.uint32)[at]
        return kinds

    def _object(self, identity: int, kind: int) -> tuple[int, int, int, int] | None:
        """(offset in the image, size, third word, fourth word) of a complete object of this kind."""
        slot = self.slots.of_one(identity)
        if slot < HeapSlots.NONE:
            return None
        at = slot * _UNIT
        found, size, third, fourth = _TWO_WORDS.unpack_from(self._view, at)
        if found != kind or size < _TWO_WORDS.size or at + size > self._ends[slot // _PER_PAGE] * _UNIT:
            return None
        return at, size, third, fourth
