"""Which task read which file, and how much: what several tasks read was read again."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, ClassVar

from pyio_trace.analysis.reducers.file_tasks import TasksOfFiles
from pyio_trace.analysis.reducers.reuse import ReuseOfBytes
from pyio_trace.light_dataclass import dataclass
from pyio_trace.pictures.canvas import SMALL, Canvas, Frame
from pyio_trace.pictures.kind import Results
from pyio_trace.pictures.picture import Picture
from pyio_trace.pictures.plotting import add_heat_bar, heat_colours, plain
from pyio_trace.pictures.scales import Heat
from pyio_trace.pictures.words import file_name
from pyio_trace.units import counted, size

#: Files and columns that are drawn.
_FILES, _COLUMNS = 24, 60
_HIGH = 26


@dataclass(frozen=True)
class TaskMatrix:
    """files: the most bytes read again first.  columns: (name, tasks) of each; several tasks of a name are one column
    where there are many.  read: bytes by file and column; tasks_of: how many tasks read each file; distinct: different
    bytes of each file that were read, None: not known; more: further files."""

    files: tuple[str, ...]
    columns: tuple[tuple[str, int], ...]
    read: tuple[tuple[int, ...], ...]
    tasks_of: tuple[int, ...]
    distinct: tuple[int | None, ...]
    tasks: int
    more: int


class TasksPicture:
    name: ClassVar[str] = "tasks"
    order: ClassVar[int] = 25
    concerns: ClassVar[str] = "tables"
    views: ClassVar[tuple[Any, ...]] = (TasksOfFiles, ReuseOfBytes)

    def data(self, results: Results) -> list[TaskMatrix]:
        found = results[TasksOfFiles]
        if found.tasks < 2:
            return []
        column_of, columns = _columns({row.task: row.name for row in found.rows})
        reuse = {row.path: row for row in results[ReuseOfBytes].rows}
        cells: dict[str, list[int]] = defaultdict(lambda: [0] * len(columns))
        users: dict[str, set[int]] = defaultdict(set)
        for row in found.rows:
            cells[row.path][column_of[row.task]] += row.read_bytes
            users[row.path].add(row.task)
        again = {path: reuse[path].again_bytes if path in reuse else 0 for path in cells}
        files = sorted(cells, key=lambda path: (-again[path], -sum(cells[path]), path))
        shown = files[:_FILES]
        return [
            TaskMatrix(
                tuple(shown), columns, tuple(tuple(cells[path]) for path in shown),
                tuple(len(users[path]) for path in shown),
                tuple(reuse[path].distinct_bytes if path in reuse else None for path in shown), found.tasks,
                len(files) - len(shown),
            )
        ]  # fmt: skip

    def picture(self, data: TaskMatrix, number: int) -> Picture:
        canvas = Canvas("tasks", "Bytes read by file and task")
        heat = Heat.of([value for row in data.read for value in row])
        canvas.shade_legend(960, 18, size(int(heat.low)), size(int(heat.high)))
        canvas.text(700, 52, "tasks", "muted", "end", size=SMALL)
        canvas.text(830, 52, "read", "muted", "end", size=SMALL)
        canvas.text(960, 52, "different", "muted", "end", size=SMALL)
        frame = Frame(240, 62, 400, _HIGH * len(data.files))
        wide = frame.width / len(data.columns)
        _heads(canvas, data, frame, wide)
        canvas.shades(
            ((frame.x + column * wide, frame.y + row * _HIGH, max(wide - 1, 1), _HIGH - 1), heat.shade(value))
            for row, own in enumerate(data.read)
            for column, value in enumerate(own)
            if value > 0
        )
        rows = []
        for row, path in enumerate(data.files):
            y = frame.y + row * _HIGH + 19
            distinct = data.distinct[row]
            texts = str(data.tasks_of[row]), size(sum(data.read[row])), "" if distinct is None else size(distinct)
            canvas.text(frame.x - 10, y, file_name(path), "label", "end", 226, SMALL)
            for x, one in zip((700, 830, 960), texts, strict=True):
                canvas.text(x, y, one, "label", "end", 120, SMALL)
            rows.append((path, *texts))
        return canvas.picture(self.concerns, _sentence(data), ("file", "tasks", "read", "different"), rows)

    def figure(self, data: TaskMatrix, figure: Any) -> None:
        axes = figure.subplots()
        shown = [[value or float("nan") for value in row] for row in data.read]
        image = axes.imshow(shown, aspect="auto", cmap=heat_colours(), norm="log", interpolation="none")
        axes.set_yticks(range(len(data.files)), [plain(file_name(path), 30) for path in data.files])
        starts = [at for at, (name, _) in enumerate(data.columns) if at == 0 or data.columns[at - 1][0] != name]
        axes.set_xticks(starts, [plain(data.columns[at][0], 20) for at in starts])
        add_heat_bar(figure, axes, image)


def _columns(names: dict[int, str]) -> tuple[dict[int, int], tuple[tuple[str, int], ...]]:
    """(task -> its column, (name, tasks) of each column): one for each task, or for some neighbours of one name."""
    by_name: dict[str, list[int]] = defaultdict(list)
    for task, name in names.items():
        by_name[name].append(task)
    ordered = sorted(by_name, key=lambda name: min(by_name[name]))
    if len(ordered) > _COLUMNS:  # names that come late are together
        ordered, rest = ordered[: _COLUMNS - 1], ordered[_COLUMNS - 1 :]
        by_name["(others)"] = [task for name in rest for task in by_name[name]]
        ordered.append("(others)")
    together = 1
    while sum(-(-len(by_name[name]) // together) for name in ordered) > max(_COLUMNS, len(ordered)):
        together *= 2
    column_of: dict[int, int] = {}
    columns: list[tuple[str, int]] = []
    for name in ordered:
        tasks = sorted(by_name[name])
        for at in range(0, len(tasks), together):
            own = tasks[at : at + together]
            column_of |= dict.fromkeys(own, len(columns))
            columns.append((name, len(own)))
    return column_of, tuple(columns)


def _heads(canvas: Canvas, data: TaskMatrix, frame: Frame, wide: float) -> None:
    """The names of tasks above their columns."""
    begin = 0
    for at in range(1, len(data.columns) + 1):
        if at == len(data.columns) or data.columns[at][0] != data.columns[begin][0]:
            x, room = frame.x + begin * wide, (at - begin) * wide
            canvas.text(x, frame.y - 10, data.columns[begin][0], "muted", size=SMALL, room=room - 4)
            canvas.line(x, frame.y - 5, x + room - 2, frame.y - 5, "axis")
            begin = at


def _sentence(data: TaskMatrix) -> str:
    several = [at for at, users in enumerate(data.tasks_of) if users > 1]
    text = f"{counted(data.tasks, 'task')} read {counted(len(data.files) + data.more, 'file')}"
    if not several:
        return f"{text}, each file by one task."
    worst = max(several, key=lambda at: sum(data.read[at]) - (data.distinct[at] or 0))
    moved = f"{size(sum(data.read[worst]))} of {file_name(data.files[worst])}"
    distinct = data.distinct[worst]
    rest = "" if distinct is None else f", of which {size(distinct)} differ"
    return f"{text}; {data.tasks_of[worst]} of them read {moved}{rest}."


KIND = TasksPicture()
