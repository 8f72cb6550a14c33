"""Sums over reads and writes by file and line, with those that depend on the order of calls."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.analysis.calls import details, sum_details
from pyio_trace.analysis.calls.call_order import CallOrder, Calls, OrderedSums, PendingCalls
from pyio_trace.analysis.calls.darshan_calls import Call
from pyio_trace.analysis.calls.file_names import COLUMNS as NAME_COLUMNS
from pyio_trace.analysis.calls.file_names import FileNames
from pyio_trace.analysis.calls.sum_details import SumDetail
from pyio_trace.analysis.scan.columns import MEANING, Columns
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.enums import OpClass
from pyio_trace.join.base.arrow_arrays import codes
from pyio_trace.light_dataclass import dataclass

Ints = NDArray[np.int64]

COLUMNS = tuple(
    dict.fromkeys(
        (
            *MEANING,
            *NAME_COLUMNS,
            "bytes_moved",
            "process",
            "file_offset",
            "errno",
            "site",
            "detail",
            "in_flight",
        )
    )
)
KEYS = ("file", "site", "write")
#: Sums by file, line and direction; distinct sizes and strides of them.  Beyond, the rarest are dropped.
_MANY, _MANY_VALUES = 1 << 20, 1 << 21
#: Calls that wait for their order.
PENDING = 1 << 19
_COUNTS = (
    "calls", "bytes", "time", "placed", "first", "consecutive", "forward", "backward", "unaligned", "unaligned_end",
    "switches", "unplaced",
)  # fmt: skip


@dataclass
class SitedCalls(Calls):
    """Calls with the line of each (code, -1: none)."""

    site: Ints


def _values(name: str) -> GroupedSums:
    return GroupedSums((*KEYS, name), {"count": "sum"}, _MANY_VALUES)


@dataclass
class AccessSums(OrderedSums[SitedCalls]):
    """What some batches contribute.

    sums: by KEYS, where write is 0 or 1: counts, and the smallest and largest
    size of a transfer.  sizes, strides: transfers by size and by the bytes that
    were skipped; by_line: of all files of a line together, as file 0.  users:
    transfers by file and process.
    """

    summed: ClassVar[tuple[str, ...]] = ("sums", "sizes", "strides", "users", "names")

    block: int
    by_line: bool = False
    sums: GroupedSums = field(
        default_factory=lambda: GroupedSums(
            KEYS, dict.fromkeys(_COUNTS, "sum") | {"smallest": "min", "largest": "max"}, _MANY
        )
    )
    sizes: GroupedSums = field(default_factory=lambda: _values("size"))
    strides: GroupedSums = field(default_factory=lambda: _values("stride"))
    users: GroupedSums = field(default_factory=lambda: GroupedSums(("file", "process"), {"calls": "sum"}, _MANY))
    names: FileNames = field(default_factory=FileNames)
    pending: PendingCalls[SitedCalls] = field(default_factory=lambda: PendingCalls(PENDING))

    def add(self, batch: pa.RecordBatch, imports: bool) -> None:
        """Adds the transfers of a batch with COLUMNS, those that succeeded."""
        columns = Columns(batch)
        reads, writes = columns.transfers
        kind = np.full(len(columns), -1, np.int8)
        # An opening or closing ends a sequence.
        kind[columns.leaf & (columns.kind == OpClass.OPEN)] = Call.OPEN
        kind[columns.leaf & (columns.kind == OpClass.CLOSE)] = Call.CLOSE
        kind[writes], kind[reads] = Call.WRITE, Call.READ
        counted = (kind >= 0) & (columns.numbers("errno") == 0) & columns.ended & (columns.file != 0)
        if not imports:
            counted &= ~columns.imported
        at = np.flatnonzero(counted)
        if not len(at):
            return
        calls = SitedCalls(
            process=columns.numbers("process", -1)[at], file=columns.file[at], kind=kind[at], begin=columns.time[at],
            end=columns.end[at], offset=columns.offset[at], size=columns.moved[at],
            done=np.zeros(len(at), np.bool_), site=columns.codes("site")[at],
        )  # fmt: skip
        number = columns.calls[at]
        summed = (number > 1) | ((calls.offset < 0) & (codes(batch["detail"])[at] >= 0))
        transfers = (calls.kind == Call.READ) | (calls.kind == Call.WRITE)
        self.names.add(columns, at)
        self.users.add({"file": calls.file, "process": calls.process, "calls": number * transfers})
        self.pending.add(calls.take(np.flatnonzero(~summed)))
        self._add_single(calls.take(np.flatnonzero(~summed & transfers)))
        found = np.flatnonzero(summed & transfers)
        if len(found):
            self._add_sums(
                calls.take(found),
                number[found],
                details.of_rows(batch["detail"], at[found], sum_details.parse),
            )

    @property
    def dropped(self) -> int:
        """Sums that did not fit into memory."""
        return sum(one.dropped for one in (self.sums, self.sizes, self.strides, self.users))

    # ---- helpers

    def _add_single(self, calls: SitedCalls) -> None:
        if not len(calls):
            return
        by, ones = _keys(calls), np.ones(len(calls), np.int64)
        placed = calls.offset >= 0
        end = calls.offset + calls.size
        self.sums.add(
            by
            | {
                "calls": ones, "bytes": calls.size, "time": calls.end - calls.begin, "placed": placed * ones,
                "unplaced": ~placed * ones, "unaligned": (placed & (calls.offset % self.block != 0)) * ones,
                "unaligned_end": (placed & (end % self.block != 0)) * ones,
                "smallest": calls.size, "largest": calls.size,
            }
        )  # fmt: skip
        self.sizes.add(self._of_values(by) | {"size": calls.size, "count": ones})

    def _of_values(self, keys: dict[str, Ints]) -> dict[str, Ints]:
        """The keys for sizes and strides."""
        return {**keys, "file": np.zeros_like(keys["file"])} if self.by_line else keys

    def _add_order(self, order: CallOrder[SitedCalls]) -> None:
        for kind in (Call.READ, Call.WRITE):
            at, gap, follows = order.gaps(kind)
            calls = order.calls.take(at)
            counts = {
                "first": ~follows, "consecutive": follows & (gap == 0), "forward": gap > 0, "backward": gap < 0,
            }  # fmt: skip
            self.sums.add(_keys(calls) | {name: mask.astype(np.int64) for name, mask in counts.items()})
            skipped = np.flatnonzero(gap > 0)
            keys = _keys(calls.take(skipped))
            self.strides.add(self._of_values(keys) | {"stride": gap[skipped], "count": np.ones(len(skipped), np.int64)})
        switched = order.calls.take(order.switches())
        self.sums.add(_keys(switched) | {"switches": np.ones(len(switched), np.int64)})

    def _add_sums(self, calls: SitedCalls, number: Ints, parsed: list[SumDetail]) -> None:
        """Adds rows that stand for several transfers, of which only some sums are known."""
        if not len(calls):
            return

        def of(name: str) -> Ints:
            return np.array([getattr(one, name) for one in parsed], np.int64)

        by, placed, sequential, consecutive = _keys(calls), of("placed"), of("sequential"), of("consecutive")
        self.sums.add(
            by
            | {
                "calls": number, "bytes": calls.size, "time": calls.end - calls.begin, "placed": placed,
                "consecutive": consecutive, "forward": np.maximum(sequential - consecutive, 0),
                "backward": np.maximum(placed - np.maximum(sequential, consecutive), 0),
                "unplaced": np.maximum(number - placed, 0),
            }
        )  # fmt: skip
        pairs = [(row, size, count) for row, one in enumerate(parsed) for size, count in one.common.items()]
        row, size, count = np.array(pairs, np.int64).reshape(-1, 3).T
        keys = {name: values[row] for name, values in by.items()}
        self.sizes.add(self._of_values(keys) | {"size": size, "count": count})
        self.sums.add(keys | {"smallest": size, "largest": size})


def _keys(calls: SitedCalls) -> dict[str, Ints]:
    return {"file": calls.file, "site": calls.site, "write": (calls.kind == Call.WRITE).astype(np.int64)}
