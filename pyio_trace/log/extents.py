"""Extents: the stretches of a live log's chunks that hold rows (records, or sums of like operations).

All extents are found once, when a log is opened, with as many rows as there
are at that moment.  A writer goes on while its log is read, and every pass over
the log must find the same rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.log import layout
from pyio_trace.log.log_file import LogFile

#: 48-byte records are moved as six words: numpy copies structs field by field.
WORDS = layout.RECORD.itemsize // 8
#: Chunk kinds that hold rows: offset of the first row in the chunk, bytes from one row to the next.
ROWS = {
    layout.CHUNK_OPS: (layout.OPS_START, layout.RECORD.itemsize),
    layout.CHUNK_SUMS: (layout.HEAP_START, layout.PROFILE_SIZE),
    layout.CHUNK_SUMS_DATA: (layout.HEAP_START, layout.PROFILE_DATA_SIZE),
}
#: Sums that are read at once.
SUMS_AT_ONCE = 1 << 12


class Extent(NamedTuple):
    """Consecutive slots for rows in one chunk.

    at: file offset of the first slot; slots: their number; kind: of the chunk;
    process (id), tid: the chunk's owner, for rows that do not name one; ticks:
    when the chunk was claimed.  in_use: for sums, which slots hold one.
    snapshot: the records as they were, where a ring may overwrite them.
    """

    at: int
    slots: int
    kind: int
    process: int
    tid: int
    ticks: int
    in_use: NDArray[np.bool_] | None = None
    snapshot: NDArray[np.uint64] | None = None

    def split(self, slots: int) -> tuple[Extent, Extent]:
        """The first slots, and the rest."""
        count = min(self.slots, slots)
        first, rest = self._replace(slots=count), self._replace(slots=self.slots - count)
        rest = rest._replace(at=self.at + count * ROWS[self.kind][1])
        if self.in_use is not None:
            first, rest = first._replace(in_use=self.in_use[:count]), rest._replace(in_use=self.in_use[count:])
        if self.snapshot is not None:
            first = first._replace(snapshot=self.snapshot[:count])
            rest = rest._replace(snapshot=self.snapshot[count:])
        return first, rest

    def read(self, file: LogFile, into: NDArray[np.uint64]) -> None:
        """Reads the records, as words."""
        if self.snapshot is None:
            file.fill(self.at, into)
        else:
            into[:] = self.snapshot

    def raw(self, file: LogFile) -> NDArray[np.uint8]:
        """The slots as bytes, shape (slots, bytes of a slot)."""
        raw = np.empty((self.slots, ROWS[self.kind][1]), np.uint8)
        file.fill(self.at, raw)
        return raw

    def with_snapshot(self, file: LogFile) -> Extent:
        """The extent with a copy of its records as they are now."""
        if self.kind != layout.CHUNK_OPS:
            return self
        words = np.empty((self.slots, WORDS), np.uint64)
        file.fill(self.at, words)
        return self._replace(snapshot=words)

    def with_slots_in_use(self, file: LogFile) -> Extent:
        """An extent of sums that knows which slots are in use now; a slot used later would be a row of some passes
        only."""
        in_use = [np.empty(0, np.bool_)]
        rest = self
        while rest.slots:
            some, rest = rest.split(SUMS_AT_ONCE)
            rows = column(some.raw(file), layout.PROFILE)
            in_use.append((rows["heap"]["kind"] == layout.HEAP_PROFILE) & (rows["begun"] > 0))
        return self._replace(in_use=np.concatenate(in_use))


def extents_of(file: LogFile, header: np.void, size: int) -> list[Extent]:
    """The extents of a chunk that holds rows: up to its last row, without the holes of the file."""
    kind = int(header["kind"])
    first_row, step = ROWS[kind]
    start = int(header["offset"]) + first_row
    end = start + max(size - first_row, 0) // step * step
    owner = int(header["process"]), int(header["tid"]), int(header["clock"]["ticks"])
    found: list[Extent] = []
    covered = 0  # slots of the chunk that belong to an extent already
    for low, high in file.written(start, end):
        first = max((low - start) // step, covered)
        covered = -(-(high - start) // step)
        found.append(Extent(start + first * step, covered - first, kind, *owner))
    if kind != layout.CHUNK_OPS:
        return [extent.with_slots_in_use(file) for extent in found]
    while found and not (filled := _slots_filled(file, found[-1])):
        found.pop()
    return [*found[:-1], found[-1]._replace(slots=filled)] if found else []


def column(raw: NDArray[np.uint8], dtype: np.dtype[np.void]) -> NDArray[np.void]:
    """The structs at the start of rows of bytes."""
    return np.ascontiguousarray(raw[:, : dtype.itemsize]).view(dtype).reshape(-1)


def _slots_filled(file: LogFile, extent: Extent) -> int:
    """The number of slots up to the last one that is not empty.

    Searches from the end in steps that grow eightfold: most chunks are full or
    nearly so.
    """
    count, step = extent.slots, 1
    while count:
        step = min(step, count)
        words = np.empty((step, WORDS), np.uint64)
        file.fill(extent.at + (count - step) * layout.RECORD.itemsize, words)
        states = words.view(layout.RECORD).reshape(-1)["flags"] & layout.STATE_MASK
        filled = np.flatnonzero(states)
        if len(filled):
            return count - step + int(filled[-1]) + 1
        count, step = count - step, min(step * 8, 1 << 14)
    return 0
