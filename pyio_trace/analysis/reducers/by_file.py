"""Sums by file, under its latest name.

Result: key_sums.SumsTable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from pyio_trace.analysis.calls.file_names import FileNames
from pyio_trace.analysis.view_sums.key_sums import ByKey, Ints

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log


class ByFile(ByKey):
    """The reducer."""

    key: ClassVar[tuple[str, ...]] = ("file",)
    of_files: ClassVar[bool] = True

    def shown(self, keys: dict[str, Ints], log: Log, names: FileNames) -> Sequence[str | None]:
        return names.of(keys["file"], log)


REDUCER = ByFile
