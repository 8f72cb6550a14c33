"""A batch of operations as numpy arrays: the one place where Arrow's nulls become numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.analysis.nesting import DATA, OTHER, USER, Nesting
from pyio_trace.events import CLASSES, LAYERS

#: What the summary asks of Log.batches().
COLUMNS: tuple[str, ...] = (
    "id", "parent", "time", "duration", "layer", "op", "op_class", "process", "path", "file",
    "offset", "moved", "errno", "site", "count", "imported",
)  # fmt: skip

#: What RowReader asks of a log to know what stands further on in it.
AHEAD: tuple[str, ...] = ("id", "parent", "layer", "op_class", "moved")
Ahead = Callable[[], Iterable[pa.RecordBatch]]

STDIO, POSIX = LAYERS.index("stdio"), LAYERS.index("posix")
#: The layers that move bytes from and to files.  A C stream's calls stand for those that libc makes beneath them, which
#: have no rows (docs/limits.md), so nothing counts twice.
MOVING = [STDIO, POSIX]
USER_LAYER = LAYERS.index("user")
#: What calls above POSIX are to those within them: not of data, of data.
_CALLS = np.array([OTHER, DATA], np.uint8)
READ, WRITE, COPY, OPEN, PROCESS = (CLASSES.index(c) for c in ("read", "write", "copy", "open", "process"))


@dataclass
class Rows:
    """Operations, one element each; what is null in the log is as said.

    time: ns since the start of the run; duration: ns, until the end of the process
    where in_flight; layer, kind: indexes into events.LAYERS and CLASSES, of small numbers,
    as they are compared most; op, path, site: dictionary codes, -1 none; process: index,
    the last one for none; file: index of
    FileNumbers, 0 none; offset: -1 none; moved: bytes, 0 none, and `carries` says
    whether there are any; errno; count; inside: see nesting.py; outer: counts by itself.
    """

    id: NDArray[np.int64]
    time: NDArray[np.int64]
    duration: NDArray[np.int64]
    in_flight: NDArray[np.bool_]
    layer: NDArray[np.int8]
    kind: NDArray[np.int8]
    op: NDArray[np.int64]
    process: NDArray[np.int64]
    path: NDArray[np.int64]
    file: NDArray[np.int64]
    offset: NDArray[np.int64]
    moved: NDArray[np.int64]
    errno: NDArray[np.int64]
    site: NDArray[np.int64]
    count: NDArray[np.int64]
    inside: NDArray[np.uint8]
    outer: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.id)

    @cached_property
    def where_and_what(self) -> NDArray[np.int64]:
        """Layer * len(CLASSES) + class."""
        found = self.layer.astype(np.int64)
        found *= len(CLASSES)
        found += self.kind
        return found

    def where(self, mask: NDArray[np.bool_]) -> Rows:
        """The rows that a mask selects."""
        at = np.flatnonzero(mask)
        return Rows(**{name: getattr(self, name).take(at) for name in self.__dataclass_fields__})


class FileNumbers:
    """Small, lasting numbers for the identities of files; 0 is "no file".

    The join counts files up from 1 and nameless identities down from -1, which
    fold into small numbers at once; identities from elsewhere get a table.
    """

    _DIRECT = 1 << 22

    def __init__(self) -> None:
        self.size = 1
        self._direct = 1 << 16  # grows with the rows seen: sums are as long as the highest number
        self._table: dict[int, int] | None = None

    def of(self, files: pa.Array) -> NDArray[np.int64]:
        """The number of each row's file, 0 where null."""
        raw = numbers(files)
        if self._table is None:
            folded = raw << 1
            if int(raw.min(initial=0)) < 0:
                folded ^= raw >> 63
            lowest, highest = int(folded.min(initial=0)), int(folded.max(initial=0))
            self._direct = min(self._direct + 2 * len(raw), self._DIRECT)
            if lowest >= 0 and highest < self._direct:
                self.size = max(self.size, highest + 1)
                return folded
            self._table = {(n >> 1) ^ -(n & 1): n for n in range(self.size)}
        distinct, inverse = np.unique(raw, return_inverse=True)
        table = self._table
        known = np.array([table.setdefault(one, len(table)) for one in distinct.tolist()], np.int64)
        self.size = len(table)
        return known[inverse]


