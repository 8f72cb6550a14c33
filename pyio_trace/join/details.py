"""The detail column: JSON of what an operation has beside its fixed columns.

Second paths of renames and copies, what instruments wrote with their spans,
how long a row of like calls stretched, and the statistics of sums.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
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

    def __init__(
        self,
        heap: Heap,
        slots: HeapSlots,
        survey: Survey,
        files: Files,
        clock: Clock,
        sums: Iterable[tuple[NDArray[np.int64], NDArray[np.void], NDArray[np.void] | None]] = (),
    ) -> None:
        self._index: dict[str, int] = {}
        self.to = np.full(slots.count, -1, np.int32)
        self.span = np.full(slots.count, -1, np.int32)
        at = slots.of(survey.second_paths.astype(np.uint32))
        self.to[at] = [self._second_path(files, path) for path in files.path[at].tolist()]
        texts = [heap.text(identity) for identity in survey.span_details.tolist()]
        at = slots.of(survey.span_details.astype(np.uint32))
        self.span[at] = [-1 if not text else self._number(as_json(text)) for text in texts]
        self._sum_ids = np.empty(0, np.int64)
        self._sum_index = np.empty(0, np.int32)
        for ids, rows, data in sums:
            self._add_sums(ids, rows, data, slots, clock)
        self._ticks = survey.coalesced
        self._spans: NDArray[np.int64] = clock.span(survey.coalesced)

    def coalesced(self, ticks: NDArray[np.int64]) -> NDArray[np.int32]:
        """The details of coalesced rows by their ticks from first begin to last end; -1: not surveyed."""
        if len(self._ticks) == 0:
            return np.full(len(ticks), -1, np.int32)
        at = np.minimum(np.searchsorted(self._ticks, ticks), len(self._ticks) - 1)
        return np.where(self._ticks[at] == ticks, at + len(self._index), -1).astype(np.int32)

    def sums(self, ids: NDArray[np.int64]) -> NDArray[np.int32]:
        """The details of sums of like operations, by their ids; -1: made since the log was opened."""
        if len(self._sum_ids) == 0:
            return np.full(len(ids), -1, np.int32)
        at = np.minimum(np.searchsorted(self._sum_ids, ids), len(self._sum_ids) - 1)
        return np.where(self._sum_ids[at] == ids, self._sum_index[at], -1).astype(np.int32)

    def _add_sums(
        self,
        ids: NDArray[np.int64],
        rows: NDArray[np.void],
        data: NDArray[np.void] | None,
        slots: HeapSlots,
        clock: Clock,
    ) -> None:
        spans = clock.span((rows["last"] - rows["first"]).view(np.int64)).tolist()
        longest = clock.span(rows["longest"].view(np.int64)).tolist()
        seconds = self.to[slots.of(rows["aux"])].tolist()
        given = self.span[slots.of(rows["opened"])].tolist()
        texts = list(self._index)
        found = []
        for row, (identity, second, own) in enumerate(zip(ids.tolist(), seconds, given, strict=True)):
            detail = _sum_of(rows[row], None if data is None else data[row])
            detail |= {"span_ns": spans[row], "longest_ns": longest[row]} if detail["calls"] else {}
            if second >= 0:
                detail |= json.loads(texts[second])
            if own >= 0:
                detail["given"] = json.loads(texts[own])
            found.append((identity, self._number(_dumped(detail))))
        pairs = np.array(found, np.int64).reshape(-1, 2)
        self._sum_ids = np.concatenate([self._sum_ids, pairs[:, 0]])
        self._sum_index = np.concatenate([self._sum_index, pairs[:, 1].astype(np.int32)])

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


#: Darshan's ranges of transfer sizes, in bytes.
RANGES = ("0-100", "100-1K", "1K-10K", "10K-100K", "100K-1M", "1M-4M", "4M-10M", "10M-100M", "100M-1G", "1G+")


def _sum_of(row: np.void, data: np.void | None) -> dict[str, object]:
    """What a sum of like operations has beside its row's columns; see docs/log-format.md."""
    detail: dict[str, object] = {"calls": int(row["count"])}
    if row["begun"] > row["count"]:
        detail["in_flight"] = int(row["begun"] - row["count"])
    if data is None or row["error"]:
        return detail
    for name in ("placed", "consecutive", "sequential", "unaligned"):
        detail[name] = int(data[name])
    if data["placed"]:
        detail["highest"] = int(data["highest"])
    detail["sizes"] = {name: count for name, count in zip(RANGES, data["sizes"].tolist(), strict=True) if count}
    detail["common_sizes"] = {str(size): count for size, count in data["common"].tolist() if count}
    return detail


def _dumped(detail: dict[str, object]) -> str:
    try:
        return json.dumps(detail, ensure_ascii=False)
    except RecursionError:  # what was just within bounds by itself
        return json.dumps(detail | {"given": None}, ensure_ascii=False)


def as_json(text: str) -> str:
    """The text if it is JSON, else (a writer's mistake) a JSON object that holds it."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return json.dumps({"text": text}, ensure_ascii=False)
    return text
