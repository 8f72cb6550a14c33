"""Whose time it is that threads of pools and event loops have: the lines that submitted the tasks.

The log has each task of a pool, with its thread, begin, end and the line that
submitted it.  So a sample of a pool's thread is cut into pieces: in the tasks of
a line, and between tasks.  While tasks are under way an event loop that runs no
line of the program waits for them, or hands them over.  That time, too, is the
lines' that submitted them, shared by how long their tasks took then.

A thread that works and a loop that waits for it would count the same second
twice.  So as much of the loop's wait as the thread's work lasted is taken for no
line's; and what several threads did at once, beyond the time that the loop
waited, is aside.  A line then holds up its loop for as long as that waited for
it, and has the time of the threads by what they did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.calls.code_texts import texts
from pyio_trace.analysis.calls.details import parsed, text
from pyio_trace.analysis.sums.time_bins import TimeBins
from pyio_trace.analysis.view_sums.meanwhile import numbered
from pyio_trace.analysis.view_sums.sampled_times import within
from pyio_trace.join.base.samples import Samples
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log import layout, runs
from pyio_trace.log.sorting import distinct

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

#: What becomes of a piece: as of any sample; a loop waited for it, so it holds up what its thread does; it does so
#: beside others; a loop waits for a task, or hands it over; it waits for it, and the task itself stands for that; a
#: pool's thread works between tasks.
PLAIN, AWAITED, BESIDE, LOOPING, REPLACED, BETWEEN = range(6)
#: ns for which a task is handed over, before and after it ran, at most.
_HANDED_OVER = 1_000_000
#: ns around tasks in which a thread that runs, or could run, is busy with them.
_NEAR = 50_000_000
_BUSY = [layout.SAMPLE_STATES.index(state) for state in ("running", "gil")]


@dataclass(frozen=True)
class Tasks:
    """Time in tasks, by thread, stretch of time and line; sorted so.  started: tasks that began in it; width: ns of a
    stretch."""

    process: Ints
    thread: Ints
    begin: Ints
    line: Ints
    time: Ints
    started: Ints
    width: int

    def where(self, at: Ints) -> Tasks:
        """These rows."""
        return Tasks(
            self.process[at], self.thread[at], self.begin[at], self.line[at], self.time[at], self.started[at],
            self.width,
        )  # fmt: skip


@dataclass(frozen=True)
class Pieces:
    """Pieces of samples.  sample: its row; part: how much of it, 0 to 1; line: whose, -1: nobody's; fate: see above."""

    sample: Ints
    part: Floats
    line: Ints
    fate: Ints


class SubmittedTasks(NamedTuple):
    """Tasks, and what their line stands for."""

    times: Tasks
    lines: list[str]


def submitted_tasks(log: Log, tasks: TimeBins) -> SubmittedTasks:
    """The tasks of pools of which the log knows the line that submitted them."""
    columns = tasks.columns()
    sites, details = distinct(columns["site"]), distinct(columns["detail"])
    about = parsed(log, details[details >= 0])
    named = texts(log, "site", sites) + [text(about.get(code, {}), "submitted") for code in details.tolist()]
    number, lines = numbered(named)
    of_thread = number[np.searchsorted(sites, columns["site"])]
    line = np.where(of_thread >= 0, of_thread, number[len(sites) + np.searchsorted(details, columns["detail"])])
    names = ("process", "thread", "bin", "time", "count")
    process, thread, begin, time, count = (columns[name] for name in names)
    order = np.lexsort((line, begin, thread, process))
    order = order[line[order] >= 0]
    process, thread, begin, line, time, count = (
        column[order] for column in (process, thread, begin, line, time, count)
    )
    first = runs.starts(process, thread, begin, line)
    time, count = (_summed(column, first).astype(np.int64) for column in (time, count))
    return SubmittedTasks(
        Tasks(process[first], thread[first], begin[first], line[first], time, count, tasks.width), lines
    )


class _Collected:
    def __init__(self) -> None:
        self.parts: list[tuple[Ints, Floats, Ints, Ints]] = []

    def add(self, sample: Ints, part: Floats, line: int, fate: int) -> None:
        at = np.flatnonzero(part > 0)
        self.parts.append((sample[at], part[at], np.full(len(at), line), np.full(len(at), fate)))

    def pieces(self) -> Pieces:
        sample, part, line, fate = (np.concatenate(column) for column in zip(*self.parts, strict=True))
        order = np.argsort(sample, kind="stable")
        return Pieces(sample[order], part[order], line[order], fate[order])


