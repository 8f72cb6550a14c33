"""Data sets in files, by line: HDF5's, with chunks, filters and selections.

Result: Datasets, whose rows are DatasetUse.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, ClassVar

from pyio_trace.analysis.calls.details import number, spelled, text
from pyio_trace.analysis.view_sums.detail_sums import ByDetail, DetailSum, empty, rows
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    from pyio_trace.analysis.sums.grouped_sums import GroupedSums
    from pyio_trace.join.sources.facade import Log

_OPS = ("Dataset.", "DatasetID.", "Group.create_dataset", "H5D")
#: Selections that are named.
_COMMON = 4


@dataclass(frozen=True)
class DatasetUse:
    """Calls of one operation of one line on one data set.

    path: of the file.  dataset: full name.  op: of h5py (Dataset.__getitem__) or of
    the HDF5 library (H5Dread) beneath, so times of both are not to be added.
    shape, chunks, filters: as JSON; dtype, layout: where they changed, one of them.  selections:
    the four most common ones, as (selection, calls); distinct_selections: how many
    there are.  elements: in all, where the library says.  calls, time_ns, longest_ns,
    moved_bytes (in memory), errors.
    """

    SHOWN: ClassVar[tuple[str, ...]] = ("dataset", "op", "calls", "time_ns", "moved_bytes", "chunks")

    path: str
    line: str | None
    dataset: str
    op: str
    calls: int
    time_ns: int
    longest_ns: int
    moved_bytes: int
    elements: int
    shape: str | None
    dtype: str | None
    chunks: str | None
    filters: str | None
    layout: str | None
    selections: list[tuple[str, int]]
    distinct_selections: int
    errors: int


@dataclass(frozen=True)
class Datasets:
    """rows: most time first.  more: further ones, with less; dropped: sums that did not fit into memory (0: all figures
    are exact)."""

    rows: list[DatasetUse]
    more: int
    dropped: int


class DatasetsByLine(ByDetail):
    """The reducer."""

    beginnings = _OPS

    def finish(self, part: GroupedSums | None, log: Log) -> Datasets:
        part = part or empty()
        groups: dict[tuple[str, str, str, str], list[DetailSum]] = defaultdict(list)
        for one in rows(part, log):
            name = text(one.detail, "dataset")
            if name is not None:
                groups[one.line or "", one.path, name, one.op].append(one)
        found = [_use(*key, alike) for key, alike in groups.items()]
        found.sort(key=lambda row: (-row.time_ns, row.path, row.dataset, row.op, row.line or ""))
        return Datasets(found[: self.top], max(len(found) - self.top, 0), part.dropped)


def _use(line: str, path: str, name: str, op: str, alike: list[DetailSum]) -> DatasetUse:
    selections: Counter[str] = Counter()
    about: dict[str, object] = {}
    for one in sorted(alike, key=lambda one: str(one.detail)):
        selection = spelled(one.detail, "selection")
        if selection is not None:
            selections[selection] += one.calls
        about |= one.detail
    common = sorted(selections.items(), key=lambda pair: (-pair[1], pair[0]))[:_COMMON]
    return DatasetUse(
        path=path, line=line or None, dataset=name, op=op, calls=sum(one.calls for one in alike),
        time_ns=sum(one.time for one in alike), longest_ns=max(one.longest for one in alike),
        moved_bytes=sum(one.moved for one in alike),
        elements=sum((number(one.detail, "elements") or 0) * one.calls for one in alike), shape=spelled(about, "shape"),
        dtype=text(about, "dtype"), chunks=spelled(about, "chunks"), filters=spelled(about, "filters"),
        layout=text(about, "layout"), selections=common, distinct_selections=len(selections),
        errors=sum(one.errors for one in alike),
    )  # fmt: skip


REDUCER = DatasetsByLine
