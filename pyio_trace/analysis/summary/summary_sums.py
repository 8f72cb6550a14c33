"""The reducer of everything in the summary that only adds up, in whatever order the batches come.

Sums by process, layer and class; by operation; by file; by source line; ranges
of bytes, sizes and errors.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.scan.batch_rows import (
    COPY,
    POSIX,
    PROCESS,
    READ,
    STDIO,
    USER_LAYER,
    WRITE,
    FileNumbers,
    Rows,
)
from pyio_trace.analysis.scan.lazy_parts import LazyPart
from pyio_trace.analysis.summary.places import Places
from pyio_trace.analysis.summary.slow_reads import ReadLatencies
from pyio_trace.analysis.summary.summary_rows import COLUMNS, SummaryReader, SummaryRows
from pyio_trace.analysis.sums.byte_ranges import ByteRanges
from pyio_trace.analysis.sums.dense_sums import NCLASSES, NLAYERS, NROLES, WRITES, DenseSums, file_roles, longer, roles
from pyio_trace.analysis.sums.size_histogram import AccessSizes
from pyio_trace.enums import Role
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log import runs

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]

IN_FLIGHT_SHOWN = 20
_KINDS = NLAYERS * NCLASSES


@dataclass
class Imports:
    """What the import system did: calls, time (ns, outermost calls only), bytes read by POSIX calls."""

    count: int = 0
    time: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Pending:
    """One operation that never returned; time: of its begin, ns since the start of the run; process, layer, op, path,
    site: indexes."""

    process: int
    layer: int
    op: int
    path: int
    site: int
    time: int


class Sums:
    """Running totals over rows."""

    def __init__(self, processes: int) -> None:
        """processes: how many, with one for operations whose process is not known."""
        self.processes = processes
        self.files = FileNumbers()
        self.rows = 0
        self.calls = 0
        self.imports = Imports()
        self.by_process = DenseSums(processes * _KINDS)  # process, layer, class
        self.by_op = DenseSums()  # op, layer
        self.op_errors: Counter[tuple[int, int, int]] = Counter()  # (op, layer, errno) -> calls
        self.op_class: dict[int, int] = {}  # op * NLAYERS + layer -> class
        self.by_file = DenseSums()  # file, role; time: of outermost calls
        self.file_path = np.zeros(0, np.int64)  # file -> its path in the latest operation
        self.file_end = np.zeros(0, np.int64)  # file -> the end of that operation
        self.by_site = DenseSums()  # site + 1, role; outermost calls
        self.submitted = np.zeros(0, np.int64)  # site + 1; the calls of by_site that another thread made
        self.requested = np.zeros(2, np.int64)  # bytes read, written by outermost requests that move some
        self.beneath = np.zeros(2, np.int64)  # bytes read, written by calls of MOVING within such
        self.read_ranges, self.write_ranges = ByteRanges(), ByteRanges()
        self.read_sizes, self.write_sizes = AccessSizes(), AccessSizes()
        self.summed = 0  # POSIX transfers that have no row of their own
        self.pending: list[Pending] = []
        self.pending_count = 0
        self.unplaced = np.zeros(2, np.int64)  # bytes read, written by calls of MOVING whose offset is not known
        self.places = Places()
        self.latencies = ReadLatencies(processes)

    def absorb(self, read: SummaryRows) -> None:
        """Adds rows."""
        rows, imported = read.rows, read.imported
        rows = replace(rows, file=self.files.of(rows.file), to_file=self.files.of(rows.to_file))
        self.rows += len(rows)
        self.calls += int(rows.count.sum())
        self.places.add(rows, read.who, read.sites, self.files.size, len(read.op_names))
        self.latencies.add(rows, ~read.who.importing, self.files.size)
        if imported is not None:
            self._imports(rows.where(imported))
            rows = rows.where(~imported)
            if not len(rows):
                return
        count = rows.count if int(rows.count.max()) > 1 else None
        self._by_operation(rows, count, len(read.op_names))
        self._by_place(rows, count, read.sites + 1)
        self._bytes(rows, count)
        self._unusual(rows)

    def update(self, other: Sums) -> None:
        """Adds the totals of what came later in the same log."""
        files = self.files.of(other.files.identities())
        self.rows += other.rows
        self.calls += other.calls
        for name in ("count", "time", "bytes"):
            setattr(self.imports, name, getattr(self.imports, name) + getattr(other.imports, name))
        self.by_process.update(other.by_process)
        self.by_op.update(other.by_op)
        self.by_site.update(other.by_site)
        keys = (files[:, np.newaxis] * NROLES + np.arange(NROLES)).ravel()
        self.by_file.update(other.by_file, keys[: len(other.by_file.count)], self.files.size * NROLES)
        self.submitted = longer(self.submitted, len(other.submitted), 0)
        self.submitted[: len(other.submitted)] += other.submitted
        self.op_errors.update(other.op_errors)
        self.op_class.update(other.op_class)
        self.requested += other.requested
        self.beneath += other.beneath
        self.read_ranges.update(other.read_ranges, files)
        self.write_ranges.update(other.write_ranges, files)
        self.read_sizes.update(other.read_sizes)
        self.write_sizes.update(other.write_sizes)
        self.summed += other.summed
        self.pending += other.pending[: IN_FLIGHT_SHOWN - len(self.pending)]
        self.pending_count += other.pending_count
        self.places.update(other.places, files)
        self.latencies.update(other.latencies, files)
        self.unplaced += other.unplaced
        self._make_room_for_names()
        known = min(len(files), len(other.file_path))
        self._name(files[:known], other.file_path[:known], other.file_end[:known])

    def _imports(self, rows: Rows) -> None:
        self.imports.count += int(rows.count.sum())
        self.imports.time += int(rows.duration[rows.outer].sum())
        self.imports.bytes += int(rows.moved[(rows.layer == POSIX) & (rows.kind == READ)].sum())

    def _by_operation(self, rows: Rows, count: Ints | None, ops: int) -> None:
        keys = rows.process * _KINDS + rows.layer_and_class
        self.by_process.add(keys, self.processes * _KINDS, count, rows.duration, rows.moved)
        keys = rows.op.astype(np.int64) * NLAYERS + rows.layer
        self.by_op.add(keys, ops * NLAYERS, count, rows.duration, rows.moved)
        classes = np.full(ops * NLAYERS, -1, np.int8)
        classes[keys] = rows.kind
        found = np.flatnonzero(classes >= 0)
        self.op_class.update(zip(found.tolist(), classes[found].tolist(), strict=True))

    def _by_place(self, rows: Rows, count: Ints | None, sites: int) -> None:
        """Sums by file and by source line: time of outermost calls; a file's transfers are those of MOVING."""
        keys = (rows.site.astype(np.int64) + 1) * NROLES
        keys += roles(rows.kind)
        starts = rows.kind == PROCESS  # of programs: this is not I/O of the process, nor a read of the file
        counts = rows.outer & (rows.layer != USER_LAYER) & ~starts
        if counts.all():
            self.by_site.add(keys, sites * NROLES, count, rows.duration, rows.moved)
            time = rows.duration
        else:
            at = np.flatnonzero(counts)
            own = None if count is None else count.take(at)
            self.by_site.add(keys.take(at), sites * NROLES, own, rows.duration.take(at), rows.moved.take(at))
            time = rows.duration * counts
        if rows.submitted.any():
            at = np.flatnonzero(counts & rows.submitted)
            self.submitted = longer(self.submitted, sites, 0)
            np.add.at(self.submitted, rows.site[at] + 1, rows.count[at])
        file = np.where(starts, 0, rows.file) if starts.any() else rows.file
        keys = file * NROLES
        keys += file_roles(rows.layer_and_class)
        self.by_file.add(keys, self.files.size * NROLES, count, time, rows.moved)
        copied = rows.written_by_copies()
        if copied is not None:
            self._copied(copied, sites)
        self._names(file, rows)

    def _copied(self, rows: Rows, sites: int) -> None:
        """Copies, which are reads so far, as writes too: of their line, and of the other file."""
        own, nothing = rows.where(rows.outer), np.zeros(len(rows), np.int64)
        keys = (own.site + 1) * NROLES + WRITES
        self.by_site.add(keys, sites * NROLES, nothing[: len(own)], nothing[: len(own)], own.moved)
        time = rows.duration * rows.outer
        self.by_file.add(rows.file * NROLES + WRITES, self.files.size * NROLES, rows.count, time, rows.moved)

    def _make_room_for_names(self) -> None:
        self.file_path = longer(self.file_path, self.files.size, -1)
        self.file_end = longer(self.file_end, self.files.size, -1)

    def _names(self, file: Ints, rows: Rows) -> None:
        """Keeps the latest name of each file.  Rows are in the order of threads, not of time."""
        self._make_room_for_names()
        at = runs.starts(file, rows.path)
        end = np.maximum.reduceat(rows.time + rows.duration, at)
        self._name(file.take(at), rows.path.take(at), end)

    def _name(self, file: Ints, path: Ints, end: Ints) -> None:
        known = np.flatnonzero(path >= 0)
        file, path, end = file.take(known), path.take(known), end.take(known)
        np.maximum.at(self.file_end, file, end)
        latest = end == self.file_end.take(file)
        self.file_path[file[latest]] = path[latest]

    def _bytes(self, rows: Rows, count: Ints | None) -> None:
        """Bytes requested above MOVING and moved beneath; the ranges and sizes of POSIX transfers."""
        posix = rows.layer == POSIX
        if not posix.all() or rows.in_transfer.any():
            asks = (rows.role == Role.REQUEST) & ~rows.in_transfer
            below = rows.in_transfer & ((rows.layer == STDIO) | posix)
            for direction, kind in enumerate((READ, WRITE)):
                transfers = rows.kind == kind
                self.requested[direction] += int((rows.moved * (transfers & asks)).sum())
                self.beneath[direction] += int((rows.moved * (transfers & below)).sum())
        # A C stream may move a part and fail.
        fine = (posix | (rows.layer == STDIO)) & ((rows.errno == 0) | (rows.moved > 0)) & ~rows.in_flight
        for direction, (kind, sizes, ranges) in enumerate((
            (READ, self.read_sizes, self.read_ranges),
            (WRITE, self.write_sizes, self.write_ranges),
        )):  # fmt: skip
            at = np.flatnonzero((rows.kind == kind) & fine)
            if not len(at):
                continue
            moved, offset = rows.moved.take(at), rows.offset.take(at)
            self.unplaced[direction] += int((moved * (offset < 0)).sum())
            if count is not None:  # rows of several transfers have their sizes in the details
                calls = count.take(at)
                self.summed += int(calls[(calls > 1) & posix.take(at)].sum())
                single = np.flatnonzero(calls == 1)
                at, moved, offset = at.take(single), moved.take(single), offset.take(single)
            of_posix = posix.take(at)
            sizes.add(moved if of_posix.all() else moved.take(np.flatnonzero(of_posix)))
            _add_ranges(ranges, rows.file.take(at), offset, moved)
        copies = np.flatnonzero((rows.kind == COPY) & fine)
        if len(copies):
            moved = rows.moved.take(copies)
            _add_ranges(self.read_ranges, rows.file.take(copies), rows.offset.take(copies), moved)
            _add_ranges(self.write_ranges, rows.to_file.take(copies), rows.to_offset.take(copies), moved)

    def _unusual(self, rows: Rows) -> None:
        """Collects errors, and operations that never returned."""
        failed = np.flatnonzero((rows.errno != 0) & (rows.kind != PROCESS))  # a search along PATH fails by design
        if len(failed):
            keys = np.stack([rows.op[failed], rows.layer[failed], rows.errno[failed]])
            distinct, where = np.unique(keys, axis=1, return_inverse=True)
            counts = np.bincount(where.ravel(), weights=rows.count[failed]).astype(np.int64)
            for (op, layer, errno), calls in zip(distinct.T.tolist(), counts.tolist(), strict=True):
                self.op_errors[op, layer, errno] += calls
        if rows.in_flight.any():
            at = np.flatnonzero(rows.in_flight & (rows.layer != USER_LAYER) & (rows.kind != PROCESS))
            self.pending_count += len(at)
            for i in at[: IN_FLIGHT_SHOWN - len(self.pending)].tolist():
                fields = (rows.process, rows.layer, rows.op, rows.path, rows.site, rows.time)
                self.pending.append(Pending(*(int(field[i]) for field in fields)))


def _add_ranges(ranges: ByteRanges, file: Ints, offset: Ints, moved: Ints) -> None:
    """Adds the bytes that calls moved, where their file and offset are known."""
    if not len(moved):
        return
    if int(offset.min()) < 0 or int(file.min()) == 0 or int(moved.min()) == 0:
        known = np.flatnonzero((offset >= 0) & (file > 0) & (moved > 0))
        offset, file, moved = offset.take(known), file.take(known), moved.take(known)
    ranges.add(file, offset, offset + moved)


@dataclass(frozen=True)
class SummarySums:
    """The reducer.  Its result are the Sums of the whole log."""

    columns: ClassVar[tuple[str, ...]] = COLUMNS

    reader: SummaryReader

    def _empty(self) -> Sums:
        return Sums(self.reader.reader.processes)

    def partial(self, batch: pa.RecordBatch) -> LazyPart[Sums]:
        return LazyPart(self._empty, self.reader.read(batch))

    def combine(self, part: LazyPart[Sums], later: LazyPart[Sums]) -> LazyPart[Sums]:
        return part.combine(later)

    def finish(self, part: LazyPart[Sums] | None, log: Log) -> Sums:
        return self._empty() if part is None else part.totals
