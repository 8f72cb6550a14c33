"""Rows of bars with a name before and a figure behind each, which several pictures have."""

from __future__ import annotations

from collections.abc import Sequence

from pyio_trace.light_dataclass import dataclass
from pyio_trace.pictures.canvas import SMALL, WIDTH, Canvas, Frame
from pyio_trace.pictures.words import width

#: From one row to the next, and how high a bar is.
ROW, BAR = 30, 20


@dataclass(frozen=True)
class Bar:
    """One row: parts (class, value) from left to right, and the figure behind them."""

    name: str
    parts: tuple[tuple[str, float], ...]
    figure: str


def draw_bars(canvas: Canvas, x: float, y: float, right: float, bars: Sequence[Bar], names: float = 0) -> Frame:
    """Draws rows from y on, between x and right; names: width of the names, 0: none.  Returns where the bars are: the
    longest one is as wide as that."""
    most = longest(bars)
    behind = max((width(bar.figure, SMALL) for bar in bars), default=0) + 8
    room = max(right - x - names - behind, 20)
    for number, bar in enumerate(bars):
        top = y + number * ROW
        if names:
            canvas.text(x + names - 10, top + 16, bar.name, "label", "end", names - 10, SMALL)
        at = x + names
        for kind, value in bar.parts:
            wide = max(room * value / most, 1.5) if value > 0 else 0
            wide = min(wide, x + names + room - at)
            canvas.rect(at, top, wide, BAR, kind)
            at += max(wide, 0)
        canvas.text(at + 6, top + 16, bar.figure, "muted", size=SMALL, room=WIDTH - at - 6)
    return Frame(x + names, y, room, len(bars) * ROW)


def longest(bars: Sequence[Bar]) -> float:
    """The value of the longest bar."""
    return max((sum(value for _, value in bar.parts) for bar in bars), default=0) or 1
