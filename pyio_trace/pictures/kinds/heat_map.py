"""Bytes read and written by process and time, with the totals of each at the edges; as Darshan's heat map."""

from __future__ import annotations

from typing import Any, ClassVar

from pyio_trace.analysis.reducers.heat_map import Heat as HeatView
from pyio_trace.light_dataclass import dataclass
from pyio_trace.pictures.canvas import FONT, LINE, SMALL, Canvas, Frame
from pyio_trace.pictures.kind import Results
from pyio_trace.pictures.picture import Picture
from pyio_trace.pictures.plotting import add_heat_bar, heat_colours, label_axis, plain
from pyio_trace.pictures.scales import TIME, Heat
from pyio_trace.pictures.style import LIGHT
from pyio_trace.units import counted, percent, seconds, size

#: Rows and bins that are drawn; more become fewer by adding up neighbours.
_ROWS, _BINS = 32, 100


@dataclass(frozen=True)
class HeatMapData:
    """begin_ns, width_ns: of the first bin since the start of the run, and of each; rows: what each is called; read,
    written: bytes by row and bin; processes: how many there are in the rows; more: further ones, in none."""

    begin_ns: int
    width_ns: int
    rows: tuple[str, ...]
    read: tuple[tuple[int, ...], ...]
    written: tuple[tuple[int, ...], ...]
    processes: int
    more: int


class HeatMapPicture:
    name: ClassVar[str] = "heat_map"
    order: ClassVar[int] = 20
    concerns: ClassVar[str] = "everybody"
    views: ClassVar[tuple[Any, ...]] = (HeatView,)

    def data(self, results: Results) -> list[HeatMapData]:
        found = results[HeatView]
        rows = [row for row in found.rows if any(row.read_bytes) or any(row.written_bytes)]
        if not rows or not results.is_timed:
            return []
        together, bins = -(-len(rows) // _ROWS), -(-found.bins // _BINS)
        groups = [rows[at : at + together] for at in range(0, len(rows), together)]
        names = [group[0].process if len(group) == 1 else f"{group[0].process} + {len(group) - 1}" for group in groups]
        read, written = (
            tuple(_added([getattr(row, column) for row in group], bins) for group in groups)
            for column in ("read_bytes", "written_bytes")
        )
        return [HeatMapData(found.begin_ns, found.width_ns * bins, tuple(names), read, written, len(rows), found.more)]

    def picture(self, data: HeatMapData, number: int) -> Picture:
        canvas = Canvas("heat-map", "Bytes by process and time")
        y = 4.0
        for word, values in _panels(data):
            y = _panel(canvas, y, word, values, data) + 26
        columns = ("process", "read", "written")
        rows = [
            (name, size(sum(read)), size(sum(written)))
            for name, read, written in zip(data.rows, data.read, data.written, strict=True)
        ]
        return canvas.picture(self.concerns, _sentence(data), columns, rows)

    def figure(self, data: HeatMapData, figure: Any) -> None:
        panels = _panels(data)
        first, last = data.begin_ns, data.begin_ns + data.width_ns * len(data.read[0])
        for axes, (word, values) in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels, strict=True):
            shown = [[value or float("nan") for value in row] for row in values]
            extent = (first, last, len(values) - 0.5, -0.5)
            image = axes.imshow(
                shown, aspect="auto", extent=extent, cmap=heat_colours(), norm="log", interpolation="none"
            )
            axes.set_yticks(range(len(data.rows)), [plain(name, 30) for name in data.rows])
            axes.set_title(f"bytes {word}", loc="left", color=LIGHT["label"])
            label_axis(axes.xaxis, TIME)
            add_heat_bar(figure, axes, image)


def _added(rows: list[list[int]], bins: int) -> tuple[int, ...]:
    """The sum of rows, by groups of bins."""
    whole = [sum(column) for column in zip(*rows, strict=True)]
    return tuple(sum(whole[at : at + bins]) for at in range(0, len(whole), bins))


def _panels(data: HeatMapData) -> list[tuple[str, tuple[tuple[int, ...], ...]]]:
    return [(word, own) for word, own in (("read", data.read), ("written", data.written)) if any(map(any, own))]


def _panel(canvas: Canvas, y: float, word: str, values: tuple[tuple[int, ...], ...], data: HeatMapData) -> float:
    """One direction; returns where it ends."""
    high = max(min(260 // len(values), 30), 8)
    heat = Heat.of([value for row in values for value in row])
    canvas.text(0, y + 18, f"bytes {word}", "label")
    canvas.shade_legend(960, y + 16, size(int(heat.low)), size(int(heat.high)))
    top = Frame(200, y + LINE + 10, 640, 44)
    frame = Frame(200, top.bottom + 6, 640, high * len(values))
    bins = len(values[0])
    across = frame.across(0, bins)
    totals = [sum(column) for column in zip(*values, strict=True)]
    up = top.up(0, max(totals))
    kind = "read" if word == "read" else "written"
    canvas.steps(
        [*((across(at), up(one)) for at, one in enumerate(totals)), (across(bins), top.bottom)], top.bottom, kind
    )
    canvas.text(top.x - 10, top.y + 14, f"at most {size(max(totals))}", "muted", "end", 190, SMALL)
    canvas.text(top.x - 10, top.y + 34, f"in {seconds(data.width_ns)}", "muted", "end", 190, SMALL)
    canvas.shades(
        ((across(begin), frame.y + row * high, across(end) - across(begin), high - 1), heat.shade(value))
        for row, own in enumerate(values)
        for begin, end, value in _runs(own, heat)
    )
    whole = [sum(own) for own in values]
    each = max(-(-FONT // high), 1)
    for row, total in enumerate(whole):
        canvas.rect(frame.right + 6, frame.y + row * high, 110 * total / max(whole), high - 1, kind)
        if row % each == 0:
            canvas.text(frame.x - 10, frame.y + row * high + high / 2 + 6, data.rows[row], "label", "end", 190, SMALL)
    most = whole.index(max(whole))
    canvas.text(960, frame.bottom + 20, size(whole[most]), "muted", "end", size=SMALL, room=76)
    canvas.axis_below(frame, data.begin_ns, data.begin_ns + data.width_ns * bins, TIME, grid=False)
    return frame.bottom + 24


def _runs(values: tuple[int, ...], heat: Heat) -> list[tuple[int, int, int]]:
    """(first bin, one past the last, a value) of neighbours with the same shade."""
    found: list[tuple[int, int, int]] = []
    for at, value in enumerate(values):
        if value <= 0:
            continue
        if found and found[-1][1] == at and heat.shade(found[-1][2]) == heat.shade(value):
            found[-1] = found[-1][0], at + 1, found[-1][2]
        else:
            found.append((at, at + 1, value))
    return found


def _sentence(data: HeatMapData) -> str:
    read, written = (sum(map(sum, own)) for own in (data.read, data.written))
    moved = [f"{size(one)} {word}" for one, word in ((read, "read"), (written, "written")) if one]
    sums = [sum(one) + sum(other) for one, other in zip(data.read, data.written, strict=True)]
    most = sums.index(max(sums))
    who = "" if len(sums) == 1 else f", {percent(sums[most] / sum(sums))} of it by {data.rows[most]}"
    more = f"; {counted(data.more, 'further process', 'further processes')} not drawn" if data.more else ""
    return f"{counted(data.processes, 'process', 'processes')}: {' and '.join(moved)}{who}{more}."


KIND = HeatMapPicture()
