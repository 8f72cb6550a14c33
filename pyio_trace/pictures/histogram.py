"""Histograms that show, beside how many calls each bin has, how much of the time: both are shares of one whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyio_trace.light_dataclass import dataclass
from pyio_trace.pictures.bars import ROW, Bar, draw_bars
from pyio_trace.pictures.canvas import Canvas
from pyio_trace.pictures.plotting import label_axis, stacked
from pyio_trace.pictures.scales import COUNT, TIME
from pyio_trace.units import number, seconds

#: Kind of call -> (class, word).
Looks = Mapping[str, tuple[str, str]]
_NAMES, _MIDDLE = 190, 560


@dataclass(frozen=True)
class Histogram:
    """labels: of the bins.  calls, time_ns (summed over threads): by kind of call, then by bin."""

    labels: tuple[str, ...]
    calls: Mapping[str, tuple[int, ...]]
    time_ns: Mapping[str, tuple[int, ...]]

    @property
    def slowest(self) -> int:
        """The bin with the most time."""
        times = _totals(self.time_ns)
        return times.index(max(times))

    def shares(self, bin_: int) -> tuple[float, float]:
        """What a bin has of all (calls, time)."""
        calls, times = _totals(self.calls), _totals(self.time_ns)
        return calls[bin_] / max(sum(calls), 1), times[bin_] / max(sum(times), 1)

    def table(self, bins: str, looks: Looks) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """(columns, rows) of all that it shows."""
        rows: list[tuple[str, ...]] = [
            (label, looks[kind][1], number(self.calls[kind][at]), seconds(self.time_ns[kind][at]))
            for at, label in enumerate(self.labels)
            for kind in self.calls
            if self.calls[kind][at]
        ]
        return (bins, "calls of", "calls", "time"), rows


def histogram(labels: Sequence[str], rows: Iterable[tuple[str, int, int, int]]) -> list[Histogram]:
    """From (kind, bin, calls, ns) of what occurs, without empty bins at the ends; nothing if there are no rows."""
    found = list(rows)
    if not found:
        return []
    first, last = min(row[1] for row in found), max(row[1] for row in found)
    kinds = dict.fromkeys(row[0] for row in found)
    sums = {kind: ([0] * (last - first + 1), [0] * (last - first + 1)) for kind in kinds}
    for kind, place, calls, time in found:
        sums[kind][0][place - first] += calls
        sums[kind][1][place - first] += time
    calls_of, time_of = ({kind: tuple(own[part]) for kind, own in sums.items()} for part in (0, 1))
    return [Histogram(tuple(labels[first : last + 1]), calls_of, time_of)]


def draw_histogram(canvas: Canvas, data: Histogram, looks: Looks) -> None:
    """Two bars for each bin, its calls and its time, each in parts by kind."""
    x = canvas.legend(_NAMES, 18, [looks[kind] for kind in data.calls])
    canvas.legend(x, 18, [("mark", "most of the time")])
    canvas.text(_NAMES, 46, "calls", "muted")
    canvas.text(_MIDDLE, 46, "time in them", "muted")
    calls, times = _bars(data, looks, data.calls, number), _bars(data, looks, data.time_ns, seconds)
    draw_bars(canvas, 0, 58, _MIDDLE - 20, calls, _NAMES)
    draw_bars(canvas, _MIDDLE, 58, 960, times)
    canvas.rect(_MIDDLE - 8, 58 + data.slowest * ROW, 4, 20, "mark")


def draw_histogram_figure(data: Histogram, looks: Looks, figure: Any) -> None:
    """The same in an empty matplotlib figure."""
    for axes, sums, unit, title in zip(
        figure.subplots(1, 2, sharey=True),
        (data.calls, data.time_ns),
        (COUNT, TIME),
        ("calls", "time in them"),
        strict=True,
    ):
        stacked(axes, data.labels, [(*looks[kind], own) for kind, own in sums.items()])
        axes.set_title(title, loc="left")
        label_axis(axes.xaxis, unit)
    axes.invert_yaxis()  # both share an axis, which each has turned


def _bars(data: Histogram, looks: Looks, sums: Mapping[str, tuple[int, ...]], worded: Any) -> list[Bar]:
    totals = _totals(sums)
    return [
        Bar(
            label,
            tuple((looks[kind][0], own[at]) for kind, own in sums.items()),
            worded(totals[at]) if totals[at] else "",
        )
        for at, label in enumerate(data.labels)
    ]


def _totals(sums: Mapping[str, tuple[int, ...]]) -> list[int]:
    return [sum(column) for column in zip(*sums.values(), strict=True)]
