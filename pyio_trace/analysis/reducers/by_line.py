"""Sums by source line: file:line:function.

Result: key_sums.SumsTable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from pyio_trace.analysis.calls.code_texts import texts
from pyio_trace.analysis.calls.file_names import FileNames
from pyio_trace.analysis.view_sums.key_sums import NO_LINE, ByKey, Ints

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log


class ByLine(ByKey):
    """The reducer."""

    key: ClassVar[tuple[str, ...]] = ("site",)

    def shown(self, keys: dict[str, Ints], log: Log, names: FileNames) -> Sequence[str | None]:
        return [NO_LINE if line is None else line for line in texts(log, "site", keys["site"])]


REDUCER = ByLine
