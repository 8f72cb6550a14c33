"""Sums by operation, with its layer.

Result: key_sums.SumsTable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from pyio_trace.analysis.calls.code_texts import texts
from pyio_trace.analysis.calls.file_names import FileNames
from pyio_trace.analysis.view_sums.key_sums import ByKey, Ints

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log


class ByOp(ByKey):
    """The reducer."""

    key: ClassVar[tuple[str, ...]] = ("layer", "op")

    def shown(self, keys: dict[str, Ints], log: Log, names: FileNames) -> Sequence[str | None]:
        both = zip(texts(log, "layer", keys["layer"]), texts(log, "op", keys["op"]), strict=True)
        return [f"{layer} {op}" for layer, op in both]


REDUCER = ByOp
