"""Call stacks as an icicle: the outermost frame on top, as wide as its time; and another one by bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from pyio_trace.analysis.reducers.by_line import ByLine
from pyio_trace.analysis.reducers.by_stack import ByStack
from pyio_trace.light_dataclass import dataclass
from pyio_trace.pictures.canvas import SMALL, WIDTH, Canvas
from pyio_trace.pictures.kind import Results
from pyio_trace.pictures.picture import Picture
from pyio_trace.pictures.plotting import plain
from pyio_trace.pictures.style import LIGHT
from pyio_trace.pictures.words import short_site, width
from pyio_trace.units import percent, seconds, size

#: Frames that are drawn, levels, and rows of the table; and the narrowest frame, as a share of the whole.
_FRAMES, _LEVELS, _ROWS, _NARROWEST = 600, 24, 30, 0.005
_HIGH = 26
#: Narrower frames have their name as a title only.
_READABLE = width("main.py:12", SMALL)


@dataclass(frozen=True)
class FlameFrame:
    """One frame beneath another one: begin, value in the unit of the picture (ns or bytes); level: 0 is outermost;
    own: the line is the program's, and no library's."""

    line: str
    level: int
    begin: int
    value: int
    own: bool


@dataclass(frozen=True)
class FlameData:
    """unit: "time" (ns in calls on files and libraries, summed over threads) or "bytes" (read and written); whole: of
    all stacks; frames: outer ones first; lines: (line, value), the most first."""

    unit: str
    whole: int
    frames: tuple[FlameFrame, ...]
    lines: tuple[tuple[str, int], ...]

    @property
    def worded(self) -> Callable[[int], str]:
        return seconds if self.unit == "time" else size


class FlamePicture:
    name: ClassVar[str] = "flame"
    order: ClassVar[int] = 50
    concerns: ClassVar[str] = "everybody"
    views: ClassVar[tuple[Any, ...]] = (ByStack, ByLine)

    def data(self, results: Results) -> list[FlameData]:
        is_own = results.log.own_code().is_own
        found = []
        for unit, fields in (("time", ("time_ns",)), ("bytes", ("read_bytes", "written_bytes"))):
            tree = _Node()
            for row in results[ByStack].rows:
                tree.add(row.key.split(";"), sum(getattr(row, name) for name in fields))
            lines = [(row.key, sum(getattr(row, name) for name in fields)) for row in results[ByLine].rows]
            lines = sorted((one for one in lines if one[1] > 0), key=lambda one: (-one[1], one[0]))
            frames = [FlameFrame(*one, is_own(one[0])) for one in tree.frames()]
            if frames:
                found.append(FlameData(unit, tree.value, tuple(frames), tuple(lines[:_ROWS])))
        return found

    def picture(self, data: FlameData, number: int) -> Picture:
        canvas = Canvas(f"flame-{data.unit}", f"{data.unit.capitalize()} by call stack")
        canvas.legend(0, 18, [("heat-2", "the program's lines"), ("idle", "libraries")])
        for one in data.frames:
            x, wide = WIDTH * one.begin / data.whole, WIDTH * one.value / data.whole
            y = 34 + one.level * _HIGH
            about = f"{one.line}: {data.worded(one.value)}, {percent(one.value / data.whole)}"
            canvas.rect(x, y, max(wide - 1, 0.5), _HIGH - 2, "heat-2" if one.own else "idle", about)
            if wide > _READABLE:
                canvas.text(x + 5, y + 17, short_site(one.line), "label", room=wide - 10, size=SMALL)
        columns = ("line", data.unit, "share")
        rows = [(line, data.worded(value), percent(value / data.whole)) for line, value in data.lines]
        line, value = data.lines[0]
        text = f"Of {data.worded(data.whole)}, {percent(value / data.whole)} at {short_site(line)}."
        return canvas.picture(self.concerns, text, columns, rows)

    def figure(self, data: FlameData, figure: Any) -> None:
        axes = figure.subplots()
        for one in data.frames:
            colour = LIGHT["heat-2"] if one.own else LIGHT["idle"]
            axes.barh(one.level, one.value, left=one.begin, height=0.95, color=colour, edgecolor="white")
            if one.value > data.whole / 12:
                name = plain(short_site(one.line), max(int(90 * one.value / data.whole), 6))
                axes.text(
                    one.begin + one.value / 2, one.level, name, ha="center", va="center", fontsize=8, clip_on=True
                )
        axes.invert_yaxis()
        axes.set_xlim(0, data.whole)
        axes.set_axis_off()
        axes.set_title(f"{data.unit} by call stack: {data.worded(data.whole)}", loc="left")


class _Node:
    """A frame with those beneath it."""

    def __init__(self) -> None:
        self.value = 0
        self.beneath: dict[str, _Node] = {}

    def add(self, lines: list[str], value: int) -> None:
        if value <= 0:
            return
        node = self
        node.value += value
        for line in lines[:_LEVELS]:
            node = node.beneath.setdefault(line, _Node())
            node.value += value

    def frames(self) -> Iterator[tuple[str, int, int, int]]:
        """(line, level, begin, value), level by level and widest first, as many as are drawn."""
        level, drawn = [(self, 0)], 0
        for number in range(_LEVELS):
            following = []
            for node, begin in level:
                for line, one in sorted(node.beneath.items(), key=lambda pair: (-pair[1].value, pair[0])):
                    if one.value < _NARROWEST * self.value or drawn == _FRAMES:
                        break
                    yield line, number, begin, one.value
                    following.append((one, begin))
                    drawn += 1
                    begin += one.value
            level = following


KIND = FlamePicture()
