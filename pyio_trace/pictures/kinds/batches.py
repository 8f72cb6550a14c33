"""Training: how long each batch was waited for, how long its fetch took, and when each worker fetched."""

from __future__ import annotations

from typing import Any, ClassVar

from pyio_trace.analysis.reducers.batches import Batch, BatchesOfLoaders
from pyio_trace.light_dataclass import dataclass
from pyio_trace.pictures.canvas import SMALL, Canvas, Frame
from pyio_trace.pictures.kind import Results
from pyio_trace.pictures.picture import Picture
from pyio_trace.pictures.plotting import label_axis, plain
from pyio_trace.pictures.scales import TIME
from pyio_trace.pictures.style import LIGHT
from pyio_trace.units import counted, percent, seconds

#: Bars of a drawing, lanes, and rows of the table.
_BARS, _LANES, _ROWS = 160, 16, 60
_BAR, _LANE = Frame(96, 40, 850, 130), 26


@dataclass(frozen=True)
class BatchBar:
    """One batch, or the means of neighbours.  Times in ns; None: not known."""

    epoch: int
    batch: int
    not_ready_ns: int | None
    hand_over_ns: int | None
    fetch_ns: int | None


@dataclass(frozen=True)
class BatchesData:
    """One loader.  bars: in the order of epochs and batches.  fetches: (worker, begin, end), waits: (begin, end), ns
    since the start of the run.  wait_ns, fetch_ns: of all; together: batches of a bar."""

    loader: str
    bars: tuple[BatchBar, ...]
    together: int
    waits: tuple[tuple[int, int], ...]
    fetches: tuple[tuple[str, int, int], ...]
    count: int
    wait_ns: int
    fetch_ns: int
    begin_ns: int
    end_ns: int


class BatchesPicture:
    name: ClassVar[str] = "batches"
    order: ClassVar[int] = 8
    concerns: ClassVar[str] = "training"
    views: ClassVar[tuple[Any, ...]] = (BatchesOfLoaders,)

    def data(self, results: Results) -> list[BatchesData]:
        loaders: dict[tuple[str, str], list[Batch]] = {}
        for row in results[BatchesOfLoaders].rows:
            loaders.setdefault((row.host, row.loader), []).append(row)
        found = [_of(loader, rows) for (_, loader), rows in loaders.items()]
        found.sort(key=lambda one: (-one.wait_ns, one.begin_ns))
        return found[:2] if results.is_timed else []

    def picture(self, data: BatchesData, number: int) -> Picture:
        canvas = Canvas(f"batches-{number}", "Waits for batches, and their fetches")
        y = _draw_bars(canvas, data)
        _draw_lanes(canvas, data, y + 56)
        columns = ("epoch", "batch", "not ready", "hand-over", "fetch")
        rows = [
            (
                str(bar.epoch),
                str(bar.batch),
                *(_time(one) for one in (bar.not_ready_ns, bar.hand_over_ns, bar.fetch_ns)),
            )
            for bar in data.bars[:_ROWS]
        ]
        return canvas.picture(self.concerns, _sentence(data), columns, rows)

    def figure(self, data: BatchesData, figure: Any) -> None:
        upper, lower = figure.subplots(2, 1)
        places = range(len(data.bars))
        late = [bar.not_ready_ns or 0 for bar in data.bars]
        upper.bar(places, late, 0.4, color=LIGHT["waiting"], label="wait: not ready")
        taken = [bar.hand_over_ns or 0 for bar in data.bars]
        upper.bar(places, taken, 0.4, bottom=late, color=LIGHT["handover"], label="wait: hand-over")
        beside = [place + 0.4 for place in places]
        upper.bar(beside, [bar.fetch_ns or 0 for bar in data.bars], 0.4, color=LIGHT["task"], label="fetch")
        upper.legend(loc="upper right")
        label_axis(upper.yaxis, TIME)
        lanes = _lanes(data)
        lower.broken_barh([(begin, end - begin) for begin, end in data.waits], (-0.4, 0.8), color=LIGHT["waiting"])
        for at, worker in enumerate(lanes, 1):
            own = [(begin, end - begin) for name, begin, end in data.fetches if name == worker]
            lower.broken_barh(own, (at - 0.4, 0.8), color=LIGHT["task"])
        lower.set_yticks(range(len(lanes) + 1), ["trainer waits", *(plain(name, 30) for name in lanes)])
        lower.invert_yaxis()
        label_axis(lower.xaxis, TIME)


