"""Phases of the run: stretches of reading, writing, metadata or syncs, between gaps without I/O.

Result: Phases, whose rows are Phase.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from pyio_trace.analysis.sums.balance import balance
from pyio_trace.analysis.view_sums.key_sums import process_names
from pyio_trace.analysis.view_sums.phase_sums import KINDS, OverPhases, Stretch, phase_bins, stretches
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log.sorting import distinct

if TYPE_CHECKING:
    from pyio_trace.analysis.scan.columns import Ints
    from pyio_trace.analysis.sums.time_bins import TimeBins
    from pyio_trace.join.sources.facade import Log


@dataclass(frozen=True)
class Phase:
    """One phase.

    begin_ns, end_ns: since the start of the run, to the width of a bin.  kind:
    what took most of its I/O time: read, write, metadata, sync or lock.  gap_ns: without
    I/O before it, since the phase before (of the first: since the run began).
    io_ns: in calls of POSIX and C streams on files, over all threads; read_ns,
    write_ns, metadata_ns, sync_ns, lock_ns: of that.  calls, moved_bytes: of calls that
    began in it.  processes: with I/O in it.  imbalance: the longest I/O time of a
    process over the mean of these processes.  slowest: the process that has it.
    """

    SHOWN: ClassVar[tuple[str, ...]] = ("kind", "begin_ns", "end_ns", "io_ns", "calls", "moved_bytes", "processes")

    slowest: str
    kind: str
    begin_ns: int
    end_ns: int
    gap_ns: int
    io_ns: int
    read_ns: int
    write_ns: int
    metadata_ns: int
    sync_ns: int
    lock_ns: int
    calls: int
    moved_bytes: int
    processes: int
    imbalance: float | None


@dataclass(frozen=True)
class Phases:
    """rows: in order of time.  width_ns: of the bins of time from which they are made; a shorter gap is not seen.
    more: further phases, later; dropped: sums that did not fit into memory (0: all figures are exact)."""

    width_ns: int
    rows: list[Phase]
    more: int
    dropped: int


class PhasesOfRun(OverPhases):
    """The reducer."""

    def finish(self, part: TimeBins | None, log: Log) -> Phases:
        part = part or phase_bins(self.bins)
        found = part.columns()
        phases = stretches(found, part.width)
        start = int(log.info()["start"])
        rows, before, called = [], start, process_names(log)
        for phase in phases[: self.top]:
            rows.append(_phase(phase, found, start, before, called))
            before = phase.end
        return Phases(part.width, rows, len(phases) - len(rows), part.dropped)


def _phase(
    phase: Stretch, found: dict[str, Ints], start: int, before: int, called: Callable[[int], str | None]
) -> Phase:
    """start: of the run, before: end of the phase before, ns since the epoch; called: see process_names()."""
    mine = {name: values[phase.rows] for name, values in found.items()}
    processes = distinct(mine["process"])
    even = balance(mine["process"], mine["time"], processes.tolist())
    by_kind = {f"{name}_ns": int(mine["time"][mine["kind"] == kind].sum()) for kind, name in enumerate(KINDS)}
    return Phase(
        slowest=called(even.most) or "", kind=KINDS[phase.kind], begin_ns=phase.begin - start, end_ns=phase.end - start,
        gap_ns=max(phase.begin - before, 0), io_ns=even.total, calls=int(mine["calls"].sum()),
        moved_bytes=int(mine["moved"].sum()), processes=len(processes), imbalance=even.ratio, **by_kind,
    )  # fmt: skip


REDUCER = PhasesOfRun
