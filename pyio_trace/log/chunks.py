"""Which chunks a live log has: the walk over a file that may end, or lie, anywhere.

A chunk is believed only if its header says so itself: its magic, its own
offset, a sane size and kind.  Where there is no such header its claimer died
between the atomic add and the header (or the file is damaged, or its disk was
full): the walk goes on at the next page that has one.

What may be such a gap is looked at through the descriptor, not the mapping: a
hole of a file on a full tmpfs can be read, but touching it is a SIGBUS.
"""

from __future__ import annotations

import mmap
import os
import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyio_trace.log import layout

_HEAD = struct.Struct("<QQQI")  # magic, offset, size, kind: the first fields of layout.CHUNK
_SCAN_PAGES = 4096


@dataclass(frozen=True)
class Chunks:
    """The chunks of a log as of one moment, in file order.

    headers: layout.CHUNK, one per chunk; sizes: bytes that are really there
    (a torn last chunk is cut at the end of the file); skipped: bytes that
    were claimed and belong to no chunk.
    """

    headers: NDArray[np.void]
    sizes: NDArray[np.int64]
    skipped: int

    def of_kind(self, kind: int) -> tuple[NDArray[np.void], NDArray[np.int64]]:
        """(headers, sizes) of one kind."""
        mask = self.headers["kind"] == kind
        return self.headers[mask], self.sizes[mask]


def gather(data: mmap.mmap, offsets: NDArray[np.int64], dtype: np.dtype[np.void]) -> NDArray[np.void]:
    """Copies of the structs at these offsets (multiples of 16, wholly inside the file)."""
    units = np.frombuffer(data, "V16", count=len(data) >> 4)
    span = -(-dtype.itemsize // 16)
    if len(offsets) == 0:
        return np.empty(0, dtype)
    # The last struct may end in the middle of a 16-byte unit, the last of the file even before its end.
    index = np.minimum((offsets >> 4)[:, None] + np.arange(span), len(units) - 1)
    raw = np.ascontiguousarray(units[index]).view(np.uint8).reshape(len(offsets), span * 16)
    return np.ascontiguousarray(raw[:, : dtype.itemsize]).view(dtype).reshape(-1)


def _next_header(descriptor: int, start: int, end: int) -> int:
    """The first page from start on that a chunk header stands on; end if there is none."""
    while start < end:
        stop = min(start + _SCAN_PAGES * layout.PAGE, end)
        read = os.pread(descriptor, (stop - start) // layout.PAGE * layout.PAGE, start)
        pages = len(read) // layout.PAGE
        if pages == 0:
            return end
        words = np.frombuffer(read, "<u8", count=pages * layout.PAGE // 8).reshape(pages, -1)
        own = np.uint64(start) + np.arange(pages, dtype=np.uint64) * np.uint64(layout.PAGE)
        for page in np.flatnonzero((words[:, 0] == np.uint64(layout.CHUNK_MAGIC)) & (words[:, 1] == own)):
            if _size_of(descriptor, start + int(page) * layout.PAGE, end):
                return start + int(page) * layout.PAGE
        start += pages * layout.PAGE
    return end


def _size_of(descriptor: int, offset: int, claimed: int) -> int:
    """The size a believable header at offset gives its chunk, else 0."""
    head = os.pread(descriptor, _HEAD.size, offset)
    if len(head) < _HEAD.size:
        return 0
    magic, own, size, kind = _HEAD.unpack(head)
    if magic != layout.CHUNK_MAGIC or own != offset or not 1 <= kind <= layout.CHUNK_PAD:
        return 0
    if size < layout.PAGE or size % layout.PAGE or size > claimed - offset:
        return 0
    return int(size)


def walk(data: mmap.mmap, descriptor: int, first: int, claimed: int) -> Chunks:
    """The chunks between first and claimed (header.next, which may lie beyond the end of the file).

    data: the file, mapped; descriptor: the same file.
    """
    end = min(len(data), claimed)
    offsets: list[int] = []
    sizes: list[int] = []
    skipped = 0
    at = first
    while at + layout.CHUNK.itemsize <= end:
        size = _size_of(descriptor, at, claimed)
        if size == 0:
            following = _next_header(descriptor, at + layout.PAGE, end)
            skipped += min(following, end) - at
            at = following
            continue
        offsets.append(at)
        sizes.append(min(size, end - at))
        at += size
    if at < end:
        skipped += end - at
    headers = gather(data, np.array(offsets, np.int64), layout.CHUNK)
    return Chunks(headers, np.array(sizes, np.int64), skipped)
