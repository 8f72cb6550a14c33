"""Sums by source line and by file, for the overview: what each line asked for, and the calls on each file."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.calls import name_patterns
from pyio_trace.analysis.results.overview_figures import FileGroup, Folder, Line, SlowReads
from pyio_trace.analysis.scan.batch_rows import Rows
from pyio_trace.analysis.scan.saturation import MOST, addable
from pyio_trace.analysis.summary.summary_rows import Actors
from pyio_trace.analysis.sums.counts_and_times import KeyedSums
from pyio_trace.analysis.sums.dense_sums import add_at
from pyio_trace.enums import CLASSES, LAYERS, ROLES, OpClass, Role
from pyio_trace.join.base.roles import MOVING
from pyio_trace.log.sorting import distinct

Ints = NDArray[np.int64]

#: What a line's calls are, by their number; a call on a file outside any request is a request, too.
_KINDS = ("request", "wait", "starting")
_KIND_OF = np.zeros(len(ROLES), np.int64)
_KIND_OF[Role.WAIT], _KIND_OF[Role.STARTING] = _KINDS.index("wait"), _KINDS.index("starting")
#: What a call on a file is counted as.
_READ, _WRITE, _OPEN, _METADATA, _OTHER = range(5)
_USES = np.full(len(CLASSES), _OTHER, np.int64)
_USES[[OpClass.READ, OpClass.COPY]], _USES[OpClass.WRITE], _USES[OpClass.OPEN] = _READ, _WRITE, _OPEN
_USES[[OpClass.META, OpClass.CLOSE, OpClass.SEEK]] = _METADATA
#: By role and by layer: whether a call spends time of its line; works on a file; counts even within another one;
#: moves bytes from and to files.
_OWN_TIME, _ON_FILES = (~np.isin(np.arange(len(ROLES)), none) for none in ((Role.CONTAINER, Role.PROCESS), (Role.MAP,)))
_COUNTED_ANYWAY = np.isin(np.arange(len(ROLES)), (Role.WAIT, Role.STARTING))
MOVES = np.isin(np.arange(len(LAYERS)), MOVING)
_LOW = 0xFFFFFFFF
#: Of a line without files: see _names_by_site().
_NO_FILES = (None, 0, 0)
#: Pairs of line and path in memory; beyond, those with the least time are dropped.
_MOST_PATHS = 1 << 21
#: Share of a line's time that is in calls on files, below which they do not say which files the line works on: it
#: computes, or has a library that keeps them in memory, and prints.
_LITTLE = 0.01
#: Ids of tasks that leave room for an operation beside them.
_TASKS = 1 << 46


def _longer(values: NDArray[Any], size: int) -> NDArray[Any]:
    """The values with zeros behind them, as many as `size` at least."""
    return values if size <= len(values) else np.append(values, np.zeros(size - len(values), values.dtype))


class Places:
    """Collects calls by line and by file, batch by batch."""

    def __init__(self) -> None:
        self._ops = KeyedSums()  # ((site + 1) * len(_KINDS) + kind) << 32 | op: outermost requests, waits, starts
        self._tasks = KeyedSums()  # task << 16 | op: the same of library lines in tasks that have names
        self._task_leaves = KeyedSums()  # task << 1 | whether by an own line: calls of POSIX and stdio there
        self.ops_seen = np.zeros(0, np.bool_)  # by code: whether any row has this operation
        self._paths = KeyedSums(most=_MOST_PATHS)  # (site + 1) << 32 | path: calls on files
        self._leaves = np.zeros(0, np.int64)  # site + 1 -> ns in POSIX and stdio calls
        self._files = np.zeros((3, _OTHER + 1, 0), np.int64)  # calls, ns, bytes; use; file
        self._bound = 0  # neither the sum of _files nor that of _leaves is larger

    def add(self, rows: Rows, who: Actors, sites: int, files: int, ops: int) -> None:
        """Adds rows; sites, files, ops: how many the log has so far."""
        self.ops_seen = _longer(self.ops_seen, ops)
        self.ops_seen[rows.op] = True
        mine = ~(who.importing | who.idle)
        mine &= _OWN_TIME.take(rows.role)
        leaf = mine & _ON_FILES.take(rows.role) & MOVES.take(rows.layer)
        storage = leaf & (rows.role != Role.TRANSPORT) & (rows.role != Role.WAIT)  # a FIFO is waited for
        in_task = (rows.task > 0) & (rows.task < _TASKS)
        counted = np.flatnonzero(mine & (rows.outer | _COUNTED_ANYWAY.take(rows.role)))
        self._add_operations(rows, counted, in_task & ~who.own & ~who.loading)
        at = np.flatnonzero(leaf)
        if len(at):
            inner = np.flatnonzero(storage & in_task)
            keys = rows.task.take(inner) << 1 | who.own.take(inner)
            self._task_leaves.add(keys, rows.count.take(inner), rows.duration.take(inner))
            self._add_leaves(rows, at, storage.take(at), sites, files)
            copies = rows.where(leaf & (rows.to_file != 0)).written_by_copies()
            if copies is not None:
                self._add_to_files(copies, np.arange(len(copies)), copies.duration, files)
        self._add_paths(rows, np.flatnonzero(mine & (rows.path >= 0) & (storage | rows.outer)), storage)

    def _add_operations(self, rows: Rows, at: Ints, in_task: NDArray[np.bool_]) -> None:
        """Adds outermost calls, by line and by task."""
        if in_task.any():
            away = in_task.take(at)
            inner, at = at[away], at[~away]
            keys = rows.task.take(inner) << 16 | rows.op.take(inner)
            self._tasks.add(keys, rows.count.take(inner), rows.duration.take(inner))
        keys = rows.site.take(at).astype(np.int64) + 1
        keys *= len(_KINDS)
        keys += _KIND_OF.take(rows.role.take(at))
        keys <<= 32
        keys |= rows.op.take(at)
        self._ops.add(keys, rows.count.take(at), rows.duration.take(at))

    def update(self, other: Places, files: Ints) -> None:
        """Adds what another one collected in the same log; files: the number here of each file number there."""
        self._ops.update(other._ops)
        self._tasks.update(other._tasks)
        self._task_leaves.update(other._task_leaves)
        self._paths.update(other._paths)
        self.ops_seen = _longer(self.ops_seen, len(other.ops_seen))
        self.ops_seen[: len(other.ops_seen)] |= other.ops_seen
        self._leaves = _longer(self._leaves, len(other._leaves))
        self._leaves[: len(other._leaves)] += other._leaves
        used = np.flatnonzero(other._files.any(axis=(0, 1)))
        if len(used):
            numbers = files.take(used)
            self._make_room(int(numbers.max()) + 1)
            self._files[:, :, numbers] += other._files[:, :, used]
        self._grew(other._bound)

    def _make_room(self, files: int) -> None:
        if files > self._files.shape[2]:
            grown = np.zeros((3, _OTHER + 1, files * 3 // 2), np.int64)
            grown[:, :, : self._files.shape[2]] = self._files
            self._files = grown

    def _grew(self, by: int) -> None:
        self._bound += by
        if self._bound > MOST:
            self._files, self._leaves = addable(self._files), addable(self._leaves)
            self._bound = max(int(self._files.sum()), int(self._leaves.sum()))

    def _add_leaves(self, rows: Rows, at: Ints, storage: NDArray[np.bool_], sites: int, files: int) -> None:
        self._leaves = _longer(self._leaves, sites + 1)
        duration = rows.duration.take(at) * (rows.role.take(at) != Role.WAIT)
        add_at(self._leaves, rows.site.take(at).astype(np.int64) + 1, duration * storage)
        self._add_to_files(rows, at, duration, files)

    def _add_to_files(self, rows: Rows, at: Ints, duration: Ints, files: int) -> None:
        """Adds rows to the sums of their files.  duration: of the rows at these places."""
        self._make_room(files)
        key = _USES.take(rows.kind.take(at))
        key *= self._files.shape[2]
        key += rows.file.take(at)
        amounts = rows.count.take(at), duration, rows.moved.take(at)
        for total, weights in zip(self._files, amounts, strict=True):
            add_at(total.reshape(-1), key, weights)
        self._grew(sum(int(weights.sum()) for weights in amounts))

    def _add_paths(self, rows: Rows, at: Ints, leaf: NDArray[np.bool_]) -> None:
        if not len(at):
            return
        keys = rows.site.take(at).astype(np.int64) + 1
        keys <<= 32
        keys |= rows.path.take(at)
        self._paths.add(keys, np.ones(len(keys), np.int64), rows.duration.take(at) * leaf.take(at))

    # ---- results

    @property
    def paths_given_up(self) -> int:
        """Pairs of line and path that were dropped: Line.files and Line.pattern lack them."""
        return self._paths.given_up

    def lines(
        self, sites: list[str], own: NDArray[np.bool_], ops: list[str], path_of: Callable[[int], str], top: int
    ) -> list[Line]:
        """The lines with the most time.  own: which of the sites are the program's; path_of: code of a path -> the
        path."""
        worst = self._worst_lines(top)
        leaves = {site: int(self._leaves[site]) if site < len(self._leaves) else 0 for site, _ in worst}
        asked = {site: sum(time for time, *_ in parts) for (site, kind), parts in worst.items() if kind == "request"}
        by_calls = {site for site, time in asked.items() if leaves[site] < _LITTLE * time}
        names = self._names_by_site(set(leaves), by_calls, path_of)
        lines = []
        for (site, kind), parts in worst.items():
            pattern, files, others = names.get(site, _NO_FILES) if kind == "request" else _NO_FILES
            leaf = leaves[site] if kind == "request" else 0
            time, count, op = parts[0]
            if kind != "wait":  # waits of one line enclose each other: dask's to_csv() calls gather()
                time = sum(time for time, *_ in parts)
            name = sites[site - 1] if site else "(no line)"
            mine = bool(site) and bool(own[site - 1])
            lines.append(Line(name, mine, kind, ops[op], count, time, min(leaf, time), pattern, files, others))
        return lines

    def _worst_lines(self, top: int) -> dict[tuple[int, str], list[tuple[int, int, int]]]:
        """(site + 1, kind) -> (time, count, operation) of each of its operations, both with the most time first."""
        keys, counts, times = self._ops.sums()
        line, op = keys >> 32, keys & _LOW
        found = distinct(line)
        which = np.searchsorted(found, line)
        total = np.bincount(which, weights=times, minlength=len(found))
        worst = {}
        for number in np.argsort(-total, kind="stable")[:top].tolist():
            at = np.flatnonzero(which == number)
            site, kind = divmod(int(found[number]), len(_KINDS))
            parts = zip(times[at].tolist(), counts[at].tolist(), op[at].tolist(), strict=True)
            worst[site, _KINDS[kind]] = sorted(parts, reverse=True)
        return worst

    def task_lines(self, names: dict[int, str], ops: list[str]) -> list[Line]:
        """Requests in tasks that no line of the program leads to, by name of the task.  names: id of a task -> its
        name."""
        parts: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
        for key, count, time in zip(*(column.tolist() for column in self._tasks.sums()), strict=True):
            if key >> 16 in names:
                sums = parts[names[key >> 16]][ops[key & 0xFFFF]]
                sums[0] += time
                sums[1] += count
        leaves: Counter[str] = Counter()
        for key, _, time in zip(*(column.tolist() for column in self._task_leaves.sums()), strict=True):
            if not key & 1:
                leaves[names.get(key >> 1, "")] += time
        lines = []
        for name, found in parts.items():
            op, (_, count) = max(found.items(), key=lambda one: one[1])
            time = sum(spent for spent, _ in found.values())
            lines.append(Line(f"task {name}", True, "request", op, count, time, min(leaves[name], time), None, 0))
        return lines

    def task_io(self) -> dict[int, int]:
        """Id of a task -> ns in POSIX and stdio calls on files in it."""
        found: Counter[int] = Counter()
        for key, _, time in zip(*(column.tolist() for column in self._task_leaves.sums()), strict=True):
            found[key >> 1] += time
        return found

    def _names_by_site(
        self, wanted: set[int], by_calls: set[int], path_of: Callable[[int], str]
    ) -> dict[int, tuple[str | None, int, int]]:
        """Line -> (the pattern that took the most time there, how many files it stands for, how many others took more
        time together).  by_calls: the lines of which calls are compared, not times."""
        found: dict[int, dict[str, tuple[int, int]]] = defaultdict(dict)
        keys, counts, times = self._paths.sums()
        at = np.isin(keys >> 32, list(wanted))
        for key, count, time in zip(keys[at].tolist(), counts[at].tolist(), times[at].tolist(), strict=True):
            first, second = (count, time) if key >> 32 in by_calls else (time, count)
            found[key >> 32][path_of(key & _LOW)] = (first, second)
        result: dict[int, tuple[str | None, int, int]] = {}
        for site, beside in found.items():
            paths = _with_journals(beside)
            patterns = name_patterns.patterns(paths)
            sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
            for path, both in paths.items():
                for at_sum, amount in enumerate(both):
                    sums[patterns[path]][at_sum] += amount
            best = max(sums, key=lambda pattern: sums[pattern])
            files = sum(pattern == best for pattern in patterns.values())
            most = 2 * sums[best][0] >= sum(first for first, _ in sums.values())
            result[site] = best, files, 0 if most else len(paths) - files
        return result

    def files(
        self,
        name_of: Callable[[int], str],
        log_of: Callable[[int], int],
        renames: dict[str, set[str]],
        slow: dict[int, SlowReads],
    ) -> tuple[list[FileGroup], list[Folder]]:
        """All groups of files, and the folders of data by metadata, most time first.

        name_of: number of a file -> its name; log_of: which log it is of, as ranks of one job have a log each, and each
        of these numbers the files anew; renames: name -> the names that files got which had it; slow: number of
        a file -> its slow reads.
        """
        used = np.flatnonzero(self._files[0].sum(axis=0))
        names = {int(file): name_of(int(file)) for file in used if file}
        patterns = name_patterns.patterns(set(names.values()))
        members: dict[str, list[int]] = defaultdict(list)
        for file, name in names.items():
            members[patterns[name]].append(file)
        groups = []
        folders: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
        for pattern, numbers in members.items():
            calls, times, moved = self._files[:, :, numbers].sum(axis=2).tolist()
            metadata = calls[_OPEN] + calls[_METADATA], times[_OPEN] + times[_METADATA]
            role = name_patterns.role_of(names[numbers[0]])
            later = {to for file in numbers for to in renames.get(names[file], ())}
            different = _different([(names[file], log_of(file)) for file in numbers])
            counts = max(different, len(later)), _one_pattern(later), calls[_OPEN], moved[_READ], moved[_WRITE]
            stored = [slow[file] for file in numbers if file in slow]
            from_storage = sum(one.calls for one in stored), sum(one.time_ns for one in stored)
            groups.append(FileGroup(pattern, role, *counts, *metadata, sum(times), *from_storage))
            if role != "data":
                continue
            sums = folders[name_patterns.folder_of(pattern).removesuffix("**/")]
            for place, amount in enumerate((different, *metadata)):
                sums[place] += amount
        by_time = sorted((Folder(name, *sums) for name, sums in folders.items()), key=lambda one: -one.time_ns)
        return sorted(groups, key=lambda one: -one.time_ns), by_time


def _with_journals(paths: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """Path -> two sums; what SQLite does to the journal of a database is done to the database."""
    found: dict[str, tuple[int, int]] = {}
    for path, (first, second) in paths.items():
        database = path.removesuffix("-journal").removesuffix("-wal")
        name = database if database in paths else path
        known = found.get(name, (0, 0))
        found[name] = known[0] + first, known[1] + second
    return found


def _different(files: list[tuple[str, int]]) -> int:
    """How many files these (name, log) are: a name that several logs have is the same file in each."""
    most: dict[str, int] = {}
    for (name, _), count in Counter(files).items():
        most[name] = max(most.get(name, 0), count)
    return sum(most.values())


def _one_pattern(names: set[str]) -> str | None:
    """The pattern of most of these names, the first in the alphabet of equal ones; None if there are none."""
    found = Counter(name_patterns.patterns(sorted(names)).values()).most_common(1)  # sets have no order
    return found[0][0] if found else None
