"""Sums by rank of a parallel job.

Result: key_sums.SumsTable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from pyio_trace.analysis.calls.file_names import FileNames
from pyio_trace.analysis.view_sums.key_sums import ByKey, Ints

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log


class ByRank(ByKey):
    """The reducer."""

    key: ClassVar[tuple[str, ...]] = ("global_rank",)

    def shown(self, keys: dict[str, Ints], log: Log, names: FileNames) -> Sequence[str | None]:
        return [f"rank {rank}" if rank >= 0 else "(no rank)" for rank in keys["global_rank"].tolist()]


REDUCER = ByRank
