"""The live log, raw: a memory-mapped file read in place at any moment.

Owns the file: that it is a log of this version, its header, operation table,
chunks, process entries, and the records in blocks.  Nothing is copied whole,
and pages once read are given back.  Whatever the bytes, reading gives records
or a LogError.  Meaning is given in pyio_trace.join; the writer is csrc/core.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pyio_trace.errors import LogError
from pyio_trace.log import layout
from pyio_trace.log.chunks import Chunks, gather, walk
from pyio_trace.log.clock import Clock, clock_of

#: 48-byte records are moved as six words: numpy copies structs field by field.
_WORDS = layout.RECORD.itemsize // 8


@dataclass(frozen=True)
class Block:
    """Some records that are not empty, in the order of their ids.

    records: layout.RECORD (a copy); ids: int64; process: id of the writer's
    process chunk, int64; tid: int32.
    """

    records: NDArray[np.void]
    ids: NDArray[np.int64]
    process: NDArray[np.int64]
    tid: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.records)

    def where(self, mask: NDArray[np.bool_]) -> Block:
        """The rows of the mask."""
        words = self.records.view("<u8").reshape(-1, _WORDS)[mask]
        return Block(words.view(layout.RECORD).reshape(-1), self.ids[mask], self.process[mask], self.tid[mask])


class LiveLog:
    """A live log opened for reading, as of this moment.

    Raises LogError: no-such-log, not-a-log, log-unreadable, log-truncated,
    log-version, log-damaged.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        descriptor = _open(self.path)
        try:
            self._read(descriptor)
        except OSError as error:
            raise LogError("log-unreadable", f"{path}: cannot be read: {error.strerror}") from None
        finally:
            os.close(descriptor)

    def _read(self, descriptor: int) -> None:
        self.data = _map(self.path, descriptor)
        self.header = _header(self.path, self.data)
        self.op_rows = np.frombuffer(self.data, layout.OP_ROW, layout.MAX_OPS, layout.OPTABLE_OFFSET).copy()
        claimed = max(int(self.header["next"]), int(self.header["first_chunk"]))
        self.chunks: Chunks = walk(self.data, descriptor, int(self.header["first_chunk"]), claimed)
        pairs = self.chunks.headers[self.chunks.headers["kind"] != layout.CHUNK_PAD]["clock"]
        ends = self.processes()["end_clock"]
        pairs = np.concatenate([pairs, ends[ends["ticks"] != 0]])
        self.clock: Clock = clock_of(int(self.header["tick_kind"]), self.header["first"], pairs)
        #: Bytes that were written and are not there: cut off, or never given a chunk header.  (A claim for which
        #: there was no room leaves a gap too; what it was for is counted.)
        written = min(claimed, int(self.header["budget"]) or claimed)
        gaps = 0 if self.header["full_reason"] else self.chunks.skipped
        self.torn = gaps + max(written - len(self.data), 0)
        self._ops, self._sizes = self.chunks.of_kind(layout.CHUNK_OPS)

    def processes(self) -> NDArray[np.void]:
        """The process entries (layout.PROCESS_ENTRY), oldest first; their id is chunk.offset >> 4."""
        headers, sizes = self.chunks.of_kind(layout.CHUNK_PROCESS)
        whole = headers[sizes >= layout.PROCESS_ENTRY.itemsize]
        return gather(self.data, whole["offset"].astype(np.int64), layout.PROCESS_ENTRY)

    def counters(self, process: int) -> NDArray[np.void]:
        """A process's counters (layout.COUNTER, by operation number), by its id; 0: those of no process."""
        at = (process << layout.ID_SHIFT) + layout.COUNTERS_OFFSET if process else layout.OVERFLOW_OFFSET
        count = max(0, min(layout.MAX_OPS, (len(self.data) - at) // layout.COUNTER.itemsize))
        return np.frombuffer(self.data, layout.COUNTER, count, at).copy() if count else np.empty(0, layout.COUNTER)

    def record_slots(self) -> int:
        """How many records there can be at most: what the chunks have room for."""
        return int(np.maximum(self._sizes - layout.OPS_START, 0).sum()) // layout.RECORD.itemsize

    def blocks(self, rows: int) -> Iterator[Block]:
        """All records that are not empty, in the order of their ids, at most rows at a time."""
        pending: list[tuple[NDArray[np.uint64], NDArray[np.int64], np.void]] = []
        pending_rows = 0
        for header, size in zip(self._ops, self._sizes.tolist(), strict=True):
            start = int(header["offset"]) + layout.OPS_START
            count = (size - layout.OPS_START) // layout.RECORD.itemsize
            for first in range(0, count, rows):
                words, ids = self._records(start + first * layout.RECORD.itemsize, min(rows, count - first))
                if len(ids) == 0:
                    continue
                if pending_rows + len(ids) > rows:
                    yield _block(pending)
                    pending, pending_rows = [], 0
                pending.append((words, ids, header))
                pending_rows += len(ids)
            self._give_back(int(header["offset"]), size)
        if pending:
            yield _block(pending)

    def _records(self, at: int, count: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Copies of the records among count slots that are not empty, as words, and their ids."""
        words = np.frombuffer(self.data, "<u8", count * _WORDS, at).reshape(count, _WORDS)
        # Copied first: a live log's writer goes on while its records are looked at.
        words = words.copy()
        step = layout.RECORD.itemsize >> layout.ID_SHIFT
        ids = np.arange(at >> layout.ID_SHIFT, (at >> layout.ID_SHIFT) + count * step, step, dtype=np.int64)
        filled = words.view(layout.RECORD).reshape(-1)["flags"] & layout.STATE_MASK != layout.EMPTY
        if filled.all():
            return words, ids
        return words[filled], ids[filled]

    def _give_back(self, offset: int, size: int) -> None:
        """Lets go of a chunk's pages: a large log must not fill this process's memory."""
        if size >= 1 << 16 and hasattr(self.data, "madvise"):
            start = -(-offset // mmap.PAGESIZE) * mmap.PAGESIZE
            length = (offset + size - start) // mmap.PAGESIZE * mmap.PAGESIZE
            if length > 0:
                self.data.madvise(mmap.MADV_DONTNEED, start, length)


def _block(parts: list[tuple[NDArray[np.uint64], NDArray[np.int64], np.void]]) -> Block:
    lengths = [len(ids) for _, ids, _ in parts]
    words = np.concatenate([words for words, _, _ in parts]) if len(parts) > 1 else parts[0][0]
    return Block(
        words.view(layout.RECORD).reshape(-1),
        np.concatenate([ids for _, ids, _ in parts]),
        np.repeat(np.array([int(head["process"]) for _, _, head in parts], np.int64), lengths),
        np.repeat(np.array([int(head["tid"]) for _, _, head in parts], np.uint32).view(np.int32), lengths),
    )


def is_live_log(path: Path) -> bool:
    """Whether a file starts as a live log does."""
    with path.open("rb") as file:
        return file.read(len(layout.MAGIC)) == layout.MAGIC


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise LogError("no-such-log", f"{path}: there is no such log; check the name") from None
    except OSError as error:
        raise LogError("log-unreadable", f"{path}: cannot be read: {error.strerror}") from None


def _map(path: Path, descriptor: int) -> mmap.mmap:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise LogError("not-a-log", f"{path}: not a file; name a log or a folder of logs")
    head = os.pread(descriptor, len(layout.MAGIC), 0)
    if head != layout.MAGIC:
        raise LogError("not-a-log", f"{path}: not a pyio_trace log; name a .pyio or .parquet file it has written")
    if status.st_size < layout.FIRST_CHUNK:
        raise LogError("log-truncated", f"{path}: cut off within its header; copy the log again from where it was")
    return mmap.mmap(descriptor, status.st_size, mmap.MAP_SHARED, mmap.PROT_READ)


def _header(path: Path, data: mmap.mmap) -> np.void:
    header: np.void = np.frombuffer(data, layout.HEADER, 1).copy()[0]
    version = int(header["version"])
    if version != layout.VERSION:
        newer = "a newer pyio_trace" if version > layout.VERSION else "the pyio_trace that wrote it"
        raise LogError(
            "log-version",
            f"{path}: a log of version {version}, and this pyio_trace reads version {layout.VERSION}; use {newer}",
        )
    first = int(header["first_chunk"])
    if first < layout.FIRST_CHUNK or first % layout.PAGE or first > 1 << 24:
        raise LogError("log-damaged", f"{path}: its header is damaged; copy the log again from where it was")
    return header
