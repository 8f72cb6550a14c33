"""The chunks of a dataset, how often each was needed, and the selections that needed them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.calls.details import text
from pyio_trace.analysis.reducers.reuse import ReuseOfBytes
from pyio_trace.analysis.view_sums.detail_sums import ByDetail, DetailSum, rows
from pyio_trace.insights.hdf5_use import READS, WRITES, Box, box_of, chunks_of, extents_of, grid_of, itemsize_of, volume
from pyio_trace.light_dataclass import dataclass
from pyio_trace.pictures.canvas import SMALL, Canvas, Frame
from pyio_trace.pictures.kind import Results
from pyio_trace.pictures.picture import Picture
from pyio_trace.pictures.plotting import heat_colours, plain
from pyio_trace.pictures.scales import SHADES
from pyio_trace.pictures.style import LIGHT
from pyio_trace.pictures.words import file_name, width
from pyio_trace.units import counted, number, percent, seconds, significant, size

if TYPE_CHECKING:
    from pyio_trace.analysis.sums.grouped_sums import GroupedSums
    from pyio_trace.join.sources.facade import Log

#: Datasets that are drawn; cells along each axis; selections that are drawn, and looked at.
_DATASETS, _HIGH, _WIDE, _DRAWN, _BOXES = 3, 48, 96, 400, 20_000
_PLOT = Frame(84, 44, 540, 340)

Grid = tuple[tuple[float, ...], ...]


class Selections(ByDetail):
    """The reducer: calls of h5py on datasets, by what they selected."""

    beginnings = (*READS, *WRITES)

    def finish(self, part: GroupedSums | None, log: Log) -> list[DetailSum]:
        return [] if part is None else list(rows(part, log))


@dataclass(frozen=True)
class ChunksData:
    """The calls in one direction on one dataset.

    shape, chunks (None: it has none): elements of each axis; axes: the two that are drawn, downward and across (None:
    it has one).  grid: mean times that the chunks (or elements) of each cell were needed, by row; a cell is cell[0] by
    cell[1] chunks (or elements).  boxes: selections that are drawn, ((first, one past the last) downward and across,
    elements), none where there are very many.  asked_bytes: in memory, of all calls; needed_bytes: the chunks of each
    call, added up (HDF5 may keep some from one call to the next), None: there are no chunks; needed, different: chunks
    so, and different ones.
    unknown: calls whose selection cannot be drawn.  fetched_bytes, distinct_bytes: read from the whole file, and how
    many of these differ; None: not known.
    """

    path: str
    dataset: str
    writing: bool
    shape: tuple[int, ...]
    chunks: tuple[int, ...] | None
    dtype: str
    filters: tuple[str, ...]
    axes: tuple[int | None, int]
    grid: Grid
    cell: tuple[int, int]
    boxes: tuple[Box, ...]
    calls: int
    unknown: int
    time_ns: int
    asked_bytes: int
    dataset_bytes: int
    needed: int
    different: int
    needed_bytes: int | None
    fetched_bytes: int | None
    distinct_bytes: int | None


class ChunksPicture:
    name: ClassVar[str] = "chunks"
    order: ClassVar[int] = 5
    concerns: ClassVar[str] = "arrays"
    views: ClassVar[tuple[Any, ...]] = (Selections, ReuseOfBytes)

    def data(self, results: Results) -> list[ChunksData]:
        alike: dict[tuple[str, str, bool], list[DetailSum]] = defaultdict(list)
        for one in results[Selections]:
            name = text(one.detail, "dataset")
            if name is not None:
                alike[one.path, name, one.op in WRITES].append(one)
        read = {row.path: (row.read_bytes, row.distinct_bytes) for row in results[ReuseOfBytes].rows}
        found = [_of(*key, sums, read.get(key[0])) for key, sums in sorted(alike.items())]
        some = [one for one in found if one is not None]
        some.sort(key=lambda one: (-one.time_ns, one.path, one.dataset, one.writing))
        return some[:_DATASETS]

    def picture(self, data: ChunksData, number: int) -> Picture:
        canvas = Canvas(
            f"chunks-{number}", f"{data.dataset} of {file_name(data.path)}, {_shape(data.shape)} {data.dtype}"
        )
        most = max((value for row in data.grid for value in row), default=0)
        unit = "chunk" if data.chunks else "element"
        x = canvas.legend(0, 18, [("library", "selected")] if data.boxes else [])
        canvas.shade_legend(
            max(_PLOT.right, x + 460), 18, f"each {unit} needed 0", f"{_times(most)} times" if most > 1 else "once"
        )
        _draw(canvas, data, most)
        _figures(canvas, _about(data))
        return canvas.picture(self.concerns, _sentence(data), ("what", "how much"), _about(data))

    def figure(self, data: ChunksData, figure: Any) -> None:
        from matplotlib.patches import Rectangle

        axes = figure.subplots()
        extent = (0, _size(data, 1), _size(data, 0), 0)
        shown = [[value or float("nan") for value in row] for row in data.grid]
        image = axes.imshow(shown, aspect="auto", extent=extent, cmap=heat_colours(), vmin=0, interpolation="none")
        for down, across in data.boxes:
            place, wide, high = (across[0], down[0]), across[1] - across[0], down[1] - down[0]
            axes.add_patch(Rectangle(place, wide, high, color=LIGHT["library"], alpha=_opacity(data), linewidth=0))
        figure.colorbar(image, ax=axes, label=f"times each {'chunk' if data.chunks else 'element'} was needed")
        axes.set_title(plain(f"{data.dataset}, {_shape(data.shape)} {data.dtype}"), loc="left")


def _of(
    path: str, dataset: str, writing: bool, sums: Sequence[DetailSum], read: tuple[int, int] | None
) -> ChunksData | None:
    about = sums[-1].detail
    shape, chunks = extents_of(about.get("shape")), extents_of(about.get("chunks"))
    if shape is None or (chunks is not None and len(chunks) != len(shape)):
        return None
    counts: Counter[Box] = Counter()
    for one in sums:
        box = box_of(one.detail.get("selection"), shape)
        if box is not None and (box in counts or len(counts) < _BOXES):
            counts[box] += one.calls
    if not counts:
        return None
    calls, filters, dtype = sum(one.calls for one in sums), about.get("filters"), text(about, "dtype") or ""
    units = chunks or (1,) * len(shape)
    touched = Counter[Box]()
    for box, count in counts.items():
        touched[chunks_of(box, units)] += count
    grid = grid_of(shape, units)
    axes = _axes(grid)
    cells, cell, different = _grid(touched, grid, axes)
    needed = sum(volume(box) * count for box, count in touched.items())
    itemsize = itemsize_of(dtype)
    drawn = [box for box, _ in counts.most_common()] if len(counts) <= _DRAWN else []  # a part of them would mislead
    return ChunksData(
        path=path, dataset=dataset, writing=writing, shape=shape, chunks=chunks, dtype=dtype,
        filters=tuple(map(str, filters)) if isinstance(filters, list) else (), axes=axes, grid=cells, cell=cell,
        boxes=tuple(((0, 1) if axes[0] is None else box[axes[0]], box[axes[1]]) for box in drawn), calls=calls,
        unknown=calls - sum(counts.values()), time_ns=sum(one.time for one in sums),
        asked_bytes=sum(one.moved for one in sums), dataset_bytes=math.prod(shape) * itemsize, needed=needed,
        different=different, needed_bytes=needed * math.prod(chunks) * itemsize if chunks else None,
        fetched_bytes=read[0] if read and not writing else None,
        distinct_bytes=read[1] if read and not writing else None,
    )  # fmt: skip


def _axes(grid: Sequence[int]) -> tuple[int | None, int]:
    """The two axes with the most chunks, the last ones among equals, in their order."""
    if len(grid) == 1:
        return None, 0
    first, second = sorted(sorted(range(len(grid)), key=lambda axis: (grid[axis], axis))[-2:])
    return first, second


def _grid(
    touched: Counter[Box], grid: tuple[int, ...], axes: tuple[int | None, int]
) -> tuple[Grid, tuple[int, int], int]:
    """(mean times that the chunks of each cell were needed, chunks of a cell along both axes, different chunks; these
    are a lower bound where axes are not drawn)."""
    counts = np.array(list(touched.values()), np.float64)
    boxes = list(touched)
    weights, hidden = counts.copy(), 1
    for axis, extent in enumerate(grid):
        if axis not in axes:
            weights *= [box[axis][1] - box[axis][0] for box in boxes]
            hidden *= extent
    down, high, rows_of = _covered(boxes, axes[0], grid, _HIGH)
    across, wide, columns_of = _covered(boxes, axes[1], grid, _WIDE)
    sums = down.T @ (across * weights[:, None])
    means = sums / (rows_of[:, None] * columns_of[None, :] * hidden)
    return tuple(tuple(row) for row in means.tolist()), (high, wide), _different(boxes, grid)


def _different(boxes: Iterable[Box], grid: tuple[int, ...]) -> int:
    from pyio_trace.insights.hdf5_use import union

    return union(list(boxes), grid)


def _covered(
    boxes: Sequence[Box], axis: int | None, grid: tuple[int, ...], most: int
) -> tuple[NDArray[np.float64], int, NDArray[np.float64]]:
    """(by box and cell, how many chunks of the cell it covers; chunks of a cell; chunks of each cell)"""
    extent = 1 if axis is None else grid[axis]
    step = -(-extent // most)
    edges = np.minimum(np.arange(-(-extent // step) + 1) * step, extent).astype(np.float64)
    ranges = np.array([(0, 1) if axis is None else box[axis] for box in boxes], np.float64)
    inside = np.clip(edges[None, :], ranges[:, :1], ranges[:, 1:])
    return np.diff(inside, axis=1), step, np.diff(edges)


def _size(data: ChunksData, side: int) -> int:
    """Elements downward (0) or across (1)."""
    axis = data.axes[side]
    return 1 if axis is None else data.shape[axis]


def _draw(canvas: Canvas, data: ChunksData, most: float) -> None:
    high, wide = _size(data, 0), _size(data, 1)
    plot = _PLOT if data.axes[0] is not None else Frame(_PLOT.x, _PLOT.y, _PLOT.width, 60)
    down, across = plot.down(0, high), plot.across(0, wide)
    units = data.chunks or (1,) * len(data.shape)
    tall = data.cell[0] * (1 if data.axes[0] is None else units[data.axes[0]])
    broad = data.cell[1] * units[data.axes[1]]
    gap = 1 if plot.height * tall / high > 5 and plot.width * broad / wide > 5 else 0
    found = []
    for row, values in enumerate(data.grid):
        top, bottom = down(row * tall), down((row + 1) * tall)
        for column, value in enumerate(values):
            left, right = across(column * broad), across((column + 1) * broad)
            shade = min(int(value / most * SHADES), SHADES - 1) if value > 0 else 0
            if value > 0:
                found.append(((left, top, right - left - gap, bottom - top - gap), shade))
    canvas.shades(found)
    canvas.boxes(
        (
            (across(left), down(top), max(across(right) - across(left), 1), max(down(bottom) - down(top), 1))
            for (top, bottom), (left, right) in data.boxes
        ),
        "library", _opacity(data),
    )  # fmt: skip
    canvas.outline(plot.x, plot.y, plot.width, plot.height, "axis")
    canvas.text(plot.x, plot.bottom + 20, "0", "muted", size=SMALL)
    canvas.text(plot.right, plot.bottom + 20, number(wide), "muted", "end", size=SMALL)
    if data.axes[0] is not None:
        canvas.text(plot.x - 8, plot.y + 14, "0", "muted", "end", size=SMALL)
        canvas.text(plot.x - 8, plot.bottom, number(high), "muted", "end", plot.x - 8, SMALL)


def _opacity(data: ChunksData) -> float:
    """Of the selections: if they may cover a third of the plot, they let the chunks be seen."""
    return 0.9 if 3 * sum(map(volume, data.boxes)) < _size(data, 0) * _size(data, 1) else 0.3


def _figures(canvas: Canvas, about: Sequence[tuple[str, str]]) -> None:
    x, y = _PLOT.right + 28, _PLOT.y + 14
    for what, how_much in about:
        canvas.text(x, y, what, "muted", size=SMALL, room=190)
        canvas.text(960, y, how_much, "label", "end", 960 - x - min(width(what, SMALL), 190) - 8, SMALL)
        canvas.line(x, y + 9, 960, y + 9, "grid")
        y += 30


def _about(data: ChunksData) -> list[tuple[str, str]]:
    word = "written" if data.writing else "read"
    rows = [
        ("calls", number(data.calls)),
        ("time", seconds(data.time_ns)),
        (f"{word}, in memory", size(data.asked_bytes)),
    ]
    if data.needed_bytes is not None:
        used = data.asked_bytes / max(data.needed_bytes, 1)
        rows += [("bytes of their chunks", size(data.needed_bytes)), ("of these used", percent(used))]
        rows += [("chunks needed, in all", number(data.needed)), ("different chunks", number(data.different))]
        rows += [("chunk", f"{_shape(data.chunks or ())}{''.join(f', {one}' for one in data.filters)}")]
    if data.fetched_bytes is not None and data.distinct_bytes is not None:
        rows += [
            ("fetched of the file", size(data.fetched_bytes)),
            ("different bytes of it", size(data.distinct_bytes)),
        ]
    rows += [("dataset", size(data.dataset_bytes))]
    return rows + ([("calls not drawn", number(data.unknown))] if data.unknown else [])


def _shape(extents: Sequence[int]) -> str:
    return " x ".join(map(number, extents))


def _times(value: float) -> str:
    return significant(value)


def _sentence(data: ChunksData) -> str:
    verb = "wrote" if data.writing else "read"
    text = f"{counted(data.calls, 'call')} {verb} {size(data.asked_bytes)} in {seconds(data.time_ns)}"
    if data.needed_bytes is None:
        return f"{text}; the dataset, of {size(data.dataset_bytes)}, has no chunks."
    again = (
        f", each {significant(data.needed / data.different)} times on average" if data.needed > data.different else ""
    )
    return f"{text} and needed {counted(data.different, 'chunk')}{again}: {size(data.needed_bytes)} in all."


KIND = ChunksPicture()
