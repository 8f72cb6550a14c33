"""What differs between two runs: figures of the whole, by pattern of files, by source line and by operation."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.calls.line_matching import Operations, Site, match_lines, parse_site
from pyio_trace.analysis.calls.name_patterns import patterns
from pyio_trace.analysis.compare.io_counts import COUNTS, NOTHING, Counts, counts_by, distinct_pairs
from pyio_trace.analysis.tables.run_sums import COPIED_TO, RunSums, totals
from pyio_trace.analysis.view_sums.loader_steps import Training
from pyio_trace.enums import LAYERS
from pyio_trace.log.sorting import distinct

Key = TypeVar("Key", bound=Hashable)
Ints = NDArray[np.int64]

_DIGITS = re.compile(r"\d+")
#: A folder or file of Python's tempfile.
_TEMPORARY = re.compile(r"/tmp[a-z0-9_]{8}(?=[/.]|$)")
#: A difference of time that is no noise: ns, and share of the larger time.
_LEAST_TIME, _LEAST_SHARE = 5_000_000, 0.1
#: What a call and a byte cost at least, ns: ranks changes of counts, whose time is mostly noise.
_CALL, _BYTE = 10_000, 1


@dataclass(frozen=True)
class Run:
    """One of the runs.  incomplete: why its counts may be too low, "" if they are not; wall: ns; training: its training
    loop, None: it has none with figures."""

    log: str
    command: list[str]
    wall: int
    processes: int
    incomplete: str
    training: Training | None = None


@dataclass(frozen=True)
class FileChange:
    """A file, or files of like names (digits are *).  files before and after are in the counts."""

    pattern: str
    before: Counts
    after: Counts


@dataclass(frozen=True)
class LineChange:
    """A source line, file:line:function.  site: of the run after, or of the one before if it is gone; before_site: what
    it was before, None: it is new."""

    site: str
    before_site: str | None
    before: Counts
    after: Counts


@dataclass(frozen=True)
class OperationChange:
    """An operation of a layer.  calls, bytes and errors are of all calls; time: ns, of all of them too."""

    layer: str
    op: str
    calls_before: int
    calls_after: int
    bytes_before: int
    bytes_after: int
    time_before: int
    time_after: int


@dataclass(frozen=True)
class Comparison:
    """Two runs.  Lists have everything that either run has, the largest change first."""

    runs: tuple[Run, Run]
    before: Counts
    after: Counts
    files: list[FileChange]
    lines: list[LineChange]
    operations: list[OperationChange]

    def to_dict(self) -> dict[str, Any]:
        """The comparison as dicts, lists, strings and numbers."""
        return asdict(self)


def differs(before: Counts, after: Counts) -> bool:
    """Whether a count differs, or a time by more than noise."""
    return any(getattr(before, name) != getattr(after, name) for name in COUNTS) or time_differs(
        before.time, after.time
    )


def time_differs(before: int, after: int) -> bool:
    """Whether the difference of two times is more than noise."""
    change = abs(after - before)
    return change >= _LEAST_TIME and change >= _LEAST_SHARE * max(before, after)


def run_of(sums: RunSums) -> Run:
    """What is said about a run besides its figures."""
    return Run(sums.log, sums.command, sums.wall, sums.processes, sums.incomplete, sums.training)


def whole(sums: RunSums) -> Counts:
    """The figures of the whole run."""
    return counts_by(sums.groups, np.zeros(len(sums.groups.calls), np.int64), 1)[0]


def compare(before: RunSums, after: RunSums) -> Comparison:
    """The second run compared with the first.

    Paths and sources are compared without the folder that a run was started in,
    if it was another one.
    """
    runs = (before, after)
    folders = [run.folder.rstrip("/") if run.folder else None for run in runs]
    if folders[0] == folders[1]:
        folders = [None, None]
    files = _by_pattern(runs, folders)
    lines = _by_line(runs, folders)
    return Comparison(
        runs=(run_of(before), run_of(after)),
        before=whole(before),
        after=whole(after),
        files=sorted(files, key=_rank),
        lines=sorted(lines, key=_rank),
        operations=sorted(_by_operation(runs), key=_rank_operation),
    )


def _rank(change: FileChange | LineChange) -> int:
    """The largest change first: its time unless that is noise, and what its calls and bytes cost at least."""
    before, after = change.before, change.after
    time = abs(after.time - before.time) if time_differs(before.time, after.time) else 0
    calls = abs(after.calls - before.calls) + abs(after.requests - before.requests)
    moved = abs(after.bytes_read - before.bytes_read) + abs(after.bytes_written - before.bytes_written)
    return -(time + _CALL * calls + _BYTE * moved)


def _rank_operation(change: OperationChange) -> int:
    time = abs(change.time_after - change.time_before) if time_differs(change.time_before, change.time_after) else 0
    return -(time + _CALL * abs(change.calls_after - change.calls_before))


# ---- files


def _by_pattern(runs: Sequence[RunSums], folders: Sequence[str | None]) -> list[FileChange]:
    names = [_places(run, folder) for run, folder in zip(runs, folders, strict=True)]
    alike = common_patterns([set(one.values()) for one in names])
    found = []
    for run, of_run in zip(runs, names, strict=True):
        labels, keys = _labels(run.groups.path, {path: alike[name] for path, name in of_run.items()})
        found.append(dict(zip(keys, counts_by(run.groups, labels, len(keys), of_files=True), strict=True)))
    return [
        FileChange(pattern, found[0].get(pattern, NOTHING), found[1].get(pattern, NOTHING))
        for pattern in dict.fromkeys([*found[0], *found[1]])
    ]


def _places(run: RunSums, folder: str | None) -> dict[int, str]:
    """Path (index) -> its name to compare by; only of paths that a group has."""
    names = {}
    for path in distinct(run.groups.path[run.groups.path >= 0]).tolist():
        name = run.paths[path]
        if folder is not None and name.startswith(folder + "/"):
            name = "." + name[len(folder) :]
        names[path] = _TEMPORARY.sub("/tmp*", name)
    return names


def common_patterns(names: Sequence[set[str]]) -> dict[str, str]:
    """Name -> its pattern, the same for all runs.

    names: those of each run.  Digits of a file's name are * where several names
    differ in nothing else.  Digits of folders are *, too, where that makes files
    of one run files of another one: out-17/a.csv and out-18/a.csv are out-*/a.csv.
    """
    first = patterns(set().union(*names))
    runs_of: dict[str, set[int]] = defaultdict(set)
    for run, own in enumerate(names):
        for name in own:
            runs_of[first[name]].add(run)
    wider: dict[str, set[int]] = defaultdict(set)
    for pattern, seen in runs_of.items():
        if len(seen) < len(names):
            wider[_DIGITS.sub("*", pattern)] |= seen
    result = {}
    for name, pattern in first.items():
        wide = _DIGITS.sub("*", pattern)
        result[name] = wide if len(runs_of[pattern]) < len(wider.get(wide, ())) else pattern
    return result


# ---- lines


def _by_line(runs: Sequence[RunSums], folders: Sequence[str | None]) -> list[LineChange]:
    counts, texts, operations = [], [], []
    for run, folder in zip(runs, folders, strict=True):
        used = distinct(run.groups.site[run.groups.site >= 0]).tolist()
        places = {site: parse_site(run.sites[site], folder) for site in used}
        labels, keys = _labels(run.groups.site, places)
        counts.append(dict(zip(keys, counts_by(run.groups, labels, len(keys)), strict=True)))
        texts.append({place: run.sites[site] for site, place in places.items()})
        operations.append(_operations_of(run, labels, keys))
    partner = match_lines(*operations)
    changes = []
    for site, own in counts[0].items():
        other = partner.get(site)
        text = texts[0][site] if other is None else texts[1][other]
        changes.append(LineChange(text, texts[0][site], own, NOTHING if other is None else counts[1][other]))
    taken = set(partner.values())
    changes += [LineChange(texts[1][site], None, NOTHING, own) for site, own in counts[1].items() if site not in taken]
    return changes


def _operations_of(run: RunSums, labels: Ints, keys: list[Site]) -> dict[Site, Operations]:
    """The names of the operations that each line made."""
    at = np.flatnonzero(labels >= 0)
    found: dict[Site, set[str]] = {key: set() for key in keys}
    pairs = distinct_pairs(labels[at], run.groups.op[at])
    for label, op in zip(*(part.tolist() for part in pairs), strict=True):
        found[keys[label]].add(run.ops[op])
    return {key: frozenset(ops) for key, ops in found.items()}


# ---- operations


def _by_operation(runs: Sequence[RunSums]) -> list[OperationChange]:
    found = []
    for run in runs:
        groups = run.groups
        codes = np.where(groups.kind == COPIED_TO, -1, groups.op * len(LAYERS) + groups.layer)
        used = distinct(codes[codes >= 0]).tolist()
        names = {code: (LAYERS[code % len(LAYERS)], run.ops[code // len(LAYERS)]) for code in used}
        labels, keys = _labels(codes, names)
        at = np.flatnonzero(labels >= 0)
        columns = [totals(one[at], labels[at], len(keys)) for one in (groups.calls, groups.moved, groups.time)]
        found.append({key: [int(column[n]) for column in columns] for n, key in enumerate(keys)})
    changes = []
    for layer, op in dict.fromkeys([*found[0], *found[1]]):
        sides = [one.get((layer, op), [0, 0, 0]) for one in found]
        figures = [value for pair in zip(*sides, strict=True) for value in pair]
        changes.append(OperationChange(layer, op, *figures))
    return changes


def _labels(codes: Ints, keys: dict[int, Key]) -> tuple[Ints, list[Key]]:
    """(for each code the place of its key in the list, -1 where it has none; the list of distinct keys)."""
    different = list(dict.fromkeys(keys.values()))
    place = {key: n for n, key in enumerate(different)}
    table = np.full(max(keys, default=0) + 2, -1, np.int64)
    for code, key in keys.items():
        table[code] = place[key]
    return table[np.where(codes < len(table) - 1, codes, -1)], different
