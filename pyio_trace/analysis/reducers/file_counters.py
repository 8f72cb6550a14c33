"""Darshan's counters of each file, of its POSIX and STDIO modules."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.analysis.calls import sum_details
from pyio_trace.analysis.calls.call_order import CallOrder, Calls, PendingCalls
from pyio_trace.analysis.calls.darshan_calls import BIN_LIMITS, ONE_BYTE, Call, kinds
from pyio_trace.analysis.calls.details import of_rows
from pyio_trace.analysis.scan.columns import Columns
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.analysis.sums.size_histogram import BINS
from pyio_trace.analysis.view_sums.counters_table import Counters, counters_of
from pyio_trace.join.base.arrow_arrays import codes, of_numbers, present
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
_KEYS = ("process", "file", "kind")
#: Distinct sizes, or strides, that are kept; beyond, the rarest are dropped.
_MANY = 1 << 21
#: Calls that are kept for their order; beyond, those before the newest batch are counted.
_PENDING = 1 << 20


def _calls() -> GroupedSums:
    values = dict.fromkeys(("calls", "bytes", "time", "sequential", "consecutive", "switches", "unplaced"), "sum")
    return GroupedSums(_KEYS, values | {"first": "min", "last": "max", "highest": "max"})


@dataclass
class Part:
    """What some batches contribute."""

    calls: GroupedSums = field(default_factory=_calls)
    bins: GroupedSums = field(default_factory=lambda: GroupedSums((*_KEYS, "bin"), {"count": "sum"}))
    sizes: GroupedSums = field(
        default_factory=lambda: GroupedSums(("process", "file", "size"), {"count": "sum"}, _MANY)
    )
    strides: GroupedSums = field(
        default_factory=lambda: GroupedSums(("process", "file", "stride"), {"count": "sum"}, _MANY)
    )
    longest: GroupedSums = field(default_factory=lambda: GroupedSums(_KEYS, {"duration": "max"}))
    names: GroupedSums = field(default_factory=lambda: GroupedSums(("file", "path"), {"last": "max"}))
    pending: PendingCalls[Calls] = field(default_factory=lambda: PendingCalls(_PENDING))

    def named_sums(self) -> dict[str, GroupedSums]:
        """What counters are made from, by name."""
        return {name: getattr(self, name) for name in ("calls", "bins", "sizes", "strides", "longest", "names")}

    def sums(self) -> tuple[GroupedSums, ...]:
        """Everything that is only added up."""
        return tuple(self.named_sums().values())


@dataclass(frozen=True)
class FileCounters:
    """The reducer.  imports: also what Python's imports did; by_process: a record for each process of a file."""

    columns: ClassVar[tuple[str, ...]] = (
        "time", "duration", "layer", "op", "process", "path", "file", "file_offset", "bytes_moved", "errno", "calls",
        "imported", "detail", "in_flight",
    )  # fmt: skip

    ordered: ClassVar[bool] = True  # parts of many batches would have as many calls whose order is not looked at

    imports: bool = False
    by_process: bool = False

    def partial(self, batch: pa.RecordBatch) -> Part:
        part = self._part()
        columns = Columns(batch)
        kind = self._kinds(batch, columns)
        moved = columns.moved
        counted = (kind >= 0) & ((columns.numbers("errno") == 0) | (moved > 0)) & columns.ended
        counted &= present(batch["file"])
        if not self.imports:
            counted &= ~columns.imported
        stream = (kind == Call.STREAM_READ) | (kind == Call.STREAM_WRITE)
        counted &= ~stream | (moved > 0)
        at = np.flatnonzero(counted)
        if not len(at):
            return part
        rows = batch.take(of_numbers(at))
        columns = Columns(rows)
        calls = Calls(
            process=columns.numbers("process", -1), file=self._files(rows, columns), kind=kind[at], begin=columns.time,
            end=columns.end, offset=columns.offset, size=columns.moved, done=np.zeros(len(at), np.bool_),
        )  # fmt: skip
        one_byte = columns.of_words("op", ONE_BYTE)
        number = np.where(one_byte, np.minimum(columns.calls, np.maximum(calls.size, 1)), columns.calls)
        part.names.add({"file": calls.file, "path": columns.codes("path"), "last": calls.end})
        alone = (number == 1) & ~self._is_sum(calls, rows)
        self._add_single(part, calls.take(np.flatnonzero(alone)))
        self._add_sums(part, calls, number, rows, np.flatnonzero(~alone))
        self._add_more(part, calls, number, rows, alone)
        return part

    def combine(self, part: Part, later: Part) -> Part:
        for sums, more in zip(part.sums(), later.sums(), strict=True):
            sums.update(more)
        order = part.pending.update(later.pending)
        if order is not None:
            self._look_at_order(part, order)
            part.pending.keep(order)
        return part

    def finish(self, part: Part | None, log: Log) -> Counters:
        part = self._whole(part)
        return counters_of(part.named_sums(), log, self.by_process)

    # ---- what other records than those of files have otherwise

    def _part(self) -> Part:
        """An empty part."""
        return Part()

    def _kinds(self, batch: pa.RecordBatch, columns: Columns) -> NDArray[np.int8]:
        """The kind of call that each row is, or -1."""
        return kinds(columns.layer, codes(batch["op"]), columns.words("op"))

    def _files(self, rows: pa.RecordBatch, columns: Columns) -> Ints:
        """The number of what each row's record is about."""
        return columns.file

    def _add_more(self, part: Part, calls: Calls, number: Ints, rows: pa.RecordBatch, alone: NDArray[np.bool_]) -> None:
        """Adds to further sums; number: of calls that each row stands for; alone: rows that are one call."""

    # ---- helpers

    def _whole(self, part: Part | None) -> Part:
        """The last part, with all calls counted."""
        part = part or self._part()
        order = part.pending.rest()
        if order is not None:
            self._look_at_order(part, order)
        return part

    def _is_sum(self, calls: Calls, rows: pa.RecordBatch) -> NDArray[np.bool_]:
        """Which rows are sums of the mode profile; those have a detail even where they stand for one call."""
        transfer = (calls.kind == Call.READ) | (calls.kind == Call.WRITE)
        found: NDArray[np.bool_] = transfer & (calls.offset < 0) & present(rows["detail"].indices)
        return found

    def _add_single(self, part: Part, calls: Calls) -> None:
        if not len(calls):
            return
        by = {"process": calls.process, "file": calls.file, "kind": calls.kind.astype(np.int64)}
        transfer = (calls.kind == Call.READ) | (calls.kind == Call.WRITE)
        placed = transfer & (calls.offset >= 0)
        part.calls.add(
            by
            | {
                "calls": np.ones(len(calls), np.int64), "bytes": calls.size, "first": calls.begin, "last": calls.end,
                "highest": np.where(placed, calls.offset + calls.size - 1, 0), "unplaced": transfer & ~placed,
            }
        )  # fmt: skip
        part.longest.add(by | {"duration": calls.end - calls.begin})
        at = np.flatnonzero(transfer)
        of = {name: values[at] for name, values in by.items()}
        ones = np.ones(len(at), np.int64)
        size = calls.size[at]
        part.bins.add(of | {"bin": np.searchsorted(BIN_LIMITS, size), "count": ones})
        del of["kind"]
        some = size > 0
        part.sizes.add({name: values[some] for name, values in (of | {"size": size, "count": ones}).items()})
        part.pending.add(calls)

    def _add_sums(self, part: Part, calls: Calls, number: Ints, rows: pa.RecordBatch, at: Ints) -> None:
        """Adds the rows that stand for several calls, whose order is not known."""
        if not len(at):
            return
        details = of_rows(rows["detail"], at, sum_details.parse)
        chosen = calls.take(at)
        by = {"process": chosen.process, "file": chosen.file, "kind": chosen.kind.astype(np.int64)}

        def of(name: str) -> Ints:
            return np.array([getattr(detail, name) for detail in details], np.int64)

        transfer = (chosen.kind == Call.READ) | (chosen.kind == Call.WRITE)
        part.calls.add(
            by
            | {
                "calls": number[at], "bytes": chosen.size, "time": chosen.end - chosen.begin, "first": chosen.begin,
                "last": np.maximum(chosen.end, chosen.begin + of("span")),
                "highest": np.array([(detail.highest or 0) - 1 for detail in details], np.int64),
                "sequential": of("sequential"), "consecutive": of("consecutive"), "switches": of("switches"),
                "unplaced": np.where(transfer, np.maximum(number[at] - of("placed"), 0), 0),
            }
        )  # fmt: skip
        part.longest.add(by | {"duration": of("longest")})
        labels = {label: index for index, (label, _) in enumerate(BINS)}
        for sums, name, pairs in (
            (part.bins, "bin", [[(labels[k], n) for k, n in d.sizes.items() if k in labels] for d in details]),
            (part.sizes, "size", [[(size, n) for size, n in d.common.items() if size] for d in details]),
            (part.strides, "stride", [list(d.strides.items()) for d in details]),
        ):
            flat = np.array([pair for one in pairs for pair in one], np.int64).reshape(-1, 2)
            repeat = np.repeat(np.arange(len(details)), [len(one) for one in pairs])
            keys = {key: values[repeat] for key, values in by.items() if key != "kind" or name == "bin"}
            sums.add(keys | {name: flat[:, 0], "count": flat[:, 1]})

    def _look_at_order(self, part: Part, order: CallOrder[Calls]) -> None:
        """Counts what depends on the order of the calls."""
        calls = order.calls

        def by(at: Ints) -> dict[str, Ints]:
            return {"process": calls.process[at], "file": calls.file[at], "kind": calls.kind[at].astype(np.int64)}

        at, time = order.times()
        part.calls.add(by(at) | {"time": time})
        for kind in (Call.READ, Call.WRITE):
            at, sequential, consecutive, stride = order.transfers(kind)
            part.calls.add(
                by(at) | {"sequential": sequential.astype(np.int64), "consecutive": consecutive.astype(np.int64)}
            )
            at, stride = at[stride > 0], stride[stride > 0]
            keys = {"process": calls.process[at], "file": calls.file[at], "stride": stride}
            part.strides.add(keys | {"count": np.ones(len(at), np.int64)})
        at = order.switches()
        part.calls.add(by(at) | {"switches": np.ones(len(at), np.int64)})


REDUCER = FileCounters
