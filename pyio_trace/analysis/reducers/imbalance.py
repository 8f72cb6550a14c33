"""How evenly I/O is divided between processes of one kind, in the run and in each of its phases.

Result: Imbalance.  Its rows and its phases are lists of KindBalance.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pyio_trace.analysis.sums.balance import balance
from pyio_trace.analysis.view_sums.key_sums import process_names
from pyio_trace.analysis.view_sums.phase_sums import KINDS, OverPhases, phase_bins, stretches
from pyio_trace.join.processes.process_names import RANK, group, plural
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log.sorting import distinct

if TYPE_CHECKING:
    from pyio_trace.analysis.scan.columns import Ints
    from pyio_trace.analysis.sums.time_bins import TimeBins
    from pyio_trace.join.sources.facade import Log


@dataclass(frozen=True)
class KindBalance:
    """Processes of one kind, in the whole run or in one phase.

    kind: such as "DataLoader workers", "ranks"; "all processes" are those of any
    kind.  phase: what prevails in the phase (read, write, metadata, sync, lock), None for
    the run.  begin_ns, end_ns: of the phase or the run, since its start.
    processes: of this kind that did any I/O in the run, so one that rests in a
    phase counts there.  io_ns: in calls of POSIX and C streams on files, over all of them;
    largest_ns, slowest: of the process with most of it; time_ratio: its time over
    the mean.  moved_bytes, largest_bytes, bytes_ratio: likewise, of the bytes read
    and written; most_bytes: the process with most of them.  calls, calls_ratio:
    likewise.
    """

    SHOWN: ClassVar[tuple[str, ...]] = (
        "kind", "phase", "processes", "io_ns", "time_ratio", "moved_bytes", "bytes_ratio",
    )  # fmt: skip

    slowest: str
    kind: str
    phase: str | None
    begin_ns: int
    end_ns: int
    processes: int
    io_ns: int
    largest_ns: int
    time_ratio: float | None
    moved_bytes: int
    largest_bytes: int
    bytes_ratio: float | None
    most_bytes: str
    calls: int
    calls_ratio: float | None


@dataclass(frozen=True)
class Imbalance:
    """rows: of the run; phases: of each phase, in order of time; both of kinds with two or more processes.  more:
    further rows of phases; dropped: sums that did not fit into memory (0: all figures are exact)."""

    rows: list[KindBalance]
    phases: list[KindBalance]
    more: int
    dropped: int


class ImbalanceOfKinds(OverPhases):
    """The reducer."""

    def finish(self, part: TimeBins | None, log: Log) -> Imbalance:
        part = part or phase_bins(self.bins)
        found = part.columns()
        kinds = {kind: among for kind, among in _kinds(found, log).items() if len(among) > 1}
        if not kinds:
            return Imbalance([], [], 0, part.dropped)
        start = int(log.info()["start"])
        phases = stretches(found, part.width)
        whole = phases[0].begin - start, phases[-1].end - start
        every, called = np.arange(len(found["bin"])), process_names(log)
        rows = [_balance(kind, None, whole, found, every, among, called) for kind, among in kinds.items()]
        pairs = [(phase, kind) for phase in phases for kind in kinds]
        by_phase = [
            _balance(
                kind,
                KINDS[phase.kind],
                (phase.begin - start, phase.end - start),
                found,
                phase.rows,
                kinds[kind],
                called,
            )
            for phase, kind in pairs[: self.top]
        ]
        return Imbalance(rows, by_phase, len(pairs) - len(by_phase), part.dropped)


def _kinds(found: dict[str, Ints], log: Log) -> dict[str, list[int]]:
    """Kind -> the processes of it that did any I/O."""
    table = log.processes().to_pylist()
    processes = distinct(found["process"]).tolist()
    kinds: dict[str, list[int]] = defaultdict(list)
    for process in processes:
        if not 0 <= process < len(table):
            continue
        row = table[process]
        kinds["all processes"].append(process)
        text, is_kind = group(row["process_kind"], row["process_name"])
        if row["process_kind"] == RANK or (row["global_rank"] is not None and row["parent"] is None):
            text, is_kind = "rank", True
        kinds[plural(text) if is_kind else text].append(process)
    if len(kinds) == 2:  # all are of one kind
        kinds.pop("all processes")
    return kinds


def _balance(
    kind: str, phase: str | None, when: tuple[int, int], found: dict[str, Ints], rows: Ints, among: list[int],
    called: Callable[[int], str | None],
) -> KindBalance:  # fmt: skip
    """when: begin and end, ns since the start of the run; rows: of `found`; called: see process_names()."""
    process = found["process"][rows]
    time, moved, calls = (balance(process, found[name][rows], among) for name in ("time", "moved", "calls"))
    return KindBalance(
        called(time.most) or "", kind, phase, *when, len(among), time.total, time.largest, time.ratio, moved.total,
        moved.largest, moved.ratio, called(moved.most) or "", calls.total, calls.ratio,
    )  # fmt: skip


REDUCER = ImbalanceOfKinds
