"""I/O time of each rank of a parallel job, or of each process: one that takes longer makes the others wait."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, ClassVar

from pyio_trace.analysis.reducers.by_process import ByProcess
from pyio_trace.analysis.reducers.by_rank import ByRank
from pyio_trace.analysis.view_sums.key_sums import Sums
from pyio_trace.join.processes.process_names import PROGRAM, SCRIPT, label
from pyio_trace.light_dataclass import dataclass
from pyio_trace.pictures.bars import Bar, draw_bars, longest
from pyio_trace.pictures.canvas import Canvas
from pyio_trace.pictures.kind import Results
from pyio_trace.pictures.picture import Picture
from pyio_trace.pictures.plotting import label_axis, stacked
from pyio_trace.pictures.scales import TIME
from pyio_trace.units import counted, seconds, significant, size

_MOST, _NAMES = 24, 220
#: Class -> word.  Waits are left out: what waits for others is no straggler.
WORDS = {"io": "I/O", "sync": "sync, locks", "library": "libraries"}


@dataclass(frozen=True)
class RankBar:
    """One rank or process; parts: ns by class of WORDS, which add up to time_ns; read, written: bytes."""

    name: str
    time_ns: int
    parts: dict[str, int]
    read: int
    written: int


@dataclass(frozen=True)
class RanksData:
    """rows: the most time first; mean_ns: over all; more: further ones, with less."""

    rows: tuple[RankBar, ...]
    mean_ns: int
    more: int
    are_ranks: bool


class RanksPicture:
    name: ClassVar[str] = "ranks"
    order: ClassVar[int] = 61
    concerns: ClassVar[str] = "ranks"
    views: ClassVar[tuple[Any, ...]] = (ByRank, ByProcess)

    def data(self, results: Results) -> list[RanksData]:
        ranks = [row for row in results[ByRank].rows if row.key.startswith("rank ")]
        of_ranks = len(ranks) > 1
        rows = [_bar(row) for row in (ranks if of_ranks else _alike(results))]
        rows = [row for row in rows if row.time_ns > 0]
        if len(rows) < 2:
            return []
        rows.sort(key=lambda row: (-row.time_ns, row.name))
        mean = sum(row.time_ns for row in rows) // len(rows)
        return [RanksData(tuple(rows[:_MOST]), mean, max(len(rows) - _MOST, 0), of_ranks)]

    def picture(self, data: RanksData, number: int) -> Picture:
        word = "rank" if data.are_ranks else "process"
        canvas = Canvas("ranks", f"I/O time by {word}")
        used = [kind for kind in WORDS if any(row.parts[kind] for row in data.rows)]
        x = canvas.legend(_NAMES, 18, [(kind, WORDS[kind]) for kind in used])
        canvas.legend(x, 18, [("mark", f"mean, {seconds(data.mean_ns)}")])
        figures = [seconds(row.time_ns) for row in data.rows]
        bars = [
            Bar(row.name, tuple((kind, row.parts[kind]) for kind in used), figure)
            for row, figure in zip(data.rows, figures, strict=True)
        ]
        frame = draw_bars(canvas, 0, 40, 960, bars, _NAMES)
        mean = frame.x + frame.width * data.mean_ns / longest(bars)
        canvas.rect(mean - 1, frame.y - 6, 2, frame.height + 2, "mark")
        columns = (word, "time", *(WORDS[kind] for kind in used), "read", "written")
        rows = [
            (
                row.name,
                seconds(row.time_ns),
                *(seconds(row.parts[kind]) for kind in used),
                size(row.read),
                size(row.written),
            )
            for row in data.rows
        ]
        return canvas.picture(self.concerns, _sentence(data, word), columns, rows)

    def figure(self, data: RanksData, figure: Any) -> None:
        axes = figure.subplots()
        names = [row.name for row in data.rows]
        stacked(axes, names, [(kind, word, [row.parts[kind] for row in data.rows]) for kind, word in WORDS.items()])
        axes.axvline(data.mean_ns, color="black", linewidth=1)
        label_axis(axes.xaxis, TIME)


def _alike(results: Results) -> list[Sums]:
    """The processes of the kind that most are of: others do other work."""
    kinds = {label(row): row["process_kind"] for row in results.log.processes().to_pylist()}
    by_kind: dict[str, list[Sums]] = defaultdict(list)
    for row in results[ByProcess].rows:
        by_kind[kinds.get(row.key, "")].append(row)
    kind = max(by_kind, key=lambda one: (len(by_kind[one]), sum(row.time_ns for row in by_kind[one])), default="")
    return [] if kind in (SCRIPT, PROGRAM) else by_kind[kind]


def _bar(row: Sums) -> RankBar:
    sync = row.sync_ns + row.lock_ns
    library = max(row.time_ns - row.io_ns - sync, 0)
    parts = {"io": row.io_ns, "sync": sync, "library": library}
    return RankBar(row.key, sum(parts.values()), parts, row.read_bytes, row.written_bytes)


def _sentence(data: RanksData, word: str) -> str:
    top = data.rows[0]
    times = significant(top.time_ns / max(data.mean_ns, 1))
    plural = "processes" if word == "process" else "ranks"
    others = counted(len(data.rows) + data.more, word, plural)
    return f"{top.name} took {seconds(top.time_ns)}, {times} times the mean of {others}."


KIND = RanksPicture()
