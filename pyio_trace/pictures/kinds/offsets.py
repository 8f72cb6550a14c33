"""Where in a file each transfer went, and when; as DXT Explorer's, for the files with the most time."""

from __future__ import annotations

from typing import Any, ClassVar

from pyio_trace.analysis.reducers.offsets import PARTS, FileOffsets, OffsetCell, Offsets, OffsetsOfFiles
from pyio_trace.light_dataclass import dataclass
from pyio_trace.pictures.canvas import Box, Canvas, Frame
from pyio_trace.pictures.kind import Results
from pyio_trace.pictures.picture import Picture
from pyio_trace.pictures.plotting import label_axis, plain
from pyio_trace.pictures.scales import BYTES, SHADES, TIME, Axis, time_label
from pyio_trace.pictures.style import LIGHT
from pyio_trace.pictures.words import file_name
from pyio_trace.units import counted, seconds, significant, size

#: Files that are drawn; transfers from which on a file has a pattern; rows of the table.
_FILES, _FEWEST, _ROWS = 3, 4, 50
#: The least share of the time, or bytes, of all transfers that makes a file worth a drawing.
_WORTH = 0.05
_PLOT = Frame(96, 40, 780, 300)
#: Opacity of transfers that are drawn together and leave out most of the bytes between them.
_PALE = 0.5


@dataclass(frozen=True)
class OffsetData:
    """One file: its name, the transfers (begin_ns since the start of the run, bytes from the start of the file), the
    extent of both axes, and how often each of PARTS equal parts of it was read.  unplaced: transfers of the run whose
    offset is not known."""

    path: str
    cells: tuple[OffsetCell, ...]
    begin_ns: int
    end_ns: int
    end_bytes: int
    calls: int
    time_ns: int
    read_bytes: int
    written_bytes: int
    times_read: tuple[float, ...]


class OffsetsPicture:
    name: ClassVar[str] = "offsets"
    order: ClassVar[int] = 30
    concerns: ClassVar[str] = "everybody"
    views: ClassVar[tuple[Any, ...]] = (OffsetsOfFiles,)

    def data(self, results: Results) -> list[OffsetData]:
        found = results[OffsetsOfFiles]
        some = [one for one in found.rows if one.calls >= _FEWEST and _share(one, found) >= _WORTH]
        return [_of(one) for one in some[:_FILES]]

    def picture(self, data: OffsetData, number: int) -> Picture:
        canvas = Canvas(f"offsets-{number}", f"Offsets by time: {file_name(data.path)}")
        directions = [one for one in ("read", "write") if any(cell.direction == one for cell in data.cells)]
        canvas.legend(_PLOT.x, 18, [(_CLASS[one], _WORD[one]) for one in directions])
        canvas.axis_left(_PLOT, 0, data.end_bytes, BYTES)
        canvas.axis_below(_PLOT, data.begin_ns, data.end_ns, TIME)
        across, up = _PLOT.across(data.begin_ns, data.end_ns), _PLOT.up(0, data.end_bytes)
        for direction in directions:
            cells = [cell for cell in data.cells if cell.direction == direction]
            canvas.boxes((_box(cell, across, up) for cell in cells if _is_dense(cell)), _CLASS[direction])
            canvas.boxes((_box(cell, across, up) for cell in cells if not _is_dense(cell)), _CLASS[direction], _PALE)
        _strip(canvas, data)
        rows = [
            (
                cell.direction, time_label(cell.begin_ns), size(cell.low_bytes), size(cell.high_bytes - cell.low_bytes),
                str(cell.calls), size(cell.moved_bytes), seconds(cell.time_ns),
            )
            for cell in data.cells[:_ROWS]
        ]  # fmt: skip
        columns = ("direction", "at", "offset", "extent", "calls", "moved", "time")
        return canvas.picture(self.concerns, _sentence(data), columns, rows)

    def figure(self, data: OffsetData, figure: Any) -> None:
        from matplotlib.collections import PolyCollection

        axes = figure.subplots()
        axes.set_xlim(data.begin_ns, data.end_ns)
        axes.set_ylim(0, data.end_bytes)
        plot = Frame(0, 0, 800, 400)
        wide, high = (data.end_ns - data.begin_ns) / plot.width, data.end_bytes / plot.height
        for direction in ("read", "write"):
            corners = []
            for cell in data.cells:
                if cell.direction == direction:
                    left, right = cell.begin_ns, max(cell.end_ns, cell.begin_ns + 2 * wide)
                    low, top = cell.low_bytes, max(cell.high_bytes, cell.low_bytes + 2 * high)
                    corners.append([(left, low), (right, low), (right, top), (left, top)])
            if corners:
                axes.add_collection(PolyCollection(corners, color=LIGHT[_CLASS[direction]], label=_WORD[direction]))
        axes.legend(loc="upper right")
        axes.set_title(plain(file_name(data.path)), loc="left")
        label_axis(axes.xaxis, TIME)
        label_axis(axes.yaxis, BYTES)


_CLASS, _WORD = {"read": "read", "write": "written"}, {"read": "read", "write": "written"}


def _share(file: FileOffsets, of: Offsets) -> float:
    """Of the time of all transfers, or of their bytes, if that is more."""
    return max(file.time_ns / max(of.time_ns, 1), (file.read_bytes + file.written_bytes) / max(of.moved_bytes, 1))


def _of(file: FileOffsets) -> OffsetData:
    begin, end = min(cell.begin_ns for cell in file.cells), max(cell.end_ns for cell in file.cells)
    part = file.end_bytes / PARTS
    times = tuple(sum(user.read_bytes[at] for user in file.users) / part for at in range(PARTS))
    return OffsetData(
        file.path, tuple(file.cells), begin, max(end, begin + 1), file.end_bytes, file.calls, file.time_ns,
        file.read_bytes, file.written_bytes, times,
    )  # fmt: skip


def _is_dense(cell: OffsetCell) -> bool:
    """Whether the transfers drawn as one touch, or may touch, most of the bytes from the first to the last."""
    return 2 * cell.moved_bytes >= cell.high_bytes - cell.low_bytes


def _box(cell: OffsetCell, across: Axis, up: Axis) -> Box:
    """At least two pixels each way."""
    left, right = across(cell.begin_ns), across(cell.end_ns)
    top, bottom = up(cell.high_bytes), up(cell.low_bytes)
    return left, min(top, bottom - 2), max(right - left, 2), max(bottom - top, 2)


def _strip(canvas: Canvas, data: OffsetData) -> None:
    """How often each part of the file was read, beside it."""
    most = max(data.times_read)
    if most <= 0:
        return
    up, part = _PLOT.up(0, PARTS), _PLOT.height / PARTS
    shade = [min(int(times / most * SHADES), SHADES - 1) for times in data.times_read]
    canvas.shades(
        ((_PLOT.right + 12, up(at + 1), 22, part + 0.3), shade[at])
        for at, times in enumerate(data.times_read)
        if times > 0
    )
    canvas.shade_legend(960, 18, "each byte read 0", f"{_times(most)} times" if most > 1 else "once")


def _times(value: float) -> str:
    return significant(round(value, 1))


def _sentence(data: OffsetData) -> str:
    moved = [f"{size(one)} {word}" for one, word in ((data.read_bytes, "read"), (data.written_bytes, "written")) if one]
    text = f"{counted(data.calls, 'transfer')} in {seconds(data.time_ns)}: {', '.join(moved)}"
    text += f", up to {size(data.end_bytes)} from the start"
    most = max(data.times_read)
    return f"{text}; some of it read {_times(most)} times." if most >= 1.5 else f"{text}."


KIND = OffsetsPicture()
