"""Many tasks that read or write little and end soon: the scheduler has more work than they.

Scheduling a task costs Dask about the same whatever the task does, and more on a
cluster than in threads. Partitions of a hundred megabytes make that cost small.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from pyio_trace.analysis.results.line_time import LineTime
from pyio_trace.insights import library_use
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy, Site
from pyio_trace.insights.hdf5_use import READS
from pyio_trace.insights.libraries import is_netcdf
from pyio_trace.insights.library_use import NEEDS, Group, calls_of
from pyio_trace.insights.line_walls import held_ns
from pyio_trace.insights.observed import Gain, Observed
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import seconds, size

_MS = 1_000_000
#: ns to schedule a task: by a cluster's scheduler, as Dask documents it, and by one in this process.
_CLUSTER, _LOCAL = 1_000_000, 100_000
_WORKERS = ("Dask worker", "Ray")
_READ = Remedy(
    "Let each task read more.",
    "frame = dd.read_csv('data/*.csv', blocksize='256KiB')",
    "frame = dd.read_csv('data/*.csv', blocksize='128MiB')\n# or frame.repartition(partition_size='100MB')",
    "dask",
)
#: Of arrays: of netCDF files, which xarray opens, and of others.
_READ_ARRAYS = {
    True: Remedy(
        "Let each task read more: say so where the files are opened.",
        "data = xr.open_mfdataset(paths, chunks={'time': 1})",
        "data = xr.open_mfdataset(paths, chunks={'time': 1000})",
        "xarray",
    ),
    False: Remedy(
        "Let each task read more.",
        "array = da.from_array(dataset, chunks=(1, 1000, 1000))",
        "array = da.from_array(dataset, chunks=(100, 1000, 1000))",
        "dask",
    ),
}
_ARRAYS = (*READS, "H5Dread")
_WRITE = Remedy(
    "Let each task write more.",
    "frame.repartition(npartitions=1000).to_parquet('out')",
    "frame.repartition(partition_size='100MB').to_parquet('out')",
    "dask",
)


def find(observed: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    """Tasks that read or write, by name."""
    tasks = calls_of(observed, "task", "ray.task")
    moved = _moved(observed)
    moving = tasks.where(np.isin(tasks.column("id"), np.fromiter(moved, np.int64, len(moved))))
    names: dict[str, list[int]] = defaultdict(list)
    for at, detail in zip(moving.at.tolist(), moving.details, strict=True):
        names[str(detail.get("prefix") or detail.get("name") or "task")].append(at)
    for name, at in names.items():
        group = Group(tasks.calls, np.array(at, np.int64))
        read, written = (sum(both) for both in zip(*(moved[one] for one in group.column("id").tolist()), strict=True))
        short = group.total("duration") <= limits["ms"] * _MS * len(group)
        if len(group) >= limits["tasks"] and short and read + written <= limits["bytes"] * len(group):
            yield _finding(observed, group, name, read, written)


def _moved(observed: Observed) -> dict[int, tuple[int, int]]:
    """(bytes read, bytes written) by libraries in each task that does I/O at all, by its id."""
    calls = calls_of(observed).calls
    found: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
    moves = (calls["task"] != 0) & (calls["reads"] + calls["writes"] > 0)
    columns = (calls[name][moves].tolist() for name in ("task", "read", "written"))
    for task, read, written in zip(*columns, strict=True):
        before = found[task]
        found[task] = before[0] + max(read, 0), before[1] + max(written, 0)
    for task, time in zip(calls.lines["task"].tolist(), calls.lines["io_ns"].tolist(), strict=True):
        if time:
            found[task] = found[task]
    return found


def _finding(observed: Observed, group: Group, name: str, read: int, written: int) -> Finding:
    count, time = len(group), group.total("duration")
    kinds = {one.kind for one in observed.overview.processes if one.index in set(group.processes())}
    cluster = any(kind.startswith(_WORKERS) for kind in kinds)
    each = _CLUSTER if cluster else _LOCAL
    how = f"{seconds(each)} for each task, which {'a cluster' if cluster else 'a local'} scheduler takes about"
    gain = observed.gain({next(iter(group.processes()), 0): min(count * each, observed.wall_ns)}, how)
    sites = _lines(observed, group)
    waited = sum(map(held_ns, observed.walls(sites)))
    if waited > gain.ns:
        how = "the time at these lines: the scheduler's, and that of each task; a few large tasks take some of it"
        gain = Gain(min(waited, observed.wall_ns), replace(gain.recoverable, how=how, bound="upper", terms=[]))
    did = f"wrote {size(written // count)}" if written > read else f"read {size(read // count)}"
    evidence = Evidence(
        f"{count:,} tasks took {seconds(time // count)} and {did} each.",
        {"tasks": count, "time_ns": time, "read": read, "written": written},
    )
    confidence = Confidence(0.6, "what the scheduler took is not in the log")
    title = f"{count:,} tasks {name[:40]} of {seconds(time // count)} each"
    remedy = _WRITE if written > read else _reading(group)
    return library_use.finding(
        observed, group, title, gain, [evidence], remedy, confidence, severity="warning", sites=sites
    )


def _reading(group: Group) -> Remedy:
    arrays = _within(group).of(*_ARRAYS)
    return _READ_ARRAYS[any(map(is_netcdf, arrays.paths()))] if len(arrays) else _READ


def _lines(observed: Observed, group: Group) -> list[Site]:
    """Lines that read or write in these tasks, or that wait for them: the log may only know from samples."""
    sites = library_use.places(observed, _within(group))
    if any(observed.is_own(f"{site.file}:{site.line}:{site.function}") for site in sites):
        return sites
    waits = {line: _in_dask(row) for line, row in observed.wall.items() if observed.is_own(line) and _in_dask(row)}
    return [*observed.site_list(max(waits, key=lambda line: waits[line], default=None)), *sites]


def _in_dask(row: LineTime) -> int:
    """ns that a line spent in Dask; imports are none."""
    return sum(one.time_ns for one in row.called if one.function.startswith("dask."))


def _within(group: Group) -> Group:
    """The calls in these tasks."""
    calls = group.calls
    return Group(calls, np.flatnonzero(np.isin(calls["task"], group.column("id"))))


RULE = Rule(
    "Dask and Ray",
    find,
    {
        "tasks": Limit(100, "tasks of one name that read or write"),
        "ms": Limit(20, "that each of them takes, on average, at most"),
        "bytes": Limit(1 << 20, "that each of them moves, on average, at most"),
    },
    NEEDS,
)
