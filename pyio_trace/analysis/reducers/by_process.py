"""Sums by process, under its name and pid.

Result: key_sums.SumsTable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from pyio_trace.analysis.calls.file_names import FileNames
from pyio_trace.analysis.view_sums.key_sums import ByKey, Ints, processes_called

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log


class ByProcess(ByKey):
    """The reducer."""

    key: ClassVar[tuple[str, ...]] = ("process",)

    def shown(self, keys: dict[str, Ints], log: Log, names: FileNames) -> Sequence[str | None]:
        return processes_called(log, keys["process"])


REDUCER = ByProcess
