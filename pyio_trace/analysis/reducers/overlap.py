"""Overlap of I/O with compute, by process: I/O of further threads while the main thread neither does I/O nor waits.

Result: Overlap, whose rows are ProcessOverlap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pyio_trace.analysis.scan.columns import MEANING, Columns
from pyio_trace.analysis.sums.grouped_ranges import GroupedRanges, Ints, merged
from pyio_trace.analysis.view_sums.key_sums import TOP, processes_called
from pyio_trace.enums import Role
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log.sorting import distinct

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log

_MAIN_IO, _MAIN_WAIT, _OTHER_IO, _OTHER_REQUEST = range(4)
_FORGOTTEN = -1  # see GroupedRanges
_OF_SEVERAL_KINDS = ("hidden_ns", "exposed_ns", "hidden", "hidden_request_ns")


@dataclass(frozen=True)
class ProcessOverlap:
    """One process.  All times are lengths of unions: what happens at once counts once.

    io_ns: in calls of POSIX and C streams on files, in any thread.  main_io_ns:
    of the main thread, which the program feels.  other_io_ns: of the other threads;
    hidden_ns: of that, while the main thread was neither in I/O nor in a wait, so that
    it could compute.  exposed_ns: io_ns less hidden_ns.  hidden: hidden_ns / io_ns.
    wait_ns: waits of the main thread.  other_request_ns: the other threads in requests
    (reading, decoding); hidden_request_ns: of that, hidden likewise.  left_out_ns: of
    calls and waits whose kind was forgotten because memory did not suffice, in no other
    figure (0: all are exact; else io_ns, main_io_ns, other_io_ns and wait_ns are lower
    bounds, and None: not known).
    """

    SHOWN: ClassVar[tuple[str, ...]] = ("io_ns", "main_io_ns", "other_io_ns", "hidden_ns", "exposed_ns", "wait_ns")

    process: str
    io_ns: int
    main_io_ns: int
    other_io_ns: int
    hidden_ns: int | None
    exposed_ns: int | None
    hidden: float | None
    wait_ns: int
    other_request_ns: int
    hidden_request_ns: int | None
    left_out_ns: int


@dataclass(frozen=True)
class Overlap:
    """rows: most I/O first.  io_ns, hidden_ns, exposed_ns, left_out_ns: sums over the processes.  unplaced_ns: of rows
    that stand for several calls; they have no times of their own and are left out.  more: further processes."""

    io_ns: int
    hidden_ns: int | None
    exposed_ns: int | None
    left_out_ns: int
    unplaced_ns: int
    rows: list[ProcessOverlap]
    more: int


@dataclass
class Part:
    """What some batches contribute.  times: intervals by process and kind."""

    times: GroupedRanges
    unplaced: int = 0


class OverlapOfProcesses:
    """The reducer."""

    columns: ClassVar[tuple[str, ...]] = (*MEANING, "time", "duration", "process", "pid", "tid")

    def __init__(self, top: int = TOP, imports: bool = False) -> None:
        """top: rows of the result; imports: also what Python's imports did."""
        self.top, self.imports = top, imports

    def partial(self, batch: pa.RecordBatch) -> Part:
        part = Part(GroupedRanges(2))
        columns = Columns(batch)
        tid = columns.numbers("tid")
        main = (tid == columns.numbers("pid")) | (tid == 0)
        calls = columns.leaf & np.isin(columns.role, (Role.IO, Role.SYNC, Role.LOCK))
        request = columns.outer & (columns.role == Role.REQUEST)
        counted = columns.duration > 0
        if not self.imports:
            counted &= ~columns.imported
        part.unplaced = int(columns.duration[counted & calls & (columns.calls > 1)].sum())
        counted &= columns.calls == 1
        kinds = (calls & main, (columns.role == Role.WAIT) & main, calls & ~main, request & ~main)
        process = columns.numbers("process", -1)
        for kind, chosen in enumerate(kinds):
            at = np.flatnonzero(counted & chosen)
            part.times.add((process[at], np.full(len(at), kind)), columns.time[at], columns.end[at])
        return part

    def combine(self, part: Part, later: Part) -> Part:
        part.times.update(later.times)
        part.unplaced += later.unplaced
        return part

    def finish(self, part: Part | None, log: Log) -> Overlap:
        part = part or Part(GroupedRanges(2))
        (process, kind), starts, ends = part.times.ranges()
        processes = distinct(process)

        def union(*kinds: int) -> Ints:
            at = np.flatnonzero(np.isin(kind, kinds))
            (of,), first, last = merged((process[at],), starts[at], ends[at])
            sums = np.zeros(len(processes), np.int64)
            np.add.at(sums, np.searchsorted(processes, of), last - first)
            return sums

        blocked = union(_MAIN_IO, _MAIN_WAIT)
        figures = {
            "io_ns": union(_MAIN_IO, _OTHER_IO), "main_io_ns": union(_MAIN_IO), "other_io_ns": union(_OTHER_IO),
            "hidden_ns": union(_MAIN_IO, _MAIN_WAIT, _OTHER_IO) - blocked, "wait_ns": union(_MAIN_WAIT),
            "other_request_ns": union(_OTHER_REQUEST),
            "hidden_request_ns": union(_MAIN_IO, _MAIN_WAIT, _OTHER_REQUEST) - blocked,
            "left_out_ns": union(_FORGOTTEN),
        }  # fmt: skip
        figures["exposed_ns"] = figures["io_ns"] - figures["hidden_ns"]
        order = np.lexsort((processes, -figures["left_out_ns"], -figures["io_ns"]))[: self.top]
        rows = []
        for name, at in zip(processes_called(log, processes[order]), order.tolist(), strict=True):
            values: dict[str, Any] = {column: int(one[at]) for column, one in figures.items()}
            values["hidden"] = values["hidden_ns"] / values["io_ns"] if values["io_ns"] else None
            if values["left_out_ns"]:
                values |= dict.fromkeys(_OF_SEVERAL_KINDS)
            rows.append(ProcessOverlap(process=name or "", **values))
        totals: dict[str, Any] = {
            name: int(figures[name].sum()) for name in ("io_ns", "hidden_ns", "exposed_ns", "left_out_ns")
        }
        if totals["left_out_ns"]:
            totals |= dict.fromkeys(("hidden_ns", "exposed_ns"))
        return Overlap(unplaced_ns=part.unplaced, rows=rows, more=len(processes) - len(rows), **totals)


REDUCER = OverlapOfProcesses
