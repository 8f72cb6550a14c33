"""Views that sum operations by a key: what the modules by_*.py of reducers share.

Such a module says which columns make its key, and how a key is shown.  It is a
subclass of ByKey of some ten lines; docs/how-to/add-a-view.md has an example.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.calls import file_names
from pyio_trace.analysis.calls.file_names import FileNames
from pyio_trace.analysis.scan import columns as meaning
from pyio_trace.analysis.scan.columns import Columns
from pyio_trace.analysis.scan.decoding import since
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.enums import OpClass, Role
from pyio_trace.join.processes.process_names import Row, label
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Keys that are summed at a time; beyond, those with the least time are dropped.
MANY = 1 << 21
#: Rows of a result, unless the caller wants another number.
TOP = 10_000
#: What a process is called that the table lacks, and a line that is not known.
NO_PROCESS, NO_LINE = "(process not known)", "(no line)"
_METADATA = (OpClass.META, OpClass.CLOSE, OpClass.SEEK)
_EARLIEST, _LATEST = (1 << 63) - 1, -(1 << 63)


@dataclass(frozen=True)
class Sums:
    """What the operations of one key did.

    key: what they have in common.  time_ns: of outermost requests and of calls
    key: what they have in common.  time_ns: of outermost requests and of calls
    in none, summed over all threads.  io_ns, sync_ns, lock_ns: of that, calls of
    POSIX and C streams on files, those that sync, and those that lock, whatever
    is around them.  wait_ns: of waits for other threads and processes.  requests:
    outermost ones.  calls: of POSIX and C streams; opens, reads, writes, metadata
    (with closes and seeks) and syncs are among them, a copy is a read and a write,
    and counts for both of its files.  read_bytes, written_bytes: moved by calls.
    asked_read_bytes, asked_written_bytes: of outermost requests that move bytes.
    errors: calls that failed.  first_ns, last_ns: begin of the first and end of
    the last, since the start of the run.
    """

    SHOWN: ClassVar[tuple[str, ...]] = ("time_ns", "io_ns", "requests", "calls", "read_bytes", "written_bytes")

    key: str
    time_ns: int
    io_ns: int
    sync_ns: int
    lock_ns: int
    wait_ns: int
    requests: int
    calls: int
    opens: int
    reads: int
    writes: int
    metadata: int
    syncs: int
    waits: int
    read_bytes: int
    written_bytes: int
    asked_read_bytes: int
    asked_written_bytes: int
    errors: int
    first_ns: int
    last_ns: int


#: The fields of Sums that add up.
SUMMED = tuple(field.name for field in fields(Sums) if field.name not in {"key", "first_ns", "last_ns"})


@dataclass(frozen=True)
class SumsTable:
    """rows: most time first, then by key.  more: further keys, with less time.  dropped: sums that did not fit into
    memory (0: all figures are exact)."""

    rows: list[Sums]
    more: int = 0
    dropped: int = 0


@dataclass
class Part:
    """What some batches contribute."""

    sums: GroupedSums
    names: FileNames


class ByKey(ABC):
    """A reducer that sums operations by a key.  Subclasses give the key.

    of_files: the key is the identity of a file, so that names are collected and
    a copy's writing counts for the file that it writes.
    """

    #: The columns of which the key is made.
    key: ClassVar[tuple[str, ...]] = ()
    #: What keys() gives, where that is not these columns.
    made: ClassVar[tuple[str, ...]] = ()
    of_files: ClassVar[bool] = False
    #: The fields of Sums that are summed, and what more() gives.
    summed: ClassVar[tuple[str, ...]] = SUMMED
    further: ClassVar[tuple[str, ...]] = ()
    columns: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        needed = (*meaning.MEANING, "time", "duration", "bytes_moved", "errno", "in_transfer", *cls.key)
        if cls.of_files:
            needed += (*file_names.COLUMNS, "to_file")
        cls.columns = tuple(dict.fromkeys(needed))

    def __init__(self, top: int = TOP, imports: bool = False, most: int | None = MANY) -> None:
        """top: rows of the result; imports: also what Python's imports did; most: keys in memory, None: all."""
        self.top, self.imports, self.most = top, imports, most

    # ---- what a view may say itself

    def keys(self, columns: Columns) -> dict[str, Ints]:
        """By name, an int64 for each row; operations with the same ones are summed.

        Here: the columns of `key`, of which a dictionary column gives its codes.
        """
        return {name: _as_numbers(columns, name) for name in self.key}

    def chosen(self, columns: Columns) -> Bools:
        """Which rows the view is about, of those that are I/O or wait.  Here: all, or those of files."""
        return columns.file != 0 if self.of_files else np.ones(len(columns), np.bool_)

    def counted(self, columns: Columns) -> Bools:
        """Which rows count at all.  Here: I/O and waits."""
        found: Bools = columns.outer | columns.called | (columns.role == Role.WAIT)
        return found

    def more(self, columns: Columns) -> dict[str, Ints]:
        """Further amounts that are summed, by the names in `further`."""
        return {}

    @abstractmethod
    def shown(self, keys: dict[str, Ints], log: Log, names: FileNames) -> Sequence[str | None]:
        """How each key is shown.  Keys that are shown alike are added up, those of None left out.  names: of files, if
        of_files."""

    # ---- the protocol of reducers

    def partial(self, batch: pa.RecordBatch) -> Part:
        part = self._empty()
        columns = Columns(batch)
        counted = self.counted(columns)
        if not self.imports:
            counted = counted & ~columns.imported
        at = np.flatnonzero(counted & self.chosen(columns))
        if len(at):
            whole = self.keys(columns) | self._measures(columns) | self.more(columns)
            part.sums.add({name: values[at] for name, values in whole.items()})
        if self.of_files:
            part.names.add(columns, at)
            self._add_copies(part, columns, counted)
        return part

    def combine(self, part: Part, later: Part) -> Part:
        part.sums.update(later.sums)
        part.names.update(later.names)
        return part

    def finish(self, part: Part | None, log: Log) -> SumsTable:
        part = part or self._empty()
        table = part.sums.columns()
        shown = self.shown({name: table[name] for name in (self.made or self.key)}, log, part.names)
        return tabled(shown, table, int(log.info()["start"]), self.top, part.sums.dropped)

    # ---- helpers

    def _empty(self) -> Part:
        how = dict.fromkeys((*self.summed, *self.further), "sum") | {"first_ns": "min", "last_ns": "max"}
        return Part(GroupedSums((self.made or self.key), how, self.most), FileNames(self.most))

    def _measures(self, columns: Columns) -> dict[str, Ints]:
        kind, role = columns.kind, columns.role
        leaf, called, waits = columns.leaf, columns.called, role == Role.WAIT
        reads, writes = columns.moves
        sync, requests = leaf & (role == Role.SYNC), (role == Role.REQUEST) & columns.outer
        masks: dict[str, Callable[[], Bools]] = {
            "time_ns": lambda: columns.outer, "io_ns": lambda: leaf & (role == Role.IO), "sync_ns": lambda: sync,
            "lock_ns": lambda: leaf & (role == Role.LOCK), "wait_ns": lambda: waits,
            "requests": lambda: requests, "calls": lambda: called, "opens": lambda: called & (kind == OpClass.OPEN),
            "reads": lambda: reads, "writes": lambda: writes, "metadata": lambda: called & np.isin(kind, _METADATA),
            "syncs": lambda: sync, "waits": lambda: waits, "errors": lambda: called & (columns.numbers("errno") != 0),
            "read_bytes": lambda: reads, "written_bytes": lambda: writes,
            "asked_read_bytes": lambda: requests & (kind == OpClass.READ) & ~columns.truths("in_transfer"),
            "asked_written_bytes": lambda: requests & (kind == OpClass.WRITE) & ~columns.truths("in_transfer"),
        }  # fmt: skip
        amounts = {"ns": columns.duration, "bytes": columns.moved}
        found = {name: amounts.get(name.rpartition("_")[2], columns.calls) * masks[name]() for name in self.summed}
        return found | {"first_ns": columns.time, "last_ns": columns.end}

    def _add_copies(self, part: Part, columns: Columns, counted: Bools) -> None:
        """Moves the writes of copies to the files that they wrote, where these are known.  Until now they count for the
        files that the copies read."""
        copies = np.flatnonzero(counted & columns.moves[1] & (columns.kind == OpClass.COPY))
        if not len(copies):
            return
        keys = self.keys(columns) | {"first_ns": columns.time, "last_ns": columns.end}
        written = {"written_bytes": columns.moved, "writes": columns.calls}
        at = copies[self.chosen(columns)[copies]]
        part.sums.add({name: values[at] for name, values in keys.items()} | _negated(written, at))
        to = columns.numbers("to_file")
        at = copies[to[copies] != 0]
        errors = columns.calls * (columns.numbers("errno") != 0)
        more = {"calls": columns.calls, "errors": errors, "time_ns": columns.duration * columns.outer}
        more |= (
            self.more(columns) | keys | written | {"io_ns": columns.duration * (columns.role == Role.IO), "file": to}
        )
        part.sums.add({name: values[at] for name, values in more.items()})


