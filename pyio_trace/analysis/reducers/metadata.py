"""Metadata operations by path and line: stat, listings, openings again, missing paths, intervals of polling.

Result: Metadata, of which rows are MetadataCalls, lines LineMetadata, paths PathMetadata.
"""

from __future__ import annotations

from collections import Counter
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pyio_trace.analysis.calls.code_texts import texts
from pyio_trace.analysis.sums.ranked import most_common
from pyio_trace.analysis.view_sums.key_sums import TOP
from pyio_trace.analysis.view_sums.metadata_sums import COLUMNS, KEYS, KINDS, Ints, MetadataSums, quartiles
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log import runs

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log

#: Intervals without which nothing is said of them.
_FEW = 4


@dataclass(frozen=True)
class MetadataCalls:
    """One operation of one line on one path.

    kind: ask (stat, access), list, open, create (folders and temporary files),
    remove, rename, close or other.  calls, time_ns: of POSIX and C streams.
    missing: of them, those that found no such path; errors: that failed, with
    these.  again: asks directly after an ask of the same process for the same path.
    reopens: openings of a path that the process had opened before.
    checked: openings directly after an ask for the same path.  first_ns, last_ns:
    begin of the first and the last, since the start of the run.  interval_ns:
    median time between begins of calls of this kind by one process on this path,
    to a tenth; None for fewer than four.  steady: at least half of the intervals
    are within 80 and 125 % of the median, as in polling.
    """

    SHOWN: ClassVar[tuple[str, ...]] = ("op", "calls", "time_ns", "missing", "again", "reopens", "line")

    path: str
    line: str | None
    op: str
    kind: str
    calls: int
    time_ns: int
    missing: int
    errors: int
    again: int
    reopens: int
    checked: int
    first_ns: int
    last_ns: int
    interval_ns: int | None
    steady: bool


@dataclass(frozen=True)
class LineMetadata:
    """One operation of one line on all paths: sums of MetadataCalls.  paths: how many; example: the one with most
    calls."""

    SHOWN: ClassVar[tuple[str, ...]] = ("op", "calls", "paths", "time_ns", "missing", "again", "reopens")

    line: str | None
    op: str
    kind: str
    calls: int
    paths: int
    time_ns: int
    missing: int
    errors: int
    again: int
    reopens: int
    checked: int
    example: str


@dataclass(frozen=True)
class PathMetadata:
    """One path: sums of MetadataCalls over all its lines and operations.  asks, opens, lists, removes: calls of these
    kinds; lines, processes: that made any."""

    SHOWN: ClassVar[tuple[str, ...]] = ("calls", "time_ns", "asks", "opens", "reopens", "lists", "missing")

    path: str
    calls: int
    time_ns: int
    asks: int
    opens: int
    lists: int
    removes: int
    missing: int
    again: int
    reopens: int
    checked: int
    lines: int
    processes: int


@dataclass(frozen=True)
class Metadata:
    """Each list has the most time first.  calls, time_ns: of all metadata operations on paths.
    more: further rows, with less time; dropped: sums that did not fit into memory (0: all figures are exact)."""

    calls: int
    time_ns: int
    rows: list[MetadataCalls]
    lines: list[LineMetadata]
    paths: list[PathMetadata]
    more: int
    dropped: int


