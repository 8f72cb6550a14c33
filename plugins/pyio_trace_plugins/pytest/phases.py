"""Sums of a log's operations by phase of a test, file and line of Python.

An operation counts to the phase in which it began.  One of a child process that
began outside, or in the teardown of the test that started the process, counts to
the call of that test, so that when a child ends does not matter.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.analysis.scan.columns import Columns
from pyio_trace.analysis.scan.decoding import decoded
from pyio_trace.enums import Layer, OpClass
from pyio_trace.join.base.arrow_arrays import codes, numbers, present

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

SETUP, CALL, TEARDOWN = range(3)

#: C streams and system calls: what moves bytes.
_LAYERS = (Layer.STDIO, Layer.POSIX)
_CLASSES = (OpClass.OPEN, OpClass.READ, OpClass.WRITE, OpClass.COPY, OpClass.META, OpClass.CLOSE, OpClass.SEEK,
            OpClass.SYNC)  # fmt: skip
_COLUMNS = ("time", "duration", "layer", "op_class", "process", "path", "file", "to_file", "bytes_moved", "calls",
            "imported", "site", "call_stack")  # fmt: skip
#: Packages whose I/O is not the test's, and modules of the standard library that read source code for tracebacks.
_NOT_OF_TESTS = frozenset(("_pytest", "pluggy", "xdist", "execnet", "pyio_trace", "pyio_trace_plugins"))
_TRACEBACKS = ("linecache.py", "tokenize.py")

Ints = NDArray[np.int64]


class Phase(NamedTuple):
    """One phase of a test.  id: of its span in the log; test: number of the test; kind: SETUP, CALL or TEARDOWN."""

    id: int
    test: int
    kind: int


class Counts(NamedTuple):
    """Calls, bytes moved, and the time of the calls, of all threads and processes together (ns)."""

    opens: int
    reads: int
    writes: int
    metadata: int
    bytes_read: int
    bytes_written: int
    time: int


@dataclass(frozen=True)
class Sums:
    """The operations of one phase on one file from one line (None: no Python line)."""

    test: int
    phase: int
    path: str
    site: str | None
    counts: Counts


def sums_of(log: Log, phases: Sequence[Phase], shared: bool) -> list[Sums]:
    """Sums over the phases, without imports and without the I/O of pytest itself.

    shared: whether the log has processes that are neither the one that ran the
    phases nor its children.
    """
    times = _Times.of(log, phases, shared)
    if times is None:
        return []
    outside = _not_of_tests(log.dictionary("call_stack").to_pylist())
    width = len(log.dictionary("site")) + 1
    sums = _Grouped(len(log.dictionary("path")), width)
    copied: list[tuple[Ints, Ints, Ints]] = []
    for batch in decoded(log, _COLUMNS):
        rows = np.flatnonzero(_chosen(batch, outside))
        phase = times.phase_of(numbers(batch.column("time"))[rows], numbers(batch.column("process"), -1)[rows])
        rows, phase = rows[phase >= 0], phase[phase >= 0]
        site = codes(batch.column("site"))[rows]
        counts = _counts(batch, rows)
        sums.add(phase, codes(batch.column("path"))[rows], site, counts)
        copies = np.flatnonzero(Columns(batch).kind[rows] == OpClass.COPY)
        if len(copies):
            place = np.stack([phase[copies], site[copies], numbers(batch.column("to_file"))[rows[copies]]])
            copied.append((place, counts[copies, _READS], counts[copies, _BYTES_READ]))
    for place, calls, moved in copied:
        sums.add(place[0], _paths_of(log, place[2]), place[1], _as_writes(calls, moved))
    paths, sites = log.dictionary("path").to_pylist(), [*log.dictionary("site").to_pylist(), None]
    return [
        Sums(times.phases[phase].test, times.phases[phase].kind, paths[path], sites[site], counts)
        for phase, path, site, counts in sums.rows()
    ]


# ---- which phase


class _Times:
    """When the phases were, and which processes are those of the tests."""

    def __init__(self, phases: list[Phase], begin: Ints, end: Ints, root: int, fallback: Ints) -> None:
        """phases in the order of begin, with begin and end (ns since the epoch); root: the process that ran them;
        fallback: by process, see _fallbacks()."""
        self.phases = phases
        self._begin, self._end, self._root, self._fallback = begin, end, root, fallback
        self._is_call = np.array([phase.kind == CALL for phase in phases])
        self._test = np.array([phase.test for phase in phases], np.int64)

    @classmethod
    def of(cls, log: Log, phases: Sequence[Phase], shared: bool) -> _Times | None:
        """None: the log has none of the phases."""
        by_id = {phase.id: phase for phase in phases}
        wanted = np.array(sorted(by_id), np.int64)
        found: list[tuple[int, int, int, int]] = []  # begin, end, id, process
        for batch in log.batches(("id", "time", "duration", "process")):
            ids = numbers(batch.column("id"))
            rows = np.flatnonzero(np.isin(ids, wanted) & present(batch.column("duration")))
            columns = [numbers(batch.column(name))[rows].tolist() for name in ("time", "duration", "process")]
            found += [
                (time, time + long, one, who) for one, time, long, who in zip(ids[rows].tolist(), *columns, strict=True)
            ]
        if not found:
            return None
        found.sort()
        begin, end = (np.array([one[at] for one in found], np.int64) for at in range(2))
        ordered, root = [by_id[one[2]] for one in found], found[0][3]
        return cls(ordered, begin, end, root, _fallbacks(log.processes().to_pylist(), root, begin, end, shared))

    def phase_of(self, time: Ints, process: Ints) -> Ints:
        """The phase that each operation counts to; negative: none."""
        at = np.searchsorted(self._begin, time, "right") - 1
        inside = (at >= 0) & (time < self._end[at])
        phase = np.where(inside, at, _NONE)
        instead = self._fallback.take(process, mode="clip")
        phase[instead == _FOREIGN] = _NONE
        own = np.flatnonzero(instead >= 0)
        if len(own):
            call, now = instead[own], phase[own]
            late = self._is_call[call] & ((now < 0) | ((self._test[now] == self._test[call]) & ~self._is_call[now]))
            phase[own] = np.where(late, call, now)
        return phase


#: No phase.  Of a process: its operations count by time alone; they do not count.
_NONE, _FOREIGN = -1, -2


def _fallbacks(processes: list[dict[str, Any]], root: int, begin: Ints, end: Ints, shared: bool) -> Ints:
    """By process: the phase in which the process of the tests started it, or the child it descends from.

    _NONE: in no phase; _FOREIGN: it is no descendant.
    """
    result = np.full(len(processes) + 1, _FOREIGN if shared else _NONE, np.int64)
    result[root] = _NONE
    for process in processes:  # parents come before their children
        index, parent = process["index"], process["parent"]
        if index == root or parent is None or not 0 <= parent < index:
            continue
        if parent != root:
            result[index] = result[parent]
            continue
        at = int(np.searchsorted(begin, process["begin"], "right")) - 1
        result[index] = at if at >= 0 and process["begin"] < end[at] else _NONE
    return result


# ---- which operations


def _chosen(batch: pa.RecordBatch, outside: NDArray[np.bool_]) -> NDArray[np.bool_]:
    columns = Columns(batch)
    chosen = np.isin(columns.layer, _LAYERS) & np.isin(columns.kind, _CLASSES) & ~columns.imported
    chosen &= columns.codes("path") >= 0
    result: NDArray[np.bool_] = chosen & ~outside[columns.codes("call_stack")]
    return result


def _not_of_tests(stacks: Sequence[str]) -> NDArray[np.bool_]:
    """Which stacks are those of pytest's own I/O, or of reading source code for a traceback; one more: no stack."""
    known: dict[str, int] = {}
    return np.array([_is_not_of_tests(stack, known) for stack in stacks] + [False])