def pieces(samples: Samples, tasks: Tasks, looping: Bools) -> Pieces:
    """looping: samples of event loops that run no line of the program."""
    rows = np.arange(len(samples))
    left = np.ones(len(samples))
    found = _Collected()
    for process in distinct(tasks.process).tolist():
        mine = tasks.where(np.flatnonzero(tasks.process == process))
        loops = np.flatnonzero(looping & (samples["process"] == process))
        waits = _Waits(samples, loops, mine)
        waits.add(samples, loops, found, left)
        between = np.zeros(len(samples))
        for thread in distinct(mine.thread).tolist():
            of_thread = rows[(samples["process"] == process) & (samples["thread"] == thread) & ~looping]
            if len(of_thread):
                between[of_thread] = _add_thread(samples, of_thread, mine, mine.thread == thread, waits, found, left)
        waits.add_between(samples, loops, between, found, left)
    found.add(rows, np.where(left > 1e-9, left, 0), -1, PLAIN)
    return found.pieces()


class _Waits:
    """What the loops of one process waited for: by stretch of time and line, in the order of both."""

    def __init__(self, samples: Samples, loops: Ints, tasks: Tasks) -> None:
        order = np.lexsort((tasks.line, tasks.begin))
        first = runs.starts(tasks.begin[order], tasks.line[order])
        self.begin, self.line, self.width = tasks.begin[order][first], tasks.line[order][first], tasks.width
        self.work, count = (_summed(column[order], first) for column in (tasks.time, tasks.started))
        #: How long each could have kept a loop waiting, and which stretch it is of.
        kept = self.work + count * _HANDED_OVER
        starts = runs.starts(self.begin)
        self.stretches, stretch = self.begin[starts], np.cumsum(runs.begins(self.begin)) - 1
        whole = _summed(kept, starts)
        #: The lines' shares of a loop's time in a stretch.
        self.share = kept / np.maximum(whole, 1)[stretch]
        part = self.share * np.minimum(whole / self.width, 1)[stretch]
        blocked = loops[~np.isin(samples["state"][loops], _BUSY)]
        self.watched = _time_in(samples, loops, self.stretches, self.width)[stretch]
        waited = _time_in(samples, blocked, self.stretches, self.width)[stretch]
        #: By how much each's own work stands for the loop's wait.
        instead = np.minimum(self.share * waited, self.work)
        self.replaced = np.divide(instead, waited, out=np.zeros(len(part)), where=waited > 0)
        self.part = np.maximum(part - self.replaced, 0)
        self.awaited = np.divide(instead, self.work, out=np.zeros(len(part)), where=self.work > 0)
        self._whole = part

    def add(self, samples: Samples, loops: Ints, found: _Collected, left: Floats) -> None:
        """Adds the pieces of loops."""
        busy = np.isin(samples["state"][loops], _BUSY)
        waiting, running = loops[~busy], loops[busy]
        for line in distinct(self.line).tolist():
            at = self.line == line
            for fate, part in ((LOOPING, self.part), (REPLACED, self.replaced)):
                self._take(samples, waiting, self.begin[at], part[at], self.width, (line, fate), found, left)
            self._take(samples, running, self.begin[at], self._whole[at], self.width, (line, LOOPING), found, left)
        self._hand_over(samples, running, left[running], found, left)

    def add_between(self, samples: Samples, loops: Ints, between: Floats, found: _Collected, left: Floats) -> None:
        """Adds the pieces of loops that waited while threads of their pools were busy between tasks, as ones that wait
        for a processor are.  between: by sample, how much of it was so."""
        waiting, busy = loops[~np.isin(samples["state"][loops], _BUSY)], np.flatnonzero(between > 0)
        if len(waiting) and len(busy):
            time, duration = samples["time"][waiting], samples["duration"][waiting]
            spent = _time_in(samples, busy, time, duration, between[busy]) / np.maximum(duration, 1)
            self._hand_over(samples, waiting, np.minimum(spent, left[waiting]), found, left)

    def _take(
        self, samples: Samples, rows: Ints, begin: Ints, part: Floats, width: int, what: tuple[int, int],
        found: _Collected, left: Floats,
    ) -> None:  # fmt: skip
        """Takes as much of samples as these parts of stretches say."""
        if not len(rows) or not len(begin):
            return
        time, duration = samples["time"][rows], samples["duration"][rows]
        taken = within(time, duration, begin, part * width, width) / np.maximum(duration, 1)
        taken = np.minimum(taken, left[rows])
        left[rows] -= taken
        found.add(rows, taken, *what)

    def _hand_over(self, samples: Samples, rows: Ints, parts: Floats, found: _Collected, left: Floats) -> None:
        """Gives these parts of samples to the tasks around."""
        if not len(rows):
            return
        middle = samples["time"][rows] + samples["duration"][rows] // 2
        low = np.searchsorted(self.begin, middle - samples["duration"][rows] // 2 - _NEAR, "left")
        high = np.searchsorted(self.begin, middle + samples["duration"][rows] // 2 + _NEAR, "right")
        sums = {
            line: np.concatenate([[0.0], np.cumsum(np.where(self.line == line, self.share, 0))])
            for line in distinct(self.line).tolist()
        }
        weights = {line: until[high] - until[low] for line, until in sums.items()}
        whole = np.sum(list(weights.values()), axis=0)
        for line, weight in weights.items():
            taken = parts * np.divide(weight, whole, out=np.zeros(len(whole)), where=whole > 0)
            left[rows] -= taken
            found.add(rows, taken, line, LOOPING)


def _add_thread(
    samples: Samples, rows: Ints, tasks: Tasks, own: Bools, waits: _Waits, found: _Collected, left: Floats
) -> Floats:
    """Adds the pieces of a pool's thread; returns how much of each sample lies between tasks.  own: its tasks."""
    time, duration = samples["time"][rows], samples["duration"][rows]
    width = tasks.width
    places = _places(waits, tasks)
    watched, awaited = waits.watched[places] > 0, waits.awaited[places]
    for line in distinct(tasks.line[own]).tolist():
        at = np.flatnonzero(own & (tasks.line == line))
        work = tasks.time[at].astype(np.float64)
        for fate, amounts in (
            (AWAITED, work * awaited[at]),
            (BESIDE, work * (1 - awaited[at]) * watched[at]),
            (PLAIN, work * ~watched[at]),
        ):
            taken = within(time, duration, tasks.begin[at], amounts, width) / np.maximum(duration, 1)
            taken = np.minimum(taken, left[rows])
            left[rows] -= taken
            found.add(rows, taken, line, fate)
    busy = np.isin(samples["state"][rows], _BUSY)
    begins = distinct(tasks.begin[own])
    near = np.searchsorted(begins, time + duration + _NEAR, "right") > np.searchsorted(
        begins, time - _NEAR - width, "left"
    )
    between = np.where(busy & near, left[rows], 0)
    left[rows] -= between
    found.add(rows, between, -1, BETWEEN)
    return between


def _places(waits: _Waits, tasks: Tasks) -> Ints:
    """By stretch of a thread: the row of waits for the same time and line."""
    order = np.lexsort((tasks.line, tasks.begin))
    found = np.zeros(len(order), np.int64)
    found[order] = np.cumsum(runs.begins(tasks.begin[order], tasks.line[order])) - 1
    return found


def _time_in(samples: Samples, rows: Ints, stretches: Ints, width: int | Ints, parts: float | Floats = 1.0) -> Floats:
    """ns of these samples, or of parts of them, of however many threads, in each stretch."""
    if not len(rows):
        return np.zeros(len(stretches))
    base = int(stretches[0])
    begin = (samples["time"][rows] - base).astype(np.float64)
    events = np.concatenate([begin, begin + samples["duration"][rows]])
    up = np.broadcast_to(parts, len(rows))
    change = np.concatenate([up, -up])
    order = np.argsort(events, kind="stable")
    events, level = events[order], np.cumsum(change[order])
    done = np.concatenate([[0.0], np.cumsum(np.diff(events) * level[:-1])])
    edges = (stretches - base).astype(np.float64)
    found: Floats = np.maximum(np.interp(edges + width, events, done) - np.interp(edges, events, done), 0)
    return found


def _summed(values: NDArray[np.int64] | Floats, starts: Ints) -> Floats:
    found: Floats = np.add.reduceat(values.astype(np.float64), starts) if len(starts) else np.zeros(0)
    return found