class MetadataByPath:
    """The reducer."""

    columns: ClassVar[tuple[str, ...]] = COLUMNS

    def __init__(self, top: int = TOP, imports: bool = False, summed: bool = True) -> None:
        """top: rows of each list; imports: also what Python's imports did; summed: make the lists lines and paths."""
        self.top, self.imports, self.summed = top, imports, summed
        self.whole = True

    def of_a_part(self) -> MetadataByPath:
        """For parts that do not begin where the log does: which call was before their first ones is not known."""
        other = copy(self)
        other.whole = False
        return other

    def partial(self, batch: pa.RecordBatch) -> MetadataSums:
        part = MetadataSums()
        part.add(batch, self.imports)
        return part

    def combine(self, part: MetadataSums, later: MetadataSums) -> MetadataSums:
        part.update(later, self.whole)
        return part

    def finish(self, part: MetadataSums | None, log: Log) -> Metadata:
        part = part or MetadataSums()
        part.finish()
        sums = part.sums.columns()
        rows = self._rows(part, sums, log)
        return Metadata(
            calls=int(sums["calls"].sum()),
            time_ns=int(sums["time"].sum()),
            rows=rows,
            lines=self._lines(part, sums, log) if self.summed else [],
            paths=self._paths(part, log) if self.summed else [],
            more=len(sums["path"]) - len(rows),
            dropped=part.dropped,
        )

    def _rows(self, part: MetadataSums, sums: dict[str, Ints], log: Log) -> list[MetadataCalls]:
        found = part.intervals.columns()
        places = _places(found)
        start = int(log.info()["start"])
        rows = []
        for row in _worst(sums, KEYS, self.top, log):
            interval, steady = _interval(found, *places.get(row.pop("key"), (0, 0)))
            row |= {"first_ns": row.pop("first") - start, "last_ns": row.pop("last") - start}
            kind = KINDS[row.pop("kind")]
            rows.append(MetadataCalls(kind=kind, interval_ns=interval, steady=steady, **_only(MetadataCalls, row)))
        return rows

    def _lines(self, part: MetadataSums, sums: dict[str, Ints], log: Log) -> list[LineMetadata]:
        pairs = sums["site"], sums["op"]
        common = most_common(pairs, sums["path"], sums["calls"], 1)
        paths = Counter(zip(*(column.tolist() for column in pairs), strict=True))
        rows = _worst(part.sums.columns("path"), KEYS[1:], self.top, log)
        examples = texts(log, "path", np.array([common[row["key"]][0][0] for row in rows], np.int64))
        return [
            LineMetadata(
                kind=KINDS[row.pop("kind")], paths=paths[row["key"]], example=example or "", **_only(LineMetadata, row)
            )
            for row, example in zip(rows, examples, strict=True)
        ]

    def _paths(self, part: MetadataSums, log: Log) -> list[PathMetadata]:
        lines = Counter(part.sums.columns("op")["path"].tolist())
        users = Counter(part.users.columns()["path"].tolist())
        return [
            PathMetadata(lines=lines[row["key"][0]], processes=users[row["key"][0]], **_only(PathMetadata, row))
            for row in _worst(part.sums.columns("site", "op"), KEYS[:1], self.top, log)
        ]


def _worst(sums: dict[str, Ints], keys: tuple[str, ...], top: int, log: Log) -> list[dict[str, Any]]:
    """Sums with the most time: by the names of fields, with the words of their keys, and the codes as "key"."""
    order = np.lexsort((*(sums[key] for key in reversed(keys)), -sums["time"]))[:top]
    chosen = {name: values[order] for name, values in sums.items()}
    columns: dict[str, list[Any]] = {name: values.tolist() for name, values in chosen.items()}
    columns["key"] = list(zip(*(columns[key] for key in keys), strict=True))
    columns["time_ns"] = columns.pop("time")
    columns |= {_FIELDS[key]: list(texts(log, key, chosen[key])) for key in keys}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


#: Key of MetadataSums -> field of a row.
_FIELDS = {"path": "path", "site": "line", "op": "op"}


def _only(kind: Any, row: dict[str, Any]) -> dict[str, Any]:
    """What a row has for the fields of a dataclass."""
    return {name: value for name, value in row.items() if name in kind.__dataclass_fields__}


def _places(found: dict[str, Ints]) -> dict[tuple[int, ...], tuple[int, int]]:
    """Key -> the first of its intervals and the one after the last, in sorted columns."""
    number = len(found["bin"])
    first = runs.starts(*(found[key] for key in KEYS))
    keys = zip(*(found[key][first].tolist() for key in KEYS), strict=True)
    after = np.append(first[1:], number)[: len(first)]
    return dict(zip(keys, zip(first.tolist(), after.tolist(), strict=True), strict=True))


def _interval(found: dict[str, Ints], first: int, after: int) -> tuple[int | None, bool]:
    """(median of these intervals, whether they are steady)."""
    counts = found["count"][first:after]
    if int(counts.sum()) < _FEW:
        return None, False
    low, middle, high = quartiles(found["bin"][first:after], counts)
    return middle, low >= 0.8 * middle and high <= 1.25 * middle


REDUCER = MetadataByPath
