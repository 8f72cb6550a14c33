"""What rules look at: the results of one scan of a log, and what they say about the wall clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.calls import name_patterns
from pyio_trace.analysis.reducers.line_calls import LineCalls
from pyio_trace.analysis.results.figures import Summary
from pyio_trace.analysis.results.line_time import LineTime
from pyio_trace.analysis.results.overview_figures import Overview, ProcessTime, Split
from pyio_trace.analysis.summary.unseen import IMPORT
from pyio_trace.analysis.sums.intervals import merge
from pyio_trace.analysis.view_sums.call_table import CallTable
from pyio_trace.enums import Layer, OpClass, Role
from pyio_trace.insights.file_systems import FileSystems
from pyio_trace.insights.finding import Recoverable, Site, Term
from pyio_trace.join.base.system import NOTHING, System
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log.sorting import find
from pyio_trace.units import seconds

if TYPE_CHECKING:
    from pyio_trace.analysis.reducer import Reducer

Ints = NDArray[np.int64]
Result = TypeVar("Result")
#: Files, lines and processes that a finding names.
MOST_NAMED = 10
#: Classes of calls that each use of a file needs, besides those that move bytes.
OVERHEAD = (OpClass.OPEN, OpClass.CLOSE, OpClass.META, OpClass.SEEK)
#: Operations that open a file by its name.
OPENS = ("open", "openat", "creat", "fopen")
#: What the names of a database of SQLite, and of the files that it makes beside it, end with.
DATABASE_FILES = ("", "-journal", "-wal", "-shm")
_LOADERS = "DataLoader workers"
#: Processes between one that a line starts and the one whose line it is, at most.
_BETWEEN = 8
#: Calls on sockets for one on an epoll descriptor, at most, of a loop (asyncio, uvloop, trio) that has no connections.
_OF_LOOPS = 8
#: Why an operation was left out that may be of any kind.
_MAY_BE_ANY = ("operation", "small", "paused")
_NEVER = np.iinfo(np.int64).min
#: How the names of calls of the module sqlite3 begin.
_SQLITE = ("sqlite3.", "Connection.", "Cursor.", "Blob.")


@dataclass(frozen=True)
class Gain:
    """What the wall clock may lose: the two fields of a Finding."""

    ns: int
    recoverable: Recoverable


@dataclass(frozen=True)
class Peer:
    """One process of several of a kind.  moved: bytes of POSIX and C streams."""

    index: int
    name: str
    moved: int
    split: Split


class Observed:
    """One run, for rules.  summary and overview: as `pyio-trace summary` shows them."""

    def __init__(
        self,
        summary: Summary,
        results: Mapping[Reducer[Any, Any], Any],
        processes: list[dict[str, Any]],
        mounts: FileSystems | None = None,
        counters: Sequence[Mapping[str, Any]] = (),
        machines: Mapping[str, str] | None = None,
        mappings: Sequence[Mapping[str, Any]] = (),
        wall: Sequence[LineTime] = (),
        system: System = NOTHING,
        devices: Collection[int] = (),
        stripes: Mapping[str, str] | None = None,
    ) -> None:
        """results: of all reducers that any rule needs; processes, counters, mappings: the rows of Log.processes(),
        Log.counters() and Log.mappings(); mounts: of the machine that the run was on, None: not known; machines: see
        pyio_trace.insights.machines, None: not known; wall: the wall time of the program's lines, from samples of all
        of its processes; empty: there are none; system: what was seen of the machine; devices: st_dev of files in the
        log, as far as known; stripes: see Log.stripes()."""
        assert summary.overview is not None
        self.summary: Summary = summary
        self.overview: Overview = summary.overview
        self.processes = processes
        self.mounts = mounts or FileSystems()
        self.mappings = mappings
        #: By line, as the log writes it; empty: not known.
        self.wall: dict[str, LineTime] = {row.line: row for row in wall}
        #: The rows of Log.counters(): operations without rows.
        self.counters = counters
        self.system = system
        self.devices = frozenset(devices)
        self.stripes = dict(stripes or {})
        self._machines = dict(machines or {})
        self._results = results

    def of(self, reducer: Reducer[Any, Result]) -> Result:
        """The result of a reducer that the rule has in `needs`."""
        result: Result = self._results[reducer]
        return result

    @property
    def calls(self) -> CallTable:
        """All calls by process, line, path and operation; every rule may read it."""
        return self.of(LineCalls())

    @property
    def imported(self) -> CallTable:
        """The calls on files that imports made and that have rows; of the listing of a folder, not each entry."""
        calls = self.calls.where(imported=True, role=(Role.IO, Role.MAP))
        kept = np.ones(len(calls), np.bool_)
        for op in calls.codes("op"):
            if calls.op(op) == "readdir":
                kept &= calls.columns["op"] != op
        return calls.rows(kept)

    def is_own(self, line: str | None) -> bool:
        """Whether a line is the program's, and no library's."""
        return line is not None and self.calls.code.is_own(line)

    def has_each_row(self) -> bool:
        """Whether each sync, lock and open of the program has a row."""
        unseen = any(row["calls"] and (row["why"] == "counted" or row["kind"] in _MAY_BE_ANY) for row in self.counters)
        return self.summary.run.mode == "trace" and not self.summary.run.selection and not unseen

    def import_calls(self) -> Counter[int]:
        """By process (index), how many calls on files imports made, those that were only counted included."""
        found = Counter({group["process"]: group.calls for group in self.imported.by("process")})
        for row in self.counters:
            if row["kind"] == IMPORT and row["process"] is not None:
                found[row["process"]] += row["calls"] or 0
        return found

    def socket_calls(self) -> dict[int, int]:
        """By process (index), the counted calls on sockets, if there are more than event loops make for themselves."""
        calls = {kind: Counter[int]() for kind in ("socket", "anon")}
        for row in self.counters:
            if row["kind"] in calls and row["process"] is not None:
                calls[row["kind"]][row["process"]] += row["calls"] or 0
        loops = calls["anon"]
        return {process: count for process, count in calls["socket"].items() if count > _OF_LOOPS * loops[process]}

    @property
    def wall_ns(self) -> int:
        """The wall time of the run, ns."""
        return self.summary.run.wall

    def walls(self, sites: Iterable[Site]) -> list[LineTime]:
        """The wall time of some lines, from samples, whatever function they are in: before Python 3.12, a comprehension
        is one of its own, which samples leave out."""
        places = {(site.file, site.line) for site in sites}
        return [row for place in places for row in self._walls.get(place, ())]

    @cached_property
    def _walls(self) -> dict[tuple[str, int], list[LineTime]]:
        found: dict[tuple[str, int], list[LineTime]] = {}
        for line, row in self.wall.items():
            if (site := site_of(line)) is not None:
                found.setdefault((site.file, site.line), []).append(row)
        return found

    def persistence(self, first: int, last: int) -> float | None:
        """The share of the run between two times (ns since the epoch)."""
        return min(max((last - first) / self.wall_ns, 0.0), 1.0) if self.wall_ns else None

    # ---- what the wall clock may lose

    def gain(self, times: Mapping[int, int], how: str, bound: str = "upper", terms: Sequence[Term] = ()) -> Gain:
        """What a run would save at most if each process (index) spent so many ns (exclusive time) less.

        Processes of one kind work side by side, so the one that would save the
        most counts.  Workers of a DataLoader cannot save more than their
        trainer waited for batches that were not ready; no process saves more
        than it was not idle.  how: what the time is, for people.
        """
        longest: dict[str, tuple[int, int]] = {}
        for process, time in times.items():
            bounded = min(max(time, 0), self._busy(process))
            kind = self._kind(process)
            best, count = longest.get(kind, (0, 0))
            longest[kind] = max(best, bounded), count + 1
        whole = 0
        for kind, (best, count) in longest.items():
            waited = self.not_ready_ns if kind == _LOADERS and self.overview.loaders else None
            if waited is not None and waited < best:
                best = waited
                bound = "upper"  # what else would make it wait is not known
                how += f"; {kind} cost their trainer at most the {seconds(waited)} that it waited for batches"
            elif count > 1:
                how += f"; of {count} processes side by side the one with the most of it"
            whole += best
        whole = min(whole, self.wall_ns)
        return Gain(whole, Recoverable(how, bound, self.wall_ns, list(terms)))

    @property
    def not_ready_ns(self) -> int:
        """How long trainers waited for batches that were being fetched: not the time until workers began."""
        return sum(max(one.not_ready_ns - one.first_ns, 0) for one in self.overview.loaders)

    def _busy(self, process: int) -> int:
        known = self._times.get(process)
        return self.wall_ns if known is None else max(known.split.wall_ns - (known.split.idle_ns or 0), 0)

    def _kind(self, process: int) -> str:
        known = self._times.get(process)
        return "" if known is None else known.kind

    @cached_property
    def _times(self) -> dict[int, ProcessTime]:
        return {one.index: one for one in self.overview.processes}

    def peers(self) -> list[tuple[str, list[Peer]]]:
        """Processes by kind, of the kinds that have several."""
        moved = {one.index: one.read + one.written for one in self.summary.processes}
        kinds: dict[str, list[Peer]] = {}
        for one in self.overview.processes:
            kinds.setdefault(one.kind, []).append(Peer(one.index, one.name, moved.get(one.index, 0), one.split))
        return [(kind, peers) for kind, peers in kinds.items() if len(peers) > 1]

    @cached_property
    def rank_of(self) -> dict[int, int]:
        """By process (index) of a parallel job: its rank, or that of the process that started it."""
        ranks = ((index, row["global_rank"]) for index, row in enumerate(self.processes))
        return {index: rank for index, rank in ranks if rank is not None}

    def is_worker(self, process: int) -> bool:
        """Whether a process works on tasks that another one gives it."""
        known = self._times.get(process)
        return known is not None and known.split.idle_ns is not None

    def is_loader_worker(self, process: int) -> bool:
        """Whether a process fetches batches for a trainer."""
        return self._kind(process) == _LOADERS

    def machine(self, process: int) -> str:
        """What stands for the machine that a process (index) ran on; "": not known."""
        return self._machines.get(self.processes[process]["host"], "")

    def starter(self, row: Mapping[str, Any]) -> int:
        """The process (index) whose line started another one, given as a row of processes; 0: not known."""
        parent = row["parent"]
        for _ in range(_BETWEEN):  # a shell, or an entry for the same process
            if parent is None or self.processes[parent]["site"] != row["site"]:
                break
            parent = self.processes[parent]["parent"]
        return 0 if parent is None else int(parent)

    def times(self, calls: CallTable, share: float = 1.0, value: Literal["time", "outer"] = "time") -> dict[int, int]:
        """The time of some calls by process, ns, or a share of it, for gain().

        No more than from the first to the last of them: calls of threads side by
        side add up to more than the clock shows.
        """
        found = {}
        for group in calls.by("process"):
            time = group.time if value == "time" else group.outer
            found[group["process"]] = int(min(time, max(group.last - group.first, 0)) * share)
        return found

    # ---- what findings have in common

    def about(self, calls: CallTable, gain: Gain) -> dict[str, Any]:
        """The fields of a Finding that follow from its calls: gain, lines, files, processes, persistence."""
        first, last = calls.columns["first"], calls.columns["last"]
        return {
            "recoverable_ns": gain.ns,
            "recoverable": gain.recoverable,
            "sites": self.sites(calls),
            "files": self.files(calls),
            "processes": sorted({group["process"] for group in calls.by("process")[:MOST_NAMED]} - {-1}),
            "persistence": self.persistence(int(first.min()), int(last.max())) if len(calls) else None,
        }

    def sites(self, calls: CallTable) -> list[Site]:
        """The lines of some calls, the one with the most time first."""
        known = [calls.site(group["site"]) for group in calls.by("site")[:MOST_NAMED]]
        return [site for site in map(site_of, known) if site is not None]

    def site_list(self, line: str | None) -> list[Site]:
        """A line of the log, as the sites of a finding."""
        site = site_of(line)
        return [] if site is None else [site]

    def is_database(self, path: str) -> bool:
        """Whether SQLite uses a file, or files of this pattern: it, and not the program, decides how."""
        return path in self._databases

    @cached_property
    def _databases(self) -> frozenset[str]:
        """Databases, their journals, the folders that hold them (SQLite syncs those), and patterns of these."""
        calls = self.calls.where(layer=Layer.APP)
        ops = [name for name in map(calls.op, calls.codes("op")) if name.startswith(_SQLITE)]
        names = calls.where(op=ops).paths() if ops else []
        beside = {f"{name}{ending}" for name in names for ending in DATABASE_FILES}
        found = beside | {name.rpartition("/")[0] for name in names}
        return frozenset(found | {self.pattern_of(name) for name in beside})

    def pattern_of(self, path: str) -> str:
        """The path, or its pattern if names of the run differ from it in digits only."""
        return self._patterns.get(path, path)

    @cached_property
    def _patterns(self) -> dict[str, str]:
        return name_patterns.patterns(self.calls.paths())

    def files(self, calls: CallTable) -> list[str]:
        """The paths of some calls; names that differ in digits only as one pattern."""
        return patterns(calls.paths())


def covered(begins: Sequence[int] | Ints, ends: Sequence[int] | Ints) -> int:
    """For how long any of some intervals lasts, ns."""
    starts, stops = merge(np.array(begins, np.int64), np.maximum(begins, ends).astype(np.int64))
    return int((stops - starts).sum())


def began_before(calls: CallTable, others: CallTable) -> NDArray[np.bool_]:
    """Which calls began before the last of some others on the same path had ended."""
    paths, where = np.unique(others.columns["path"], return_inverse=True)
    last = np.full(len(paths), _NEVER)
    np.maximum.at(last, where.ravel(), others.columns["last"])
    at, there = find(paths, calls.columns["path"])
    before: NDArray[np.bool_] = np.zeros(len(calls), np.bool_)
    there &= calls.columns["path"] >= 0
    before[there] = calls.columns["first"][there] < last[at[there]]
    return before


def patterns(paths: Sequence[str]) -> list[str]:
    """Paths in which names that differ in digits only are one; the most common first, at most MOST_NAMED."""
    counts = Counter(name_patterns.patterns(paths).values())
    return [pattern for pattern, _ in counts.most_common(MOST_NAMED)]


def site_of(text: str | None) -> Site | None:
    """A line of the log as a Site; None: it has no number."""
    place, _, function = (text or "").rpartition(":")
    file, _, line = place.rpartition(":")
    return Site(file, min(int(line[:9]), 1 << 29), function) if file and line.isascii() and line.isdigit() else None
