"""Decodes the batches of a log; every reducer, rule and trial reads batches that went through here.

A log may hold any values, and calls whose process ended before they returned have
no duration.  In a decoded batch, no value is too large to be added up, and such
calls have a duration like any other: until the end of their process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.analysis.scan.columns import Columns
from pyio_trace.analysis.scan.saturation import OF_BATCH, addable
from pyio_trace.enums import Role
from pyio_trace.join.base.arrow_arrays import codes, numbers, of_codes, of_numbers, present
from pyio_trace.join.base.roles import LEAVES

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log
    from pyio_trace.join.sources.filtered_source import Sides

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: The largest values that are believed.  LATEST: ns since 1970; FARTHEST: bytes from the start of a file, and ns since
#: the start of a run.
LATEST, FARTHEST = 1 << 62, 1 << 61
#: Columns whose values are added up; other columns, with their least and largest value.
_AMOUNTS = ("duration", "cpu_time", "bytes_moved", "bytes_requested")
_BOUNDS = {
    "time": (0, LATEST), "calls": (1, (1 << 31) - 1), "file_offset": (-1, FARTHEST), "to_file_offset": (-1, FARTHEST),
}  # fmt: skip
#: Columns that are made here, with the columns of the log that they are made from.  in_flight: the call never returned.
#: outer: it counts as I/O of its process, and nothing around it does; it is an outermost request, or a call on a file
#: in no request.
DERIVED: dict[str, tuple[str, ...]] = {"in_flight": ("duration",), "outer": ("id", "op_role", "request_id")}
_NEEDED = {"duration": ("time", "process"), **DERIVED}
#: Columns that say which file an operation works on, and where in it; and which file a copy writes.
_READ, _WRITTEN = ("file", "path", "file_offset"), ("to_file", "to_file_offset")


class Decoder:
    """Decodes the batches of one log for those who want these columns."""

    def __init__(self, columns: Sequence[str], ends: Ints, sides: Sides | None = None) -> None:
        """ends: see ends_of(); sides: which files are chosen, None: all."""
        self._columns, self._ends = tuple(columns), ends
        self._sides = None if sides is None or set(columns).isdisjoint((*_READ, *_WRITTEN)) else sides
        read = [*columns, *(name for one in columns for name in _NEEDED.get(one, ()))]
        if self._sides is not None:
            read += self._sides.columns
        #: The columns of Log.batches() that a batch must have.
        self.needed = tuple(dict.fromkeys(name for name in read if name not in DERIVED))

    @classmethod
    def of(cls, log: Log, columns: Sequence[str]) -> Decoder:
        """The decoder of an open log; columns: of Log.batches(), or DERIVED."""
        sides = None if log.choice is None else log.choice.sides
        return cls(columns, ends_of(log) if "duration" in columns else np.zeros(0, np.int64), sides)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The wanted columns.  Durations are never null; other values may be, as in the log.  If only one of a copy's
        two files is chosen, the other one is null."""
        arrays = {name: self._array(batch, name) for name in self._columns}
        if self._sides is not None and batch.column("to_file").null_count < len(batch):
            others = present(batch.column("to_file")), ~self._sides.read(batch), ~self._sides.written(batch)
            for names, mask in ((_READ, others[0] & others[1]), (_WRITTEN, others[0] & others[2])):
                arrays |= {name: _without(arrays[name], mask) for name in names if name in arrays}
        return pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays))

    def _array(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        if name == "in_flight":
            return of_numbers(~present(batch.column("duration")))
        if name == "outer":
            return of_numbers(is_outer(batch))
        column = batch.column(name)
        if name == "duration" and column.null_count:
            return of_numbers(_cut(lasted(batch, self._ends)))
        if name in _AMOUNTS or name in _BOUNDS:
            found = numbers(column)
            cut = _cut(found) if name in _AMOUNTS else _within(found, *_BOUNDS[name])
            if cut is not found:
                return of_numbers(cut, ~present(column) if column.null_count else None)
        return column


def decoded(
    log: Log, columns: Sequence[str], rows: int = 1 << 20, within: tuple[int, int] | None = None
) -> Iterator[pa.RecordBatch]:
    """Log.batches(), decoded; columns: also DERIVED."""
    decoder = Decoder.of(log, columns)
    return map(decoder, log.batches(decoder.needed, rows, within))


def ends_of(log: Log) -> Ints:
    """When each process was last alive, epoch ns; the last element is for operations whose process is not known."""
    info = log.info()
    start = int(info["start"])
    seen = [one["end"] for one in log.processes().to_pylist()]
    last_known = max([end for end in seen if end is not None] + [info["end"] or start, start])
    ends = [end or last_known for end in seen]
    return np.array([min(max(end, 0), LATEST) for end in [*ends, max([*ends, start])]], np.int64)


#: The columns that lasted() needs.
LASTED = ("duration", "time", "process")


def lasted(batch: pa.RecordBatch, ends: Ints) -> Ints:
    """How long each operation took, ns; one in flight, until its process ended."""
    column = batch.column("duration")
    durations = numbers(column)
    if not column.null_count:
        return durations
    begun = _within(numbers(batch.column("time")), *_BOUNDS["time"])
    until = np.maximum(ends[numbers(batch.column("process"), -1)] - begun, 0)
    return np.where(present(column), durations, until)


def is_outer(batch: pa.RecordBatch) -> Bools:
    """See DERIVED."""
    role, request = Columns(batch).role, numbers(batch.column("request_id"))
    outer: Bools = LEAVES.take(role) & (request == 0)
    outer |= (role == Role.REQUEST) & (request == numbers(batch.column("id")))
    return outer


def since(times: Ints, start: int) -> Ints:
    """Times of the epoch as ns since the start of a run, cut so that no difference of two overflows."""
    return np.clip(times, start - FARTHEST, start + FARTHEST) - start


def _cut(amounts: Ints) -> Ints:
    """Amounts of a batch, none negative, whose sum fits."""
    if int(amounts.min(initial=0)) < 0:
        amounts = np.maximum(amounts, 0)
    return addable(amounts, OF_BATCH)


def _without(column: pa.Array, mask: Bools) -> pa.Array:
    """The column, null in the rows of the mask."""
    if not mask.any():
        return column
    if isinstance(column, pa.DictionaryArray):
        return of_codes(np.where(mask, -1, codes(column)), column.dictionary)
    return of_numbers(numbers(column), mask | ~present(column))


def _within(values: Ints, least: int, most: int) -> Ints:
    if len(values) and (int(values.min()) < least or int(values.max()) > most):
        return np.clip(values, least, most)
    return values