_STANDARD, _OUTSIDE, _TESTS = range(3)


def _is_not_of_tests(stack: str, known: dict[str, int]) -> bool:
    """Whether the innermost frame outside the standard library is pytest's, or one of _TRACEBACKS is in it."""
    for frame in reversed(stack.split(";")):
        file = frame.rsplit(":", 2)[0]
        kind = known.get(file)
        if kind is None:
            kind = known[file] = _kind_of(file)
        if kind != _STANDARD:
            return kind == _OUTSIDE
    return False


def _kind_of(file: str) -> int:
    library = sysconfig.get_path("stdlib")
    parts = file.split("/")
    if "site-packages" in parts or "dist-packages" in parts:
        return _OUTSIDE if not _NOT_OF_TESTS.isdisjoint(parts[:-1]) else _TESTS
    if file.startswith((library + "/", "<frozen ")):
        return _OUTSIDE if parts[-1] in _TRACEBACKS else _STANDARD
    return _TESTS


# ---- sums

_OPENS, _READS, _WRITES, _METADATA, _BYTES_READ, _BYTES_WRITTEN, _TIME = range(len(Counts._fields))


def _counts(batch: pa.RecordBatch, rows: Ints) -> Ints:
    """One row of Counts for each row.  A copy counts as a read here."""
    columns = Columns(batch)
    kind, calls, moved = (one[rows] for one in (columns.kind, columns.calls, columns.moved))
    reads, writes = np.isin(kind, (OpClass.READ, OpClass.COPY)), kind == OpClass.WRITE
    counts = np.zeros((len(rows), len(Counts._fields)), np.int64)
    kinds = {_OPENS: kind == OpClass.OPEN, _READS: reads, _WRITES: writes, _METADATA: kind == OpClass.META}
    for column, mask in kinds.items():
        counts[:, column] = calls * mask
    counts[:, _BYTES_READ], counts[:, _BYTES_WRITTEN] = moved * reads, moved * writes
    counts[:, _TIME] = columns.duration[rows]
    return counts


