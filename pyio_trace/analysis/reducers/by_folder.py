"""Sums by folder, of the files directly in it.

Result: key_sums.SumsTable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from pyio_trace.analysis.calls.file_names import FileNames
from pyio_trace.analysis.calls.name_patterns import folder_of
from pyio_trace.analysis.view_sums.key_sums import ByKey, Ints

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log


class ByFolder(ByKey):
    """The reducer."""

    key: ClassVar[tuple[str, ...]] = ("file",)
    of_files: ClassVar[bool] = True

    def shown(self, keys: dict[str, Ints], log: Log, names: FileNames) -> Sequence[str | None]:
        return [folder_of(name) or name for name in names.of(keys["file"], log)]


REDUCER = ByFolder
