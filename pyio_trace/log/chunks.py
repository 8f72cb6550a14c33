"""Finds the chunks of a live log, in a file that may be cut off or damaged anywhere.

A chunk counts only if its header is sound: the magic, its own offset, a sane
size and kind.  A header is missing where a thread died between the atomic add
that claims a chunk and the writing of its header, where the file is damaged, or
where its disk was full.  The walk then goes on at the next page with a header.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyio_trace.light_dataclass import dataclass
from pyio_trace.log import layout
from pyio_trace.log.log_file import LogFile

_HEAD = layout.CHUNK.itemsize
#: Most pages of a gap that are read at once; the first reads are smaller, since most gaps are.
_MOST_PAGES = 4096


@dataclass(frozen=True)
class Chunks:
    """The chunks of a log as of one moment, in file order.

    headers: layout.CHUNK, one per chunk; sizes: bytes that the file really has
    (a torn last chunk ends with the file); skipped: bytes that were claimed and
    written to, but belong to no chunk.  (Nothing is missing from them if the
    thread was killed before its header was complete.)
    """

    headers: NDArray[np.void]
    sizes: NDArray[np.int64]
    skipped: int

    def of_kind(self, kind: int) -> tuple[NDArray[np.void], NDArray[np.int64]]:
        """(headers, sizes) of one kind."""
        mask = self.headers["kind"] == kind
        return self.headers[mask], self.sizes[mask]


def walk(file: LogFile, first: int, claimed: int) -> Chunks:
    """The chunks between the offsets first and claimed (header.next, which may lie beyond the end of the file)."""
    end = min(file.size, claimed)
    heads: list[bytes] = []
    sizes: list[int] = []
    skipped = 0
    at = first
    while at + _HEAD <= end:
        head, size = _sound_header(file, at, claimed)
        if size == 0:
            following = _next_header(file, at + layout.PAGE, end, claimed)
            if not _is_blank(file, at, min(following, end)):
                skipped += min(following, end) - at
            at = following
            continue
        heads.append(head)
        sizes.append(min(size, end - at))
        at += size
    if at < end:
        skipped += end - at
    return Chunks(np.frombuffer(b"".join(heads), layout.CHUNK), np.array(sizes, np.int64), skipped)


def _sound_header(file: LogFile, at: int, claimed: int) -> tuple[bytes, int]:
    """(header, size) of the chunk at an offset; size 0: there is no sound header."""
    head = file.read(at, _HEAD)
    if len(head) < _HEAD:
        return head, 0
    fields = np.frombuffer(head, layout.CHUNK, 1)[0]
    size = int(fields["size"])
    if int(fields["magic"]) != layout.CHUNK_MAGIC or int(fields["offset"]) != at:
        return head, 0
    if not 1 <= int(fields["kind"]) <= layout.CHUNK_SYSTEM:
        return head, 0
    if size < layout.PAGE or size % layout.PAGE or size > claimed - at:
        return head, 0
    return head, size


def _next_header(file: LogFile, start: int, end: int, claimed: int) -> int:
    """The first page from start on that begins with a chunk header; end if there is none."""
    pages = 1
    for low, high in file.written(start, end):
        at = low // layout.PAGE * layout.PAGE
        while at < high:
            read = file.read(at, min(pages * layout.PAGE, high - at))
            found = _headers_in(read, at)
            for page in found:
                if _sound_header(file, page, claimed)[1]:
                    return page
            if not read:
                return end
            at += -(-len(read) // layout.PAGE) * layout.PAGE
            pages = min(2 * pages, _MOST_PAGES)
    return end


def _is_blank(file: LogFile, start: int, end: int) -> bool:
    """Whether the range holds nothing but zeros and unfinished headers (the magic is written last)."""
    for low, high in file.written(start, end):
        at = low // layout.PAGE * layout.PAGE
        while at < high:
            read = file.read(at, min(_MOST_PAGES * layout.PAGE, high - at))
            if not read:
                return False  # the file was cut off here: its contents are gone
            pages = np.frombuffer(read + bytes(-len(read) % layout.PAGE), np.uint8).reshape(-1, layout.PAGE)
            if pages[:, :8].any() or pages[:, _HEAD:].any():
                return False
            at += len(pages) * layout.PAGE
    return True


def _headers_in(read: bytes, at: int) -> list[int]:
    """The file offsets of pages that begin as a chunk does; at: the file offset of `read`."""
    short = -len(read) % layout.PAGE
    words = np.frombuffer(read + bytes(short), "<u8").reshape(-1, layout.PAGE // 8)
    own = np.uint64(at) + np.arange(len(words), dtype=np.uint64) * np.uint64(layout.PAGE)
    pages = np.flatnonzero((words[:, 0] == np.uint64(layout.CHUNK_MAGIC)) & (words[:, 1] == own))
    return [at + page * layout.PAGE for page in pages.tolist()]