def _negated(columns: dict[str, Ints], at: Ints) -> dict[str, Ints]:
    return {name: -values[at] for name, values in columns.items()}


def tabled(shown: Sequence[str | None], sums: dict[str, Ints], start: int, top: int, dropped: int = 0) -> SumsTable:
    """The table of sums that are shown under these names; sums of one name are added up.  start: of the run, ns."""
    kept = [number for number, name in enumerate(shown) if name is not None]
    sums = {name: values[kept] for name, values in sums.items()}
    place: dict[str, int] = {}
    at = np.array([place.setdefault(name, len(place)) for name in shown if name is not None], np.int64)
    whole: dict[str, Ints] = {}
    for name in SUMMED:
        whole[name] = np.zeros(len(place), np.int64)
        np.add.at(whole[name], at, sums[name])
    whole["first_ns"], whole["last_ns"] = np.full(len(place), _EARLIEST), np.full(len(place), _LATEST)
    np.minimum.at(whole["first_ns"], at, sums["first_ns"])
    np.maximum.at(whole["last_ns"], at, sums["last_ns"])
    for name in ("first_ns", "last_ns"):
        whole[name] = since(whole[name], start)
    keys = list(place)
    order = sorted(range(len(keys)), key=lambda one: (-int(whole["time_ns"][one]), keys[one]))
    chosen = {name: values[order[:top]].tolist() for name, values in whole.items()}
    rows = [
        Sums(key=keys[one], **{name: values[rank] for name, values in chosen.items()})
        for rank, one in enumerate(order[:top])
    ]
    return SumsTable(rows, len(keys) - len(rows), dropped)


def _as_numbers(columns: Columns, name: str) -> Ints:
    return columns.codes(name) if columns.is_dictionary(name) else columns.numbers(name, -1)


def process_names(log: Log, name_of: Callable[[Row], str | None] = label) -> Callable[[int], str | None]:
    """Index of a process in the table -> what it is called; name_of: from a row of the table."""
    names = [name_of(process) for process in log.processes().to_pylist()]
    return lambda process: names[process] if 0 <= process < len(names) else NO_PROCESS


def processes_called(log: Log, numbers: Ints, name_of: Callable[[Row], str | None] = label) -> list[str | None]:
    """What processes (indexes of the table) are called; see process_names()."""
    return list(map(process_names(log, name_of), numbers.tolist()))
