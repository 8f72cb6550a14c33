"""The live log, raw: its header, chunks, process entries, and the records in blocks.

This module decides that a file is a log of this version, where its records lie
and as of which moment.  The file is read piece by piece (log_file.py) and never
held whole.  Whatever the bytes are, reading gives records or a LogError.
pyio_trace.join gives the records their meaning; csrc/core writes them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.errors import LogError
from pyio_trace.existing_files import begins_with
from pyio_trace.log import layout
from pyio_trace.log.blocks import Block, block_of_sums
from pyio_trace.log.chunks import Chunks, walk
from pyio_trace.log.clock import Clock, clock_of
from pyio_trace.log.extents import ROWS, SUMS_AT_ONCE, WORDS, Extent, column, extents_of
from pyio_trace.log.log_file import LogFile
from pyio_trace.log.spare_counters import SpareEntry, read_spare_entries

#: Fields of a chunk header that change when a ring uses the chunk again, and not when its owner finishes it.
_OWNER = ("magic", "offset", "size", "kind", "process", "tid", "sequence", "clock")
_STEP = layout.RECORD.itemsize >> layout.ID_SHIFT

#: Some sums of like operations: ids, layout.PROFILE, layout.PROFILE_DATA (for transfers).
Sums = tuple[NDArray[np.int64], NDArray[np.void], NDArray[np.void] | None]


class Counted(NamedTuple):
    """Counters, by process and operation: position of the process (-1: none), number of the operation, and
    layout.COUNTER."""

    position: NDArray[np.int64]
    number: NDArray[np.int64]
    counters: NDArray[np.void]


class LiveLog:
    """A live log opened for reading, as of this moment.

    Records written later are not read, so every pass finds the same ones.  The
    chunks that records refer to are looked up after the records, so that they
    are all there.
    Raises LogError: no-such-log, not-a-log, log-unreadable, log-truncated,
    log-version, log-damaged.
    """

    def __init__(self, path: str | os.PathLike[str], opened: int | None = None) -> None:
        """opened: a descriptor of the file, where it is open already; it is closed with the log."""
        self.path = Path(path)
        self._buffers = threading.local()
        self.file = LogFile(self.path, opened)
        self._fixed = fixed_region(self.file)
        self.header = header_of(self.path, self._fixed)
        self.op_rows = np.frombuffer(self._fixed, layout.OP_ROW, layout.MAX_OPS, layout.OPTABLE_OFFSET)
        first = int(self.header["first_chunk"])
        self._extents = list(self._find_extents(walk(self.file, first, claimed_end(self.header))))
        # Walked again: the records may refer to chunks that were claimed a moment ago.
        self._fixed = fixed_region(self.file)
        self.header = header_of(self.path, self._fixed)
        claimed = claimed_end(self.header)
        #: Bytes of the file that belong to the log; a running program's reserve lies behind them.
        self.used = min(claimed, self.file.whole)
        self.chunks: Chunks = walk(self.file, first, claimed)
        pairs = self.chunks.headers[self.chunks.headers["kind"] != layout.CHUNK_PAD]["clock"]
        ends = self.processes()["end_clock"]
        pairs = np.concatenate([pairs, ends[ends["ticks"] != 0]])
        self.clock: Clock = clock_of(int(self.header["tick_kind"]), self.header["first"], pairs)
        #: Bytes that were written and are missing: cut off, or without a chunk header.
        self.torn = self._torn(claimed)

    def _torn(self, claimed: int) -> int:
        written = min(claimed, int(self.header["budget"]) or claimed)
        # A claim for which there was no room leaves a gap too, but its operations are counted.  And a ring's chunk has
        # no header for a moment each time it is used again.
        expected = self.header["full_reason"] or self.header["ring_slots"] or self.processes()["full_reason"].any()
        gaps = 0 if expected else self.chunks.skipped
        return gaps + max(written - self.file.whole, 0)

    def processes(self) -> NDArray[np.void]:
        """The process entries (layout.PROCESS_ENTRY), oldest first."""
        return self._processes

    @cached_property
    def process_ids(self) -> NDArray[np.int64]:
        """The ids of the process entries."""
        return self.processes()["chunk"]["offset"].astype(np.int64) >> layout.ID_SHIFT

    @cached_property
    def _spare(self) -> tuple[dict[int, SpareEntry], list[SpareEntry]]:
        return read_spare_entries(self.file, self.header)

    @cached_property
    def lost(self) -> int:
        """Operations that have no record of their own: those in sums, and those that were only counted."""
        replacing, others = self._spare
        lost = int(self.header["lost"]) + sum(int(spare.counters["count"].sum()) for spare in others)
        for identity, spare in replacing.items():
            entry = self.file.structs(np.array([identity << layout.ID_SHIFT], np.int64), layout.PROCESS_ENTRY)
            lost += max(int(spare.entry["lost"]) - int(entry["lost"][0]), 0) if len(entry) else 0
        return lost

    @cached_property
    def _processes(self) -> NDArray[np.void]:
        headers, sizes = self.chunks.of_kind(layout.CHUNK_PROCESS)
        whole = headers[sizes >= layout.PROCESS_ENTRY.itemsize]
        entries = self.file.structs(whole["offset"].astype(np.int64), layout.PROCESS_ENTRY)
        for at, identity in enumerate((whole["offset"] >> layout.ID_SHIFT).tolist()):
            if identity in self._spare[0]:
                entries[at] = self._spare[0][identity].entry
                entries["chunk"][at] = whole[at]
        entries.setflags(write=False)  # every caller shares this array
        return entries

    def selective(self) -> bool:
        """Whether some operations on files have no record, by choice (rules, minimum sizes, a pause) or because they
        were only summed before the log was full."""
        reasons = [layout.DESC_KINDS.index(why) for why in ("path", "operation", "small", "paused")]
        if self.processes()["excluded_ops"][:, reasons].any():
            return True
        full = int(self.header["full_since"]) or 1 << 64
        if self.lost and full == 1 << 64:
            return True  # a single process had no room
        return any(bool(((rows["first"] > 0) & (rows["first"] < full)).any()) for _, rows, _ in self.sums())

    def counters(self, process: int) -> NDArray[np.void]:
        """A process's counters (layout.COUNTER, by operation number), by its id; 0: those of no process."""
        if process == 0:
            return np.frombuffer(self._fixed, layout.COUNTER, layout.MAX_OPS, layout.OVERFLOW_OFFSET)
        if process in self._spare[0]:
            return self._spare[0][process].counters
        at = (process << layout.ID_SHIFT) + layout.COUNTERS_OFFSET
        read = self.file.read(at, layout.MAX_OPS * layout.COUNTER.itemsize)
        return np.frombuffer(read, layout.COUNTER, len(read) // layout.COUNTER.itemsize)

    @cached_property
    def counted(self) -> Counted:
        """All counters that are not zero."""
        ids = [0, *self.process_ids.tolist()]
        position: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
        number: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
        counters = [np.empty(0, layout.COUNTER)]
        each = [(at - 1, self.counters(identity)) for at, identity in enumerate(ids)]
        each += [(-1, spare.counters) for spare in self._spare[1]]
        for at, every in each:
            used = np.flatnonzero(every.view("<u8").reshape(-1, 4).any(axis=1))
            if len(used):
                position.append(np.full(len(used), at))
                number.append(used)
                counters.append(every[used])
        return Counted(np.concatenate(position), np.concatenate(number), np.concatenate(counters))

    def record_slots(self) -> int:
        """The most records there can be."""
        return sum(extent.slots for extent in self._extents)

    def last_id(self) -> int:
        """No record or sum has a larger id."""
        ends = [extent.at + extent.slots * ROWS[extent.kind][1] for extent in self._extents]
        return max(ends, default=0) >> layout.ID_SHIFT

    def process_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The ids of the processes that wrote the records with these ids; -1: there is no record, or a sum."""
        first, end, process = self._owners
        at = np.searchsorted(first, ids, side="right") - 1
        owned: NDArray[np.int64] = np.where((at >= 0) & (ids < end.take(at, mode="clip")), process.take(at), -1)
        return owned

    @cached_property
    def _owners(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """(first id, end, process) of each extent of records, with one of no ids before them."""
        extents = sorted(extent[:4] for extent in self._extents if extent.kind == layout.CHUNK_OPS)
        rows = [(at, at + slots * layout.RECORD.itemsize, process) for at, slots, _, process in extents]
        table = np.array([(-1, -1, -1), *rows], np.int64)
        return table[:, 0] >> layout.ID_SHIFT, table[:, 1] >> layout.ID_SHIFT, table[:, 2]

    def record(self, identity: int) -> np.void | None:
        """The record with this id; None: no whole one can be there."""
        at = identity << layout.ID_SHIFT
        read = self.file.read(at, layout.RECORD.itemsize) if at >= layout.FIRST_CHUNK else b""
        if len(read) < layout.RECORD.itemsize:
            return None
        record: np.void = np.frombuffer(read, layout.RECORD, 1)[0]
        return record

    def portions(self, rows: int) -> Iterator[list[Extent]]:
        """All extents, in the order of their ids, in groups of at most `rows` slots for load().

        Sums of like operations come in portions of their own.
        """
        portion: list[Extent] = []
        left = rows
        for extent in self._extents:
            if portion and (extent.kind != layout.CHUNK_OPS or portion[-1].kind != layout.CHUNK_OPS):
                yield portion
                portion, left = [], rows
            while extent.slots:
                first, extent = extent.split(left)
                portion.append(first)
                left -= first.slots
                if not left:
                    yield portion
                    portion, left = [], rows
        if portion:
            yield portion

    def load(self, portion: list[Extent], lasting: bool = True) -> Block:
        """The rows of a portion that are not empty.  Any thread may call it.

        lasting=False: the block is good until the same thread calls this again.  The buffer is then reused, which
        saves asking the kernel for new pages each time.
        """
        if portion[0].kind != layout.CHUNK_OPS:
            ids, sums, _ = self._sums_of(portion[0])
            return block_of_sums(ids, sums, self.op_rows, portion[0].ticks)
        total = sum(extent.slots for extent in portion)
        # A field of a single record is a view of the buffer and not a copy: such a block needs a buffer of its own.
        words = np.empty((total, WORDS), np.uint64) if lasting or total == 1 else self._buffer(total)
        ids = np.empty(total, np.int64)
        first = 0
        for extent in portion:
            last = first + extent.slots
            extent.read(self.file, words[first:last])
            start = extent.at >> layout.ID_SHIFT
            ids[first:last] = np.arange(start, start + extent.slots * _STEP, _STEP)
            first = last
        counts = [extent.slots for extent in portion]
        process = np.repeat(np.array([extent.process for extent in portion], np.int64), counts)
        tid = np.repeat(np.array([extent.tid for extent in portion], np.uint32).view(np.int32), counts)
        block = Block(words.view(layout.RECORD).reshape(-1), ids, process, tid)
        filled = block.flags & layout.STATE_MASK != layout.EMPTY
        return block if filled.all() else block.where(filled)

    def _buffer(self, rows: int) -> NDArray[np.uint64]:
        """The calling thread's own buffer, for this many records."""
        buffer: NDArray[np.uint64] | None = getattr(self._buffers, "words", None)
        if buffer is None or len(buffer) < rows:
            buffer = self._buffers.words = np.empty((rows, WORDS), np.uint64)
        return buffer[:rows]

    def blocks(self, rows: int) -> Iterator[Block]:
        """All records that are not empty, in the order of their ids, at most rows at a time.

        Sums of like operations come in blocks of their own.
        """
        return map(self.load, self.portions(rows))

    def sums(self) -> Iterator[Sums]:
        """The sums of like operations, some at a time."""
        for extent in self._extents:
            while extent.kind != layout.CHUNK_OPS and extent.slots:
                first, extent = extent.split(SUMS_AT_ONCE)
                yield self._sums_of(first)

    def _sums_of(self, extent: Extent) -> Sums:
        raw = extent.raw(self.file)
        at = extent.at + raw.shape[1] * np.arange(extent.slots, dtype=np.int64)
        if extent.in_use is not None:
            raw, at = raw[extent.in_use], at[extent.in_use]
        data = None
        if extent.kind == layout.CHUNK_SUMS_DATA:
            data = column(raw[:, layout.PROFILE_SIZE :], layout.PROFILE_DATA)
        return at >> layout.ID_SHIFT, column(raw, layout.PROFILE), data

    def _find_extents(self, chunks: Chunks) -> Iterator[Extent]:
        """Where the rows of these chunks lie."""
        for header, size in zip(chunks.headers, chunks.sizes.tolist(), strict=True):
            if int(header["kind"]) not in ROWS:
                continue
            extents = extents_of(self.file, header, size)
            if self.header["ring_slots"]:
                extents = [extent.with_snapshot(self.file) for extent in extents]
                # If the chunk was used again in the meantime, the snapshot may hold another thread's records.
                now = np.frombuffer(self.file.read(int(header["offset"]), layout.CHUNK.itemsize), layout.CHUNK)
                if not len(now) or any(now[0][name] != header[name] for name in _OWNER):
                    continue
            yield from extents


def is_live_log(path: Path) -> bool:
    """Whether a file starts as a live log does."""
    return begins_with(path, layout.MAGIC)


def fixed_region(file: LogFile) -> bytes:
    """Header, operation table and overflow counters."""
    fixed = file.read(0, layout.FIRST_CHUNK)
    if not fixed.startswith(layout.MAGIC):
        raise LogError("not-a-log", f"{file.path}: not a pyio_trace log; name a .pyio or .parquet file it has written")
    if len(fixed) < layout.FIRST_CHUNK:
        raise LogError("log-truncated", f"{file.path}: cut off within its header; copy the log again from where it was")
    return fixed


def header_of(path: Path, fixed: bytes) -> np.void:
    header: np.void = np.frombuffer(fixed, layout.HEADER, 1)[0]
    version = int(header["version"])
    if version != layout.VERSION:
        remedy = "use a newer pyio_trace" if version > layout.VERSION else "pack it with the pyio_trace that wrote it"
        raise LogError(
            "log-version",
            f"{path}: a log of version {version}, and this pyio_trace reads version {layout.VERSION}; {remedy}",
        )
    first = int(header["first_chunk"])
    if first < layout.FIRST_CHUNK or first % layout.PAGE or first > 1 << 24:
        raise LogError("log-damaged", f"{path}: its header is damaged; copy the log again from where it was")
    return header


def claimed_end(header: np.void) -> int:
    """The end of what has been claimed for chunks."""
    return max(int(header["next"]), int(header["first_chunk"]))
