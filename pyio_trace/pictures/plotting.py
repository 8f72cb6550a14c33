"""What the matplotlib drawings share.  matplotlib is imported when a figure is asked for, and not before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyio_trace.errors import ConfigError, printable
from pyio_trace.pictures.scales import Unit
from pyio_trace.pictures.style import LIGHT
from pyio_trace.pictures.words import ELLIPSIS
from pyio_trace.units import size


def new_figure(width: float = 9.6, height: float = 4.8) -> Any:
    """An empty matplotlib figure, inches wide and high, which no window or state of pyplot belongs to.

    Raises ConfigError not-installed without matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError(
            "not-installed", "plots need matplotlib, which is not installed; pip install 'pyio_trace[plot]'"
        ) from None
    return Figure((width, height), layout="constrained")


def plain(text: str, most: int = 60) -> str:
    """A text from a log, printable, not too long, and with nothing that matplotlib would take for a formula."""
    text = printable(text)
    if len(text) > most:
        text = f"{text[: most // 3]}{ELLIPSIS}{text[-(most - most // 3 - 1) :]}"
    return text.replace("$", r"\$")


def label_axis(axis: Any, unit: Unit) -> None:
    """Writes the values of an axis (ax.xaxis or ax.yaxis) as times, sizes or numbers, at round ones; all that it shows
    has to be drawn."""
    ticks, label = unit
    low, high = sorted(int(value) for value in axis.get_view_interval())
    places = ticks(max(low, 0), max(high, 1), 6)
    axis.set_ticks(places, [label(place) for place in places])


def heat_colours() -> Any:
    """The shades of the pictures as a colour map."""
    from matplotlib.colors import LinearSegmentedColormap

    colours = [colour for name, colour in LIGHT.items() if name.startswith("heat-")]
    return LinearSegmentedColormap.from_list("pyio_trace", colours)


def add_heat_bar(figure: Any, axes: Any, image: Any) -> None:
    """What the shades of a heat map of bytes mean, beside it."""
    bar = figure.colorbar(image, ax=axes, format=lambda value, _: size(int(value)))
    bar.ax.minorticks_off()


def stacked(axes: Any, names: Sequence[str], parts: Sequence[tuple[str, str, Sequence[int]]]) -> None:
    """Horizontal bars, the first on top; parts: (class, word, values) of each piece of a bar."""
    left = [0] * len(names)
    for kind, word, values in parts:
        if any(values):
            axes.barh(range(len(names)), values, left=left, color=LIGHT[kind], label=word)
            left = [one + value for one, value in zip(left, values, strict=True)]
    axes.set_yticks(range(len(names)), [plain(name, 44) for name in names])
    axes.invert_yaxis()
    if axes.get_legend_handles_labels()[1]:
        axes.legend(loc="lower right")
