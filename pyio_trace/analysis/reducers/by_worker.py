"""Sums by worker: the processes of pools, DataLoaders, Dask, Ray and launchers, a restarted one with the one before.

Result: key_sums.SumsTable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from pyio_trace.analysis.calls.file_names import FileNames
from pyio_trace.analysis.view_sums.key_sums import NO_PROCESS, ByKey, Ints, processes_called
from pyio_trace.join.processes.process_names import Row, group, titled

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log


class ByWorker(ByKey):
    """The reducer."""

    key: ClassVar[tuple[str, ...]] = ("process",)

    def shown(self, keys: dict[str, Ints], log: Log, names: FileNames) -> Sequence[str | None]:
        called = processes_called(log, keys["process"], _worker)
        return [None if name == NO_PROCESS else name for name in called]


def _worker(process: Row) -> str | None:
    """The name of a worker, which does not change when it is started again; None for other processes."""
    _, is_kind = group(process["process_kind"], process["process_name"])
    return titled(process) if is_kind else None


REDUCER = ByWorker
