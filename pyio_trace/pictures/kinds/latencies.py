"""How long calls took, and where the time went among them."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, ClassVar

from pyio_trace.analysis.reducers.latencies import LatenciesOfCalls
from pyio_trace.pictures.canvas import Canvas
from pyio_trace.pictures.histogram import Histogram, draw_histogram, draw_histogram_figure, histogram
from pyio_trace.pictures.kind import Results
from pyio_trace.pictures.picture import Picture
from pyio_trace.units import percent

_LOOKS = {
    "read": ("read", "reads"), "write": ("written", "writes"), "metadata": ("other", "metadata"),
    "sync": ("sync", "syncs and locks"),
}  # fmt: skip
#: Where the bins but the first begin, ns.
_EDGES = tuple(10**power for power in range(3, 11))
_LABELS = (
    "under 1 us", "1 to 10 us", "10 to 100 us", "0.1 to 1 ms", "1 to 10 ms", "10 to 100 ms", "0.1 to 1 s", "1 to 10 s",
    "over 10 s",
)  # fmt: skip


class LatenciesPicture:
    name: ClassVar[str] = "latencies"
    order: ClassVar[int] = 41
    concerns: ClassVar[str] = "everybody"
    views: ClassVar[tuple[Any, ...]] = (LatenciesOfCalls,)

    def data(self, results: Results) -> list[Histogram]:
        rows = results[LatenciesOfCalls].rows
        return histogram(
            _LABELS, ((row.kind, bisect_right(_EDGES, row.from_ns), row.calls, row.time_ns) for row in rows)
        )

    def picture(self, data: Histogram, number: int) -> Picture:
        canvas = Canvas("latencies", "How long calls took")
        draw_histogram(canvas, data, _LOOKS)
        calls, time = data.shares(data.slowest)
        text = f"Calls of {data.labels[data.slowest]} are {percent(calls)} of all and have {percent(time)} of the time."
        return canvas.picture(self.concerns, text, *data.table("time of a call", _LOOKS))

    def figure(self, data: Histogram, figure: Any) -> None:
        draw_histogram_figure(data, _LOOKS, figure)


KIND = LatenciesPicture()
