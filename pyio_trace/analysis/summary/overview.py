"""Makes the Overview of a log from what its reducers found."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.calls import lifetimes
from pyio_trace.analysis.calls.renamings import LINKS
from pyio_trace.analysis.calls.start_up import lines_that
from pyio_trace.analysis.results.overview_figures import (
    KindTime,
    Overview,
    PackageTime,
    ProcessTime,
    SlowReads,
    Split,
    Storage,
    Task,
    Tracing,
    Transfer,
)
from pyio_trace.analysis.scan.batch_rows import int64
from pyio_trace.analysis.scan.filters import lacks_calls
from pyio_trace.analysis.summary.detail_rows import RENAMES, DetailRows, Details, TaskCall
from pyio_trace.analysis.summary.summary_sums import Sums
from pyio_trace.analysis.summary.summary_times import Times
from pyio_trace.analysis.view_sums import loader_calls, loader_epochs
from pyio_trace.analysis.view_sums.loader_steps import loops_of
from pyio_trace.enums import TASKS
from pyio_trace.join.processes.process_names import group, plural, titled
from pyio_trace.join.sources.merged_source import log_of

if TYPE_CHECKING:
    from pyio_trace.analysis.reducer import Reducer
    from pyio_trace.analysis.results.figures import Summary
    from pyio_trace.analysis.results.line_time import LineTimes, MainThread
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: Packages of a process that are listed.
_PACKAGES = 10
#: Of how many lines the rules of insights get the wall time.
LINES = 1000
_ACCOUNT = ("storage_read", "storage_written", "import_time")


def make_overview(
    log: Log,
    table: list[dict[str, Any]],
    sums: Sums,
    times: Times,
    details: Details,
    walls: Ints,
    top: int,
    tracing: Tracing,
    transfers: tuple[Transfer, Transfer],
) -> Overview:
    """table: of processes; sums, times, details: of the whole log; walls: ns that each process lived; top: how many
    lines and groups of files to give; transfers: what was read and written."""
    paths, sites = log.dictionary("path"), log.dictionary("site").to_pylist()
    ops = log.dictionary("op").to_pylist()
    known: dict[int, str] = {}

    def path_of(code: int) -> str:
        if code not in known:
            known[code] = (paths[code].as_py() if code >= 0 else None) or "(name not known)"
        return known[code]

    loaders, ready = loader_epochs.epochs(details.loader_calls, loader_calls.hosts(table))
    if lacks_calls(log):
        loaders = [replace(one, steps=None) for one in loaders]
    workers = _workers(table, times.states.tasks)
    ready_ns = np.array([int64(ready.get(process, 0)) for process in range(len(walls))], np.int64)
    splits = [
        replace(split, cpu_ns=_cpu(process))
        for process, split in zip(table, times.states.finish(walls, workers, ready_ns), strict=False)
    ]
    processes = _processes(table, splits, workers, {call.process for call in details.loader_calls})
    lines = sums.places.lines(sites, lines_that(log.own_code().is_own, sites), ops, path_of, top)
    lines += sums.places.task_lines({task.id: task.name for task in details.tasks}, ops)
    slow, slow_files = sums.latencies.finish([process["storage_read"] for process in table])
    identities = sums.files.identities()
    hosts = {one["host"] for one in log.info().get("logs", [])}

    def number_of_log(file: int) -> int:
        return log_of(int(identities[file])) if len(hosts) == 1 else 0

    files, folders = sums.places.files(
        lambda file: path_of(int(sums.file_path[file])), number_of_log, _renames(details, log), slow_files
    )
    return Overview(
        cores=log.info().get("cores"),
        kinds=_kinds(processes),
        processes=processes,
        storage=_storage(processes, slow),
        lines=sorted(lines, key=lambda line: -line.time_ns)[:top],
        files=files[: max(top, 1) * 2],
        folders=folders[:top],
        loaders=loaders,
        tracing=tracing,
        tasks=_tasks(details.tasks, sums.places.task_io())[:top],
        read=transfers[0],
        written=transfers[1],
        loops=loops_of(loaders),
    )


def of_samples(log: Log) -> list[Reducer[Any, Any]]:
    """The reducer of wall time by line.  None without samples, and none for a log that was filtered by more than the
    process: calls in which samples were taken could be missing."""
    if not len(log.sampled()) or not log.has_whole_processes:
        return []
    from pyio_trace.analysis.reducers.by_line_time import ByLineTime  # the end of a small run imports little

    return [ByLineTime(LINES)]


def with_wall(summary: Summary, wall: LineTimes | None, top: int) -> Summary:
    """Adds to a summary what samples say: the wall time of the first `top` lines, and what each process did in the rest
    of its time."""
    if wall is None or summary.overview is None:
        return summary
    main = {one.process: one for one in wall.main}
    processes = [
        replace(one, split=divided(one.split, main[one.index])) if one.index in main else one
        for one in summary.overview.processes
    ]
    return replace(
        summary, overview=replace(summary.overview, wall=wall.rows[:top], processes=processes, kinds=_kinds(processes))
    )


def divided(split: Split, main: MainThread) -> Split:
    """A split whose rest is divided as the main thread was found: without what is in other states already."""
    known = split.library_ns + split.task_ns, split.waiting_ns + split.hand_over_ns + (split.idle_ns or 0)
    parts = [max(main.computing_ns - known[0], 0), main.gil_ns, main.asleep_ns, max(main.blocked_ns - known[1], 0)]
    whole = sum(parts)
    if not whole:
        return split
    computing, gil, asleep, _ = (split.other_ns * part // whole for part in parts)
    return replace(split, computing_ns=computing, gil_ns=gil, asleep_ns=asleep)


def wanted_details(sums: Sums, ops: list[str]) -> DetailRows:
    """What to look for in the details; false if nothing.  ops: the log's operations."""
    needed = (*loader_calls.OPS, *RENAMES, *LINKS, *TASKS)
    seen = frozenset(op for op, there in zip(ops, sums.places.ops_seen, strict=False) if there and op in needed)
    return DetailRows(seen, sums.summed > 0)


