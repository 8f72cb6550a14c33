"""The live log, raw: its header, chunks, process entries, and the records in blocks.

Owns what the bytes of a file are to be taken for: that it is a log of this
version, where its records lie, and as of which moment.  The file is read
piece by piece (file.py) and never held whole.  Whatever the bytes, reading
gives records or a LogError.  Meaning is given in pyio_trace.join; the writer
is csrc/core.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.errors import LogError
from pyio_trace.log import layout
from pyio_trace.log.chunks import Chunks, walk
from pyio_trace.log.clock import Clock, clock_of
from pyio_trace.log.file import LogFile
from pyio_trace.log.runs import ROWS, SUMS_AT_ONCE, WORDS, Run, column, runs_of

#: What a new use of a ring's chunk changes, and the end of the old one does not.
_OWNER = ("magic", "offset", "size", "kind", "process", "tid", "sequence", "clock")
_STEP = layout.RECORD.itemsize >> layout.ID_SHIFT


@dataclass(frozen=True)
class Block:
    """Some records that are not empty, in the order of their ids.

    records: layout.RECORD (a copy); ids: int64; process: id of the writer's
    process chunk, int64; tid: int32.  sums: the entries (layout.PROFILE) that
    the records were made from, where these are no records of the log but stand
    for sums of like operations.
    """

    records: NDArray[np.void]
    ids: NDArray[np.int64]
    process: NDArray[np.int64]
    tid: NDArray[np.int32]
    sums: NDArray[np.void] | None = None

    def __len__(self) -> int:
        return len(self.records)

    @cached_property
    def op(self) -> NDArray[np.uint8]:
        """The records' op, side by side: it is asked for by everybody."""
        return self.records["op"].copy()

    @cached_property
    def flags(self) -> NDArray[np.uint8]:
        """The records' flags, likewise; not to be written to."""
        return self.records["flags"].copy()

    def some(self, at: NDArray[np.int64]) -> NDArray[np.void]:
        """The records of these rows."""
        words = self.records.view("<u8").reshape(-1, WORDS)[at]
        return words.view(layout.RECORD).reshape(-1)

    def where(self, mask: NDArray[np.bool_]) -> Block:
        """The rows of the mask."""
        at = np.flatnonzero(mask)
        sums = None if self.sums is None else self.sums[at]
        return Block(self.some(at), self.ids.take(at), self.process.take(at), self.tid.take(at), sums)


class Counted(NamedTuple):
    """Counters, by process and operation: position of the process (-1: none), number of the operation, and
    layout.COUNTER."""

    position: NDArray[np.int64]
    number: NDArray[np.int64]
    counters: NDArray[np.void]


