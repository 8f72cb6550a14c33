"""A series of runs as text of 80 columns: how far the last run scales, then a line for each."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from pyio_trace.analysis.compare.scaling import Series, Step
from pyio_trace.errors import printable
from pyio_trace.report.comparison_text import WIDTH
from pyio_trace.units import number, percent, seconds, shortened, size

#: A figure grows with another one if the ratio of the two differs by no more than this.
_ALIKE = 1.2


def series_lines(found: Series) -> Iterator[str]:
    """The lines."""
    yield from answer(found.steps)
    yield ""
    yield f"{'log':<22}{'proc.':>6}{'wall':>9}{'calls':>10}{'metadata':>10}{'bytes':>9}{'I/O':>9}{'eff.':>5}"
    for step in found.steps:
        counts = step.counts
        cells = (
            f"{number(step.run.processes):>6}{_short(seconds(step.run.wall)):>9}{_brief(counts.calls):>10}"
            f"{_brief(step.metadata):>10}{size(step.bytes).replace(' ', ''):>9}{_short(seconds(counts.time)):>9}"
        )
        efficiency = "-" if step.efficiency is None else f"{100 * step.efficiency:.0f}%"
        yield f"{printable(shortened(step.run.log, 21)):<22}{cells}{efficiency:>5}"
    for step in found.steps:
        if step.run.incomplete:
            yield printable(f"{shortened(step.run.log, 30)} is incomplete: {step.run.incomplete}")
    yield ""
    yield "proc.: processes; I/O: in outermost calls, summed over threads; metadata:"
    yield "opens, stats, seeks, closes ...; eff.: speed-up over growth in processes"


def answer(steps: Sequence[Step]) -> list[str]:
    """How the last run compares with the first."""
    first, last = steps[0], steps[-1]
    parts = [f"From {number(first.run.processes)} to {number(last.run.processes)} processes"]
    if last.speedup is not None:
        fast = f"{last.speedup:.2f} times as fast" if last.speedup >= 1 else f"{1 / last.speedup:.2f} times as slow"
        parts.append(f"the run is {fast} (efficiency {percent(last.efficiency)})")
    lines = textwrap.wrap(": ".join(parts) + ".", WIDTH)
    grown = [
        (name, new / old)
        for name, old, new in (
            ("calls", first.counts.calls, last.counts.calls),
            ("metadata calls", first.metadata, last.metadata),
            ("bytes", first.bytes, last.bytes),
            ("time in calls", first.counts.time, last.counts.time),
        )
        if old
    ]
    if grown:
        text = ", ".join(f"{name} {ratio:,.2f}" for name, ratio in grown)
        lines += textwrap.wrap(f"Growth, as a factor: {text}.", WIDTH)
    factors = dict(grown)
    work = factors.get("bytes")
    if work and factors.get("metadata calls", 0) > work * _ALIKE:
        lines.append("Metadata grows faster than the bytes that are moved.")
    return lines


def _short(text: str) -> str:
    """A time of at most nine characters."""
    return text.replace(" ", "").replace("min", "m")


def _brief(count: int) -> str:
    """A count of at most nine characters."""
    return number(count) if count < 100_000_000 else f"{count / 1e6:,.0f}M" if count < 10**12 else f"{count:.1e}"
