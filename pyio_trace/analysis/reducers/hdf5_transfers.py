"""Parallel HDF5 by line: transfers asked for, those that were done, and why a collective one was not.

Result: Hdf5Transfers, whose rows are TransferUse.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, ClassVar

from pyio_trace.analysis.calls.details import text
from pyio_trace.analysis.view_sums.detail_sums import ByDetail, DetailSum, empty, rows
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    from pyio_trace.analysis.sums.grouped_sums import GroupedSums
    from pyio_trace.join.sources.facade import Log


@dataclass(frozen=True)
class TransferUse:
    """Calls of one operation of one line on one data set of a parallel file, asked for and done alike, by all ranks.

    asked: `collective` or `independent`; done: what HDF5 did instead or as asked, in
    its words (docs/reference/instruments.md), None: it does not say; causes: why
    it was not collective, on any rank.  calls, time_ns, moved_bytes (in memory).
    """

    SHOWN: ClassVar[tuple[str, ...]] = ("dataset", "op", "asked", "done", "calls", "time_ns", "causes")

    path: str
    line: str | None
    dataset: str | None
    op: str
    asked: str
    done: str | None
    causes: list[str]
    calls: int
    time_ns: int
    moved_bytes: int


@dataclass(frozen=True)
class Hdf5Transfers:
    """rows: most time first.  more: further ones, with less; dropped: sums that did not fit into memory (0: all figures
    are exact)."""

    rows: list[TransferUse]
    more: int
    dropped: int


class TransfersByLine(ByDetail):
    """The reducer."""

    beginnings = ("H5Dread", "H5Dwrite")

    def finish(self, part: GroupedSums | None, log: Log) -> Hdf5Transfers:
        part = part or empty()
        groups: dict[tuple[str, ...], list[DetailSum]] = defaultdict(list)
        for one in rows(part, log):
            asked = text(one.detail, "transfer")
            if asked is not None:
                name, done = (text(one.detail, key) or "" for key in ("dataset", "actual"))
                groups[one.line or "", one.path, name, one.op, asked, done].append(one)
        found = [_use(key, alike) for key, alike in groups.items()]
        found.sort(key=lambda row: (-row.time_ns, row.path, row.dataset or "", row.op, row.line or "", row.done or ""))
        return Hdf5Transfers(found[: self.top], max(len(found) - self.top, 0), part.dropped)


def _use(key: tuple[str, ...], alike: list[DetailSum]) -> TransferUse:
    line, path, name, op, asked, done = key
    causes = {cause for one in alike for cause in _causes(one.detail.get("global_cause"))}
    return TransferUse(
        path=path, line=line or None, dataset=name or None, op=op, asked=asked, done=done or None,
        causes=sorted(causes), calls=sum(one.calls for one in alike), time_ns=sum(one.time for one in alike),
        moved_bytes=sum(one.moved for one in alike),
    )  # fmt: skip


def _causes(given: object) -> list[str]:
    return [cause for cause in given if isinstance(cause, str)] if isinstance(given, list) else []


REDUCER = TransfersByLine