class LiveLog:
    """A live log opened for reading, as of this moment.

    Records that are written later are not read, so that every pass finds the
    same ones; what they refer to is looked for after they are, so that it is there.
    Raises LogError: no-such-log, not-a-log, log-unreadable, log-truncated,
    log-version, log-damaged.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._rooms = threading.local()
        self.file = LogFile(self.path)
        self._fixed = _fixed_region(self.file)
        self.header = _header(self.path, self._fixed)
        self.op_rows = np.frombuffer(self._fixed, layout.OP_ROW, layout.MAX_OPS, layout.OPTABLE_OFFSET)
        first = int(self.header["first_chunk"])
        self._runs = list(self._find_runs(walk(self.file, first, _claimed(self.header))))
        # Again: what the records refer to may stand in chunks that were claimed a moment ago.
        self._fixed = _fixed_region(self.file)
        self.header = _header(self.path, self._fixed)
        claimed = _claimed(self.header)
        #: Bytes of the file that the log has; what a run under way reserved lies behind them.
        self.used = min(claimed, self.file.whole)
        self.chunks: Chunks = walk(self.file, first, claimed)
        pairs = self.chunks.headers[self.chunks.headers["kind"] != layout.CHUNK_PAD]["clock"]
        ends = self.processes()["end_clock"]
        pairs = np.concatenate([pairs, ends[ends["ticks"] != 0]])
        self.clock: Clock = clock_of(int(self.header["tick_kind"]), self.header["first"], pairs)
        #: Bytes that were written and are not there: cut off, or never given a chunk header.  (A claim for which
        #: there was no room leaves a gap too; what it was for is counted.)
        written = min(claimed, int(self.header["budget"]) or claimed)
        # A chunk of a ring has no header for a moment each time it is used again.
        gaps = 0 if self.header["full_reason"] or self.header["ring_slots"] else self.chunks.skipped
        self.torn = gaps + max(written - self.file.whole, 0)

    def processes(self) -> NDArray[np.void]:
        """The process entries (layout.PROCESS_ENTRY), oldest first; their id is chunk.offset >> 4."""
        return self._processes

    @cached_property
    def _processes(self) -> NDArray[np.void]:
        headers, sizes = self.chunks.of_kind(layout.CHUNK_PROCESS)
        whole = headers[sizes >= layout.PROCESS_ENTRY.itemsize]
        entries = self.file.structs(whole["offset"].astype(np.int64), layout.PROCESS_ENTRY)
        entries.setflags(write=False)  # all who ask have the same ones
        return entries

    def selective(self) -> bool:
        """Whether operations on files have no record: by choice (rules, minima, a pause), or in sums before the log
        was full."""
        reasons = [layout.DESC_KINDS.index(why) for why in ("path", "operation", "small", "paused")]
        if self.processes()["excluded_ops"][:, reasons].any():
            return True
        full = int(self.header["full_since"]) or 1 << 64
        if self.header["lost"] and full == 1 << 64:
            return True  # one process had no room, the others had
        return any(bool(((rows["first"] > 0) & (rows["first"] < full)).any()) for _, rows, _ in self.sums())

    def counters(self, process: int) -> NDArray[np.void]:
        """A process's counters (layout.COUNTER, by operation number), by its id; 0: those of no process."""
        if process == 0:
            return np.frombuffer(self._fixed, layout.COUNTER, layout.MAX_OPS, layout.OVERFLOW_OFFSET)
        at = (process << layout.ID_SHIFT) + layout.COUNTERS_OFFSET
        read = self.file.read(at, layout.MAX_OPS * layout.COUNTER.itemsize)
        return np.frombuffer(read, layout.COUNTER, len(read) // layout.COUNTER.itemsize)

    @cached_property
    def counted(self) -> Counted:
        """The counters that are not zero, of no process and of each."""
        ids = [0, *(self.processes()["chunk"]["offset"].astype(np.int64) >> layout.ID_SHIFT).tolist()]
        position: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
        number: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
        counters = [np.empty(0, layout.COUNTER)]
        for at, identity in enumerate(ids):
            every = self.counters(identity)
            used = np.flatnonzero(every.view("<u8").reshape(-1, 4).any(axis=1))
            if len(used):
                position.append(np.full(len(used), at - 1))
                number.append(used)
                counters.append(every[used])
        return Counted(np.concatenate(position), np.concatenate(number), np.concatenate(counters))

    def record_slots(self) -> int:
        """How many records there can be at most."""
        return sum(run.slots for run in self._runs)

    def record(self, identity: int) -> np.void | None:
        """The record with this id; None: no whole one can be there."""
        at = identity << layout.ID_SHIFT
        read = self.file.read(at, layout.RECORD.itemsize) if at >= layout.FIRST_CHUNK else b""
        if len(read) < layout.RECORD.itemsize:
            return None
        record: np.void = np.frombuffer(read, layout.RECORD, 1)[0]
        return record

    def portions(self, rows: int) -> Iterator[list[Run]]:
        """Where all rows lie, in the order of their ids, at most `rows` slots at a time; see load().

        Sums of like operations come in portions of their own.
        """
        portion: list[Run] = []
        left = rows
        for run in self._runs:
            if portion and (run.kind != layout.CHUNK_OPS or portion[-1].kind != layout.CHUNK_OPS):
                yield portion
                portion, left = [], rows
            while run.slots:
                first, run = run.cut(left)
                portion.append(first)
                left -= first.slots
                if not left:
                    yield portion
                    portion, left = [], rows
        if portion:
            yield portion

    def load(self, portion: list[Run], lasting: bool = True) -> Block:
        """The rows of a portion that there are; by any thread.

        lasting=False: the records stand only until the thread calls this again, so that it need not ask the kernel
        for new memory each time.
        """
        if portion[0].kind != layout.CHUNK_OPS:
            ids, sums, _ = self._sums_of(portion[0])
            return _as_records(ids, sums, self.op_rows, portion[0].ticks)
        total = sum(run.slots for run in portion)
        # a column of a single record would be its memory, not a copy
        words = np.empty((total, WORDS), np.uint64) if lasting or total == 1 else self._room(total)
        ids = np.empty(total, np.int64)
        first = 0
        for run in portion:
            last = first + run.slots
            run.read(self.file, words[first:last])
            start = run.at >> layout.ID_SHIFT
            ids[first:last] = np.arange(start, start + run.slots * _STEP, _STEP)
            first = last
        counts = [run.slots for run in portion]
        process = np.repeat(np.array([run.process for run in portion], np.int64), counts)
        tid = np.repeat(np.array([run.tid for run in portion], np.uint32).view(np.int32), counts)
        block = Block(words.view(layout.RECORD).reshape(-1), ids, process, tid)
        filled = block.flags & layout.STATE_MASK != layout.EMPTY
        return block if filled.all() else block.where(filled)

    def _room(self, rows: int) -> NDArray[np.uint64]:
        """The calling thread's own room for so many records."""
        room: NDArray[np.uint64] | None = getattr(self._rooms, "words", None)
        if room is None or len(room) < rows:
            room = self._rooms.words = np.empty((rows, WORDS), np.uint64)
        return room[:rows]

    def blocks(self, rows: int) -> Iterator[Block]:
        """All records that are not empty, in the order of their ids, at most rows at a time.

        Sums of like operations come in blocks of their own.
        """
        return map(self.load, self.portions(rows))

    def sums(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.void], NDArray[np.void] | None]]:
        """The sums of like operations, some at a time: ids, layout.PROFILE, layout.PROFILE_DATA of transfers."""
        for run in self._runs:
            while run.kind != layout.CHUNK_OPS and run.slots:
                first, run = run.cut(SUMS_AT_ONCE)
                yield self._sums_of(first)

    def _sums_of(self, run: Run) -> tuple[NDArray[np.int64], NDArray[np.void], NDArray[np.void] | None]:
        raw = run.raw(self.file)
        at = run.at + raw.shape[1] * np.arange(run.slots, dtype=np.int64)
        if run.made is not None:
            raw, at = raw[run.made], at[run.made]
        data = None
        if run.kind == layout.CHUNK_SUMS_DATA:
            data = column(raw[:, layout.PROFILE_SIZE :], layout.PROFILE_DATA)
        return at >> layout.ID_SHIFT, column(raw, layout.PROFILE), data

    def _find_runs(self, chunks: Chunks) -> Iterator[Run]:
        """Where the rows of these chunks lie."""
        for header, size in zip(chunks.headers, chunks.sizes.tolist(), strict=True):
            if int(header["kind"]) not in ROWS:
                continue
            runs = runs_of(self.file, header, size)
            if self.header["ring_slots"]:
                runs = [run.with_kept(self.file) for run in runs]
                # Used again in the meantime: these may be another thread's.
                now = np.frombuffer(self.file.read(int(header["offset"]), layout.CHUNK.itemsize), layout.CHUNK)
                if not len(now) or any(now[0][name] != header[name] for name in _OWNER):
                    continue
            yield from runs


