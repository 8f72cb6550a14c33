"""What imports loaded, and which workers loaded what the process that started them had loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.analysis.calls.name_patterns import folder_of
from pyio_trace.enums import OpClass
from pyio_trace.join.base.arrow_arrays import texts_at
from pyio_trace.join.processes.process_names import helper_of
from pyio_trace.light_dataclass import dataclass
from pyio_trace.units import seconds

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import CallTable
    from pyio_trace.insights.observed import Observed

Ints = NDArray[np.int64]
_MOST_PATHS = 10_000
#: The share of what a worker imports that its parent must have imported.
_MOSTLY = 0.5
#: Folders that hold one folder for each package.
_PACKAGES = ("/site-packages/", "/dist-packages/")
#: How the module that joblib and loky start their workers with is called.
_LOKY = "popen_loky_posix"


@dataclass(frozen=True)
class Worker:
    """A worker that imports what the process that started it imports as well.

    row: of the process table; starter: index; calls: on files, that its imports made;
    files: that it loaded, again: those of them that the starter had loaded
    before, None: the log has no rows of imports; packages: those that took long
    and that the starter imported too, with the ns that each took.
    """

    row: Mapping[str, Any]
    starter: int
    calls: int
    files: int | None = None
    again: int | None = None
    packages: tuple[tuple[str, int], ...] = ()

    @property
    def index(self) -> int:
        """Of the process."""
        return int(self.row["index"])

    @property
    def time(self) -> int:
        """ns in imports."""
        return int(self.row["import_time"])


def workers_again(run: Observed) -> Iterator[Worker]:
    """Workers that begin without the modules of the process that started them, and import mostly the same.

    With rows of imports that is known by the files, without them by the packages
    that took long.  If those are not known either (an earlier log), both make
    about as many calls, or the starter more.
    """
    calls = run.import_calls()
    opened = run.imported.where(imported=True, kind=OpClass.OPEN, errno=0)
    loaded = {one["process"]: one.rows for one in opened.by("process")}
    for row in run.processes:
        if not is_fresh_worker(row) or not row["import_time"]:
            continue
        index, starter = row["index"], run.starter(row)
        if helper_of(run.processes[starter]) == "forkserver":  # which an earlier line started
            starter = run.starter(run.processes[starter])
        if index in loaded:
            files, again = _again(loaded[index], loaded.get(starter), row["begin"])
            if again >= _MOSTLY * files:
                yield Worker(row, starter, calls[index], files, again)
            continue
        own, shared = _packages(row), set(dict(_packages(run.processes[starter])))
        same = tuple((name, time) for name, time in own if name in shared)
        if own and shared:
            if sum(time for _, time in same) >= _MOSTLY * sum(time for _, time in own):
                yield Worker(row, starter, calls[index], packages=same)
        elif calls[starter] >= _MOSTLY * calls[index] > 0:
            yield Worker(row, starter, calls[index])


def _packages(row: Mapping[str, Any]) -> list[tuple[str, int]]:
    """The packages whose import took longest in a process, with the ns that each took."""
    names, times = row["import_packages"] or (), row["import_package_times"] or ()
    return [(name, max(time, 0)) for name, time in zip(names, times, strict=False)]


def is_fresh_worker(row: Mapping[str, Any]) -> bool:
    """Whether a process is a worker of multiprocessing, or of joblib or loky, whose interpreter has none of its
    parent's modules: it was spawned, or is a fork of a fork server."""
    if row["start"] == "fork":
        return helper_of(row) == "forkserver"
    return row["start"] == "joined" and (helper_of(row) == "spawn" or is_of_loky(row))


def is_of_loky(row: Mapping[str, Any]) -> bool:
    """Whether joblib or loky started a process as a worker."""
    return any(word.endswith(_LOKY) for word in row["argv"])


def _again(mine: CallTable, parents: CallTable | None, begin: int) -> tuple[int, int]:
    """(how many files a process loaded, how many of them its parent had loaded); begin: of the process."""
    files = set(map(_source_of, mine.paths()))
    if parents is None:
        return len(files), 0
    before = parents.rows(parents.columns["first"] < begin)
    return len(files), len(files & set(map(_source_of, before.paths())))


def _source_of(path: str) -> str:
    """The file itself, or the source that it was compiled from: a parent that reads that leaves bytecode to its
    workers."""
    folder, cached, name = path.rpartition("/__pycache__/")
    return f"{folder}/{name.partition('.')[0]}.py" if cached else path


def worst_folders(
    sums: Mapping[str, Ints], paths: pa.Array, of: Callable[[str], str] = folder_of, most: int = 3
) -> list[str]:
    """The folders in which imports spent the most time, with that time.  of: the folder that a path counts for."""
    order = np.argsort(-sums["time"])[: _MOST_PATHS if len(paths) else 0]
    spent: dict[str, int] = {}
    for path, time in zip(texts_at(paths, np.maximum(sums["path"][order], 0)), sums["time"][order], strict=True):
        folder = of(path or "")
        spent[folder] = spent.get(folder, 0) + int(time)
    return [f"{folder} {seconds(time)}" for folder, time in sorted(spent.items(), key=lambda pair: -pair[1])[:most]]


def package_of(path: str) -> str:
    """The folder of the package that a file belongs to, where packages are installed; else the file's folder."""
    for name in _PACKAGES:
        before, found, after = path.rpartition(name)
        if found and "/" in after:
            return f"{before}{found}{after.partition('/')[0]}/"
    folder = folder_of(path)
    return folder.removesuffix("__pycache__/") if folder.endswith("/__pycache__/") else folder
