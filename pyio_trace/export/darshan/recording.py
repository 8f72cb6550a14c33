"""Reducers that collect what Darshan's records hold: of POSIX and C streams, of MPI-IO, of HDF5's files and data sets.

They are FileCounters whose records are about names, as Darshan's are, not about files: a file that was used under two
names has two records, and two files of one name have one.  They remember names of data sets, and keep segments in a
temporary file, so all batches have to be read in one process.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.analysis.calls import details
from pyio_trace.analysis.calls.call_order import Calls
from pyio_trace.analysis.calls.code_texts import texts
from pyio_trace.analysis.calls.darshan_calls import Call
from pyio_trace.analysis.calls.file_names import UNKNOWN
from pyio_trace.analysis.reducers.file_counters import FileCounters, Part
from pyio_trace.analysis.scan.columns import Columns
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.enums import Layer
from pyio_trace.export.darshan.calls import Counted, hdf5_dataset_call, hdf5_file_call, mpiio_call
from pyio_trace.export.darshan.heat_maps import HeatMap
from pyio_trace.export.darshan.segments import Segments
from pyio_trace.join.base.arrow_arrays import codes, of_numbers
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log.sorting import distinct

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: What accesses are aligned to, in bytes: the block of nearly all local file systems.
FILE_ALIGNMENT = 4096
_KEYS = ("process", "file", "kind")
_TRANSFERS = (Call.READ, Call.WRITE, Call.STREAM_READ, Call.STREAM_WRITE)
#: Longest transfers that are remembered before only the longest of each key are.
_MANY = 1 << 18


class Longest:
    """The size of the longest transfer by process, file and kind; the first of those that took as long."""

    def __init__(self) -> None:
        self._rows = np.zeros((6, 0), np.int64)  # process, file, kind, ns, begin, bytes

    def add(self, calls: Calls) -> None:
        """Adds transfers."""
        rows = (calls.process, calls.file, calls.kind, calls.end - calls.begin, calls.begin, calls.size)
        self._rows = _longest(np.concatenate([self._rows, np.array(rows, np.int64)], axis=1))

    def update(self, other: Longest) -> None:
        """Adds those of another one."""
        self._rows = np.concatenate([self._rows, other._rows], axis=1)
        if self._rows.shape[1] > _MANY:
            self._rows = _longest(self._rows)

    def columns(self) -> Ints:
        """Rows: process, file, kind, ns, begin, bytes; with some that are not the longest."""
        return self._rows


def _longest(rows: Ints) -> Ints:
    process, file, kind, time, begin, _ = rows
    rows = rows[:, np.lexsort((begin, -time, kind, file, process))]
    first = np.append(True, (rows[:3, 1:] != rows[:3, :-1]).any(axis=0))[: rows.shape[1]]
    return rows[:, first]


@dataclass
class RecordPart(Part):
    """What some batches contribute.

    counts: calls by the number of the counter that counts them; aligned: transfers that do not begin at a multiple of
    FILE_ALIGNMENT; renames: by old name and code of the detail; summed: transfers in rows of several.
    """

    segments: Segments = field(default_factory=lambda: Segments("", 0))
    heat: HeatMap = field(default_factory=HeatMap)
    size_of_longest: Longest = field(default_factory=Longest)
    counts: GroupedSums = field(default_factory=lambda: GroupedSums(("process", "file", "counter"), {"calls": "sum"}))
    aligned: GroupedSums = field(default_factory=lambda: GroupedSums(("process", "file"), {"calls": "sum"}))
    renames: GroupedSums = field(
        default_factory=lambda: GroupedSums(("process", "file", "detail"), {"calls": "sum", "first": "min"})
    )
    summed: int = 0
    last: int = 0

    def sums(self) -> tuple[GroupedSums, ...]:
        return (*super().sums(), self.counts, self.aligned, self.renames)


@dataclass(frozen=True)
class PosixRecording(FileCounters):
    """The reducer of POSIX and STDIO.  folder: for temporary files; start: of the run, ns since the epoch."""

    #: Those that count calls of one kind, by their number in RecordPart.counts.
    counters: ClassVar[tuple[str, ...]] = ()

    folder: str = ""
    start: int = 0

    def combine(self, part: Part, later: Part) -> Part:
        assert isinstance(part, RecordPart) and isinstance(later, RecordPart)
        super().combine(part, later)
        part.segments.update(later.segments)
        part.heat.update(later.heat)
        part.size_of_longest.update(later.size_of_longest)
        part.summed += later.summed
        part.last = max(part.last, later.last)
        return part

    def finish(self, part: Part | None, log: Log) -> Any:
        """The part, with all calls counted."""
        return self._whole(part)

    def names(self, numbers: Ints, log: Log) -> list[str]:
        """The names that these numbers of files stand for."""
        found = texts(log, "path", np.maximum(numbers, -1))
        return [UNKNOWN if text is None else text for text in found]

    def _part(self) -> RecordPart:
        return RecordPart(segments=Segments(self.folder, self.start))

    def _files(self, rows: pa.RecordBatch, columns: Columns) -> Ints:
        return columns.codes("path")

    def _add_more(self, part: Part, calls: Calls, number: Ints, rows: pa.RecordBatch, alone: Bools) -> None:
        assert isinstance(part, RecordPart)
        transfers = np.isin(calls.kind, _TRANSFERS)
        part.last = max(part.last, int(calls.end.max(initial=0)))
        chosen = calls.take(np.flatnonzero(transfers))
        what = (chosen.kind >= Call.STREAM_READ) * 2 + np.isin(chosen.kind, (Call.WRITE, Call.STREAM_WRITE))
        begin, end = chosen.begin - self.start, chosen.end - self.start
        part.heat.add(chosen.process, what.astype(np.int64), chosen.size, begin, end)
        plain = (calls.kind == Call.READ) | (calls.kind == Call.WRITE)
        part.summed += int(number[plain & ~alone].sum())
        single = calls.take(np.flatnonzero(plain & alone))
        part.segments.add(single)
        part.size_of_longest.add(single)
        at = np.flatnonzero((single.offset >= 0) & (single.offset % FILE_ALIGNMENT != 0))
        ones = np.ones(len(at), np.int64)
        part.aligned.add({"process": single.process[at], "file": single.file[at], "calls": ones})
        at = np.flatnonzero(calls.kind == Call.RENAME)
        if len(at):
            to = codes(rows["detail"])[at].astype(np.int64)
            keys = {"process": calls.process[at], "file": calls.file[at], "detail": to}
            part.renames.add(keys | {"calls": number[at], "first": calls.begin[at]})


@dataclass(frozen=True)
class SpanRecording(PosixRecording):
    """The reducer of a module above POSIX."""

    layer: ClassVar[int]
    classify: ClassVar[staticmethod[[str], Counted | None]]

    def _kinds(self, batch: pa.RecordBatch, columns: Columns) -> NDArray[np.int8]:
        found = [self.classify(word) for word in columns.words("op")]
        table = np.array([*(-1 if one is None else one.kind for one in found), -1], np.int8)  # the last: null
        return np.where(columns.layer == self.layer, table.take(codes(batch["op"])), np.int8(-1))

    def _is_sum(self, calls: Calls, rows: pa.RecordBatch) -> Bools:
        return np.zeros(len(calls), np.bool_)  # any of these calls has a detail

    def _add_more(self, part: Part, calls: Calls, number: Ints, rows: pa.RecordBatch, alone: Bools) -> None:
        assert isinstance(part, RecordPart)
        super()._add_more(part, calls, number, rows, alone)
        counter = self._counter(rows)
        at = np.flatnonzero(counter >= 0)
        part.counts.add(
            {"process": calls.process[at], "file": calls.file[at], "counter": counter[at], "calls": number[at]}
        )

    def _counter(self, rows: pa.RecordBatch) -> Ints:
        """The number of the counter that counts each row, or -1."""
        found = [self.classify(word) for word in Columns(rows).words("op")]
        table = [self.counters.index(one.counter) if one is not None and one.counter else -1 for one in found]
        return np.array([*table, -1], np.int64).take(codes(rows["op"]))


class MpiioRecording(SpanRecording):
    """The reducer of MPI-IO."""

    layer = Layer.MPIIO
    classify = staticmethod(mpiio_call)
    counters = (
        "INDEP_OPENS", "COLL_OPENS", "SYNCS", "VIEWS",
        *(f"{how}_{what}" for how in ("INDEP", "COLL", "SPLIT", "NB") for what in ("READS", "WRITES")),
    )  # fmt: skip

    def _counter(self, rows: pa.RecordBatch) -> Ints:
        found = super()._counter(rows)
        at = np.flatnonzero(found == self.counters.index("COLL_OPENS"))
        # Where the communicator has one process, all it does is independent.
        alone = details.of_rows(rows["detail"], at, lambda text: details.parse(text).get("ranks") == 1)
        found[at[np.array(alone, np.bool_)]] = self.counters.index("INDEP_OPENS")
        return found


class Hdf5FileRecording(SpanRecording):
    """The reducer of HDF5's files."""

    layer = Layer.HDF5
    classify = staticmethod(hdf5_file_call)
    counters = ("OPENS", "FLUSHES")

    def _kinds(self, batch: pa.RecordBatch, columns: Columns) -> NDArray[np.int8]:
        found = super()._kinds(batch, columns)
        # What closes an object inside the file has a detail that names it.
        inside = columns.of_words("op", ("H5Idec_ref",)) & (codes(batch["detail"]) >= 0)
        return np.where(inside, np.int8(-1), found)


