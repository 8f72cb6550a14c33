"""Files of data that processes map, and whether these are on a network file system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyio_trace.analysis.calls.name_patterns import role_of
from pyio_trace.enums import OpClass

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import CallTable
    from pyio_trace.insights.observed import Observed

#: Kinds of file systems on which a page that is not in memory comes from a server, or from a daemon.
REMOTE = ("nfs", "lustre", "network", "fuse")
_ENOUGH = 20


def data_maps(run: Observed, process: int) -> CallTable:
    """The calls of a process's own lines that map files of data."""
    mapped = run.calls.where(
        kind=OpClass.MAP, op=("mmap", "mmap.mmap", "numpy.memmap"), own=True, errno=0, process=process
    )
    return mapped.where(path=[code for code in mapped.codes("path") if role_of(run.calls.path(code) or "") == "data"])


def mappings_of(run: Observed, process: int) -> list[Mapping[str, Any]]:
    """What is known of a process's mappings of files of data: rows of Log.mappings()."""
    own = [row for row in run.mappings if row["process"] == process and row["path"]]
    return [row for row in own if role_of(row["path"]) == "data"]


def is_remote(run: Observed, path: str) -> bool:
    """Whether a file is known to be on a network file system."""
    return run.mounts.kind_of(path) in REMOTE


def mostly_remote(run: Observed, process: int) -> bool:
    """Whether most of what a process touched of mapped files of data is on a network file system; the kernel counts
    faults by process, and not by file."""
    rows = mappings_of(run, process)
    remote = int(sum(row["at_least"] for row in rows if is_remote(run, row["path"])))
    return 0 < int(sum(row["at_least"] for row in rows)) <= 2 * remote


def storage_latency(run: Observed) -> int | None:
    """ns that a read from storage takes, the mean of this run's; None: it has too few."""
    slow = run.overview.storage.slow
    return slow.time_ns // slow.calls if slow.calls >= _ENOUGH else None
