"""The detail column: JSON of what an operation has beside its fixed columns.

Second paths of renames and copies, what instruments wrote with their spans,
and how long a row of like calls stretched.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.files import Files
from pyio_trace.join.survey import Survey
from pyio_trace.log.clock import Clock
from pyio_trace.log.heap import Heap, HeapSlots

if TYPE_CHECKING:
    import pyarrow as pa


class Details:
    """The distinct details of a log, and tables by heap slot (index or -1):
    to, of second paths; span, of what spans brought."""

    def __init__(self, heap: Heap, slots: HeapSlots, survey: Survey, files: Files, clock: Clock) -> None:
        self._index: dict[str, int] = {}
        self.to = np.full(slots.count, -1, np.int32)
        self.span = np.full(slots.count, -1, np.int32)
        at = slots.of(survey.second_paths.astype(np.uint32))
        self.to[at] = [self._second_path(files, path) for path in files.path[at].tolist()]
        texts = [heap.text(identity) for identity in survey.span_details.tolist()]
        at = slots.of(survey.span_details.astype(np.uint32))
        self.span[at] = [-1 if not text else self._number(as_json(text)) for text in texts]
        self._ticks = survey.coalesced
        self._spans: NDArray[np.int64] = clock.span(survey.coalesced)

    def coalesced(self, ticks: NDArray[np.int64]) -> NDArray[np.int32]:
        """The details of coalesced rows by their ticks from first begin to last end; -1: not surveyed."""
        if len(self._ticks) == 0:
            return np.full(len(ticks), -1, np.int32)
        at = np.minimum(np.searchsorted(self._ticks, ticks), len(self._ticks) - 1)
        return np.where(self._ticks[at] == ticks, at + len(self._index), -1).astype(np.int32)

    def values(self) -> pa.Array:
        """All details, by index, as an Arrow array of strings."""
        import pyarrow as pa
        import pyarrow.compute as pc

        spans = pc.cast(pa.array(self._spans), pa.string())
        spans = pc.binary_join_element_wise('{"span_ns": ', spans, "}", "")
        return pa.concat_arrays([pa.array(list(self._index), pa.string()), spans])

    def _second_path(self, files: Files, path: int) -> int:
        if path < 0:
            return -1
        return self._number(json.dumps({"to": files.paths.texts[path]}, ensure_ascii=False))

    def _number(self, text: str) -> int:
        return self._index.setdefault(text, len(self._index))


def as_json(text: str) -> str:
    """The text if it is JSON, else (a writer's mistake) a JSON object that holds it."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return json.dumps({"text": text}, ensure_ascii=False)
    return text