def _as_records(ids: NDArray[np.int64], sums: NDArray[np.void], op_rows: NDArray[np.void], started: int) -> Block:
    """Sums of like operations in the form of records: coalesced, with what does not fit left to the block's sums."""
    records = np.zeros(len(ids), layout.RECORD)
    for name in ("op", "desc", "stack", "parent", "aux"):
        records[name] = sums[name]
    done = sums["count"] > 0
    records["flags"] = np.where(done, layout.DONE, layout.BEGUN) | layout.COALESCED
    records["flags"] |= np.where(sums["error"] != 0, layout.FAILED, 0).astype(np.uint8)
    records["flags"] |= (sums["link"] & 7) << layout.LINK_SHIFT
    records["begin"] = np.where(done, sums["first"], started)
    klass, shape = op_rows["klass"].take(sums["op"]), op_rows["shape"].take(sums["op"])
    transfers = (klass == layout.READ) | (klass == layout.WRITE) | (klass == layout.COPY)
    named = (shape == layout.SHAPE_SPAN) | (shape == layout.SHAPE_OPEN)
    records["offset"] = np.where(named, sums["opened"].astype(np.int64), -1)
    records["size"] = np.where(transfers, 0, layout.NO_BYTES)
    records["result"] = np.where(sums["error"] != 0, sums["error"], records["size"])
    return Block(records, ids, sums["process"].astype(np.int64), sums["tid"].view(np.int32).astype(np.int32), sums)


def is_live_log(path: Path) -> bool:
    """Whether a file starts as a live log does."""
    with path.open("rb") as file:
        return file.read(len(layout.MAGIC)) == layout.MAGIC


def _fixed_region(file: LogFile) -> bytes:
    """Header, operation table and overflow counters."""
    fixed = file.read(0, layout.FIRST_CHUNK)
    if not fixed.startswith(layout.MAGIC):
        raise LogError("not-a-log", f"{file.path}: not a pyio_trace log; name a .pyio or .parquet file it has written")
    if len(fixed) < layout.FIRST_CHUNK:
        raise LogError("log-truncated", f"{file.path}: cut off within its header; copy the log again from where it was")
    return fixed


def _header(path: Path, fixed: bytes) -> np.void:
    header: np.void = np.frombuffer(fixed, layout.HEADER, 1)[0]
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


def _claimed(header: np.void) -> int:
    """The end of what has been claimed for chunks."""
    return max(int(header["next"]), int(header["first_chunk"]))
