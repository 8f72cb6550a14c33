"""What rules on libraries have in common: groups of calls, their details, and the wall time that calls cover."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.calls.details import parse
from pyio_trace.analysis.reducers.library_calls import CallList, LibraryCalls
from pyio_trace.analysis.scan.saturation import total
from pyio_trace.analysis.sums.intervals import merge
from pyio_trace.enums import Role
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Query, Remedy, Site
from pyio_trace.insights.observed import MOST_NAMED, Gain, Observed, covered, patterns, site_of
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    from pyio_trace.analysis.reducer import Reducer

Ints = NDArray[np.int64]

#: Rule.needs of the rules on libraries.
NEEDS: tuple[Reducer[Any, Any], ...] = (LibraryCalls(),)
#: Calls in which a program waits for Dask.
_WAITS = ("dask.dataframe.", "dask.bag.", "dask.array.", "Client.", "Future.")
#: Different details that are parsed; a run of more has them only in part.
_MOST_PARSED = 200_000


@dataclass(frozen=True)
class Group:
    """Some calls of the list.  at: where their rows are in it, each of which may stand for several; len(): of calls."""

    calls: CallList
    at: Ints

    def __len__(self) -> int:
        return self.total("calls")

    def column(self, name: str) -> Ints:
        """One column of CallList, for these calls."""
        return self.calls[name][self.at]

    def total(self, name: str) -> int:
        """The sum of a column; -1 (not known) adds nothing."""
        return total(np.maximum(self.column(name), 0))

    @property
    def leaf_ns(self) -> int:
        """ns in system calls and C streams beneath."""
        return self.total("io_ns") + self.total("sync_ns")

    @property
    def library_ns(self) -> int:
        """ns in the library itself: parsing, unpacking, formatting."""
        return max(self.total("duration") - self.leaf_ns, 0)

    @property
    def first(self) -> int:
        """When the first began, epoch ns."""
        return int(self.column("time").min())

    @property
    def last(self) -> int:
        """When the last ended, epoch ns."""
        return int((self.column("time") + self.column("duration")).max())

    @cached_property
    def details(self) -> list[dict[str, Any]]:
        """The details of each call, {} where it has none."""
        known: dict[int, dict[str, Any]] = {}
        found = []
        for code in self.column("detail").tolist():
            if code not in known:
                few = code >= 0 and len(known) < _MOST_PARSED
                known[code] = parse(self.calls.details[code]) if few else {}
            found.append(known[code])
        return found

    def by(self, *keys: str) -> Iterator[tuple[tuple[int, ...], Group]]:
        """Parts with equal values of some columns, in the order of their first calls."""
        parts: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for key, at in zip(
            zip(*(self.column(key).tolist() for key in keys), strict=True), self.at.tolist(), strict=True
        ):
            parts[key].append(at)
        for key, at in parts.items():
            yield key, Group(self.calls, np.array(at, np.int64))

    def of(self, *ops: str) -> Group:
        """The calls of these operations."""
        codes = [code for code, op in enumerate(self.calls.ops) if op in ops]
        return Group(self.calls, self.at[np.isin(self.column("op"), codes)])

    def where(self, mask: Iterable[bool]) -> Group:
        """The calls of a mask."""
        return Group(self.calls, self.at[np.fromiter(mask, np.bool_, len(self.at))])

    def sites(self) -> list[Site]:
        """Their lines, the one with the most time first."""
        times = [(part.total("duration"), site_of(part.calls.site_of(int(part.at[0])))) for _, part in self.by("site")]
        return [site for _, site in sorted(times, key=lambda one: -one[0]) if site is not None][:MOST_NAMED]

    def lines(self) -> list[str]:
        """The different lines of the program, as the log has them."""
        codes = dict.fromkeys(self.column("site").tolist())
        return [line for code in codes if code >= 0 and (line := self.calls.sites[code])]

    def paths(self) -> list[str]:
        """The different paths."""
        codes = dict.fromkeys(self.column("path").tolist())
        return [self.calls.paths[code] for code in codes if code >= 0]

    def files(self) -> list[str]:
        """The different paths; those that differ in digits only as one pattern."""
        return patterns(self.paths())

    def processes(self) -> list[int]:
        """The processes, ascending."""
        return sorted({process for process in self.column("process").tolist() if process >= 0})

    def ops(self) -> list[str]:
        """The operations."""
        return sorted({self.calls.ops[code] for code in self.column("op").tolist()})

    def wall_by_process(self) -> dict[int, int]:
        """ns that each process spent in these calls, threads side by side counted once."""
        found = {}
        for (process,), part in self.by("process"):
            begins = part.column("time")
            found[process] = covered(begins, begins + part.column("duration"))
        return found

    def scaled(self, part_ns: int) -> dict[int, int]:
        """ns by process for a part of these calls' time, as if it were evenly in all of them."""
        whole = self.total("duration")
        if not whole:
            return {}
        share = min(max(part_ns, 0) / whole, 1.0)
        return {process: int(time * share) for process, time in self.wall_by_process().items()}

    def query(self, *columns: str) -> Query:
        """SQL that gives the calls' rows again."""
        sites = {site for (code,), _ in self.by("site") if (site := self.calls.sites[code] if code >= 0 else None)}
        where: dict[str, Any] = {"op": self.ops()}
        if 0 < len(sites) <= MOST_NAMED:
            where["site"] = sorted(sites)
        names = ("op", "site", "path", "duration / 1e6 AS ms", "bytes_moved", *columns)
        return sql.rows(where, ", ".join(names), "", "time")


