"""Darshan's counters as a table, from sums by process, file and kind of call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.analysis.calls.darshan_calls import BIN_NAMES, COMMON, FIRST_STREAM_CALL, TIMER, Call
from pyio_trace.analysis.calls.renamed_files import present_names
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.join.base.arrow_arrays import of_numbers
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log import runs

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
Columns = dict[str, Ints]

#: Counters of one module that are the number of calls of some kinds.
_COUNTS = {
    "POSIX": {
        "OPENS": (Call.OPEN, Call.DUP), "DUPS": (Call.DUP,), "READS": (Call.READ,), "WRITES": (Call.WRITE,),
        "SEEKS": (Call.SEEK,), "STATS": (Call.STAT,), "MMAPS": (Call.MMAP,), "FSYNCS": (Call.FSYNC,),
        "FDSYNCS": (Call.FDSYNC,), "RENAME_SOURCES": (Call.RENAME,),
    },
    "STDIO": {
        "OPENS": (Call.STREAM_OPEN, Call.FDOPEN), "FDOPENS": (Call.FDOPEN,), "READS": (Call.STREAM_READ,),
        "WRITES": (Call.STREAM_WRITE,), "SEEKS": (Call.STREAM_SEEK,), "FLUSHES": (Call.FLUSH,),
    },
}  # fmt: skip
#: The modules, with their kinds of reads, writes, openings and closings.
_MODULES = {
    "POSIX": (Call.READ, Call.WRITE, (Call.OPEN, Call.DUP), Call.CLOSE),
    "STDIO": (Call.STREAM_READ, Call.STREAM_WRITE, (Call.STREAM_OPEN, Call.FDOPEN), Call.STREAM_CLOSE),
}
_NS = 1e9


@dataclass(frozen=True)
class Counters:
    """The result: a record for each file, or for each process of a file, the one with the most time first.

    table: path; process and pid (null: all that used the file); processes; then
    the counters under Darshan's names, null where the file has no call of that
    module; unplaced: transfers that are in no counter about places, because
    their offset is not known or they are in a sum.  Names with _F_ are in
    seconds, since the start of the run where they end in TIMESTAMP.
    """

    table: pa.Table


class Records:
    """Sums by record, looked up by its number.  keys: (process, file) of each, in ascending order."""

    def __init__(self, sums: Mapping[str, GroupedSums], by_process: bool) -> None:
        self._without = () if by_process else ("process",)
        self.calls = sums["calls"].columns(*self._without)
        self._sums = sums
        keys = self._keys(self.calls)
        first = runs.begins(*keys.T)
        self.at = np.cumsum(first) - 1 if len(keys) else np.empty(0, np.int64)
        self.keys = keys[first]

    def __len__(self) -> int:
        return len(self.keys)

    def _keys(self, columns: Columns) -> NDArray[np.int64]:
        """(process, file) of each row; process 0 where records are by file."""
        file = columns["file"]
        return np.stack([columns.get("process", np.zeros(len(file), np.int64)), file], axis=1)

    def of(self, name: str) -> tuple[Columns, Ints]:
        """(other sums, the record of each of their rows)."""
        columns = self._sums[name].columns(*self._without)
        keys = self._keys(columns)
        return columns, self.numbers(keys[:, 0], keys[:, 1])

    def numbers(self, process: Ints, file: Ints) -> Ints:
        """The record of each process and file; -1: there is none."""
        keys = np.concatenate([self.keys, np.stack([process, file], axis=1)])
        distinct, inverse = np.unique(keys, axis=0, return_inverse=True)
        number = np.full(len(distinct), -1, np.int64)
        number[inverse.ravel()[: len(self)]] = np.arange(len(self))
        return number[inverse.ravel()[len(self) :]]

    def total(self, value: str, kinds: tuple[int, ...]) -> Ints:
        """The sum of a value over calls of these kinds."""
        found = np.zeros(len(self), np.int64)
        rows = np.isin(self.calls["kind"], kinds)
        np.add.at(found, self.at[rows], self.calls[value][rows])
        return found

    def least(self, kinds: tuple[int, ...]) -> Ints:
        """When the first call of these kinds began; the largest int64 where there is none."""
        found = np.full(len(self), np.iinfo(np.int64).max)
        rows = np.isin(self.calls["kind"], kinds) & (self.calls["calls"] > 0)
        np.minimum.at(found, self.at[rows], self.calls["first"][rows])
        return found

    def most(self, value: str, kinds: tuple[int, ...]) -> Ints:
        """The largest value of calls of these kinds; the least int64 where there is none."""
        found = np.full(len(self), np.iinfo(np.int64).min)
        rows = np.isin(self.calls["kind"], kinds) & (self.calls["calls"] > 0)
        np.maximum.at(found, self.at[rows], self.calls[value][rows])
        return found


def counters_of(sums: Mapping[str, GroupedSums], log: Log, by_process: bool) -> Counters:
    """The table of a log; sums: those of pyio_trace.analysis.reducers.file_counters."""
    records = Records(sums, by_process)
    columns: dict[str, pa.Array] = _identity(records, sums, log, by_process)
    order: Ints = np.zeros(len(records), np.int64)
    for module in _MODULES:
        found = module_counters(module, records, int(log.info()["start"]))
        columns |= {name: of_numbers(values, found.unused) for name, values in found.columns.items()}
        order -= found.time
    columns["unplaced"] = of_numbers(records.total("unplaced", (Call.READ, Call.WRITE)))
    return Counters(pa.table(columns).take(of_numbers(np.argsort(order, kind="stable"))))


def _identity(records: Records, sums: Mapping[str, GroupedSums], log: Log, by_process: bool) -> dict[str, pa.Array]:
    names = sums["names"].columns()
    at = np.lexsort((names["last"], names["path"] >= 0, names["file"]))  # a file has the latest name it was used by
    files, last = np.unique(names["file"][at][::-1], return_index=True)
    path = names["path"][at][::-1][last][np.searchsorted(files, records.keys[:, 1])]
    paths, _ = present_names(records.keys[:, 1], path, log)
    uses = sums["calls"].columns("kind")
    whole, first = np.unique(uses["file"], return_inverse=True)
    processes = np.bincount(first.ravel(), minlength=len(whole))[np.searchsorted(whole, records.keys[:, 1])]
    process = records.keys[:, 0] if by_process else np.full(len(records), -1)
    table = log.processes()
    pids = np.array([*(pid if pid is not None else -1 for pid in table["pid"].to_pylist()), -1], np.int64)
    pid = pids.take(np.where((process >= 0) & (process < len(pids) - 1), process, -1))
    return {
        "path": paths,
        "process": of_numbers(process, process < 0),
        "pid": of_numbers(pid, pid < 0),
        "processes": of_numbers(processes.astype(np.int64)),
    }


@dataclass(frozen=True)
class ModuleCounters:
    """The counters of one module: arrays by name, without nulls.

    unused: records without a call of it; time: ns that its calls took.
    """

    columns: dict[str, NDArray[Any]]
    unused: NDArray[np.bool_]
    time: Ints


def module_counters(module: str, records: Records, start: int) -> ModuleCounters:
    """The counters of POSIX or STDIO; start: of the run, ns since the epoch."""
    read, write, opens, close = _MODULES[module]
    counters: Columns = {}
    for name, kinds in _COUNTS[module].items():
        counters[name] = records.total("calls", kinds)
    for name, kind in (("READ", read), ("WRITTEN", write)):
        counters[f"BYTES_{name}"] = records.total("bytes", (kind,))
    if module == "POSIX":
        counters |= _places(records)
    stream = module == "STDIO"
    own = tuple(kind for kind in range(len(TIMER)) if (kind >= FIRST_STREAM_CALL) == stream)
    seconds: dict[str, NDArray[np.float64]] = {}
    for name, kinds in (("OPEN", opens), ("READ", (read,)), ("WRITE", (write,)), ("CLOSE", (close,))):
        first, last = records.least(kinds), records.most("last", kinds)
        none = first > last
        seconds[f"{name}_START_TIMESTAMP"] = np.where(none, 0, (first - start) / _NS)
        seconds[f"{name}_END_TIMESTAMP"] = np.where(none, 0, (last - start) / _NS)
    spent = np.zeros(len(records), np.int64)
    for timer, name in enumerate(("READ", "WRITE", "META")):
        time = records.total("time", tuple(kind for kind in own if TIMER[kind] == timer))
        seconds[f"{name}_TIME"] = time / _NS
        spent += time
    if not stream:
        durations, at = records.of("longest")
        for name, kind in (("READ", read), ("WRITE", write)):
            longest = np.zeros(len(records), np.int64)
            of_kind = (durations["kind"] == kind) & (at >= 0)
            np.maximum.at(longest, at[of_kind], durations["duration"][of_kind])
            seconds[f"MAX_{name}_TIME"] = longest / _NS
    columns: dict[str, NDArray[Any]] = {f"{module}_{name}": values for name, values in counters.items()}
    columns |= {f"{module}_F_{name}": values for name, values in seconds.items()}
    return ModuleCounters(columns, records.total("calls", own) == 0, spent)


def _places(records: Records) -> Columns:
    """The counters about offsets and sizes of the module POSIX."""
    found: Columns = {}
    for name, kind in (("READ", Call.READ), ("WRITTEN", Call.WRITE)):
        found[f"MAX_BYTE_{name}"] = np.maximum(records.most("highest", (kind,)), 0)
    for name in ("CONSEC", "SEQ"):
        value = {"CONSEC": "consecutive", "SEQ": "sequential"}[name]
        found[f"{name}_READS"] = records.total(value, (Call.READ,))
        found[f"{name}_WRITES"] = records.total(value, (Call.WRITE,))
    found["RW_SWITCHES"] = records.total("switches", (Call.READ, Call.WRITE))
    bins, at = records.of("bins")
    for name, kind in (("READ", Call.READ), ("WRITE", Call.WRITE)):
        for number, label in enumerate(BIN_NAMES):
            rows = (bins["kind"] == kind) & (bins["bin"] == number) & (at >= 0)
            counts = np.zeros(len(records), np.int64)
            np.add.at(counts, at[rows], bins["count"][rows])
            found[f"SIZE_{name}_{label}"] = counts
    for source, name, value in (("strides", "STRIDE", "stride"), ("sizes", "ACCESS", "size")):
        columns, at = records.of(source)
        found |= _common(name, columns[value], columns["count"], at, len(records))
    return found


def _common(name: str, values: Ints, counts: Ints, at: Ints, records: int) -> Columns:
    """The four most common values of each record, the larger one first among equals, and how often each occurred."""
    order = np.lexsort((-values, -counts, at))
    order = order[at[order] >= 0]
    record = at[order]
    rank = np.arange(len(order)) - np.searchsorted(record, record)
    found: Columns = {}
    for number in range(COMMON):
        rows = order[rank == number]
        for what, source in ((name, values), ("COUNT", counts)):
            column = np.zeros(records, np.int64)
            column[at[rows]] = source[rows]
            found[f"{name}{number + 1}_{what}"] = column
    return dict(sorted(found.items(), key=lambda pair: pair[0].endswith("COUNT")))
