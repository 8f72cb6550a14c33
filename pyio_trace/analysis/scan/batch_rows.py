"""A batch of operations as numpy arrays, in which nulls are numbers too."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.analysis.scan.columns import Columns
from pyio_trace.analysis.scan.decoding import ends_of, since
from pyio_trace.enums import CLASSES, Layer, OpClass
from pyio_trace.join.base.arrow_arrays import codes, numbers
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

#: Columns of a decoded batch that RowReader needs.
COLUMNS: tuple[str, ...] = (
    "id", "time", "duration", "layer", "op", "op_class", "process", "path", "file", "file_offset", "bytes_moved",
    "errno", "site", "calls", "imported", "submitted", "op_role", "request_id", "task_id", "in_transfer",
    "to_file", "to_file_offset", "in_flight", "outer",
)  # fmt: skip

STDIO, POSIX, USER_LAYER = Layer.STDIO, Layer.POSIX, Layer.USER
READ, WRITE, COPY, OPEN, PROCESS = OpClass.READ, OpClass.WRITE, OpClass.COPY, OpClass.OPEN, OpClass.PROCESS


@dataclass
class Rows:
    """Operations, one element each.  Nulls of the log become the values given here.

    time: ns since the start of the run.  duration: ns.  in_flight, outer: see
    decoding.  layer, kind: indexes into enums.LAYERS and CLASSES
    (int8, as they are compared most); role: number of enums.Role, likewise.  op,
    path, site: dictionary codes, -1 none.  process: index; operations without one
    have the last.  file: its identity, 0 none.  offset: -1 none.  moved: bytes,
    0 none.  count: calls.  request, task: ids of the outermost request and the
    innermost container around the operation in its process, 0 none; a request is
    around itself.  in_transfer: a request around it moves bytes.  submitted: site is
    the line that submitted the work.  to_file, to_offset: of a copy, where it
    wrote, as file and offset.
    """

    id: NDArray[np.int64]
    time: NDArray[np.int64]
    duration: NDArray[np.int64]
    in_flight: NDArray[np.bool_]
    layer: NDArray[np.int8]
    kind: NDArray[np.int8]
    role: NDArray[np.int8]
    op: NDArray[np.int64]
    process: NDArray[np.int64]
    path: NDArray[np.int64]
    file: NDArray[np.int64]
    offset: NDArray[np.int64]
    moved: NDArray[np.int64]
    errno: NDArray[np.int64]
    site: NDArray[np.int64]
    count: NDArray[np.int64]
    request: NDArray[np.int64]
    task: NDArray[np.int64]
    in_transfer: NDArray[np.bool_]
    outer: NDArray[np.bool_]
    submitted: NDArray[np.bool_]
    to_file: NDArray[np.int64]
    to_offset: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.id)

    @cached_property
    def layer_and_class(self) -> NDArray[np.int64]:
        """Layer * len(CLASSES) + class, as one key."""
        found = self.layer.astype(np.int64)
        found *= len(CLASSES)
        found += self.kind
        return found

    def where(self, mask: NDArray[np.bool_]) -> Rows:
        """The rows of the mask."""
        return self._some(np.flatnonzero(mask))

    def written_by_copies(self) -> Rows | None:
        """The copies among the rows as writes of the files that they wrote: without a name, and without a file if they
        wrote to a socket.  None: there are no copies."""
        at = np.flatnonzero(self.kind == COPY)
        if not len(at):
            return None
        rows = self._some(at)
        kind, path = np.full(len(at), WRITE, np.int8), np.full(len(at), -1, np.int64)
        return replace(rows, kind=kind, path=path, file=rows.to_file, offset=rows.to_offset)

    def _some(self, at: NDArray[np.int64]) -> Rows:
        return Rows(**{name: getattr(self, name).take(at) for name in self.__dataclass_fields__})


class FileNumbers:
    """Small numbers for the identities of files, in the order in which they come; 0 is "no file".

    The join numbers files that it knows by inode from 1 upwards, and those that
    it knows by path from -1 downwards.  Both become small numbers directly;
    identities from elsewhere get a table.
    """

    _DIRECT = 1 << 22

    def __init__(self) -> None:
        self.size = 1
        self._direct = 1 << 16  # grows with the rows seen, since sums are as long as the highest number
        self._table: dict[int, int] | None = None

    def of(self, identities: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number of each identity; 0 has the number 0."""
        if not identities.any():
            return np.zeros(len(identities), np.int64)
        if self._table is None:
            folded = identities << 1
            if int(identities.min(initial=0)) < 0:
                folded ^= identities >> 63
            lowest, highest = int(folded.min(initial=0)), int(folded.max(initial=0))
            self._direct = min(self._direct + 2 * len(identities), self._DIRECT)
            if lowest >= 0 and highest < self._direct:
                self.size = max(self.size, highest + 1)
                return folded
            self._table = {one: number for number, one in enumerate(self.identities().tolist())}
        distinct, inverse = np.unique(identities, return_inverse=True)
        table = self._table
        known = np.array([table.setdefault(one, len(table)) for one in distinct.tolist()], np.int64)
        self.size = len(table)
        return known[inverse]

    def identities(self) -> NDArray[np.int64]:
        """The identity that each number stands for."""
        if self._table is not None:
            return np.array(list(self._table), np.int64)
        numbers = np.arange(self.size)
        return (numbers >> 1) ^ -(numbers & 1)


class RowReader:
    """Turns the decoded batches of one log into Rows.  Small when pickled."""

    def __init__(self, start: int, ends: NDArray[np.int64]) -> None:
        """start: of the run, epoch ns; ends: see decoding.ends_of()."""
        self.start = start
        #: How many processes there are, with one for operations whose process is not known.
        self.processes = len(ends)
        #: ns since the start that no time should exceed.  Only a bound on damaged times, so it is generous.
        self.limit = max(int(ends.max()) - start, 0) + (1 << 50)

    @classmethod
    def of(cls, log: Log) -> RowReader:
        """The reader of an open log."""
        return cls(int(log.info()["start"]), ends_of(log))

    def read(self, batch: pa.RecordBatch) -> tuple[Rows, NDArray[np.bool_] | None]:
        """The batch's operations, and a mask of those that imports made (None: there are none)."""
        columns = Columns(batch)
        process = columns.numbers("process", -1)
        if batch.column("process").null_count:
            process[process < 0] = self.processes - 1
        rows = Rows(
            id=numbers(batch.column("id")), time=since(columns.time, self.start), duration=columns.duration,
            in_flight=columns.truths("in_flight"), layer=columns.layer, kind=columns.kind, role=columns.role,
            op=codes(batch.column("op")), process=process, path=codes(batch.column("path")),
            file=columns.file, offset=columns.offset, moved=columns.moved, errno=numbers(batch.column("errno")),
            site=codes(batch.column("site")), count=numbers(batch.column("calls")),
            request=numbers(batch.column("request_id")), task=numbers(batch.column("task_id")),
            in_transfer=columns.truths("in_transfer"), outer=columns.outer, submitted=columns.truths("submitted"),
            to_file=numbers(batch.column("to_file")), to_offset=numbers(batch.column("to_file_offset"), -1),
        )  # fmt: skip
        imported = batch.column("imported")
        return rows, columns.imported if imported.true_count else None


def int64(number: int) -> int:
    """The nearest integer that fits into 64 bits."""
    return min(max(number, -(1 << 63)), (1 << 63) - 1)