def _renames(details: Details, log: Log) -> dict[str, set[str]]:
    """Name -> the names that files got which had it, by calls in the log or by others."""
    renames = {path: {*names} for path, names in details.renames.items()}
    for one in log.renames():
        renames.setdefault(one["path"], set()).add(one["to"])
    return renames


def _tasks(calls: list[TaskCall], io_ns: dict[int, int]) -> list[Task]:
    """Tasks by name, most time first.  io_ns: id of a task -> ns in I/O."""
    by_name: dict[str, list[TaskCall]] = defaultdict(list)
    for call in calls:
        by_name[call.name].append(call)
    found = [
        Task(
            name, sum(one.count for one in same), sum(one.duration for one in same), sum(one.cpu_time for one in same),
            sum(io_ns.get(one.id, 0) for one in same), len({one.process for one in same}),
        )
        for name, same in by_name.items()
    ]  # fmt: skip
    return sorted(found, key=lambda one: -one.time_ns)


def _cpu(process: dict[str, Any]) -> int | None:
    """ns of user and system time; None: not known, as in logs of earlier versions."""
    user, system = process.get("cpu_user"), process.get("cpu_system")
    return None if user is None or system is None else int(user + system)


def _workers(table: list[dict[str, Any]], tasks: Mask) -> Mask:
    """Processes that ran tasks for another one."""
    workers = np.zeros(len(tasks), np.bool_)
    for index, process in enumerate(table):
        workers[index] = bool(tasks[index]) and process["parent"] is not None
    return workers


def _processes(table: list[dict[str, Any]], splits: list[Split], workers: Mask, loading: set[int]) -> list[ProcessTime]:
    """The programs of the run.  One that continues an earlier entry of the table is shown with it."""
    continued = {child["parent"] for child in table if lifetimes.is_continuation(table, child)}
    rows = []
    for index, process in enumerate(table):
        if index in continued or not process["followed"]:
            continue
        entries = lifetimes.entries_of(table, index)
        split = splits[index]
        for entry in entries[1:]:
            split += splits[entry]
        accounts = [[table[entry][name] for name in _ACCOUNT] for entry in entries]
        read, written, imports = (known_sum(values) for values in zip(*accounts, strict=True))
        kind = kind_of(process, bool(workers[index]), index in loading)
        packages = _packages([table[entry] for entry in entries])
        rows.append(ProcessTime(index, process["pid"], kind, titled(process), split, read, written, imports, packages))
    return rows


def _packages(entries: list[dict[str, Any]]) -> list[PackageTime]:
    """What the entries of one process imported, the package with the most time first."""
    times: Counter[str] = Counter()
    for entry in entries:
        for package, time in zip(entry["import_packages"] or (), entry["import_package_times"] or (), strict=False):
            times[package] += int64(max(time, 0))
    return [PackageTime(package, time) for package, time in times.most_common(_PACKAGES)]


def kind_of(process: dict[str, Any], worker: bool, loading: bool) -> str:
    """What processes of its kind are called: "DataLoader workers"; a program by its name.

    worker, loading: it ran tasks, or fetches of a DataLoader.  Logs of earlier
    versions do not name such processes.
    """
    text, is_kind = group(process["process_kind"], process["process_name"])
    if is_kind:
        return plural(text)
    if worker:
        return "DataLoader workers" if loading else "task workers"
    return text


def known_sum(values: Iterable[int | None]) -> int | None:
    """The sum of those that are known; None: none is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _kinds(processes: list[ProcessTime]) -> list[KindTime]:
    """Processes by kind; the kind of the first process first, then those with the most time."""
    sums: dict[str, KindTime] = {}
    for one in processes:
        known = sums.get(one.kind)
        sums[one.kind] = KindTime(
            one.kind, known.processes + 1 if known else 1, known.split + one.split if known else one.split
        )
    first, *rest = sums.values() or [None]
    ordered = sorted((kind for kind in rest if kind is not None), key=lambda kind: -kind.split.wall_ns)
    return [kind for kind in (first, *ordered) if kind is not None]


def _storage(processes: list[ProcessTime], slow: SlowReads) -> Storage:
    return Storage(
        known_sum(one.storage_read for one in processes),
        known_sum(one.storage_written for one in processes),
        sum(one.storage_read is None for one in processes),
        slow,
    )
