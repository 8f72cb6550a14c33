"""All operations of the run in one row: time, calls, bytes.

Result: key_sums.SumsTable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pyio_trace.analysis.calls.file_names import FileNames
from pyio_trace.analysis.scan.columns import Columns
from pyio_trace.analysis.view_sums.key_sums import ByKey, Ints

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log


class Totals(ByKey):
    """The reducer."""

    made: ClassVar[tuple[str, ...]] = ("all",)

    def keys(self, columns: Columns) -> dict[str, Ints]:
        return {"all": np.zeros(len(columns), np.int64)}

    def shown(self, keys: dict[str, Ints], log: Log, names: FileNames) -> Sequence[str | None]:
        return ["all"] * len(keys["all"])


REDUCER = Totals
