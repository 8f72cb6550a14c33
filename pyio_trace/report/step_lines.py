"""How much of a training loop was not spent waiting for batches, in the terms of MLPerf Storage: two lines at most."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyio_trace.analysis.results.figures import Summary
from pyio_trace.analysis.results.overview_figures import LoaderEpoch, LoaderLoop
from pyio_trace.analysis.view_sums.loader_steps import LEAST, Training, measured_loops, training_of, whole_ns
from pyio_trace.report.wording import short_line
from pyio_trace.units import counted, shortened, significant

_MOST = 2
#: The least share of the wall time that a second loop must have.
_WORTH = 0.05
#: A rank is named if it waits for so many times the share of its time that the others do, and so many points more.
_TIMES, _POINTS = 2, 5
_LEAST_PLACE = 8
#: What the utilization is of, the first that fits.
_MEANING = ("; a step counts as compute", "; step = compute")


def step_lines(summary: Summary, width: int) -> list[str]:
    """The lines, without indentation; none if no DataLoader gave a batch."""
    loops = summary.overview.loops if summary.overview is not None else []
    ranks = {one.index: one.rank for one in summary.processes if one.rank is not None}
    measured = measured_loops(loops, ranks)
    if not measured:
        return [_not_known(summary.overview.loaders, loops[0], width)] if summary.overview is not None and loops else []
    lines = []
    for place, same in enumerate(measured):
        if not place or whole_ns(same) >= _WORTH * summary.run.wall * len(same):
            lines += [_figures(training_of(same), width), *_straggler(same, ranks, width)]
    return lines[:_MOST]


def _not_known(epochs: Iterable[LoaderEpoch], loop: LoaderLoop, width: int) -> str:
    most = max((one.batches for one in epochs if one.line == loop.line), default=0)
    why = "no epoch has three batches" if most < LEAST else "waits are missing, or not in turn"
    return _placed("AU n/a at ", loop.line, [f": {why}"], width)


def _figures(loop: Training, width: int) -> str:
    whose = f"{loop.ranks} ranks: " if loop.ranks > 1 else ""
    known = loop.throughput_samples_per_second
    rate = "samples/s n/a" if known is None else f"{significant(known)} samples/s"
    return _placed(f"{whose}AU up to {_percent(loop.au_percentage)}, {rate} at ", loop.line, _MEANING, width)


def _straggler(loops: Sequence[LoaderLoop], ranks: dict[int, int], width: int) -> list[str]:
    """The rank that waits longest, if it is one of several and far from the others."""
    if len(loops) < 2:
        return []
    worst = min(loops, key=lambda one: one.au_mean_percentage or 0)
    others = [one for one in loops if one is not worst]
    waits, usual = (100 - training_of(some).au_percentage for some in ([worst], others))
    if worst.process is None or waits < _TIMES * usual or waits - usual < _POINTS:
        return []
    whose = "the other rank" if len(others) == 1 else f"the other {counted(len(others), 'rank')}"
    text = f"rank {ranks[worst.process]} waits longest for batches: AU up to {_percent(100 - waits)}; {whose} "
    return [f"{text}{_percent(100 - usual)}"[:width]]


def _percent(value: float) -> str:
    return f"{significant(value)} %"


def _placed(begin: str, line: str | None, ends: Sequence[str], width: int) -> str:
    """The text with the place and the first of the ends with which it fits; the place is cut if there is none."""
    place = short_line(line) if line else "a line not known"
    end = next((end for end in ends if len(begin) + len(place) + len(end) <= width), ends[-1])
    room = max(width - len(begin) - len(end), _LEAST_PLACE)
    return f"{begin}{shortened(place, room)}{end}"[:width]
