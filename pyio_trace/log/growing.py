"""A live log that is read again and again while it grows: each look reads what was written since the one before.

Nothing is locked and nothing is mapped, so neither the program nor its finisher
can wait for a reader.  What a look costs follows from what was written since
the last one, not from the length of the log:

- chunks are found from where the last look ended (a gap, whose header may still
  come, is looked at again for a while);
- of each thread's chunk, only records behind those that were read;
- records that had begun, and series of small calls that may go on, one by one;
- sums of like operations (mode `profile`) are all read, and the differences taken;
- of a ring, the chunks in use now.  What was overwritten in between is counted.

Whatever the bytes are, a look gives records or a LogError.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pyio_trace.light_dataclass import dataclass
from pyio_trace.log import layout
from pyio_trace.log.added import ADDED, Begun, Meaning, amounts
from pyio_trace.log.chunks import Chunks, walk
from pyio_trace.log.clock import clock_of, is_here, now_on
from pyio_trace.log.growing_processes import GrowingProcesses
from pyio_trace.log.growing_sums import GrowingSums
from pyio_trace.log.live import LiveLog, claimed_end, fixed_region, header_of
from pyio_trace.log.log_file import LogFile

_RECORD = layout.RECORD.itemsize
#: Records that are read at once from a thread's chunk: few at first, as most have few new ones.
_FIRST, _AT_ONCE = 1 << 8, 1 << 14
#: For how many looks a gap between chunks, or an empty place among records, may still be filled.
_PATIENCE = 16
#: Series of small calls of a thread that may go on: those that changed last.  A thread has PT_SERIES of file objects
#: and as many of C streams; some calls of a series may come after any pause (csrc/ext/files/file_call.c).
_SERIES, _THREADS = 32, 1 << 10
#: Records that are read first where a thread was idle; an empty place may come before others.  Each so many looks,
#: as many as usual are read, and whether the thread is still there is found out.
_PROBE, _SELDOM = 4, 8
#: Most records and chunks that are watched, readings of clocks and places of samples that are kept.  A program with
#: more threads, or a forged log, shows less; `unwatched` counts that.
_MOST_WATCHED, _MOST_CHUNKS, _MOST_GAPS, _MOST_PAIRS, _MOST_PLACES = 1 << 16, 1 << 16, 1 << 10, 1 << 8, 1 << 14


@dataclass
class _Chunk:
    """A chunk of records that may get more.  next: the first slot that was not read; identity: changes when a ring
    uses the chunk again; holes: empty slots before next -> looks that
    are left; left: of a chunk that its thread has left; idle: looks without a record."""

    at: int
    size: int
    process: int
    tid: int
    identity: tuple[int, int]
    next: int
    holes: dict[int, int]
    left: int = _PATIENCE
    idle: int = 0


class GrowingLog(LiveLog):
    """See the module.  Of a LiveLog it has what does not need all records: processes, counters, single records.

    Raises what LiveLog raises; look() raises LogError if the file cannot be read any more.
    """

    def __init__(self, path: str | os.PathLike[str], opened: int | None = None, *, from_now: bool) -> None:
        """opened: a descriptor of the file; it is closed with the log.  from_now: what was written before the first
        look is passed over, except what is in flight."""
        self.path = Path(path)
        self.file = LogFile(self.path, opened)
        self._fixed = fixed_region(self.file)
        self.header = header_of(self.path, self._fixed)
        self.op_rows = np.frombuffer(self._fixed, layout.OP_ROW, layout.MAX_OPS, layout.OPTABLE_OFFSET)
        self._from_now = from_now
        self._end = int(self.header["first_chunk"])
        self._gaps: list[tuple[int, int, int]] = []
        self._open: dict[int, _Chunk] = {}
        self._newest: dict[tuple[int, int], int] = {}
        self._watched: dict[int, Begun] = {}
        self._series: dict[tuple[int, int], dict[int, tuple[Begun, tuple[int, int, int]]]] = {}
        self._ring_chunks: dict[int, _Chunk] = {}
        self._ring_claims = -1
        self._meaning = Meaning(self.op_rows)
        self._sums = GrowingSums(self.file, self._meaning)
        self._known = GrowingProcesses(self.file)
        self._is_here = is_here(self.header)
        self._pairs = np.zeros(0, layout.CLOCK_PAIR)
        self.clock = clock_of(int(self.header["tick_kind"]), self.header["first"], self._pairs)
        #: (offset, size) of the newest chunks of samples, in file order
        self.sample_places: list[tuple[int, int]] = []
        #: chunks of a ring that were used again before they were read; operations that are not watched
        self.missed_chunks = self.unwatched = 0
        #: bytes of the log that are used
        self.used = 0
        self.looks = 0

    # ---- a look

    def look(self) -> Iterator[NDArray[np.void]]:
        """What was added since the last look (ADDED), in parts that fit into memory; take all of them."""
        self.file.update()
        self._fixed = fixed_region(self.file)
        self.header = header_of(self.path, self._fixed)
        self._find_chunks()
        self.unwatched += self._known.read()
        if int(self.header["tick_kind"]) != layout.TICKS_MONOTONIC_NS:
            ends = self._known.entries["end_clock"][-_MOST_PAIRS // 4 :]
            self._keep_pairs(ends[ends["ticks"] != 0])
        for parts in (self._settled(), self._read_open(), self._ring(), self._sums.look()):
            for part in parts:
                if len(part) and not self._from_now:
                    yield part
        self._from_now = False
        self.looks += 1

    def pass_over(self) -> None:
        """A look of which only what is in flight counts."""
        for _ in self.look():
            pass

    def in_flight(self) -> list[Begun]:
        """The operations that had begun and not returned at the last look, of processes whose end is not known."""
        found = [*self._watched.values(), *self._sums.begun]
        return [one for one in found if one.process not in self._known.ended]

    def _find_chunks(self) -> None:
        claimed = claimed_end(self.header)
        gaps, self._gaps = self._gaps, []
        for start, end, left in gaps:
            self._take(walk(self.file, start, end), start, end, left - 1)
        start, self.used = self._end, min(claimed, self.file.whole)
        reach = min(claimed, self.file.size)
        if reach > start:
            self._end = self._take(walk(self.file, start, claimed), start, reach, _PATIENCE)

    def _take(self, chunks: Chunks, start: int, end: int, patience: int) -> int:
        """Takes note of chunks and of the gaps between them.  Returns where the last one ends, or `end`."""
        ring, ring_end = self._ring_range()
        at = start
        for header in chunks.headers:
            offset, size = int(header["offset"]), int(header["size"])
            self._gap(at, offset, patience)
            at = offset + size
            if not ring <= offset < ring_end:
                self._add(header, offset, size)
        if len(chunks.headers):
            pairs = chunks.headers["clock"][chunks.headers["kind"] != layout.CHUNK_PAD]
            self._keep_pairs(pairs)
        self._gap(at, end, patience)
        return max(at, end)

    def _gap(self, start: int, end: int, patience: int) -> None:
        if end > start and patience > 0 and len(self._gaps) < _MOST_GAPS:
            self._gaps.append((start, end, patience))

    def _keep_pairs(self, pairs: NDArray[np.void]) -> None:
        """Readings of the clocks: the first ones and the latest, which are the farthest apart."""
        every = np.concatenate([self._pairs, pairs])
        if len(every) > _MOST_PAIRS:
            half = _MOST_PAIRS // 2
            every = np.concatenate([every[:half], every[-half:]])
        self._pairs = every
        self.clock = clock_of(int(self.header["tick_kind"]), self.header["first"], every)

    def _add(self, header: np.void, offset: int, size: int) -> None:
        kind = int(header["kind"])
        if kind == layout.CHUNK_OPS:
            key = int(header["process"]), int(header["tid"])
            before = self._newest.get(key)
            if before is not None and self._from_now:  # what is in flight is in the thread's newest chunk
                self._open.pop(before, None)
            if len(self._open) >= _MOST_CHUNKS:
                self.unwatched += 1
                return
            self._newest[key] = offset
            self._open[offset] = _Chunk(offset, size, *key, (int(header["sequence"]), 0), 0, {})
        elif kind in (layout.CHUNK_SUMS, layout.CHUNK_SUMS_DATA):
            self.unwatched += not self._sums.add(header, size)
        elif kind == layout.CHUNK_PROCESS:
            self._known.add(offset)
        elif kind == layout.CHUNK_SAMPLES:
            self.sample_places.append((offset, size))
            del self.sample_places[:-_MOST_PLACES]

    # ---- processes

    def processes(self) -> NDArray[np.void]:
        return self._known.entries

    @property
    def process_ids(self) -> NDArray[np.int64]:
        return self._known.entries["chunk"]["offset"].astype(np.int64) >> layout.ID_SHIFT

    # ---- records

    def _read_open(self) -> Iterator[NDArray[np.void]]:
        for at, chunk in list(self._open.items()):
            if self._from_now and chunk.process in self._known.ended:
                del self._open[at]
                self._newest.pop((chunk.process, chunk.tid), None)
                continue
            before = chunk.next
            yield from self._read_chunk(chunk)
            chunk.idle = 0 if chunk.next > before else chunk.idle + 1
            if chunk.idle and chunk.idle % _SELDOM == 0 and self._is_gone(chunk):
                yield from self._read_chunk(chunk)  # what it wrote just before
                del self._open[at]
                self._newest.pop((chunk.process, chunk.tid), None)
                continue
            superseded = self._newest.get((chunk.process, chunk.tid)) != at or chunk.process in self._known.ended
            chunk.left -= superseded
            full = layout.OPS_START + (chunk.next + 1) * _RECORD > chunk.size
            if (full and not chunk.holes) or chunk.left <= 0:
                del self._open[at]
                if self._newest.get((chunk.process, chunk.tid)) == at and chunk.process in self._known.ended:
                    del self._newest[chunk.process, chunk.tid]

    def _read_chunk(self, chunk: _Chunk) -> Iterator[NDArray[np.void]]:
        if chunk.holes:
            yield from self._fill_holes(chunk)
        slots = (chunk.size - layout.OPS_START) // _RECORD
        step = _PROBE if chunk.idle % _SELDOM else _FIRST
        while chunk.next < slots:
            asked = min(step, slots - chunk.next)
            records = self._records(chunk.at + layout.OPS_START + chunk.next * _RECORD, asked)
            filled = np.flatnonzero(records["flags"] & layout.STATE_MASK)
            if not len(filled):
                return
            count = int(filled[-1]) + 1
            if len(filled) < count and chunk.next + count < slots:
                empty = np.flatnonzero((records["flags"][:count] & layout.STATE_MASK) == 0)
                chunk.holes |= dict.fromkeys((empty + chunk.next).tolist()[:_PATIENCE], _PATIENCE)
            yield self._understood(chunk, chunk.next, records[:count])
            chunk.next += count
            if count < asked:
                return
            step = min(max(step * 8, _FIRST), _AT_ONCE)

    def _is_gone(self, chunk: _Chunk) -> bool:
        """Whether the thread of a chunk has ended, as far as that can be seen here."""
        pid = self._known.pids.get(chunk.process)
        return self._is_here and pid is not None and not os.path.exists(f"/proc/{pid}/task/{chunk.tid}")

    def _fill_holes(self, chunk: _Chunk) -> Iterator[NDArray[np.void]]:
        holes, chunk.holes = chunk.holes, {}
        for slot, left in holes.items():
            records = self._records(chunk.at + layout.OPS_START + slot * _RECORD, 1)
            if len(records) and records["flags"][0] & layout.STATE_MASK:
                yield self._understood(chunk, slot, records)
            elif left > 1:
                chunk.holes[slot] = left - 1

    def _records(self, at: int, count: int) -> NDArray[np.void]:
        read = self.file.read(at, count * _RECORD)
        return np.frombuffer(read, layout.RECORD, len(read) // _RECORD)

    def _understood(self, chunk: _Chunk, first: int, records: NDArray[np.void]) -> NDArray[np.void]:
        """What these records add; notes those that are to be looked at again.  first: slot of the first of them."""
        ids = (chunk.at + layout.OPS_START + (first + np.arange(len(records), dtype=np.int64)) * _RECORD) >> (
            layout.ID_SHIFT
        )
        flags, op = records["flags"], records["op"]
        state, hidden = flags & layout.STATE_MASK, self._meaning.hidden.take(op)
        for row in np.flatnonzero((state == layout.BEGUN) & ~hidden).tolist():
            self._watch(Begun(int(ids[row]), chunk.process, chunk.tid, records[row].copy()))
        done = np.flatnonzero((state == layout.DONE) & ~hidden)
        added = self._meaning.added(chunk.process, chunk.tid, ids[done], records[done])
        for row in done[(flags[done] & layout.COALESCED) != 0][-_SERIES:].tolist():
            self._follow(Begun(int(ids[row]), chunk.process, chunk.tid, records[row].copy()))
        wide = np.flatnonzero((state == layout.DONE) & self._meaning.extends.take(op))
        return np.concatenate([added, *(self._wide(chunk, records[row]) for row in wide.tolist())])

    def _watch(self, one: Begun) -> None:
        if len(self._watched) >= _MOST_WATCHED:
            self.unwatched += 1
            self._watched.pop(next(iter(self._watched)))
        self._watched[one.id] = one

    def _follow(self, one: Begun) -> None:
        """A series that may go on; of each thread, those that changed last are followed, and so are threads."""
        if one.process in self._known.ended:
            return
        series = self._series.pop((one.process, one.tid), {})
        self._series[one.process, one.tid] = series
        if len(self._series) > _THREADS:
            del self._series[next(iter(self._series))]
            self.unwatched += 1
        series.pop(one.id, None)
        series[one.id] = one, amounts(one.record)
        if len(series) > _SERIES:
            del series[next(iter(series))]

    def _wide(self, chunk: _Chunk, ext: np.void) -> NDArray[np.void]:
        """The bytes of a record that did not fit into it, from the record that completes it."""
        identity, moved = int(ext["parent"]), int(ext["begin"])
        record = self.record(identity)
        if record is None or not self._meaning.moves[int(record["op"])] or not 0 <= moved < 1 << 62:
            return np.zeros(0, ADDED)
        added = self._meaning.added(chunk.process, chunk.tid, np.array([identity]), np.array([record], layout.RECORD))
        added["moved"], added["calls"], added["ticks"] = moved, 0, 0
        return added

    def _settled(self) -> Iterator[NDArray[np.void]]:
        """Of the records that are watched, those that have returned, and what series have had added to them."""
        for identity, one in list(self._watched.items()):
            record = self.record(identity)
            state = layout.EMPTY if record is None else int(record["flags"]) & layout.STATE_MASK
            if record is not None and state == layout.BEGUN and record["begin"] == one.record["begin"]:
                self._watched[identity] = one._replace(record=record)
                continue
            del self._watched[identity]
            if record is not None and state == layout.DONE and record["begin"] == one.record["begin"]:
                yield self._meaning.added(one.process, one.tid, np.array([identity]), np.array([record], layout.RECORD))
                if int(record["flags"]) & layout.COALESCED:
                    self._follow(one._replace(record=record))
        for thread, series in list(self._series.items()):
            for identity, (one, before) in list(series.items()):
                record = self.record(identity)
                if record is None or record["begin"] != one.record["begin"]:  # a ring has put another one there
                    del series[identity]
                    continue
                now = amounts(record)
                if now == before:
                    continue
                added = self._meaning.added(
                    one.process, one.tid, np.array([identity]), np.array([record], layout.RECORD)
                )
                for name, value, former in zip(("calls", "moved", "ticks"), now, before, strict=True):
                    added[name] = max(value - former, 0)
                self._follow(one)
                series[identity] = one, now
                yield added
            if thread[0] in self._known.ended:
                del self._series[thread]

    def now(self) -> int:
        """Now, on the log's clock: ns since the epoch, as its times are."""
        return now_on(self.header)

    # ---- the ring

    def _ring_range(self) -> tuple[int, int]:
        start, slots = int(self.header["ring_start"]), int(self.header["ring_slots"])
        return start, start + min(slots, 1 << 20) * layout.RING_SLOT

    def _ring(self) -> Iterator[NDArray[np.void]]:
        start, end = self._ring_range()
        cut = 0
        for at in range(start, min(end, self.file.size), layout.RING_SLOT):
            header = self._chunk_header(at)
            if header is None or int(header["kind"]) != layout.CHUNK_OPS:
                continue
            identity = int(header["sequence"]), int(header["clock"]["ticks"])
            chunk = self._ring_chunks.get(at)
            if chunk is None or chunk.identity != identity:
                cut += chunk is not None and layout.OPS_START + (chunk.next + 1) * _RECORD <= chunk.size
                owner = int(header["process"]), int(header["tid"])
                chunk = _Chunk(at, layout.RING_SLOT, *owner, identity, 0, {})
            added = list(self._read_chunk(chunk))
            again = self._chunk_header(at)
            if again is not None and (int(again["sequence"]), int(again["clock"]["ticks"])) == identity:
                self._ring_chunks[at] = chunk
                yield from added
        claims, slots = int(self.header["ring_next"]), (end - start) // layout.RING_SLOT
        if self._ring_claims >= 0 and claims - self._ring_claims > slots:  # it has gone round more than once
            self.missed_chunks += claims - self._ring_claims - slots + cut
        self._ring_claims = claims

    def _chunk_header(self, at: int) -> np.void | None:
        read = self.file.read(at, layout.CHUNK.itemsize)
        if len(read) < layout.CHUNK.itemsize:
            return None
        header: np.void = np.frombuffer(read, layout.CHUNK, 1)[0]
        return header if int(header["magic"]) == layout.CHUNK_MAGIC and int(header["offset"]) == at else None
