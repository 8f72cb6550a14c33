"""The one pass over a log's operations from which the summary is made.

Takes batches, keeps sums: by process, layer and class; by operation; by file;
by source line; unions of time; ranges of bytes; sizes; errors.  A sum is added where it
is kept, in whole numbers: no batch makes an array as long as the sums are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.analysis.ahead import Beside
from pyio_trace.analysis.intervals import BusyTime, ByteRanges
from pyio_trace.analysis.links import SpanTimes
from pyio_trace.analysis.nesting import DATA, OTHER, USER
from pyio_trace.analysis.rows import MOVING, OPEN, POSIX, PROCESS, READ, USER_LAYER, WRITE, Ahead, RowReader, Rows
from pyio_trace.analysis.sizes import AccessSizes
from pyio_trace.events import CLASSES, LAYERS

Ints = NDArray[np.int64]

NLAYERS, NCLASSES = len(LAYERS), len(CLASSES)
#: What a transfer is to its file or source line.
READS, WRITES, OPENS, OTHERS, HIGHER = range(5)
NROLES = 5
IN_FLIGHT_SHOWN = 20
_NINSIDE = OTHER + 1
_FARTHEST = 1 << 62  # no byte of a file is further in


class Sums:
    """Calls, time (ns) and bytes by some number; grows as the numbers do."""

    def __init__(self, size: int = 0) -> None:
        self.count = np.zeros(size, np.int64)
        self.time = np.zeros(size, np.int64)
        self.moved = np.zeros(size, np.int64)

    def add(self, keys: Ints, size: int, count: Ints | None, time: Ints, moved: Ints) -> None:
        """Add weights at keys, which are below size; count None: one for each."""
        if size > len(self.count):
            for name in ("count", "time", "moved"):
                old = getattr(self, name)
                grown = np.zeros(max(size, len(old) * 3 // 2), np.int64)
                grown[: len(old)] = old
                setattr(self, name, grown)
        if count is None and size <= len(keys):
            self.count[:size] += np.bincount(keys, minlength=size)
        else:
            np.add.at(self.count, keys, 1 if count is None else count)
        for total, weights in ((self.time, time), (self.moved, moved)):
            np.add.at(total, keys, weights)
            if int(total.min(initial=0)) < 0:  # of a damaged log: more than 63 bits
                total[total < 0] = np.iinfo(np.int64).max


def _sums(keys: Ints, size: int, weights: Ints) -> Ints:
    return np.rint(np.bincount(keys, weights=weights, minlength=size)).astype(np.int64)


@dataclass
class Imports:
    """What the import system did: calls, time (ns, outermost calls only), bytes read by POSIX calls."""

    count: int = 0
    time: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Pending:
    """One operation that never returned; time, since: ns since the start of the run."""

    process: int
    layer: int
    op: int
    path: int
    site: int
    time: int


class Collector:
    """Adds batches up; everything a Summary needs that is in the operations."""

    def __init__(self, start: int, process_ends: Ints, wall: int, ahead: Ahead | None = None) -> None:
        """start: of the run, epoch ns; process_ends, ahead: see RowReader; wall: ns that no time exceeds."""
        self.processes = len(process_ends) + 1  # the last one: operations whose process is not known
        self.reader = RowReader(start, process_ends, ahead)
        self.spans = SpanTimes()
        self.rows = 0
        self.calls = 0
        self.imports = Imports()
        self.by_process = Sums(self.processes * NLAYERS * NCLASSES)  # process, layer, class
        self.by_op = Sums()  # op, layer
        self.op_errors: dict[tuple[int, int, int], int] = {}  # (op, layer, errno) -> calls
        self.op_class: dict[int, int] = {}  # op * NLAYERS + layer -> class
        self.by_file = Sums()  # file, role; time: of outermost calls
        self.file_path = np.zeros(0, np.int64)  # file -> the path it went by last
        self.file_end = np.zeros(0, np.int64)  # file -> the end of the last operation by that path
        self.by_site = Sums()  # site + 1, role; outermost calls
        self.busy = BusyTime(NLAYERS + 1, self.processes, wall)  # channels: each layer, then all outermost calls
        self.coalesced = np.zeros((self.processes, NLAYERS), np.int64)  # time in rows that stand for many calls
        self.coalesced_rows = 0
        self.asked = np.zeros(2, np.int64)  # bytes read, written by outermost calls that move bytes, above MOVING
        self.below = np.zeros(2, np.int64)  # bytes read, written by MOVING within calls above them
        self.read_ranges, self.write_ranges = ByteRanges(), ByteRanges()
        self.read_sizes, self.write_sizes = AccessSizes(), AccessSizes()
        self.summed = 0  # POSIX transfers that have no row of their own
        self.pending: list[Pending] = []
        self.pending_count = 0

    def add_all(self, batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
        """Enter batches with the columns of rows.COLUMNS; yields the rows of each.

        The unions of time are made in a thread beside, batch after batch: half of the work.
        """
        with Beside() as beside:
            for batch in batches:
                if batch.num_rows:
                    self._add(batch, beside)
                yield batch.num_rows

    def _add(self, batch: pa.RecordBatch, beside: Beside) -> None:
        rows, imported = self.reader.read(batch)
        self.rows += len(rows)
        self.spans.add(rows, self.reader.ops)
        self.calls += int(rows.count.sum())
        if imported is not None:
            self._imports(rows.where(imported))
            rows = rows.where(~imported)
            if not len(rows):
                return
        count = rows.count if int(rows.count.max()) > 1 else None
        beside(self._time, rows, count)
        self._by_operation(rows, count)
        self._by_place(rows, count)
        self._bytes(rows, count)
        self._unusual(rows)

    def _imports(self, rows: Rows) -> None:
        self.imports.count += int(rows.count.sum())
        self.imports.time += int(rows.duration[rows.outer].sum())
        self.imports.bytes += int(rows.moved[(rows.layer == POSIX) & (rows.kind == READ)].sum())

    def _by_operation(self, rows: Rows, count: Ints | None) -> None:
        kinds = NLAYERS * NCLASSES
        keys = rows.process * kinds + rows.where_and_what
        self.by_process.add(keys, self.processes * kinds, count, rows.duration, rows.moved)
        keys = rows.op.astype(np.int64) * NLAYERS + rows.layer
        self.by_op.add(keys, len(self.reader.ops) * NLAYERS, count, rows.duration, rows.moved)
        seen = np.full(len(self.reader.ops) * NLAYERS, -1, np.int8)
        seen[keys] = rows.kind
        present = np.flatnonzero(seen >= 0)
        self.op_class.update(zip(present.tolist(), seen[present].tolist(), strict=True))

    def _by_place(self, rows: Rows, count: Ints | None) -> None:
        """Files and source lines.  Their time is that of outermost calls; a file's transfers are those of MOVING."""
        keys = (rows.site.astype(np.int64) + 1) * NROLES
        keys += roles(rows.kind)
        size = (len(self.reader.sites) + 1) * NROLES
        starts = rows.kind == PROCESS  # of programs: their time is not I/O, their files were not read by us
        ours = rows.outer & (rows.layer != USER_LAYER) & ~starts
        if ours.all():
            self.by_site.add(keys, size, count, rows.duration, rows.moved)
            time = rows.duration
        else:
            at = np.flatnonzero(ours)
            own = None if count is None else count.take(at)
            self.by_site.add(keys.take(at), size, own, rows.duration.take(at), rows.moved.take(at))
            time = rows.duration * ours
        file = np.where(starts, 0, rows.file) if starts.any() else rows.file
        keys = file * NROLES
        keys += _FILE_ROLES.take(rows.where_and_what)
        self.by_file.add(keys, self.reader.files.size * NROLES, count, time, rows.moved)
        if self.reader.files.size > len(self.file_path):
            self.file_path = _grown(self.file_path, self.reader.files.size)
            self.file_end = _grown(self.file_end, self.reader.files.size)
        self._names(file, rows)

    def _names(self, file: Ints, rows: Rows) -> None:
        """Which name a file went by last; rows are in the order of their threads, not of time."""
        first = np.append(True, (file[1:] != file[:-1]) | (rows.path[1:] != rows.path[:-1]))  # of those alike in a row
        at = np.flatnonzero(first)
        end = np.maximum.reduceat(rows.time + rows.duration, at)
        file, path = file.take(at), rows.path.take(at)
        known = np.flatnonzero(path >= 0)
        file, path, end = file.take(known), path.take(known), end.take(known)
        np.maximum.at(self.file_end, file, end)
        latest = end == self.file_end.take(file)
        self.file_path[file[latest]] = path[latest]

    def _time(self, rows: Rows, count: Ints | None) -> None:
        single = rows.kind != PROCESS
        if count is not None:
            many = np.flatnonzero((count > 1) & (rows.layer != USER_LAYER) & rows.outer & single)
            self.coalesced_rows += len(many)
            keys = rows.process[many] * NLAYERS + rows.layer[many]
            self.coalesced += _sums(keys, self.processes * NLAYERS, rows.duration[many]).reshape(-1, NLAYERS)
            single &= count <= 1
        starts, ends = self.busy.on_axis(rows.process, rows.time, rows.time + rows.duration)
        for layer in range(NLAYERS):
            mask = single & (rows.layer == layer)
            outer = mask & rows.outer
            if layer == USER_LAYER:
                self._busy_on((layer,), mask, starts, ends)
            elif np.count_nonzero(mask) == np.count_nonzero(outer):
                self._busy_on((layer, NLAYERS), mask, starts, ends)
            else:
                self._busy_on((layer,), mask, starts, ends)
                self._busy_on((NLAYERS,), outer, starts, ends)
        self.busy.settle(int(rows.time.min()))

    def _busy_on(self, channels: tuple[int, ...], mask: NDArray[np.bool_], starts: Ints, ends: Ints) -> None:
        at = np.flatnonzero(mask)
        self.busy.add(channels, starts.take(at), ends.take(at))

    def _bytes(self, rows: Rows, count: Ints | None) -> None:
        """What was asked for above MOVING, what these moved for it; which bytes POSIX moved, and in which sizes."""
        posix = rows.layer == POSIX
        reads, writes = rows.kind == READ, rows.kind == WRITE
        if not posix.all() or rows.inside.any():
            moved = np.zeros((_NINSIDE, NLAYERS, NCLASSES), np.int64)
            np.add.at(moved.reshape(-1), rows.inside * np.int64(NLAYERS * NCLASSES) + rows.where_and_what, rows.moved)
            self.asked += (moved[:, :, [READ, WRITE]] * _ASKING[:, :, None]).sum(axis=(0, 1))
            self.below += moved[USER + 1 :, MOVING][:, :, [READ, WRITE]].sum(axis=(0, 1))
        fine = posix & (rows.errno == 0) & ~rows.in_flight
        for mask, sizes, ranges in (
            (reads, self.read_sizes, self.read_ranges),
            (writes, self.write_sizes, self.write_ranges),
        ):
            at = np.flatnonzero(mask & fine)
            if not len(at):
                continue
            if count is not None:  # sums of transfers: their sizes are in their details
                calls = count.take(at)
                self.summed += int(calls[calls > 1].sum())
                at = at[calls == 1]
            moved = rows.moved.take(at)
            if not len(at):
                continue
            sizes.add(moved)
            offset, file = rows.offset.take(at), rows.file.take(at)
            if int(offset.min()) < 0 or int(file.min()) == 0 or int(moved.min()) == 0 or int(offset.max()) > _FARTHEST:
                known = np.flatnonzero((offset >= 0) & (offset <= _FARTHEST) & (file > 0) & (moved > 0))
                offset, file, moved = offset[known], file[known], moved[known]
            ranges.add(file, offset, offset + moved)

    def _unusual(self, rows: Rows) -> None:
        """Errors, and operations that never returned."""
        failed = np.flatnonzero((rows.errno != 0) & (rows.kind != PROCESS))  # a search along PATH fails by design
        if len(failed):
            keys = np.stack([rows.op[failed], rows.layer[failed], rows.errno[failed]])
            distinct, where = np.unique(keys, axis=1, return_inverse=True)
            counts = np.bincount(where.ravel(), weights=rows.count[failed]).astype(np.int64)
            for (op, layer, errno), calls in zip(distinct.T.tolist(), counts.tolist(), strict=True):
                self.op_errors[op, layer, errno] = self.op_errors.get((op, layer, errno), 0) + calls
        if rows.in_flight.any():
            at = np.flatnonzero(rows.in_flight & (rows.layer != USER_LAYER) & (rows.kind != PROCESS))
            self.pending_count += len(at)
            for i in at[: IN_FLIGHT_SHOWN - len(self.pending)].tolist():
                fields = (rows.process, rows.layer, rows.op, rows.path, rows.site, rows.time)
                self.pending.append(Pending(*(int(field[i]) for field in fields)))


def _grown(values: Ints, size: int) -> Ints:
    grown = np.full(size * 3 // 2, -1, np.int64)
    grown[: len(values)] = values
    return grown


def roles(kind: NDArray[np.int8]) -> Ints:
    """The role of transfers of these classes: READS, WRITES, OPENS or OTHERS."""
    return _ROLES.take(kind)


#: What a row is in, its layer -> whether its bytes were asked for above MOVING, by a call in no other that asks.
_ASKING = np.ones((_NINSIDE, NLAYERS), np.int64)
_ASKING[DATA] = _ASKING[:, (*MOVING, USER_LAYER)] = 0
#: Class -> role.
_ROLES = np.full(NCLASSES, OTHERS, np.int64)
_ROLES[READ], _ROLES[WRITE], _ROLES[OPEN] = READS, WRITES, OPENS
#: Layer * NCLASSES + class -> role of a transfer to its file.
_FILE_ROLES = np.full((NLAYERS, NCLASSES), HIGHER, np.int64)
_FILE_ROLES[MOVING] = _ROLES
