"""Files that several processes use: which part each of them read and wrote."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from pyio_trace.analysis.reducers.offsets import PARTS, FileOffsets, OffsetsOfFiles
from pyio_trace.analysis.reducers.shared_files import FilesOfSeveral
from pyio_trace.light_dataclass import dataclass
from pyio_trace.pictures.canvas import FONT, SMALL, Canvas, Frame
from pyio_trace.pictures.kind import Results
from pyio_trace.pictures.picture import Picture
from pyio_trace.pictures.plotting import add_heat_bar, heat_colours, label_axis, plain
from pyio_trace.pictures.scales import BYTES, Heat
from pyio_trace.pictures.words import file_name
from pyio_trace.units import counted, size

#: Files and processes that are drawn.
_FILES, _USERS = 2, 32


@dataclass(frozen=True)
class SharedData:
    """One file.  users: what each process is called; read, written: its bytes in each of PARTS equal parts of
    end_bytes; more: further processes.  common_bytes: different bytes that more than one process touched,
    conflict_bytes: of these, that one of them wrote; None: not known."""

    path: str
    end_bytes: int
    users: tuple[str, ...]
    read: tuple[tuple[int, ...], ...]
    written: tuple[tuple[int, ...], ...]
    more: int
    common_bytes: int | None
    conflict_bytes: int | None


class SharedPicture:
    name: ClassVar[str] = "shared"
    order: ClassVar[int] = 60
    concerns: ClassVar[str] = "ranks"
    views: ClassVar[tuple[Any, ...]] = (OffsetsOfFiles, FilesOfSeveral)

    def data(self, results: Results) -> list[SharedData]:
        overlaps = {row.path: (row.common_bytes, row.conflict_bytes) for row in results[FilesOfSeveral].rows}
        several = [file for file in results[OffsetsOfFiles].rows if len(file.users) > 1]
        return [_of(file, *overlaps.get(file.path, (None, None))) for file in several[:_FILES]]

    def picture(self, data: SharedData, number: int) -> Picture:
        canvas = Canvas(f"shared-{number}", f"Who touched which part of {file_name(data.path)}")
        y = 4.0
        for word, values in _panels(data):
            y = _panel(canvas, y, word, values, data) + 26
        rows = [
            (user, size(sum(read)), size(sum(written)), *_extent(read, written, data.end_bytes))
            for user, read, written in zip(data.users, data.read, data.written, strict=True)
        ]
        return canvas.picture(self.concerns, _sentence(data), ("process", "read", "written", "from", "to"), rows)

    def figure(self, data: SharedData, figure: Any) -> None:
        panels = _panels(data)
        for axes, (word, values) in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels, strict=True):
            shown = [[value or float("nan") for value in row] for row in values]
            extent = (0, data.end_bytes, len(values) - 0.5, -0.5)
            image = axes.imshow(
                shown, aspect="auto", extent=extent, cmap=heat_colours(), norm="log", interpolation="none"
            )
            axes.set_yticks(range(len(data.users)), [plain(name, 30) for name in data.users])
            axes.set_title(plain(f"{file_name(data.path)}: bytes {word}"), loc="left")
            label_axis(axes.xaxis, BYTES)
            add_heat_bar(figure, axes, image)


def _of(file: FileOffsets, common: int | None, conflict: int | None) -> SharedData:
    users = sorted(file.users[:_USERS], key=lambda one: _natural(one.process))
    names = tuple(one.process for one in users)
    read, written = (tuple(tuple(getattr(one, name)) for one in users) for name in ("read_bytes", "written_bytes"))
    more = file.more_users + len(file.users) - len(users)
    return SharedData(file.path, file.end_bytes, names, read, written, more, common, conflict)


def _sentence(data: SharedData) -> str:
    text = f"{counted(len(data.users) + data.more, 'process', 'processes')} used {size(data.end_bytes)}"
    if data.common_bytes is not None:
        text += f"; {size(data.common_bytes) if data.common_bytes else 'no byte'} was touched by more than one"
    if data.conflict_bytes:
        part = "all" if data.conflict_bytes == data.common_bytes else size(data.conflict_bytes)
        text += f", and {part} of it written by one of them"
    return f"{text}; {counted(data.more, 'is', 'are')} not drawn." if data.more else f"{text}."


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """A key by which "rank 10" comes after "rank 9"."""
    return tuple(
        (int(one), "") if one.isdigit() and one.isascii() else (-1, one) for one in re.split(r"(\d{1,18})", name)
    )


def _panels(data: SharedData) -> list[tuple[str, tuple[tuple[int, ...], ...]]]:
    return [(word, own) for word, own in (("read", data.read), ("written", data.written)) if any(map(any, own))]


def _panel(canvas: Canvas, y: float, word: str, values: tuple[tuple[int, ...], ...], data: SharedData) -> float:
    high = max(min(240 // len(values), 30), 8)
    frame = Frame(200, y + 34, 640, high * len(values))
    heat = Heat.of([value for row in values for value in row])
    canvas.text(0, y + 18, f"bytes {word}", "label")
    canvas.shade_legend(960, y + 16, size(int(heat.low)), size(int(heat.high)))
    wide = frame.width / PARTS
    canvas.shades(
        ((frame.x + at * wide, frame.y + row * high, wide + 0.3, high - 1), heat.shade(value))
        for row, own in enumerate(values)
        for at, value in enumerate(own)
        if value > 0
    )
    each = max(-(-FONT // high), 1)
    for row, own in enumerate(values):
        if row % each == 0:
            middle = frame.y + row * high + high / 2 + 6
            canvas.text(frame.x - 10, middle, data.users[row], "label", "end", 190, SMALL)
            canvas.text(960, middle, size(sum(own)) if any(own) else "", "muted", "end", 110, SMALL)
    canvas.axis_below(frame, 0, data.end_bytes, BYTES, grid=False)
    return frame.bottom + 24


def _extent(read: tuple[int, ...], written: tuple[int, ...], end: int) -> tuple[str, str]:
    """From and to where a process touched the file, to a part's width."""
    touched = [at for at, pair in enumerate(zip(read, written, strict=True)) if any(pair)]
    return (size(end * touched[0] // PARTS), size(end * (touched[-1] + 1) // PARTS)) if touched else ("", "")


KIND = SharedPicture()
