"""Which processes lived at the same time, and on several machines."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed


def at_once(run: Observed, one: int, other: int) -> bool:
    """Whether two processes (indexes) lived at the same time."""
    return _overlap([_life(run, one), _life(run, other)])


def on_several_machines(run: Observed, processes: Collection[int]) -> bool:
    """Whether some of these processes (indexes) lived at the same time on different machines."""
    spans: dict[str, list[tuple[float, float]]] = {}
    for index in processes:
        spans.setdefault(run.machine(index), []).append(_life(run, index))
    spans.pop("", None)
    return _overlap([(min(begin for begin, _ in one), max(end for _, end in one)) for one in spans.values()])


def _life(run: Observed, process: int) -> tuple[float, float]:
    row = run.processes[process]
    return row["begin"], float("inf") if row["end"] is None else row["end"]


def _overlap(spans: Sequence[tuple[float, float]]) -> bool:
    """Whether any two of these have a time in common."""
    ordered = sorted(spans)
    latest = list(accumulate((end for _, end in ordered), max))
    return any(begin <= end for end, (begin, _) in zip(latest, ordered[1:], strict=False))
