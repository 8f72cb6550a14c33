"""The detail column: JSON with whatever the fixed columns have no room for.

Second paths of renames and copies, details that instruments gave their spans,
which children were waited for, what exceptions file objects raised, how long coalesced calls took from the first
begin to the last end, and the statistics of sums.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.base.arrow_arrays import of_numbers, of_texts
from pyio_trace.join.base.records import has_raised, ids_in, is_done
from pyio_trace.join.base.vocabulary import Vocabulary
from pyio_trace.join.references.file_table import Files
from pyio_trace.join.tables.first_pass import FirstPass
from pyio_trace.log import layout
from pyio_trace.log.blocks import Block
from pyio_trace.log.clock import Clock
from pyio_trace.log.heap import Heap, ObjectNumbers
from pyio_trace.log.live import Sums
from pyio_trace.log.sorting import find

if TYPE_CHECKING:
    import pyarrow as pa

_FEW = 1 << 14


class Details:
    """The distinct details of a log, and tables by object number of the index of a detail (or -1): second_path, for
    second paths; span, for the details of spans."""

    def __init__(
        self,
        heap: Heap,
        numbers: ObjectNumbers,
        scan: FirstPass,
        words: Vocabulary,
        files: Files,
        clock: Clock,
        sums: Iterable[Sums] = (),
        outputs: dict[int, dict[str, int]] | None = None,
    ) -> None:
        """outputs: see outputs_of(); needed where copies are summed."""
        self._index: dict[str, int] = {}
        self.second_path = np.full(numbers.count, -1, np.int32)
        self.span = np.full(numbers.count, -1, np.int32)
        at = numbers.of(scan.second_paths.astype(np.uint32))
        self.second_path[at] = [self._of_path(files, path) for path in files.path[at].tolist()]
        details = np.concatenate([scan.span_details, scan.placed_spans])
        texts = [heap.text(identity) for identity in details.tolist()]
        at = numbers.of(details.astype(np.uint32))
        self.span[at] = [-1 if not text else self._number(as_json(text)) for text in texts]
        self._sum_ids = np.empty(0, np.int64)
        self._sum_index = np.empty(0, np.int32)
        for ids, rows, data in sums:
            given = np.where(words.placed_spans.take(rows["op"]), rows["aux"], rows["opened"])
            self._add_sums(ids, rows, data, numbers, given, clock, outputs or {})
        names = ((heap.text(identity) if identity > 0 else None) or "?" for identity in scan.exceptions.tolist())
        self._raised, self._exceptions = scan.raised, scan.exceptions
        self._exception_index = np.array([self._number(_to_json({"raised": name})) for name in names], np.int32)
        pids = scan.children.tolist()
        self._children = scan.children
        self._child_index = np.array([self._number(f'{{"child": {pid}}}') for pid in pids], np.int32)
        self._ticks = scan.coalesced
        self._durations: NDArray[np.int64] = clock.span(scan.coalesced)

    def index_of(self, block: Block, words: Vocabulary, numbers: ObjectNumbers) -> NDArray[np.int32]:
        """The index of each row's detail, -1 for none.  block: without internal records."""
        if block.sums is not None:
            return self._of_sums(block.ids)
        records, shape = block.records, words.shape.take(block.op)
        index = np.full(len(block), -1, np.int32)
        rows = np.flatnonzero((shape == layout.SHAPE_PATH2) | (shape == layout.SHAPE_FD2))
        index[rows] = self.second_path.take(numbers.of(records["aux"][rows]))
        rows = np.flatnonzero(shape == layout.SHAPE_SPAN)
        placed = words.placed_spans.take(block.op[rows])
        given = np.where(placed, records["aux"][rows], ids_in(records["offset"][rows]))
        index[rows] = self.span.take(numbers.of(given))
        rows = np.flatnonzero((shape == layout.SHAPE_WAIT) & is_done(records))
        if len(rows) and len(self._children):
            at, known = find(self._children, records["result"][rows].astype(np.int64))
            index[rows] = np.where(known, self._child_index[at], -1)
        rows = np.flatnonzero(has_raised(records) & (shape != layout.SHAPE_SPAN))
        if len(rows) and len(self._exceptions):
            names = np.full(len(rows), -1, np.int64)
            self._raised.fill(names, block.ids[rows], records["begin"][rows])
            at, known = find(self._exceptions, names)
            index[rows] = np.where(known, self._exception_index[at], index[rows])
        rows = np.flatnonzero(block.flags & layout.COALESCED)
        index[rows] = self._of_durations(records["offset"][rows])
        return index

    def _of_durations(self, ticks: NDArray[np.int64]) -> NDArray[np.int32]:
        """For coalesced rows, by their ticks from first begin to last end; -1: the first pass did not see it."""
        at, known = find(self._ticks, ticks)
        return np.where(known, at + len(self._index), -1).astype(np.int32)

    def _of_sums(self, ids: NDArray[np.int64]) -> NDArray[np.int32]:
        """For sums of like operations, by their ids; -1: made since the log was opened."""
        if len(self._sum_ids) == 0:
            return np.full(len(ids), -1, np.int32)
        at, known = find(self._sum_ids, ids)
        return np.where(known, self._sum_index[at], -1).astype(np.int32)

    def _add_sums(
        self,
        ids: NDArray[np.int64],
        rows: NDArray[np.void],
        data: NDArray[np.void] | None,
        numbers: ObjectNumbers,
        details: NDArray[np.uint32],
        clock: Clock,
        outputs: dict[int, dict[str, int]],
    ) -> None:
        """details: the ids of those that the calls were given, if they are spans."""
        spans = clock.span((rows["last"] - rows["first"]).view(np.int64)).tolist()
        longest = clock.span(rows["longest"].view(np.int64)).tolist()
        seconds = self.second_path[numbers.of(rows["aux"])].tolist()
        given = self.span[numbers.of(details)].tolist()
        texts = list(self._index)
        found = []
        for row, (identity, second, own) in enumerate(zip(ids.tolist(), seconds, given, strict=True)):
            detail = _sum_of(rows[row], None if data is None else data[row])
            detail |= {"span_ns": spans[row], "longest_ns": longest[row]} if detail["calls"] else {}
            if identity in outputs:
                detail["output"] = outputs[identity]
            if second >= 0:
                detail |= json.loads(texts[second])
            if own >= 0:
                detail["given"] = json.loads(texts[own])
            found.append((identity, self._number(_to_json(detail))))
        pairs = np.array(found, np.int64).reshape(-1, 2)
        self._sum_ids = np.concatenate([self._sum_ids, pairs[:, 0]])
        self._sum_index = np.concatenate([self._sum_index, pairs[:, 1].astype(np.int32)])

    def values(self) -> pa.Array:
        """All details, by index, as an Arrow array of strings."""
        import pyarrow as pa

        if len(self._durations) <= _FEW:  # without pyarrow.compute, which takes longer to import than this
            return of_texts([*self._index, *(f'{{"span_ns": {duration}}}' for duration in self._durations.tolist())])
        import pyarrow.compute as pc

        durations = pc.cast(of_numbers(self._durations), pa.string())
        durations = pc.binary_join_element_wise('{"span_ns": ', durations, "}", "")
        return pa.concat_arrays([of_texts(list(self._index)), durations])

    def _of_path(self, files: Files, path: int) -> int:
        if path < 0:
            return -1
        return self._number(json.dumps({"to": files.paths.texts[path]}, ensure_ascii=False))

    def _number(self, text: str) -> int:
        return self._index.setdefault(text, len(self._index))


