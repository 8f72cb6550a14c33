"""Where the rows of a live log lie: records, or sums of like operations, slot after slot within a chunk.

A run is found once, when a log is opened, with as many rows as there are then:
a writer goes on while its log is read, and every pass has to find the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.log import layout
from pyio_trace.log.file import LogFile

#: 48-byte records are moved as six words: numpy copies structs field by field.
WORDS = layout.RECORD.itemsize // 8
#: Of chunks with rows: where the first one is, and bytes from one to the next.
ROWS = {
    layout.CHUNK_OPS: (layout.OPS_START, layout.RECORD.itemsize),
    layout.CHUNK_SUMS: (layout.HEAP_START, layout.PROFILE_SIZE),
    layout.CHUNK_SUMS_DATA: (layout.HEAP_START, layout.PROFILE_DATA_SIZE),
}
#: Sums that are worked on at once.
SUMS_AT_ONCE = 1 << 12


class Run(NamedTuple):
    """Slots for rows that follow each other in one chunk.

    at: offset of the first; slots: how many; kind: of the chunk; process (id)
    and tid: of the thread, where the rows do not say; ticks: when the chunk was
    claimed.  made: of sums, those that there are.  kept: records as they were,
    where their place may be used again (a ring).
    """

    at: int
    slots: int
    kind: int
    process: int
    tid: int
    ticks: int
    made: NDArray[np.bool_] | None = None
    kept: NDArray[np.uint64] | None = None

    def cut(self, slots: int) -> tuple[Run, Run]:
        """The first slots, and the rest."""
        taken = min(self.slots, slots)
        first, rest = self._replace(slots=taken), self._replace(slots=self.slots - taken)
        rest = rest._replace(at=self.at + taken * ROWS[self.kind][1])
        if self.made is not None:
            first, rest = first._replace(made=self.made[:taken]), rest._replace(made=self.made[taken:])
        if self.kept is not None:
            first, rest = first._replace(kept=self.kept[:taken]), rest._replace(kept=self.kept[taken:])
        return first, rest

    def read(self, file: LogFile, into: NDArray[np.uint64]) -> None:
        """Reads the records, as words."""
        if self.kept is None:
            file.fill(self.at, into)
        else:
            into[:] = self.kept

    def raw(self, file: LogFile) -> NDArray[np.uint8]:
        """The slots as they are: rows of bytes."""
        raw = np.empty((self.slots, ROWS[self.kind][1]), np.uint8)
        file.fill(self.at, raw)
        return raw

    def with_kept(self, file: LogFile) -> Run:
        """The run with its records as they are now."""
        if self.kind != layout.CHUNK_OPS:
            return self
        words = np.empty((self.slots, WORDS), np.uint64)
        file.fill(self.at, words)
        return self._replace(kept=words)

    def with_made(self, file: LogFile) -> Run:
        """A run of sums with those that there are now: later ones would be rows of one pass and not of another."""
        made = [np.empty(0, np.bool_)]
        rest = self
        while rest.slots:
            some, rest = rest.cut(SUMS_AT_ONCE)
            rows = column(some.raw(file), layout.PROFILE)
            made.append((rows["heap"]["kind"] == layout.HEAP_PROFILE) & (rows["begun"] > 0))
        return self._replace(made=np.concatenate(made))


def runs_of(file: LogFile, header: np.void, size: int) -> list[Run]:
    """The runs of a chunk with rows: up to its last row, without the holes of the file."""
    kind = int(header["kind"])
    first_row, step = ROWS[kind]
    start = int(header["offset"]) + first_row
    end = start + max(size - first_row, 0) // step * step
    whose = int(header["process"]), int(header["tid"]), int(header["clock"]["ticks"])
    found: list[Run] = []
    taken = 0  # slots of the chunk that the runs so far have
    for low, high in file.written(start, end):
        first = max((low - start) // step, taken)
        taken = -(-(high - start) // step)
        found.append(Run(start + first * step, taken - first, kind, *whose))
    if kind != layout.CHUNK_OPS:
        return [run.with_made(file) for run in found]
    while found and not (filled := _filled(file, found[-1])):
        found.pop()
    return [*found[:-1], found[-1]._replace(slots=filled)] if found else []


def column(raw: NDArray[np.uint8], dtype: np.dtype[np.void]) -> NDArray[np.void]:
    """The structs at the start of rows of bytes."""
    return np.ascontiguousarray(raw[:, : dtype.itemsize]).view(dtype).reshape(-1)


def _filled(file: LogFile, run: Run) -> int:
    """How many slots of a run there are up to the last that is not empty."""
    count, look = run.slots, 1
    while count:
        look = min(look, count)
        words = np.empty((look, WORDS), np.uint64)
        file.fill(run.at + (count - look) * layout.RECORD.itemsize, words)
        states = words.view(layout.RECORD).reshape(-1)["flags"] & layout.STATE_MASK
        filled = np.flatnonzero(states)
        if len(filled):
            return count - look + int(filled[-1]) + 1
        count, look = count - look, min(look * 8, 1 << 14)
    return 0