class RowReader:
    """Turns the batches of one log into Rows."""

    def __init__(self, start: int, process_ends: NDArray[np.int64], ahead: Ahead | None = None) -> None:
        """start: of the run, epoch ns; process_ends: ns since then at which each process was last alive; ahead: gives
        the whole log's columns AHEAD, should some operation be in one that comes after it."""
        self._start = start
        self._ahead = ahead
        self._ends = np.append(process_ends, process_ends.max(initial=0))
        self._layers: NDArray[np.int8] | None = None
        self._kinds: NDArray[np.int8] | None = None
        self.files = FileNumbers()
        self.nesting = Nesting()
        #: The dictionaries of the log, the same in every batch.
        self.ops: list[str] = []
        self.sites: list[str] = []
        self.paths: pa.Array = pa.nulls(0, pa.string())

    def read(self, batch: pa.RecordBatch) -> tuple[Rows, NDArray[np.bool_] | None]:
        """The batch's operations, and which of them imports issued (None: none of them)."""
        if self._layers is None or self._kinds is None:
            self._layers = _by_name(batch.column("layer"), LAYERS)
            self._kinds = _by_name(batch.column("op_class"), CLASSES)
            self.ops = batch.column("op").dictionary.to_pylist()
            self.sites = batch.column("site").dictionary.to_pylist()
            self.paths = batch.column("path").dictionary
        time = _within(numbers(batch.column("time")) - self._start)
        process = numbers(batch.column("process"), -1).astype(np.int64)
        if batch.column("process").null_count:
            process[process < 0] = len(self._ends) - 1
        duration, in_flight = self._durations(batch.column("duration"), time, process)
        layer = self._layers.take(codes(batch.column("layer")))
        kind = self._kinds.take(codes(batch.column("op_class")))
        moved = batch.column("moved")
        ids = numbers(batch.column("id"))
        inside = self._nest(ids, batch.column("parent"), layer, kind, moved)
        rows = Rows(
            id=ids, time=time, duration=duration, in_flight=in_flight, layer=layer, kind=kind,
            op=codes(batch.column("op")), process=process, path=codes(batch.column("path")),
            file=self.files.of(batch.column("file")), offset=numbers(batch.column("offset"), -1),
            moved=addable(numbers(moved)), errno=numbers(batch.column("errno")), site=codes(batch.column("site")),
            count=numbers(batch.column("count")), inside=inside, outer=inside <= USER,
        )  # fmt: skip
        imported = batch.column("imported")
        return rows, truths(imported) if imported.true_count else None

    def _durations(
        self, column: pa.Array, time: NDArray[np.int64], process: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        in_flight = np.zeros(len(column), np.bool_)
        duration = numbers(column)
        if column.null_count:
            in_flight = ~present(column)
            until = np.maximum(self._ends[process] - time, 0)
            duration = np.where(in_flight, until, duration)
        return addable(duration), in_flight

    def _nest(
        self,
        ids: NDArray[np.int64],
        parents: pa.Array,
        layer: NDArray[np.int8],
        kind: NDArray[np.int8],
        moved: pa.Array,
    ) -> NDArray[np.uint8]:
        above = np.flatnonzero(layer != POSIX)
        parent = None if parents.null_count == len(parents) else numbers(parents)
        if parent is not None and self._ahead is not None and int(parent.max()) > int(ids[-1]):
            ahead, self._ahead = self._ahead, None
            self._look_ahead(ahead())
        if len(above):
            data = (kind == READ) | (kind == WRITE)
            if moved.null_count:
                data &= present(moved)
            self.nesting.enter(ids.take(above), _CALLS.take(data.take(above)))
            spans = np.flatnonzero(layer == USER_LAYER)
            if len(spans):
                around = np.zeros(len(spans), np.int64) if parent is None else parent[spans]
                self.nesting.enter_user_spans(ids[spans], around)
        return np.zeros(len(ids), np.uint8) if parent is None else self.nesting.around(parent)

    def _look_ahead(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Takes in all that operations can be in.  Threads have their own places in a log, so what one of them does
        for another may stand before it."""
        spans: list[NDArray[np.int64]] = []
        for batch in batches:
            layer, kind = places(batch, "layer", LAYERS), places(batch, "op_class", CLASSES)
            above = np.flatnonzero(layer != POSIX)
            data = ((kind == READ) | (kind == WRITE)) & present(batch.column("moved"))
            ids = numbers(batch.column("id"))
            self.nesting.enter(ids[above], _CALLS.take(data[above]))
            user = np.flatnonzero(layer == USER_LAYER)
            spans.append(np.stack([ids[user], numbers(batch.column("parent"))[user]]))
        if spans:
            self.nesting.enter_user_spans(*np.concatenate(spans, axis=1))


#: No time since the start of a run is further away, ns: 73 years.
_FARTHEST = 1 << 61
#: What the times or sizes of one batch come to at most: 4 years of calls, 128 PiB.
_MOST = 1 << 57


def _within(times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Times such that a duration can be added to them."""
    if len(times) and (int(times.min()) < -_FARTHEST or int(times.max()) > _FARTHEST):
        return np.clip(times, -_FARTHEST, _FARTHEST)
    return times


def addable(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Values whose sum fits: those of a damaged log are cut, so that nothing else of it comes out negative."""
    if not len(values):
        return values
    least, most = int(values.min()), int(values.max())
    if least >= 0 and (most <= _MOST // len(values) or float(values.sum(dtype=np.float64)) <= _MOST):
        return values
    return np.clip(values, 0, _MOST // len(values))


def int64(number: int) -> int:
    """The nearest number that fits into 64 bits."""
    return min(max(number, -(1 << 63)), (1 << 63) - 1)


def numbers(column: pa.Array, missing: int = 0) -> NDArray[np.int64]:
    """A column of integers, with `missing` in the place of nulls.

    From its buffers, here and below: to_numpy() and pyarrow.compute import pandas or much of pyarrow, which takes as
    long as a small log does (pyio_trace/join/arrays.py).
    """
    dtype = np.dtype(column.type.to_pandas_dtype())
    values: NDArray[np.int64] = np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * dtype.itemsize)
    if not column.null_count:
        return values
    # A product is several times as quick as a choice where nulls come at random.
    return np.where(present(column), values, dtype.type(missing)) if missing else values * present(column)


def present(column: pa.Array) -> NDArray[np.bool_]:
    """Which elements of a column are not null."""
    bits = column.buffers()[0]
    return np.ones(len(column), np.bool_) if bits is None else _unpacked(bits, column)


def truths(column: pa.Array) -> NDArray[np.bool_]:
    """A column of truth values without nulls."""
    return _unpacked(column.buffers()[1], column)


def _unpacked(bits: pa.Buffer, column: pa.Array) -> NDArray[np.bool_]:
    first, skip = divmod(column.offset, 8)
    packed = np.frombuffer(bits, np.uint8, -(-(skip + len(column)) // 8), first)
    return np.unpackbits(packed, count=skip + len(column), bitorder="little")[skip:].view(np.bool_)


def codes(column: pa.DictionaryArray) -> NDArray[np.int64]:
    """Indexes into a dictionary column's dictionary, -1 for null."""
    return numbers(column.indices, -1)


def places(batch: pa.RecordBatch, column: str, names: tuple[str, ...]) -> NDArray[np.int8]:
    """By row of a dictionary column: which of the names; a null, any."""
    return _by_name(batch.column(column), names).take(codes(batch.column(column)))


def _by_name(column: pa.DictionaryArray, names: tuple[str, ...]) -> NDArray[np.int8]:
    """From a dictionary's codes to indexes into names."""
    return np.array([names.index(one) for one in column.dictionary.to_pylist()], np.int8)