#: Darshan's ranges of transfer sizes, in bytes.
RANGES = ("0-100", "100-1K", "1K-10K", "10K-100K", "100K-1M", "1M-4M", "4M-10M", "10M-100M", "100M-1G", "1G+")


def _sum_of(row: np.void, data: np.void | None) -> dict[str, object]:
    """The statistics of a sum of like operations that no column has room for; see docs/reference/log-format.md."""
    detail: dict[str, object] = {"calls": int(row["count"])}
    if row["begun"] > row["count"]:
        detail["in_flight"] = int(row["begun"] - row["count"])
    if data is None or row["error"]:
        return detail
    detail |= _places(data)
    detail["sizes"] = {name: count for name, count in zip(RANGES, data["sizes"].tolist(), strict=True) if count}
    detail["common_sizes"] = {str(size): count for size, count in data["common"].tolist() if count}
    return detail


def _places(data: np.void) -> dict[str, int]:
    """Where in the file the transfers of a sum took place."""
    found = {name: int(data[name]) for name in ("placed", "consecutive", "sequential", "unaligned")}
    return found | ({"highest": int(data["highest"])} if data["placed"] else {})


def outputs_of(sums: Iterable[Sums], words: Vocabulary) -> dict[int, dict[str, int]]:
    """Where in their output files the copies of sums took place, by the ids of the sums."""
    found: dict[int, dict[str, int]] = {}
    for _, rows, data in sums:
        if data is not None:
            for row in np.flatnonzero(words.shape.take(rows["op"]) == layout.SHAPE_OUTPUT):
                found[int(rows["parent"][row])] = _places(data[row])
    return found


def _to_json(detail: dict[str, object]) -> str:
    try:
        return json.dumps(detail, ensure_ascii=False)
    except RecursionError:  # the given part alone was just within the limit
        return json.dumps(detail | {"given": None}, ensure_ascii=False)


def as_json(text: str) -> str:
    """The text if it is JSON; else a JSON object that holds it, for an instrument's mistake."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return json.dumps({"text": text}, ensure_ascii=False)
    return text
