"""An SVG drawing of the width that all pictures have.

Colours are classes alone: `io`, `sync`, `library`, `handover`, `waiting`, `task`,
`starting`, `other`, `idle`, `read`, `written`, `mark` and `heat-0` to `heat-9` fill,
`stroke-` before one of them draws a line in its colour.  `axis` and `grid` are
lines, `label` and `muted` texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise
from zlib import crc32

from pyio_trace.errors import printable
from pyio_trace.light_dataclass import dataclass
from pyio_trace.pictures.picture import Picture
from pyio_trace.pictures.scales import SHADES, Axis, Unit
from pyio_trace.pictures.words import fitted, readable, width

#: Of every drawing; the page makes it as wide as there is room.
WIDTH = 960
#: Sizes of texts: on a screen 420 wide they are still seven or eight pixels high.
FONT, SMALL = 18, 16
#: From one line of text to the next.
LINE = 24

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Frame:
    """A rectangle that something is drawn in."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height

    def across(self, low: int, high: int) -> Axis:
        """The axis from left to right."""
        return Axis(low, high, self.x, self.width)

    def down(self, low: int, high: int) -> Axis:
        """The axis from top to bottom."""
        return Axis(low, high, self.y, self.height)

    def up(self, low: int, high: int) -> Axis:
        """The axis from bottom to top."""
        return Axis(low, high, self.bottom, -self.height)


