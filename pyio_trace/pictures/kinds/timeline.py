"""Bytes a second and calls in flight over the run."""

from __future__ import annotations

from typing import Any, ClassVar

from pyio_trace.analysis.reducers.by_time import ByTime
from pyio_trace.light_dataclass import dataclass
from pyio_trace.pictures.canvas import SMALL, Canvas, Frame
from pyio_trace.pictures.kind import Results
from pyio_trace.pictures.picture import Picture
from pyio_trace.pictures.plotting import label_axis
from pyio_trace.pictures.scales import TIME, Unit, byte_label, byte_ticks
from pyio_trace.pictures.style import LIGHT
from pyio_trace.units import seconds, significant, size

_BINS, _ROWS = 240, 60
_SECOND = 1_000_000_000
_RATES: Unit = (byte_ticks, lambda value: f"{byte_label(value)}/s" if value else "0")
#: Thousandths of a call in flight, as axes have whole numbers.
_FLIGHT: Unit = (
    lambda low, high, most: _thousandths(high, most),
    lambda value: significant(value / 1000) if value else "0",
)


@dataclass(frozen=True)
class TimelineData:
    """Bins of width_ns from begin_ns (since the start of the run) on, without gaps.

    read, written: bytes of the calls of POSIX and C streams that began in each; io_ns: time in them, summed over
    threads, so io_ns / width_ns were in flight on average.
    """

    begin_ns: int
    width_ns: int
    read: tuple[int, ...]
    written: tuple[int, ...]
    io_ns: tuple[int, ...]


class TimelinePicture:
    name: ClassVar[str] = "timeline"
    order: ClassVar[int] = 15
    concerns: ClassVar[str] = "everybody"
    views: ClassVar[tuple[Any, ...]] = (ByTime,)

    def data(self, results: Results) -> list[TimelineData]:
        found = results[ByTime]
        if not found.rows or not results.is_timed:
            return []
        first = found.rows[0].begin_ns
        count = (found.rows[-1].begin_ns - first) // found.width_ns + 1
        together = -(-count // _BINS)
        bins = -(-count // together)
        read, written, io = [0] * bins, [0] * bins, [0] * bins
        for row in found.rows:
            place = (row.begin_ns - first) // found.width_ns // together
            read[place] += row.read_bytes
            written[place] += row.written_bytes
            io[place] += row.io_ns
        width = found.width_ns * together
        return [TimelineData(first, width, tuple(read), tuple(written), tuple(io))]

    def picture(self, data: TimelineData, number: int) -> Picture:
        canvas = Canvas("timeline", "Bytes a second, and calls in flight")
        high = max(_rates(data, [one + other for one, other in zip(data.read, data.written, strict=True)]))
        end = data.begin_ns + data.width_ns * len(data.read)
        y = 40.0
        if high:
            canvas.legend(120, 18, [("read", "bytes read"), ("written", "bytes written")])
            frame = Frame(120, y, 820, 180)
            canvas.axis_left(frame, 0, high, _RATES)
            whole = [one + other for one, other in zip(data.read, data.written, strict=True)]
            _area(canvas, frame, data, _rates(data, whole), high, "written")
            _area(canvas, frame, data, _rates(data, data.read), high, "read")
            canvas.axis_below(frame, data.begin_ns, end, TIME, grid=False)
            y = frame.bottom + 72
        frame = Frame(120, y, 820, 90)
        flights = [time * 1000 // data.width_ns for time in data.io_ns]
        most = max(*flights, 1)
        canvas.text(120, y - 14, "calls in flight, on average", "muted", size=SMALL)
        canvas.axis_left(frame, 0, most, _FLIGHT)
        _area(canvas, frame, data, flights, most, "io")
        canvas.axis_below(frame, data.begin_ns, end, TIME, grid=False)
        return canvas.picture(self.concerns, _sentence(data), _COLUMNS, _rows(data))

    def figure(self, data: TimelineData, figure: Any) -> None:
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
        edges = [data.begin_ns + data.width_ns * at for at in range(len(data.read) + 1)]
        whole = _rates(data, [one + other for one, other in zip(data.read, data.written, strict=True)])
        upper.stairs(whole, edges, fill=True, color=LIGHT["written"], label="written")
        upper.stairs(_rates(data, data.read), edges, fill=True, color=LIGHT["read"], label="read")
        upper.legend(loc="upper right")
        lower.stairs([time / data.width_ns for time in data.io_ns], edges, fill=True, color=LIGHT["io"])
        lower.set_ylabel("calls in flight")
        label_axis(upper.yaxis, _RATES)
        label_axis(lower.xaxis, TIME)


def _area(canvas: Canvas, frame: Frame, data: TimelineData, values: list[int], high: int, kind: str) -> None:
    across, up = frame.across(0, len(values)), frame.up(0, high)
    points = [(across(at), up(value)) for at, value in enumerate(values)]
    canvas.steps([*points, (frame.right, frame.bottom)], frame.bottom, kind)


def _rates(data: TimelineData, values: Any) -> list[int]:
    """Bytes a second of each bin."""
    return [value * _SECOND // data.width_ns for value in values]


def _thousandths(high: int, most: int) -> list[int]:
    step = next(one for power in range(20) for one in (10**power, 2 * 10**power, 5 * 10**power) if high <= one * most)
    return list(range(0, high + 1, step))


_COLUMNS = ("from", "to", "read", "written", "calls in flight")


def _rows(data: TimelineData) -> list[tuple[str, ...]]:
    """The bins in which something was in flight, or _ROWS groups of them."""
    together = -(-len(data.read) // _ROWS)
    rows: list[tuple[str, ...]] = []
    for at in range(0, len(data.read), together):
        read, written, io = (sum(own[at : at + together]) for own in (data.read, data.written, data.io_ns))
        if io or read or written:
            end = min(at + together, len(data.read))
            begin_ns, end_ns = data.begin_ns + at * data.width_ns, data.begin_ns + end * data.width_ns
            flight = significant(io / (end_ns - begin_ns))
            rows.append((seconds(max(begin_ns, 0)), seconds(max(end_ns, 0)), size(read), size(written), flight))
    return rows


def _sentence(data: TimelineData) -> str:
    end = data.width_ns * len(data.read)
    most = max(_rates(data, [one + other for one, other in zip(data.read, data.written, strict=True)]))
    rate = f"At most {size(most)}/s; " if most else ""
    flight = max(data.io_ns) / data.width_ns
    text = f"{rate}calls on files took {seconds(sum(data.io_ns))} in {seconds(end)}, over all threads"
    text += f"; at most {significant(flight)} were in flight, on average over {seconds(data.width_ns)}."
    return text[0].upper() + text[1:]


KIND = TimelinePicture()
