"""A series of runs of one program, such as over growing numbers of processes: what grows with what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pyio_trace.analysis.compare.comparison import Run, run_of, whole
from pyio_trace.analysis.compare.io_counts import Counts
from pyio_trace.analysis.tables.run_sums import RunSums


@dataclass(frozen=True)
class Step:
    """One run of a series.

    metadata: opens and metadata calls; speedup: wall time of the first run over
    that of this one; efficiency: that over the growth of the number of
    processes; None where a wall time is 0.
    """

    run: Run
    counts: Counts
    metadata: int
    bytes: int
    speedup: float | None
    efficiency: float | None


@dataclass(frozen=True)
class Series:
    """Runs in the order given."""

    steps: list[Step]

    def to_dict(self) -> dict[str, Any]:
        """The series as dicts, lists, strings and numbers."""
        return asdict(self)


def series(runs: Sequence[RunSums]) -> Series:
    """The scaling table of runs, each compared with the first."""
    first = runs[0]
    steps = []
    for run in runs:
        counts = whole(run)
        speedup = first.wall / run.wall if run.wall and first.wall else None
        growth = max(run.processes, 1) / max(first.processes, 1)
        steps.append(
            Step(
                run=run_of(run),
                counts=counts,
                metadata=counts.opens + counts.metadata,
                bytes=counts.bytes_read + counts.bytes_written,
                speedup=speedup,
                efficiency=None if speedup is None else speedup / growth,
            )
        )
    return Series(steps)