class _Datasets:
    """Numbers of data sets by the code of a detail; 0: none."""

    def __init__(self) -> None:
        self.names: list[str] = [""]
        self._numbers: dict[str, int] = {"": 0}
        self._known: dict[int, int] = {-1: 0}

    def of(self, column: pa.DictionaryArray) -> Ints:
        """The number of each row's data set."""
        code = codes(column)
        used = distinct(code)
        for one in used.tolist():
            if one not in self._known:
                name = details.text(details.parse(column.dictionary[one].as_py()), "dataset") or ""
                number = self._numbers.setdefault(name, len(self.names))
                if number == len(self.names):
                    self.names.append(name)
                self._known[one] = number
        table = np.array([self._known[one] for one in used.tolist()], np.int64)
        return table[np.searchsorted(used, code)] if len(used) else np.zeros(0, np.int64)


@dataclass(frozen=True)
class Hdf5DatasetRecording(SpanRecording):
    """The reducer of HDF5's data sets."""

    layer = Layer.HDF5
    classify = staticmethod(hdf5_dataset_call)
    counters = ("OPENS", "READS", "WRITES", "FLUSHES")

    datasets: _Datasets = field(default_factory=_Datasets)

    def names(self, numbers: Ints, log: Log) -> list[str]:
        files = super().names((numbers >> 32) - 1, log)
        return [
            f"{file}:{self.datasets.names[number & 0xFFFFFFFF]}"
            for file, number in zip(files, numbers.tolist(), strict=True)
        ]

    def files(self, numbers: Ints, log: Log) -> list[str]:
        """The names of the files that these data sets are in."""
        return super().names((numbers >> 32) - 1, log)

    def _kinds(self, batch: pa.RecordBatch, columns: Columns) -> NDArray[np.int8]:
        found = super()._kinds(batch, columns)
        at = np.flatnonzero(found >= 0)
        if len(at):
            found[at[self.datasets.of(batch["detail"].take(of_numbers(at))) == 0]] = -1
        return found

    def _files(self, rows: pa.RecordBatch, columns: Columns) -> Ints:
        return ((columns.codes("path") + 1) << 32) | self.datasets.of(rows["detail"])
