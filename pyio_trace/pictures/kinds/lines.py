"""The lines of the program with the most time, and what each spent it on.

With samples that is all its time; without them, what its calls on files and
libraries took.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pyio_trace.analysis.reducers.by_line import ByLine
from pyio_trace.analysis.reducers.by_line_time import ByLineTime
from pyio_trace.analysis.results.line_time import IDLE, POOLS, LineTime
from pyio_trace.analysis.view_sums.key_sums import Sums
from pyio_trace.light_dataclass import dataclass
from pyio_trace.pictures.bars import Bar, draw_bars
from pyio_trace.pictures.canvas import Canvas
from pyio_trace.pictures.kind import Results
from pyio_trace.pictures.picture import Picture
from pyio_trace.pictures.plotting import label_axis, stacked
from pyio_trace.pictures.scales import TIME
from pyio_trace.pictures.words import short_site
from pyio_trace.units import seconds

_MOST, _NAMES = 12, 330
#: Class -> word, in the order of the bars.
WORDS = {
    "io": "I/O",
    "sync": "sync, locks",
    "library": "libraries",
    "task": "computing",
    "waiting": "waiting",
    "idle": "waiting for a processor",
    "other": "other",
}
_WAITS = ("gil_ns", "lock_ns", "sleep_ns", "poll_ns", "wait_ns", "system_call_ns")


@dataclass(frozen=True)
class LineBar:
    """One line, file:line:function; parts: ns by class of WORDS, which add up to time_ns."""

    line: str
    time_ns: int
    parts: dict[str, int]


@dataclass(frozen=True)
class LinesData:
    """rows: the most time first; sampled: whether computing and waiting are known; more: further lines."""

    rows: tuple[LineBar, ...]
    sampled: bool
    more: int


class LinesPicture:
    name: ClassVar[str] = "lines"
    order: ClassVar[int] = 10
    concerns: ClassVar[str] = "everybody"
    views: ClassVar[tuple[Any, ...]] = (ByLineTime, ByLine)

    def data(self, results: Results) -> list[LinesData]:
        times = results.get(ByLineTime)
        if times is not None and times.sampled:
            # A line that mostly calls other lines of the program is left out: they have bars of their own.
            lines = [row for row in times.rows if 2 * row.here_ns >= row.time_ns > 0 and row.line not in (IDLE, POOLS)]
            rows = [_sampled(row) for row in lines]
        else:
            rows = [_summed(row) for row in results[ByLine].rows if row.time_ns + row.wait_ns > 0]
        rows.sort(key=lambda row: (-row.time_ns, row.line))
        return (
            [LinesData(tuple(rows[:_MOST]), times is not None and times.sampled, max(len(rows) - _MOST, 0))]
            if rows
            else []
        )

    def picture(self, data: LinesData, number: int) -> Picture:
        canvas = Canvas("lines", "Time by line")
        used = [kind for kind in WORDS if any(row.parts[kind] for row in data.rows)]
        canvas.legend(0, 18, [(kind, WORDS[kind]) for kind in used])
        bars = [
            Bar(short_site(row.line), tuple((kind, row.parts[kind]) for kind in used), seconds(row.time_ns))
            for row in data.rows
        ]
        draw_bars(canvas, 0, 40, 960, bars, _NAMES)
        columns = ("line", "time", *(WORDS[kind] for kind in used))
        rows = [
            (row.line, seconds(row.time_ns), *(seconds(row.parts[kind]) if row.parts[kind] else "" for kind in used))
            for row in data.rows
        ]
        return canvas.picture(self.concerns, _sentence(data), columns, rows)

    def figure(self, data: LinesData, figure: Any) -> None:
        axes = figure.subplots()
        names = [short_site(row.line) for row in data.rows]
        stacked(axes, names, [(kind, word, [row.parts[kind] for row in data.rows]) for kind, word in WORDS.items()])
        label_axis(axes.xaxis, TIME)


def _sampled(row: LineTime) -> LineBar:
    library = min(sum(one.cpu_ns for one in row.called), row.cpu_ns)
    parts = {
        "io": row.io_ns, "sync": row.sync_ns, "library": library, "task": row.cpu_ns - library,
        "waiting": sum(getattr(row, name) for name in _WAITS), "idle": row.delay_ns,
    }  # fmt: skip
    return LineBar(row.line, row.time_ns, parts | {"other": max(row.time_ns - sum(parts.values()), 0)})


def _summed(row: Sums) -> LineBar:
    sync = row.sync_ns + row.lock_ns
    parts = {
        "io": row.io_ns, "sync": sync, "library": max(row.time_ns - row.io_ns - sync, 0), "task": 0,
        "waiting": row.wait_ns, "idle": 0, "other": 0,
    }  # fmt: skip
    return LineBar(row.key, sum(parts.values()), parts)


def _sentence(data: LinesData) -> str:
    top = data.rows[0]
    kind = max(top.parts, key=lambda one: top.parts[one])
    what = "" if data.sampled else " in calls on files and libraries, and waits for others"
    return f"{short_site(top.line)} took {seconds(top.time_ns)}{what}: {WORDS[kind]} {seconds(top.parts[kind])}."


KIND = LinesPicture()
