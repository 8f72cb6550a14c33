"""Sums by kind of process: "DataLoader workers"; scripts and programs by their names.

Result: key_sums.SumsTable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from pyio_trace.analysis.calls.file_names import FileNames
from pyio_trace.analysis.view_sums.key_sums import ByKey, Ints, processes_called
from pyio_trace.join.processes.process_names import Row, group, plural

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log


class ByKind(ByKey):
    """The reducer."""

    key: ClassVar[tuple[str, ...]] = ("process",)

    def shown(self, keys: dict[str, Ints], log: Log, names: FileNames) -> Sequence[str | None]:
        return processes_called(log, keys["process"], _kind)


def _kind(process: Row) -> str:
    text, is_kind = group(process["process_kind"], process["process_name"])
    return plural(text) if is_kind else text


REDUCER = ByKind
