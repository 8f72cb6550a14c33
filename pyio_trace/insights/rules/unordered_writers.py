"""Two processes write the same bytes of a file, and nothing says which of them comes last.

What the file holds in the end is up to chance, and may differ from run to run
without an error. Lock the range (`fcntl.lockf`), or give each process a part, or a
file, of its own.

Nothing is said if either process locked the file, or if both locked or exclusively
created another one; if one had ended before the other wrote, or began after the
other had written; of a process and its descendants, and of workers of pools, which
tell each other when to write; of writes whose place is not known, of appends,
copies and C streams, and of SQLite, HDF5 and MPI-IO. Messages and locks in memory
are not in the log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.calls.name_patterns import role_of
from pyio_trace.enums import Layer, Role
from pyio_trace.insights import libraries, sql
from pyio_trace.insights.file_events import FILE_EVENTS, Event
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Recoverable, Remedy
from pyio_trace.insights.observed import MOST_NAMED, patterns, site_of
from pyio_trace.insights.range_writes import RANGE_WRITES, Contested, Opened, Pieces, contested
from pyio_trace.insights.rule import Rule
from pyio_trace.light_dataclass import dataclass
from pyio_trace.units import counted, size

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed

#: Libraries that put the writes of processes in order.
_ORDERING = ("h5py", "netCDF4", "MPI")
#: How the kinds of processes end that work on what others send them.
_TOLD = ("worker", "actor")
#: The longest chain of parents that is followed for a pair of processes; nothing is said of longer ones.
_DEEPEST = 200
_REMEDY = Remedy(
    "Lock the range, or give each process a part of its own.",
    "os.pwrite(f, record, offset)",
    "fcntl.lockf(f, fcntl.LOCK_EX, len(record), offset)\n"
    "os.pwrite(f, record, offset)\n"
    "fcntl.lockf(f, fcntl.LOCK_UN, len(record), offset)",
)


@dataclass
class _Lines:
    """What two lines did.  ranges: (file, start, end); turns: a process wrote both before and after another one."""

    ranges: set[tuple[int, int, int]] = field(default_factory=set)
    paths: dict[str, None] = field(default_factory=dict)
    processes: set[int] = field(default_factory=set)
    turns: bool = False


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    if not run.has_each_row() or run.of(FILE_EVENTS).more:
        return
    order = _Order(run)
    lines: dict[tuple[int, ...], _Lines] = defaultdict(_Lines)
    for one in contested(order.placed(run.of(RANGE_WRITES).pieces)):
        if order.is_known_file(one):
            _add(run, one, _rows(one.rows, order.left_to_chance(one)), lines)
    for sites, found in lines.items():
        yield _finding(run, [run.calls.site(site) or "" for site in sites], found)


class _Order:
    """What puts writes in order, as far as the log knows."""

    def __init__(self, run: Observed) -> None:
        self._run = run
        found = run.of(RANGE_WRITES)
        self._opened = {(file, process) for file, process, how in found.opens if how == Opened.WELL}
        self._doubtful = {file for file, _, how in found.opens if how == Opened.DOUBTFUL}
        self._locked: dict[int, set[tuple[str, int]]] = defaultdict(set)
        for row in run.calls.where(role=Role.LOCK, errno=0).by("path", "process"):
            self._locked[row["process"]].add(("lock", row["path"]))
        for path, process, how in found.opens:
            if how == Opened.ALONE:
                self._locked[process].add(("alone", path))
        self._ancestors: dict[int, set[int]] = {}
        self._last_seen = np.zeros(len(run.processes) + 1, np.int64)
        calls = run.calls.columns
        np.maximum.at(self._last_seen, calls["process"], calls["last"])
        libraries_calls = run.calls.where(layer=(Layer.HDF5, Layer.MPIIO))
        self._of_libraries = set(libraries_calls.codes("path"))

    def placed(self, pieces: Pieces) -> Pieces:
        """Those whose place no other process can have moved: they name it, or the process opened the file itself."""
        opened = [
            pair in self._opened for pair in zip(pieces["file"].tolist(), pieces["process"].tolist(), strict=True)
        ]
        return _rows(pieces, (pieces["placed"] == 1) | np.array(opened, np.bool_))

    def is_known_file(self, one: Contested) -> bool:
        """Whether it is the program's own file, and the log shows who opened it and that it stayed the same."""
        run, events = self._run, self._run.of(FILE_EVENTS)
        path = run.calls.path(one.path) or ""
        if not path or one.file in self._doubtful or one.path in self._of_libraries:
            return False
        if role_of(path) != "data" or run.is_database(path) or path.endswith(".pyio"):
            return False
        if libraries.library_of(run, run.calls.where(path=one.path)) in _ORDERING:
            return False
        of_file = events.events
        moved = np.isin(of_file["kind"], (Event.RENAMED, Event.REMOVED))
        moved &= (of_file["first"] >= one.first) & (of_file["first"] <= one.last)
        to = [code for code, name in events.names.items() if name == path]
        moved &= (of_file["file"] == one.file) | (of_file["path"] == one.path) | np.isin(of_file["to"], to)
        return not moved.any()

    def left_to_chance(self, one: Contested) -> NDArray[np.bool_]:
        """Which of its rows nothing puts in order."""
        rows = one.rows
        pairs, number = np.unique(np.stack([rows["earlier"], rows["later"]]), axis=1, return_inverse=True)
        number = number.ravel()
        begins = np.array([self._run.processes[later]["begin"] for _, later in pairs.T.tolist()], np.int64)
        ends = np.array([self._end(earlier) for earlier, _ in pairs.T.tolist()], np.int64)
        free = np.array([self._is_free(one, earlier, later) for earlier, later in pairs.T.tolist()], np.bool_)
        alive = (rows["earlier_time"] >= begins[number]) & (rows["later_time"] <= ends[number])
        result: NDArray[np.bool_] = free[number] & alive
        return result

    def _end(self, process: int) -> int:
        """When a process ended; of one whose end is not known, when it was last seen."""
        end = self._run.processes[process]["end"]
        return int(self._last_seen[process] if end is None else end)

    def _is_free(self, one: Contested, first: int, second: int) -> bool:
        """Whether two processes opened the file so that their writes overlap, and nothing is known that orders them."""
        run = self._run
        rows = run.processes[first], run.processes[second]
        above = [self._above(each) for each in (first, second)]
        if first in above[1] or second in above[0] or max(map(len, above)) > _DEEPEST:
            return False  # one may tell the other when to write
        if any(row["process_kind"].endswith(_TOLD) for row in rows) or run.is_worker(first) or run.is_worker(second):
            return False  # it waits for tasks, in an order that somebody else knows
        if rows[0]["pid"] == rows[1]["pid"] and rows[0]["host"] == rows[1]["host"]:
            return False  # one process before and after an exec
        if any(("lock", one.path) in self._locked[index] for index in above[0] | above[1]):
            return False
        locks = [
            {lock for index in mine for lock in self._locked[index]}
            for mine in (above[0] - above[1], above[1] - above[0])
        ]
        if locks[0] & locks[1]:
            return False
        return all(any((one.file, index) in self._opened for index in each) for each in above)

    def _above(self, process: int) -> set[int]:
        """The process, and the nearest _DEEPEST of those that started it."""
        if process not in self._ancestors:
            found: set[int] = set()
            at: int | None = process
            while at is not None and at not in found and len(found) <= _DEEPEST:
                found.add(at)
                at = self._run.processes[at]["parent"]
            self._ancestors[process] = found
        return self._ancestors[process]


