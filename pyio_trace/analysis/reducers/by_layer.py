"""Sums by layer: app, hdf5, mpiio, stdio, posix.  Outermost requests count for the layer where they began.

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


class ByLayer(ByKey):
    """The reducer."""

    key: ClassVar[tuple[str, ...]] = ("layer",)

    def shown(self, keys: dict[str, Ints], log: Log, names: FileNames) -> Sequence[str | None]:
        return texts(log, "layer", keys["layer"])


REDUCER = ByLayer
