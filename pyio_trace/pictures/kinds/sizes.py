"""How large transfers were, and where the time went among them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar

from pyio_trace.analysis.reducers.access_sizes import SizesOfAccesses
from pyio_trace.analysis.sums.size_histogram import BINS
from pyio_trace.pictures.canvas import Canvas
from pyio_trace.pictures.histogram import Histogram, draw_histogram, draw_histogram_figure, histogram
from pyio_trace.pictures.kind import Results
from pyio_trace.pictures.picture import Picture
from pyio_trace.units import percent, size

_LOOKS = {"read": ("read", "reads"), "write": ("written", "writes")}
_PLACES = {label: place for place, (label, _) in enumerate(BINS)}


class SizesPicture:
    name: ClassVar[str] = "sizes"
    order: ClassVar[int] = 40
    concerns: ClassVar[str] = "everybody"
    views: ClassVar[tuple[Any, ...]] = (SizesOfAccesses,)

    def data(self, results: Results) -> list[Histogram]:
        rows = [row for row in results[SizesOfAccesses].rows if row.level == "calls"]
        return histogram(_labels(), ((row.direction, _PLACES[row.size], row.calls, row.time_ns) for row in rows))

    def picture(self, data: Histogram, number: int) -> Picture:
        canvas = Canvas("sizes", "Sizes of reads and writes")
        draw_histogram(canvas, data, _LOOKS)
        calls, time = data.shares(data.slowest)
        text = f"Transfers of {data.labels[data.slowest]}: {percent(calls)} of all, with {percent(time)} of the time."
        return canvas.picture(self.concerns, text, *data.table("size", _LOOKS))

    def figure(self, data: Histogram, figure: Any) -> None:
        draw_histogram_figure(data, _LOOKS, figure)


def _labels() -> list[str]:
    """What the bins are called: by the sizes that they lie between."""
    ends = [limit for _, limit in BINS if limit is not None]
    between = [f"{size(low)} to {size(high)}" for low, high in pairwise(ends)]
    return [f"up to {size(ends[0])}", *between, f"over {size(ends[-1])}"]


KIND = SizesPicture()