def _rows(rows: Pieces, mask: NDArray[np.bool_]) -> Pieces:
    return {name: column[mask] for name, column in rows.items()}


def _add(run: Observed, one: Contested, rows: Pieces, lines: dict[tuple[int, ...], _Lines]) -> None:
    """Adds what is left to chance of one file, by the lines that wrote it."""
    lines_of = {
        site: run.calls.site(site) or "" for site in {*rows["earlier_site"].tolist(), *rows["later_site"].tolist()}
    }
    own = {site for site, line in lines_of.items() if run.is_own(line) and site_of(line)}
    seen: set[tuple[int, int, int]] = set()
    columns = (rows[name].tolist() for name in ("start", "end", "earlier", "later", "earlier_site", "later_site"))
    for start, end, earlier, later, *sites in zip(*columns, strict=True):
        if not own.issuperset(sites):
            continue
        found = lines[tuple(sorted(set(sites)))]
        found.ranges.add((one.file, start, end))
        found.paths[run.calls.path(one.path) or ""] = None
        found.processes |= {earlier, later}
        found.turns |= (start, later, earlier) in seen
        seen.add((start, earlier, later))


def _finding(run: Observed, lines: list[str], found: _Lines) -> Finding:
    paths, processes = list(found.paths), sorted(found.processes)
    common = sum(end - start for _, start, end in found.ranges)
    name = paths[0].rpartition("/")[2][:40] if len(paths) == 1 else counted(len(paths), "file")
    return Finding(
        title=f"{len(processes):,} processes write the same {size(common)} of {name} in no known order",
        evidence=[
            Evidence(
                f"{len(processes):,} processes wrote the same {size(common)} of {counted(len(paths), 'file')}, each "
                "while another one of them lived. The log has no lock on what they wrote.",
                {"bytes": common, "processes": len(processes), "files": len(paths)},
            )
        ],
        recoverable_ns=0,
        recoverable=Recoverable("what these bytes hold depends on which process comes last", "none", run.wall_ns),
        remedy=_REMEDY,
        sites=[site for site in map(site_of, lines) if site is not None],
        files=patterns(paths),
        processes=processes[:MOST_NAMED],
        confidence=_confidence(run, found),
        severity=_severity(run, found),
        query=sql.rows(
            {"path": paths[:MOST_NAMED], "op_class": "write", "layer": "posix"},
            select="process, site, " + sql.SUMS,
            group="process, site, op",
        ),
    )


def _severity(run: Observed, found: _Lines) -> str:
    """Never critical: what orders the writes may be in memory, as the locks and queues of multiprocessing are."""
    kinds = {run.processes[process]["process_kind"] or "" for process in found.processes}
    return "info" if any(kind.startswith("multiprocessing") for kind in kinds) else "warning"


def _confidence(run: Observed, found: _Lines) -> Confidence:
    lowered = ["messages and locks that are in memory are not in the log", "both may write the same values"]
    if not found.turns:
        lowered.append("each process wrote once before or after the others")
    if len({run.machine(process) for process in found.processes}) > 1:
        lowered.append("clocks of machines may differ")
    return Confidence(0.6 if found.turns else 0.45, "the bytes of each write are in the log", lowered)


RULE = Rule(
    "synchronisation",
    find,
    needs=(RANGE_WRITES, FILE_EVENTS),
    untried="the remedy makes results right, and saves no time",
    each_call=True,
)
