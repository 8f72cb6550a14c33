"""The sums of like operations (mode `profile`) of a log that grows: all are read at each look, and the differences
count."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pyio_trace.light_dataclass import dataclass
from pyio_trace.log import layout
from pyio_trace.log.added import ADDED, Begun, Meaning
from pyio_trace.log.extents import ROWS, SUMS_AT_ONCE, column
from pyio_trace.log.log_file import LogFile

#: Bytes of sums that are read; calls in flight that are listed, of a chunk.
_MOST, _MOST_BEGUN = 1 << 28, 1 << 10


@dataclass
class _SumChunk:
    """A chunk of sums.  ticks: when it was claimed; before: by slot the calls, bytes and ticks at the last look."""

    kind: int
    at: int
    size: int
    ticks: int
    before: NDArray[np.int64]


class GrowingSums:
    """begun: the calls in flight at the last look."""

    def __init__(self, file: LogFile, meaning: Meaning) -> None:
        self._file, self._meaning = file, meaning
        self._chunks: list[_SumChunk] = []
        self.begun: list[Begun] = []

    def add(self, header: np.void, size: int) -> bool:
        """Takes a chunk (layout.CHUNK); False: there are too many."""
        if sum(one.size for one in self._chunks) + size > _MOST:
            return False
        kind, at, ticks = int(header["kind"]), int(header["offset"]), int(header["clock"]["ticks"])
        self._chunks.append(_SumChunk(kind, at, size, ticks, np.zeros((0, 3), np.int64)))
        return True

    def look(self) -> Iterator[NDArray[np.void]]:
        """What was added since the last look (ADDED)."""
        self.begun = []
        for chunk in self._chunks:
            rows = self._rows_of(chunk)
            now = np.stack([rows[name].astype(np.int64) for name in ("count", "moved", "ticks")], axis=1)
            former = np.zeros_like(now)
            former[: len(chunk.before)] = chunk.before[: len(now)]
            chunk.before = now
            first, step = ROWS[chunk.kind]
            ids = (chunk.at + first + step * np.arange(len(rows), dtype=np.int64)) >> layout.ID_SHIFT
            shown = ~self._meaning.hidden.take(rows["op"])
            changed = np.flatnonzero(shown & (now != former).any(axis=1))
            yield self._added(ids[changed], rows[changed], np.maximum(now[changed] - former[changed], 0))
            running = np.flatnonzero(shown & (rows["begun"] > rows["count"]))
            self.begun += [_begun(chunk, int(ids[at]), rows[at]) for at in running[:_MOST_BEGUN].tolist()]

    def _rows_of(self, chunk: _SumChunk) -> NDArray[np.void]:
        """The sums of a chunk, up to the last one in use; those that are not are zero."""
        first, step = ROWS[chunk.kind]
        found = [np.zeros(0, layout.PROFILE)]
        slots = (min(chunk.size, self._file.whole - chunk.at) - first) // step
        for start in range(0, slots, SUMS_AT_ONCE):
            read = self._file.read(chunk.at + first + start * step, min(slots - start, SUMS_AT_ONCE) * step)
            raw = np.frombuffer(read, np.uint8, len(read) // step * step).reshape(-1, step)
            rows = column(raw, layout.PROFILE)
            rows[rows["heap"]["kind"] != layout.HEAP_PROFILE] = np.zeros((), layout.PROFILE)
            found.append(rows)
            if not rows["begun"].any():
                break
        return np.concatenate(found)

    def _added(self, ids: NDArray[np.int64], rows: NDArray[np.void], more: NDArray[np.int64]) -> NDArray[np.void]:
        added = np.zeros(len(rows), ADDED)
        added["id"], added["process"] = ids, rows["process"]
        added["tid"] = rows["tid"].astype(np.uint32).view(np.int32)
        for name in ("op", "desc", "stack"):
            added[name] = rows[name]
        added["calls"], added["ticks"] = more[:, 0], more[:, 2]
        added["moved"] = np.where(self._meaning.moves.take(rows["op"]), more[:, 1], 0)
        return added


def _begun(chunk: _SumChunk, identity: int, row: np.void) -> Begun:
    record = np.zeros(1, layout.RECORD)
    for name in ("op", "desc", "stack", "parent", "aux"):
        record[name] = row[name]
    record["flags"], record["size"], record["result"] = layout.BEGUN, layout.NO_BYTES, layout.NO_BYTES
    record["begin"] = int(row["last"]) or chunk.ticks
    return Begun(identity, int(row["process"]), int(row["tid"]), record[0], False)
