"""Sums of requests by path, line, operation and detail: what views of data sets and statements are made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from pyio_trace.analysis.calls.code_texts import texts
from pyio_trace.analysis.calls.details import Detail, parsed
from pyio_trace.analysis.scan.columns import MEANING, Columns
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.analysis.view_sums.key_sums import TOP
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

COLUMNS = (*MEANING, "time", "duration", "op", "path", "site", "detail", "bytes_moved", "errno")
_KEYS = ("path", "site", "op", "detail")
_MANY = 1 << 20


@dataclass(frozen=True)
class DetailSum:
    """Calls with the same path, line, operation and detail; time, longest: ns; moved: bytes."""

    path: str
    line: str | None
    op: str
    detail: Detail
    calls: int
    time: int
    longest: int
    moved: int
    errors: int


def empty() -> GroupedSums:
    """Sums of nothing."""
    sums = dict.fromkeys(("time", "calls", "moved", "errors"), "sum")
    return GroupedSums(_KEYS, sums | {"longest": "max"}, _MANY)


def sums_of(batch: pa.RecordBatch, *beginnings: str) -> GroupedSums:
    """Sums of the operations of a batch with COLUMNS whose names begin so."""
    part = empty()
    columns = Columns(batch)
    at = np.flatnonzero(columns.of_words("op", [op for op in columns.words("op") if op.startswith(beginnings)]))
    if len(at):
        keys = {name: columns.codes(name)[at] for name in _KEYS}
        calls, duration = columns.calls[at], columns.duration[at]
        errors = calls * (columns.numbers("errno")[at] != 0)
        part.add(
            keys | {"time": duration, "calls": calls, "moved": columns.moved[at], "errors": errors, "longest": duration}
        )
    return part


def rows(part: GroupedSums, log: Log) -> Iterator[DetailSum]:
    """The sums, with words for codes; each detail is parsed once."""
    found = part.columns()
    details = parsed(log, found["detail"])
    columns: list[list[Any]] = [list(texts(log, name, found[name])) for name in ("path", "site", "op")]
    columns.append([details[code] for code in found["detail"].tolist()])
    columns += [found[name].tolist() for name in ("calls", "time", "longest", "moved", "errors")]
    for path, line, op, *rest in zip(*columns, strict=True):
        yield DetailSum(path or "", line, op or "", *rest)


class ByDetail:
    """What reducers over operations with details share; they have finish().

    beginnings: of the names of the operations they are about.
    """

    columns: ClassVar[tuple[str, ...]] = COLUMNS
    beginnings: ClassVar[tuple[str, ...]]

    def __init__(self, top: int = TOP) -> None:
        """top: rows of the result."""
        self.top = top

    def partial(self, batch: pa.RecordBatch) -> GroupedSums:
        return sums_of(batch, *self.beginnings)

    def combine(self, part: GroupedSums, later: GroupedSums) -> GroupedSums:
        part.update(later)
        return part