def _as_writes(calls: Ints, moved: Ints) -> Ints:
    counts = np.zeros((len(calls), len(Counts._fields)), np.int64)
    counts[:, _WRITES], counts[:, _BYTES_WRITTEN] = calls, moved
    return counts


def _paths_of(log: Log, files: Ints) -> Ints:
    """The path (index into the dictionary, -1: none) of each file."""
    wanted = np.unique(files)
    path = np.full(len(wanted), -1, np.int64)
    for batch in log.batches(("file", "path")):
        of_batch, named = numbers(batch.column("file")), codes(batch.column("path"))
        rows = np.flatnonzero(np.isin(of_batch, wanted) & (named >= 0))
        path[np.searchsorted(wanted, of_batch[rows])] = named[rows]
    return path[np.searchsorted(wanted, files)]


class _Grouped:
    """Sums by phase, path and site."""

    def __init__(self, paths: int, sites: int) -> None:
        self._paths, self._sites = paths, sites
        self._keys: list[Ints] = []
        self._counts: list[Ints] = []

    def add(self, phase: Ints, path: Ints, site: Ints, counts: Ints) -> None:
        """Adds rows of Counts.  A path below 0 is left out; a site below 0 is none."""
        named = path >= 0
        keys = ((phase * self._paths + path) * self._sites + site + 1)[named]
        unique, counts = _sums_by_key(keys, counts[named])
        self._keys.append(unique)
        self._counts.append(counts)

    def rows(self) -> Iterator[tuple[int, int, int, Counts]]:
        """Phase, path, site and sums."""
        if not self._keys:
            return
        keys, counts = _sums_by_key(np.concatenate(self._keys), np.concatenate(self._counts))
        for key, sums in zip(keys.tolist(), counts.tolist(), strict=True):
            rest, site = divmod(key, self._sites)
            phase, path = divmod(rest, self._paths)
            yield phase, path, site - 1, Counts(*sums)


def _sums_by_key(keys: Ints, counts: Ints) -> tuple[Ints, Ints]:
    unique, at = np.unique(keys, return_inverse=True)
    result = np.zeros((len(unique), counts.shape[1]), np.int64)
    np.add.at(result, at, counts)
    return unique, result
