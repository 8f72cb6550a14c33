"""Sums by thread.

Result: key_sums.SumsTable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from pyio_trace.analysis.calls.file_names import FileNames
from pyio_trace.analysis.view_sums.key_sums import ByKey, Ints, processes_called

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log


class ByThread(ByKey):
    """The reducer."""

    key: ClassVar[tuple[str, ...]] = ("process", "tid")

    def shown(self, keys: dict[str, Ints], log: Log, names: FileNames) -> Sequence[str | None]:
        processes = processes_called(log, keys["process"])
        threads = ["several threads" if tid < 0 else f"thread {tid}" for tid in keys["tid"].tolist()]
        return [f"{process}, {thread}" for process, thread in zip(processes, threads, strict=True)]


REDUCER = ByThread
