"""Selects operations: what --path, --op, --process, --since and the like mean, for every command.

A reader of a selected log sees the chosen operations and no others.  Sums are
therefore those of a program that made only the chosen calls: with --layer
posix every POSIX call is outermost, because no other call is there to enclose it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import cached_property, partial
from operator import eq
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.analysis.scan.batch_rows import int64
from pyio_trace.analysis.scan.decoding import LASTED, ends_of, lasted
from pyio_trace.enums import LAYERS
from pyio_trace.errors import ConfigError
from pyio_trace.globs import path_matcher
from pyio_trace.join.base.arrow_arrays import codes, numbers, present
from pyio_trace.join.sources.filtered_source import Choice
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log.sorting import distinct
from pyio_trace.values import did_you_mean, parse_path_pattern

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Mask = NDArray[np.bool_]
Process = dict[str, Any]


@dataclass(frozen=True)
class Filter:
    """A condition on operations.  All parts must hold; of one part, any of its values.  An empty or None part holds.

    layers: names; ops: names or patterns; paths: patterns as for --include;
    processes: each a pid, an index of the process table, or a pattern of the
    process's name, script or program; ranks; lines: "file:line" or a pattern of
    source files; since, until: ns since the start of the run: operations that
    had not ended at `since` and began before `until`; min_duration: ns;
    errors: failed calls only.
    """

    layers: Sequence[str] = ()
    ops: Sequence[str] = ()
    paths: Sequence[str] = ()
    processes: Sequence[str] = ()
    ranks: Sequence[int] = ()
    lines: Sequence[str] = ()
    since: int | None = None
    until: int | None = None
    min_duration: int = 0
    errors: bool = False
    text: str = ""  #: the options as the user wrote them

    def __bool__(self) -> bool:
        parts = (self.layers, self.ops, self.paths, self.processes, self.ranks, self.lines, self.min_duration)
        return any(parts) or self.errors or self.since is not None or self.until is not None


def lacks_calls(log: Log) -> bool:
    """Whether the log is a selection that may lack calls between others of the same thread."""
    chosen = log.choice.made_from if log.choice is not None else None
    if not isinstance(chosen, Filter):
        return False
    parts = (chosen.layers, chosen.ops, chosen.paths, chosen.lines, chosen.min_duration)
    return any(parts) or chosen.errors


def restrict(log: Log, chosen: Filter, read: Callable[[int], None] | None = None) -> Log:
    """The log with only the chosen operations.

    read: called with the number of rows of each batch that was read, chosen or
    not.  Raises ConfigError for a layer, an operation, a process or a rank that
    is not in the log, rather than give an empty table.
    """
    check([log], chosen)
    return restrict_unchecked(log, chosen, read)


def restrict_unchecked(log: Log, chosen: Filter, read: Callable[[int], None] | None = None) -> Log:
    """restrict() for one of several logs, of which check() has seen all."""
    if not chosen and read is None:
        return log
    sides = ChosenFiles(log, chosen.paths) if chosen.paths else None
    conditions = _conditions(log, chosen)
    if sides is not None:
        conditions.append((tuple(sides.columns), lambda batch: sides.read(batch) | sides.written(batch)))
    columns = dict.fromkeys(name for names, _ in conditions for name in names)

    def mask(batch: pa.RecordBatch) -> Mask | None:
        masks = [condition(batch) for _, condition in conditions]
        return np.logical_and.reduce(masks) if masks else None

    processes = None
    if chosen.processes or chosen.ranks:
        processes = _chosen_processes(log.processes().to_pylist(), chosen)
    return log.only(Choice(tuple(columns), mask, chosen.text, processes, read, chosen, sides))


def check(logs: Sequence[Log], chosen: Filter) -> None:
    """Raise ConfigError for an unknown layer, or for an operation, a process or a rank that none of the logs has."""
    for word in chosen.layers:
        if word not in LAYERS:
            raise ConfigError("bad-value", f"--layer: there is no layer {word!r}; there are {', '.join(LAYERS)}")
    known = [op for log in logs for op in log.dictionary("op").to_pylist()] if chosen.ops else []
    for word in chosen.ops:
        if not any(fnmatchcase(op, word) for op in known):
            raise ConfigError("bad-value", f"--op: no operation {word!r} in this log{did_you_mean(word, known)}")
    if chosen.processes or chosen.ranks:
        _check_processes([process for log in logs for process in log.processes().to_pylist()], chosen)


def _check_processes(table: list[Process], chosen: Filter) -> None:
    for word in chosen.processes:
        if not any(_is_process(process, word) for process in table):
            names = [name for process in table for name in _names(process)]
            near = did_you_mean(word, names)
            raise ConfigError("bad-value", f"--process: no process {word!r} in this log{near}; summary lists them")
    ranks = sorted({process["global_rank"] for process in table if process.get("global_rank") is not None})
    for rank in chosen.ranks:
        if not ranks:
            raise ConfigError(
                "bad-value", "--rank: no process of this log has a rank (mpirun, srun, torchrun give them)"
            )
        if rank not in ranks:
            raise ConfigError("bad-value", f"--rank: no process of rank {rank}; they are {ranks[0]} to {ranks[-1]}")


Condition = tuple[tuple[str, ...], Callable[[pa.RecordBatch], Mask]]


def _conditions(log: Log, chosen: Filter) -> list[Condition]:
    """(the columns it needs, the mask of a batch) of each part that is given."""
    found: list[Condition] = []
    tests: dict[str, list[Test]] = {
        "layer": [partial(eq, word) for word in chosen.layers],
        "op": [partial(_fits, pattern=word) for word in chosen.ops],
        "site": [line_matcher(pattern) for pattern in chosen.lines],
    }
    found += [_by_text(log, column, own) for column, own in tests.items() if own]
    if chosen.processes or chosen.ranks:
        processes = np.array(_chosen_processes(log.processes().to_pylist(), chosen), np.int64)
        found.append((("process",), lambda batch: np.isin(numbers(batch.column("process"), -1), processes)))
    if chosen.since is not None or chosen.until is not None:
        found.append(_by_time(log, chosen.since, chosen.until))
    if chosen.min_duration:
        least, ends = chosen.min_duration, ends_of(log)
        found.append((LASTED, lambda batch: lasted(batch, ends) >= least))
    if chosen.errors:
        found.append((("errno",), lambda batch: numbers(batch.column("errno")) != 0))
    return found


Test = Callable[[str], bool]


def _by_text(log: Log, column: str, tests: Sequence[Test]) -> Condition:
    """Rows whose text passes one of the tests; each distinct text is tried once, and null passes none."""
    texts = log.dictionary(column).to_pylist()
    passed = _passed(texts, tests)

    def mask(batch: pa.RecordBatch) -> Mask:
        result: Mask = passed[codes(batch.column(column))]
        return result

    return (column,), mask


def _passed(texts: Sequence[str | None], tests: Sequence[Test]) -> Mask:
    """Which texts pass one of the tests; the last element is for null."""
    return np.array([*(text is not None and any(test(text) for test in tests) for text in texts), False], np.bool_)


class ChosenFiles:
    """The files of some paths.  See filtered_source.Sides."""

    columns: Sequence[str] = ("path", "to_file")

    def __init__(self, log: Log, patterns: Sequence[str]) -> None:
        self._log = log
        self._passed = _passed(log.dictionary("path").to_pylist(), [_path_test(pattern, log) for pattern in patterns])

    def read(self, batch: pa.RecordBatch) -> Mask:
        result: Mask = self._passed[codes(batch.column("path"))]
        return result

    def written(self, batch: pa.RecordBatch) -> Mask:
        column = batch.column("to_file")
        if column.null_count == len(column):
            return np.zeros(len(column), np.bool_)
        return present(column) & np.isin(numbers(column), self._files)

    @cached_property
    def _files(self) -> NDArray[np.int64]:
        """The identities of the files: a copy does not name the one that it writes.  Only a log with copies is read
        for this."""
        found: set[int] = set()
        for batch in self._log.batches(("file", "path")):
            found.update(distinct(numbers(batch.column("file"))[self.read(batch)]).tolist())
        return np.array(sorted(found - {0}), np.int64)


def _by_time(log: Log, since: int | None, until: int | None) -> Condition:
    """Operations under way at `since` or later, and begun before `until`."""
    start, ends = int(log.info()["start"]), ends_of(log)

    def mask(batch: pa.RecordBatch) -> Mask:
        time = numbers(batch.column("time"))
        result = np.ones(len(time), np.bool_)
        if until is not None:
            result &= time < int64(start + until)
        if since is not None:
            result &= time + lasted(batch, ends) >= int64(start + since)
        return result

    return LASTED, mask


def _fits(text: str, pattern: str) -> bool:
    return fnmatchcase(text, pattern)


def _path_test(pattern: str, log: Log) -> Test:
    """A file that was renamed unseen is found by both names."""
    matches = path_matcher(parse_path_pattern(pattern, "--path"))
    now = {one["path"]: one["to"] for one in log.renames()}
    return lambda path: matches(path) or (path in now and matches(now[path]))


def line_matcher(pattern: str) -> Test:
    """Whether a site (file:line:function) is on the line "file:line", or in a file of this pattern."""
    file, colon, line = pattern.rpartition(":")
    if not (colon and file and line.isascii() and line.isdigit()):
        file, line = pattern, ""
    matches = path_matcher(parse_path_pattern(file, "--line"))

    def test(site: str) -> bool:
        parts = site.rsplit(":", 2)
        return matches(parts[0]) and (not line or (len(parts) == 3 and parts[1] == line.lstrip("0")))

    return test


# ---- processes


def _chosen_processes(table: list[Process], chosen: Filter) -> list[int]:
    """The indexes of the processes that are chosen by name or number, and by rank."""
    return [
        process["index"]
        for process in table
        if (not chosen.processes or any(_is_chosen(table, process, word) for word in chosen.processes))
        and (not chosen.ranks or process.get("global_rank") in chosen.ranks)
    ]


def _is_chosen(table: list[Process], process: Process, word: str) -> bool:
    """_is_process(), where a number that is some process's pid is no index."""
    if word.isdigit() and any(str(one["pid"]) == word for one in table):
        return str(process["pid"]) == word
    return _is_process(process, word)


def _is_process(process: Process, word: str) -> bool:
    if word.isdigit():
        return word in (str(process["pid"]), str(process["index"]))
    return any(fnmatchcase(name, word) for name in _names(process))


def _names(process: Process) -> list[str]:
    """What a process may be called: its name, its program, the files of its command line, the whole command line."""
    argv = process["argv"] or []
    files = [os.path.basename(word) for word in (process["executable"] or "", *argv)]
    name = process.get("process_name")
    return [*([name] if name else []), *files, " ".join(argv)]
