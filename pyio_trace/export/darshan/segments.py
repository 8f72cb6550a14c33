"""Single transfers, as the modules DXT_POSIX and DXT_MPIIO have them, kept in a file until they are written by record.

A batch's segments are sorted by process, name and direction, and put at the end of a temporary file.  What stays in
memory is where the segments of each process, name and direction are: memory grows with files, not with transfers.
"""

from __future__ import annotations

import itertools
import mmap
import tempfile
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from pyio_trace import darshan_format
from pyio_trace.analysis.calls.call_order import Calls
from pyio_trace.analysis.calls.darshan_calls import Call
from pyio_trace.log import runs

Ints = NDArray[np.int64]

#: Segments that are written at once; those of a record are in the order of time within so many.
_AT_ONCE = 1 << 20
_NS = 1e9


class Segments:
    """Collects transfers; parts of it add up."""

    def __init__(self, folder: str, start: int) -> None:
        """folder: for the temporary file, which has no name; start: of the run, ns since the epoch."""
        self._folder, self._start = folder, start
        self._file: BinaryIO | None = None
        self._waiting: list[NDArray[np.void]] = []
        self._slices: list[Ints] = []  # of each batch: rows of process, name, is read, count
        self.count = 0

    def add(self, calls: Calls) -> None:
        """Adds reads and writes."""
        if not len(calls):
            return
        read = calls.kind == Call.READ
        calls = calls.take(np.lexsort((calls.begin, read, calls.file, calls.process)))
        read = calls.kind == Call.READ
        found = np.zeros(len(calls), darshan_format.DXT_SEGMENT)
        found["offset"], found["length"] = calls.offset, calls.size
        found["start_time"], found["end_time"] = (calls.begin - self._start) / _NS, (calls.end - self._start) / _NS
        first = runs.starts(calls.process, calls.file, read)
        count = np.diff(first, append=len(calls))
        self._slices.append(np.stack([calls.process[first], calls.file[first], read[first].astype(np.int64), count]))
        self._waiting.append(found)
        self.count += len(calls)

    def update(self, later: Segments) -> None:
        """Adds those of a later part."""
        self._slices += later._slices
        self._waiting += later._waiting
        self.count += later.count
        self._write_waiting()

    def keys(self) -> tuple[Ints, Ints]:
        """(process, name) of all that there are, some of them several times."""
        slices = self._all_slices()
        return slices[0], slices[1]

    def records(self, record: Ints, headers: NDArray[np.void]) -> Iterator[bytes]:
        """The records, each a header and its segments.

        record: for each of keys(), the number of its record; headers: DXT_RECORD of each record, whose counts of
        segments are filled in here.
        """
        self._write_waiting()
        slices = self._all_slices()
        read, count = slices[2], slices[3]
        headers["write_count"] = np.bincount(record, count * (read == 0), len(headers)).astype(np.int64)
        headers["read_count"] = np.bincount(record, count * (read == 1), len(headers)).astype(np.int64)
        begin = np.cumsum(count) - count
        order = np.lexsort((read, record))
        record, begin, count, read = record[order], begin[order], count[order], read[order]
        edges = _parts(record, count)
        last = -1
        for first, end in itertools.pairwise(edges):
            part = slice(first, end)
            found = self._gathered(record[part], read[part], begin[part], count[part])
            yield from _with_headers(found, record[part], count[part], headers, last)
            last = int(record[end - 1])

    def close(self) -> None:
        """Removes the temporary file."""
        if self._file is not None:
            self._file.close()

    def _all_slices(self) -> Ints:
        return np.concatenate([np.zeros((4, 0), np.int64), *self._slices], axis=1)

    def _write_waiting(self) -> None:
        if self._file is None and self._waiting:
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  # close() closes it
        for found in self._waiting:
            assert self._file is not None
            self._file.write(found.tobytes())
        self._waiting.clear()

    def _gathered(self, record: Ints, read: Ints, begin: Ints, count: Ints) -> NDArray[np.void]:
        """The segments of some slices, those of each record and direction in the order of time."""
        assert self._file is not None
        self._file.flush()
        rows = np.repeat(begin - (np.cumsum(count) - count), count) + np.arange(int(count.sum()))
        with mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            found = np.frombuffer(mapped, darshan_format.DXT_SEGMENT).take(rows)
        return found.take(np.lexsort((found["start_time"], np.repeat(read, count), np.repeat(record, count))))


def _parts(record: Ints, count: Ints) -> list[int]:
    """Where slices are divided, so that each part has few segments; a record of many has a part of its own."""
    edges, total = [0], np.cumsum(count)
    while edges[-1] < len(count):
        done = int(total[edges[-1] - 1]) if edges[-1] else 0
        edges.append(max(int(np.searchsorted(total, done + _AT_ONCE, side="right")), edges[-1] + 1))
    return edges


def _with_headers(
    segments: NDArray[np.void], record: Ints, count: Ints, headers: NDArray[np.void], last: int
) -> Iterator[bytes]:
    """The bytes of some records; last: the record before, which may go on here."""
    first = runs.starts(record)
    size = np.add.reduceat(count, first)
    end = np.cumsum(size)
    for number, stop, length in zip(record[first].tolist(), end.tolist(), size.tolist(), strict=True):
        if number != last:
            yield headers[number].tobytes()
        yield segments[stop - length : stop].tobytes()