def finding(
    observed: Observed,
    group: Group,
    title: str,
    gain: Gain,
    evidence: Sequence[Evidence],
    remedy: Remedy,
    confidence: Confidence,
    **rest: Any,
) -> Finding:
    """A finding about the calls of a group; rest: fields of Finding that are not those of the group."""
    about: dict[str, Any] = {
        "query": group.query(), "sites": places(observed, group), "files": group.files(),
        "processes": group.processes(), "persistence": observed.persistence(group.first, group.last),
    }  # fmt: skip
    lost = observed.of(LibraryCalls()).dropped
    if lost:
        why = f"{lost:,} calls of libraries were not looked at"
        confidence = replace(confidence, value=confidence.value / 2, lowered_by=[*confidence.lowered_by, why])
    return Finding(
        title, gain.ns, gain.recoverable, list(evidence), remedy=remedy, confidence=confidence, **(about | rest)
    )


def places(observed: Observed, group: Group) -> list[Site]:
    """The lines of a group.  Calls in tasks of Dask have only lines of libraries: the program's line that waited for
    them then comes first."""
    sites = group.sites()
    if any(observed.is_own(f"{site.file}:{site.line}:{site.function}") for site in sites):
        return sites
    calls = group.calls
    waits = Group(calls, calls.of(*_WAITS))
    begins = np.sort(group.column("time"))
    found: Counter[Site] = Counter()
    for (code,), part in waits.where(calls["role"][waits.at] == Role.WAIT).by("site"):
        line = calls.sites[code] if code >= 0 else ""
        site = site_of(line)
        if site is not None and observed.is_own(line):
            first, last = merge(part.column("time"), part.column("time") + part.column("duration"))
            found[site] = int((np.searchsorted(begins, last) - np.searchsorted(begins, first)).sum())
    if not found:  # a scheduler of threads: the line that submitted the work to its pool
        for (code,), part in Group(calls, calls.of("thread.task")).by("site"):
            site = site_of(calls.sites[code] if code >= 0 else "")
            if site is not None and observed.is_own(calls.sites[code]):
                found[site] = len(part)
    return [site for site, count in found.most_common() if count][:1] + sites


def reads_parts(observed: Observed, tasks: int, files: int) -> bool:
    """Whether each of so many tasks of Dask, which read one of so many files, has a part of its own.  The parts overlap
    then, as a task reads on to the end of its last line: nothing that could be kept is read, or opened, again."""
    group = calls_of(observed, "task")
    calls = group.calls
    moving = np.concatenate([calls["task"], calls.lines["task"][calls.lines["io_ns"] > 0]])
    keys = [str(detail.get("key")) for detail in group.where(np.isin(group.column("id"), moving)).details]
    passes = Counter(key.partition(",")[0] for key in keys)
    return len(set(keys)) == len(keys) and 1 < tasks <= max(passes.values(), default=0) // max(files, 1)


def calls_of(observed: Observed, *ops: str) -> Group:
    """The calls of these operations; "Dataset." stands for all that begin so."""
    calls = observed.of(LibraryCalls())
    return Group(calls, calls.of(*ops))


def joined(groups: Sequence[Group]) -> Group:
    """The calls of all of them, at least one."""
    return Group(groups[0].calls, np.sort(np.concatenate([one.at for one in groups])))


def number(detail: dict[str, Any], name: str) -> int:
    """A count or size among the details; 0 if it is missing or none."""
    value = detail.get(name)
    return min(value, 1 << 60) if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