class Canvas:
    """Collects the elements of a drawing, from back to front."""

    def __init__(self, slug: str, title: str) -> None:
        self.slug, self.title = slug, title
        self.height = 0.0
        self._parts: list[str] = []

    # ---- shapes

    def rect(self, x: float, y: float, wide: float, high: float, kind: str, about: str = "") -> None:
        """A rectangle; about: what a pointer on it is told."""
        if wide <= 0 or high <= 0:
            return
        self._reach(y + high)
        shape = f'<rect class="{kind}" x="{_n(x)}" y="{_n(y)}" width="{_n(wide)}" height="{_n(high)}"'
        self._parts.append(f"{shape}>{_title(about)}</rect>" if about else f"{shape}/>")

    def boxes(self, boxes: Iterable[Box], kind: str, opacity: float = 1) -> None:
        """Many rectangles (x, y, width, height) of one class, as one element."""
        shapes = [(x, y, wide, high) for x, y, wide, high in boxes if wide > 0 and high > 0]
        if shapes:
            self._reach(max(y + high for _, y, _, high in shapes))
            path = "".join(f"M{_n(x)} {_n(y)}h{_n(wide)}v{_n(high)}h{_n(-wide)}z" for x, y, wide, high in shapes)
            through = f' fill-opacity="{opacity}"' if opacity < 1 else ""
            self._parts.append(f'<path class="{kind}"{through} d="{path}"/>')

    def shades(self, boxes: Iterable[tuple[Box, int]]) -> None:
        """Rectangles of a heat map, each with its shade."""
        by_shade: list[list[Box]] = [[] for _ in range(SHADES)]
        for box, shade in boxes:
            by_shade[shade].append(box)
        for shade, own in enumerate(by_shade):
            self.boxes(own, f"heat-{shade}")

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        self._reach(max(y1, y2))
        self._parts.append(f'<path class="{kind}" fill="none" d="M{_n(x1)} {_n(y1)}L{_n(x2)} {_n(y2)}"/>')

    def steps(self, points: Sequence[tuple[float, float]], base: float, kind: str) -> None:
        """The area between steps and a base: each point (x, y) begins a step, the last one only ends it."""
        if len(points) < 2:
            return
        self._reach(max(base, *(y for _, y in points)))
        path = f"M{_n(points[0][0])} {_n(base)}" + "".join(f"V{_n(y)}H{_n(x)}" for (_, y), (x, _) in pairwise(points))
        self._parts.append(f'<path class="{kind}" d="{path}V{_n(base)}z"/>')

    def outline(self, x: float, y: float, wide: float, high: float, kind: str) -> None:
        """The border of a rectangle."""
        self._reach(y + high)
        self._parts.append(
            f'<path class="{kind}" fill="none" d="M{_n(x)} {_n(y)}h{_n(wide)}v{_n(high)}h{_n(-wide)}z"/>'
        )

    # ---- texts

    def text(
        self, x: float, y: float, text: str, kind: str = "label", anchor: str = "start", room: float = WIDTH,
        size: int = FONT,
    ) -> None:  # fmt: skip
        """A text on the base line y, cut to the room it has; the whole is then its title."""
        whole = printable(text)
        shown = fitted(text, size, room)
        if not shown:
            return
        self._reach(y + size * 0.3)
        at = "" if anchor == "start" else f' text-anchor="{anchor}"'
        title = _title(whole) if shown != whole else ""
        self._parts.append(
            f'<text class="{kind}" x="{_n(x)}" y="{_n(y)}" font-size="{size}"{at}>{title}{escape(shown)}</text>'
        )

    def legend(self, x: float, y: float, items: Iterable[tuple[str, str]]) -> float:
        """Squares with words, (class, word) each; returns where they end."""
        for kind, word in items:
            self.rect(x, y - 13, 14, 14, kind)
            self.text(x + 20, y, word, "muted", size=SMALL)
            x += 20 + width(word, SMALL) + 18
        return x

    def shade_legend(self, right: float, y: float, low: str, high: str) -> None:
        """The ten shades, from low to high, that end at `right`; the last one alone if that is all there is."""
        self.text(right, y, high, "muted", "end", size=SMALL)
        right -= width(high, SMALL) + 6
        step = 12
        if low == high:
            self.rect(right - step, y - 13, step, 14, f"heat-{SHADES - 1}")
            return
        for shade in range(SHADES):
            self.rect(right - (SHADES - shade) * step, y - 13, step, 14, f"heat-{shade}")
        self.text(right - SHADES * step - 6, y, low, "muted", "end", size=SMALL)

    # ---- axes

    def axis_below(self, frame: Frame, low: int, high: int, unit: Unit, grid: bool = True) -> None:
        """Ticks beneath a frame, without those that have no room beside each other."""
        ticks, label = unit
        axis = frame.across(low, high)
        self.line(frame.x, frame.bottom, frame.right, frame.bottom, "axis")
        end = 0.0
        for tick in ticks(low, high, max(int(frame.width // 110), 2)):
            x, text = axis(tick), label(tick)
            if grid and frame.x < x < frame.right:
                self.line(x, frame.y, x, frame.bottom, "grid")
            half = width(text, SMALL) / 2
            middle = min(max(x, half), min(WIDTH, frame.right + 36) - half)
            if middle - half > end:
                self.text(middle, frame.bottom + 20, text, "muted", "middle", size=SMALL)
                end = middle + half + 8

    def axis_left(self, frame: Frame, low: int, high: int, unit: Unit, downward: bool = False) -> None:
        """Ticks to the left of a frame."""
        ticks, label = unit
        axis = frame.down(low, high) if downward else frame.up(low, high)
        for tick in ticks(low, high, max(int(frame.height // 36), 1)):
            y = axis(tick)
            self.line(frame.x, y, frame.right, y, "grid")
            self.text(frame.x - 8, y + 5, label(tick), "muted", "end", frame.x - 8, SMALL)

    # ---- the whole

    def picture(self, concerns: str, sentence: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Picture:
        """The drawing with its table; every text is made printable."""
        title, sentence = readable(self.title), readable(sentence)
        # A page may have the same picture of several runs, and ids must be of one element.
        mark = f"picture-{self.slug}-{crc32(''.join([title, sentence, *self._parts]).encode()):08x}"
        ids = f"{mark}-title", f"{mark}-desc"
        svg = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {_n(self.height + 6)}" width="100%"'
            f' role="img" aria-labelledby="{ids[0]} {ids[1]}"><title id="{ids[0]}">{escape(title)}</title>'
            f'<desc id="{ids[1]}">{escape(sentence)}</desc>{"".join(self._parts)}</svg>'
        )
        table = tuple(tuple(map(printable, row)) for row in rows)
        return Picture(self.slug, title, sentence, concerns, svg, tuple(columns), table)

    def _reach(self, y: float) -> None:
        self.height = max(self.height, y)


def _n(value: float) -> str:
    """A coordinate with at most one decimal."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def _title(text: str) -> str:
    return f"<title>{escape(printable(text))}</title>"