def _of(loader: str, rows: list[Batch]) -> BatchesData:
    together = -(-len(rows) // _BARS)
    groups = [rows[at : at + together] for at in range(0, len(rows), together)]
    bars = tuple(
        BatchBar(
            group[0].epoch,
            group[0].batch,
            *(_mean(group, name) for name in ("not_ready_ns", "hand_over_ns", "fetch_ns")),
        )
        for group in groups
    )  # fmt: skip
    waits = tuple((row.begin_ns, row.begin_ns + row.wait_ns) for row in rows if row.wait_ns is not None)
    fetches = []
    for row in rows:
        if row.fetch_ns is not None:
            begin = row.begin_ns  # of the fetch, if there is no wait
            if row.wait_ns is not None and row.ready_ns is not None:
                begin = row.begin_ns - row.ready_ns - row.fetch_ns
            fetches.append((row.worker, begin, begin + row.fetch_ns))
    moments = [*waits, *((begin, end) for _, begin, end in fetches)]
    return BatchesData(
        loader, bars, together, waits, tuple(fetches), len(rows), sum(row.wait_ns or 0 for row in rows),
        sum(row.fetch_ns or 0 for row in rows), min(begin for begin, _ in moments), max(end for _, end in moments),
    )  # fmt: skip


def _mean(group: list[Batch], name: str) -> int | None:
    known = [value for value in (getattr(row, name) for row in group) if value is not None]
    return sum(known) // len(known) if known else None


def _draw_bars(canvas: Canvas, data: BatchesData) -> float:
    legend = [("waiting", "wait: not ready"), ("handover", "wait: hand-over"), ("task", "fetch by a worker")]
    canvas.legend(_BAR.x, 18, legend)
    high = max(max((bar.not_ready_ns or 0) + (bar.hand_over_ns or 0), bar.fetch_ns or 0) for bar in data.bars) or 1
    canvas.axis_left(_BAR, 0, high, TIME)
    wide, up = _BAR.width / len(data.bars), _BAR.up(0, high)
    late, taken, fetches = [], [], []
    for at, bar in enumerate(data.bars):
        x, half = _BAR.x + at * wide, min(wide * 0.42, 24)
        not_ready = bar.not_ready_ns or 0
        waited = not_ready + (bar.hand_over_ns or 0)
        late.append((x, up(not_ready), half, _BAR.bottom - up(not_ready)))
        taken.append((x, up(waited), half, up(not_ready) - up(waited)))
        fetches.append((x + half, up(bar.fetch_ns or 0), half, _BAR.bottom - up(bar.fetch_ns or 0)))
    for boxes, kind in ((late, "waiting"), (taken, "handover"), (fetches, "task")):
        canvas.boxes(boxes, kind)
    canvas.line(_BAR.x, _BAR.bottom, _BAR.right, _BAR.bottom, "axis")
    end = 0.0
    for at, bar in enumerate(data.bars):
        if at == 0 or data.bars[at - 1].epoch != bar.epoch:
            x = _BAR.x + at * wide
            canvas.line(x, _BAR.y, x, _BAR.bottom + 6, "grid")
            if x >= end:
                canvas.text(x, _BAR.bottom + 22, f"epoch {bar.epoch}", "muted", size=SMALL)
                end = x + 100
    return _BAR.bottom


def _lanes(data: BatchesData) -> list[str]:
    """The workers that fetched, as many as are drawn."""
    return sorted(dict.fromkeys(worker for worker, _, _ in data.fetches))[:_LANES]


def _draw_lanes(canvas: Canvas, data: BatchesData, y: float) -> None:
    lanes = _lanes(data)
    frame = Frame(250, y, 696, _LANE * (len(lanes) + 1))
    across = frame.across(data.begin_ns, data.end_ns)
    canvas.axis_below(frame, data.begin_ns, data.end_ns, TIME)
    canvas.text(frame.x - 10, y + 17, "trainer waits", "label", "end", 240, SMALL)
    canvas.boxes(
        ((across(begin), y + 2, max(across(end) - across(begin), 1), _LANE - 5) for begin, end in data.waits), "waiting"
    )
    for at, worker in enumerate(lanes, 1):
        top = y + at * _LANE
        canvas.text(frame.x - 10, top + 17, worker, "label", "end", 240, SMALL)
        own = [(across(begin), across(end)) for name, begin, end in data.fetches if name == worker]
        canvas.boxes(((left, top + 2, max(right - left - 0.6, 1), _LANE - 5) for left, right in own), "task")


def _time(ns: int | None) -> str:
    return "" if ns is None else seconds(ns)


def _sentence(data: BatchesData) -> str:
    span = max(data.end_ns - data.begin_ns, 1)
    text = f"The trainer waited {seconds(data.wait_ns)} for {counted(data.count, 'batch', 'batches')}"
    share = f", {percent(min(data.wait_ns / span, 1))} of {seconds(span)}"
    bars = f"; each bar is the mean of {data.together}" if data.together > 1 else ""
    return f"{text}{share}; their fetches took {seconds(data.fetch_ns)}{bars}."


KIND = BatchesPicture()
