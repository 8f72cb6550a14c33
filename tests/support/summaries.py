"""A Summary made by hand, for the tests of its sections: nothing in it but what a test puts in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyio_trace.analysis.results import figures
from pyio_trace.analysis.sums.size_histogram import BINS
from pyio_trace.report.plain import plain_lines
from pyio_trace.report.sections import sections

#: One process of 2 s, a quarter of them in I/O.
RUN = figures.Run(
    path="/l/run.pyio", run="12", host="node1", command=["python", "train.py"], start=1_000, wall=2_000_000_000,
    running=False, mode="trace", format="live", records=10, calls=10, log_bytes=2048, bytes_per_operation=204.8,
)  # fmt: skip
PROCESS = figures.Process(
    index=0, pid=100, host="node1", command=["python", "train.py"], wall=2_000_000_000, busy=500_000_000, share=0.25,
    calls=10, read=0, written=0, ended="exit 0", kind="script", name="train.py",
)  # fmt: skip
NO_BYTES = figures.Bytes(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, None, None)


def sizes(common: list[tuple[int, int]] | None = None, **bins: int) -> figures.Sizes:
    """Transfers by size; bins: of which label (1K-10K is written b1K_10K), how many."""
    given = {label.removeprefix("b").replace("_", "-"): count for label, count in bins.items()}
    return figures.Sizes([(label, given.get(label, 0)) for label, _ in BINS], common or [])


def summary(**parts: Any) -> figures.Summary:
    """A Summary with these parts; run: what differs from RUN."""
    empty = figures.Summary(
        run=RUN, time=figures.Time(500_000_000, 2_000_000_000, 0.25), layers=[], bytes=NO_BYTES,
        metadata=figures.Metadata(0, 0, None), imports=figures.Imports(0, 0, 0), files=[], sites=[], operations=[],
        reads=sizes(), writes=sizes(), errors=[], in_flight=[], in_flight_count=0, processes=[PROCESS],
        unseen=figures.Unseen({}, {}, []), cost=figures.Cost(0, None),
    )  # fmt: skip
    if isinstance(run := parts.pop("run", {}), dict):
        parts["run"] = replace(RUN, **run)
    return replace(empty, **parts)


def section(title: str, **parts: Any) -> list[str] | None:
    """The lines below the title of the one section whose title begins so; None: it is left out.

    The title itself is the first line.
    """
    found = [one for one in sections(summary(**parts)) if one.title.startswith(title)]
    assert len(found) < 2
    return list(plain_lines(found, 120)) if found else None


def unseen_lines(given: figures.Summary) -> list[str]:
    """The lines of *Not seen*, as they are printed below the title."""
    return [line for one in sections(given, ["unseen"]) for line in one.lines]
