"""Which operations a picture shows: the longest, and sums of the others by line, in two passes over the log.

The first pass counts operations by duration, which gives the shortest duration
that is shown, and fills the counters, which are about all operations.  The second
keeps the rows that are at least as long.  So memory grows with what is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.analysis.reducer import scan
from pyio_trace.analysis.scan.columns import MEANING, Columns
from pyio_trace.analysis.scan.decoding import LATEST, decoded
from pyio_trace.analysis.scan.prefetch import read_ahead
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.enums import Role
from pyio_trace.light_dataclass import dataclass
from pyio_trace.timeline.counters import CounterBins, Counters

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
Rows = dict[str, NDArray[Any]]
Progress = Callable[[int], None] | None

_WORDS = ("op", "layer", "path", "site", "call_stack", "detail")
_NUMBERS = {
    "id": 0, "parent": 0, "process": -1, "tid": -1, "file_offset": -1, "bytes_moved": -1, "errno": 0, "calls": 1,
}  # fmt: skip
_COLUMNS = tuple(dict.fromkeys((*MEANING, "time", "duration", "in_flight", *_WORDS, *_NUMBERS)))
#: Columns with few values, or small ones, of a row that is kept.
_SMALL = ("op", "layer", "process", "tid", "errno", "calls", "path", "site", "call_stack", "detail")
_SUMS = {
    "time": "sum", "rows": "sum", "calls": "sum", "read": "sum", "written": "sum", "first": "min", "last": "max",
}  # fmt: skip
#: Sums of one process and line that are kept; those of the least time are added up without their line.
_MOST_SUMS = 1 << 12
#: Rows that are looked at at a time in the second pass, in which they have many columns.
_AT_ONCE = 1 << 18
#: Durations are counted in 32 classes for each power of two.
_CLASSES, _BITS = 64 * 32, 5


@dataclass
class Chosen:
    """What a picture shows.

    rows: the single operations, by column, in the order of the log.  Codes of
    dictionary columns, and numbers: -1 is none; time: begin, ns since the epoch;
    duration: ns, of a row of several calls their sum; read, written: bytes of POSIX
    and C streams; outer, in_flight, container: 0 or 1.  rest: sums of the other
    operations by process and site; imports: calls of imports, which are neither;
    counters: of all operations.
    """

    rows: Rows
    rest: GroupedSums
    imports: int
    counters: Counters = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows["id"])

    def narrowed(self, most: int) -> Chosen:
        """The same with only the longest `most` rows."""
        if most >= len(self):
            return self
        longest = np.argsort(-self.rows["duration"], kind="stable")[:most]
        kept = np.zeros(len(self), np.bool_)
        kept[longest] = True
        rest = _sums()
        rest.update(self.rest)
        rest.add(_summed({name: values[~kept] for name, values in self.rows.items()}))
        rows = {name: values[kept] for name, values in self.rows.items()}
        return Chosen(rows, rest, self.imports, self.counters)


def choose(log: Log, most: int, imports: bool = False, progress: Progress = None) -> Chosen:
    """The longest `most` operations.  imports: also those that imports made."""
    halved = None if progress is None else _halved(progress)
    counts, counters = scan(log, [_Durations(imports), CounterBins(imports)], halved)
    shortest, partly = _shortest(counts, most)
    parts: list[Rows] = []
    rest, left_out = _sums(), 0
    for batch in read_ahead(decoded(log, _COLUMNS, _AT_ONCE)):
        columns = Columns(batch)
        counted = np.ones(len(columns), np.bool_) if imports else ~columns.imported
        left_out += int(columns.calls[~counted].sum())
        classes = _classes(columns.duration)
        kept = counted & (classes > shortest)
        border = np.flatnonzero(counted & (classes == shortest))[:partly]
        partly -= len(border)
        kept[border] = True
        every = _rows(columns)
        parts.append(_kept(every, kept))
        rest.add(_summed({name: values[counted & ~kept] for name, values in every.items()}))
        if halved is not None:
            halved(batch.num_rows)
    return Chosen(_joined(parts), rest, left_out, counters)


def _halved(progress: Callable[[int], None]) -> Callable[[int], None]:
    """Each row is read twice."""
    return lambda rows: progress(rows // 2)


def _sums() -> GroupedSums:
    return GroupedSums(("process", "site"), _SUMS, _MOST_SUMS, {"site": -1})


def _rows(columns: Columns) -> Rows:
    found: Rows = {name: columns.codes(name) for name in _WORDS}
    found |= {name: columns.numbers(name, missing) for name, missing in _NUMBERS.items()}
    found["time"] = np.minimum(columns.time, LATEST)
    found["duration"] = np.minimum(columns.duration, LATEST - found["time"])
    reads, writes = columns.moves
    found |= {"read": columns.moved * reads, "written": columns.moved * writes}
    found |= {name: columns.truths(name).view(np.int8) for name in ("in_flight", "outer")}
    found["container"] = (columns.role == Role.CONTAINER).view(np.int8)
    return found


def _kept(rows: Rows, kept: NDArray[np.bool_]) -> Rows:
    """The rows of the mask, small numbers in less memory."""
    return {
        name: values[kept].astype(np.int32 if name in _SMALL else values.dtype, copy=False)
        for name, values in rows.items()
    }


def _joined(parts: list[Rows]) -> Rows:
    """The rows of all batches; the parts are emptied, so that nothing is in memory twice."""
    names = (*_WORDS, *_NUMBERS, "time", "duration", "read", "written", "in_flight", "outer", "container")
    if not parts:
        return {name: np.zeros(0, np.int64) for name in names}
    return {name: np.concatenate([part.pop(name) for part in parts]) for name in names}


def _summed(rows: Rows) -> Rows:
    """Rows as values of the sums."""
    keys = {name: rows[name].astype(np.int64) for name in ("process", "site", "calls")}
    return keys | {
        "time": rows["duration"], "rows": np.ones(len(rows["id"]), np.int64), "read": rows["read"],
        "written": rows["written"], "first": rows["time"], "last": rows["time"] + rows["duration"],
    }  # fmt: skip


# ---- the shortest duration that is shown


def _classes(durations: Ints) -> Ints:
    """The class of each duration; a longer one is in the same class or in a later one."""
    bits = np.maximum(durations, 1).astype(np.float64).view(np.int64) >> (52 - _BITS)
    found: Ints = np.minimum(bits - (1023 << _BITS), _CLASSES - 1)
    return found


class _Durations:
    """A reducer that counts operations by class of duration."""

    columns: ClassVar[tuple[str, ...]] = ("time", "process", "duration", "imported")

    def __init__(self, imports: bool) -> None:
        self._imports = imports

    def partial(self, batch: pa.RecordBatch) -> Ints:
        columns = Columns(batch)
        classes = _classes(columns.duration)
        return np.bincount(classes if self._imports else classes[~columns.imported], minlength=_CLASSES)

    def combine(self, part: Ints, later: Ints) -> Ints:
        return part + later

    def finish(self, part: Ints | None, log: Log) -> Ints:
        return np.zeros(_CLASSES, np.int64) if part is None else part


def _shortest(counts: Ints, most: int) -> tuple[int, int]:
    """(class, how many of it) so that all longer ones and so many of this one are at most `most`."""
    longer = np.cumsum(counts[::-1])[::-1] - counts
    fitting = np.flatnonzero(longer <= most)
    found = int(fitting[0])
    return found, most - int(longer[found])
