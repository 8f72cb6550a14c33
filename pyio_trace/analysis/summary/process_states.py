"""Splits the wall time of each process into disjoint states, in bounded memory.

Each state has its intervals: those of the calls that make it.  Where several
states hold at once (a system call inside a request, two threads), the first of
STACK counts.  So a state's time is what its intervals add to the union of all
states before it, and the sum can never exceed the wall time.

The main thread decides, and threads that run tasks; I/O, syncs and locks of further
threads are summed separately, since the program may compute meanwhile.  Rows
that stand for several calls have an amount of time and no interval: it is taken
out of what is left over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.calls import lifetimes
from pyio_trace.analysis.results.overview_figures import Split
from pyio_trace.analysis.scan.batch_rows import Rows, int64
from pyio_trace.analysis.scan.decoding import FARTHEST
from pyio_trace.analysis.scan.saturation import addable
from pyio_trace.analysis.sums.intervals import BusyTime, merge
from pyio_trace.enums import ROLES, THREAD_TASK, Layer, Role
from pyio_trace.join.processes.process_names import is_helper
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log.sorting import distinct, find
from pyio_trace.values import program_of

if TYPE_CHECKING:
    from pyio_trace.analysis.summary.summary_rows import SummaryRows

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: The states that calls make, the first to count first.  "blocked", system calls that wait within a request, as opening
#: a FIFO does, is a part of "waiting"; "importing" is one of "starting".
STACK = ("io", "sync", "lock", "hand_over", "blocked", "library", "waiting", "importing", "starting", "task")
_PART_OF = {"blocked": "waiting", "importing": "starting"}
#: Where amounts without an interval come from: within a request, and elsewhere.
_INSIDE = ("library", "task", "waiting", "rest", "starting")
_OUTSIDE = ("rest", "task", "starting", "waiting", "library")
#: Rows that stand for several calls that are remembered; the calls beneath a row come soon after it.
_MOST_SUMMED = 1 << 20
_NEVER = np.iinfo(np.int64).max
_UNKNOWN = -1

_STATE = np.full(len(ROLES), -1, np.int64)
for _role, _name in (
    (Role.IO, "io"), (Role.SYNC, "sync"), (Role.LOCK, "lock"), (Role.TRANSPORT, "hand_over"),
    (Role.REQUEST, "library"), (Role.WAIT, "waiting"), (Role.STARTING, "starting"), (Role.CONTAINER, "task"),
):  # fmt: skip
    _STATE[_role] = STACK.index(_name)


@dataclass(frozen=True)
class Origins:
    """How each process began; the last element is for operations whose process is not known.

    begins: ns since the start of the run; scripts: when its own code began, likewise, -1: not known; imports: ns in
    import statements; early: of these, at most so many are from before its own code began; stackless: it has no Python
    lines, so that any call is its own.
    """

    begins: Ints
    scripts: Ints
    imports: Ints
    early: Ints
    stackless: Mask
    sharing: int = 1  #: by how many processes that was done which belongs to none: not all of a large job are listed

    @staticmethod
    def of(table: list[dict[str, Any]], start: int, size: int) -> Origins:
        """table: rows of Log.processes(); start: of the run, epoch ns; size: how many elements."""
        begins, imports = np.zeros(size, np.int64), np.zeros(size, np.int64)
        scripts, stackless = np.full(size, _UNKNOWN, np.int64), np.ones(size, np.bool_)
        early = np.full(size, FARTHEST, np.int64)
        continued = {child["parent"] for child in table if lifetimes.is_continuation(table, child)}
        for index, process in enumerate(table):
            begins[index] = int64(process["begin"] - start)
            imports[index] = int64(max(process["import_time"] or 0, 0))
            stackless[index] = process["stack_state"] in ("none", "off")
            how = program_of(process["argv"][1:])[0]
            if is_helper(process):
                continue
            if process["script_begin"] is not None:
                scripts[index] = int64(max(process["script_begin"] - start, 0))
                known = process["early_import_time"]
                early[index] = int64(max(known, 0)) if known is not None else FARTHEST if how else 0
            elif process["start"] == "fork" and index not in continued and process["version"]:
                scripts[index] = max(begins[index], 0)  # its parent's code goes on
                early[index] = 0
        sharing = max([len(table), 1, *(process["world_size"] or 0 for process in table)])
        return Origins(begins, scripts, imports, early, stackless, sharing)


class StackedTime(BusyTime):
    """BusyTime whose channels include all channels before them."""

    def _merged(self) -> Iterator[tuple[list[int], Ints, Ints]]:
        below: tuple[Ints, Ints] | None = None
        alike: list[int] = []
        for channel, pending in enumerate(self._pending):
            if pending:
                if below is not None:
                    yield alike, *below
                alike = []
                parts = [*pending, *([below] if below is not None else [])]
                starts, ends = (np.concatenate(part) for part in zip(*parts, strict=True))
                below = merge(starts, ends)
            alike.append(channel)
        if below is not None:
            yield alike, *below


class ProcessStates:
    """Collects the states of processes, batch by batch, in the order of the log."""

    def __init__(self, origins: Origins, wall: int) -> None:
        """wall: ns that no time exceeds."""
        size = len(origins.begins)
        self._origins = origins
        self._begins = np.clip(origins.begins, -FARTHEST, FARTHEST)
        #: When the own code of each process began: as the log says, else its first own call.
        self._first = np.where(origins.scripts == _UNKNOWN, _NEVER, np.clip(origins.scripts, self._begins, FARTHEST))
        self._first_task = np.full(size, _NEVER, np.int64)
        self._own_in_imports = np.zeros(size, np.int64)  # ns of calls in the bodies of own modules
        self._time = StackedTime(len(STACK), size, wall)
        #: State -> its time in processes with further threads, by channel: the main thread's, and the others'.
        self._threads = {state: StackedTime(2, size, wall) for state in ("io", "sync", "lock")}
        self._amounts = np.zeros((2, len(STACK), size), np.int64)  # within requests, and outside
        self._summed = np.zeros(0, np.int64)  # ids of rows that stand for several calls
        self._task_threads = np.zeros(0, np.int64)  # process << 32 | thread
        self._threaded = np.zeros(size, np.bool_)
        self.tasks = np.zeros(size, np.bool_)  # processes in which a task ran

    def add(self, read: SummaryRows, horizon: int) -> None:
        """Adds rows, with what is known about each; horizon: see BusyTime.add_up_before()."""
        rows, who = read.rows, read.who
        state = _STATE.take(rows.role)
        state[(rows.role == Role.WAIT) & (rows.layer >= Layer.STDIO) & (rows.request > 0)] = STACK.index("blocked")
        state[who.importing] = STACK.index("importing")
        state[who.idle] = -1
        if THREAD_TASK in read.op_names:  # I/O of other threads; only what is in `beside` counts
            state[rows.op == read.op_names.index(THREAD_TASK)] = -1
        container = state == STACK.index("task")
        _find_first(self._first_task, rows, container)
        own = who.own | container | self._origins.stackless.take(rows.process)
        _find_first(self._first, rows, own & ~who.importing)
        begun = rows.time >= self._first.take(rows.process)
        at = np.flatnonzero(who.in_body & ~who.importing & rows.outer & begun)
        np.add.at(self._own_in_imports, rows.process[at], rows.duration[at])
        self._own_in_imports = addable(self._own_in_imports)
        main = self._main(read, container & begun)
        chosen = begun & (state >= 0)
        self._add_amounts(rows, state, chosen & main)
        chosen &= ~self._without_interval(rows)
        starts, ends = self._time.on_axis(rows.process, rows.time, rows.time + rows.duration)
        counted = np.where(chosen & main, state, -1)
        for channel in range(len(STACK)):
            at = np.flatnonzero(counted == channel)
            self._time.add((channel,), starts.take(at), ends.take(at))
        self._time.add_up_before(horizon)
        for name, times in self._threads.items():
            self._add_threads(times, rows, chosen & (state == STACK.index(name)), main, horizon)

    def update(self, other: ProcessStates) -> None:
        """Adds the states of a log with other processes."""
        self._first = np.minimum(self._first, other._first)
        self._first_task = np.minimum(self._first_task, other._first_task)
        self._own_in_imports = addable(self._own_in_imports + other._own_in_imports)
        self._time.update(other._time)
        for name, times in self._threads.items():
            times.update(other._threads[name])
        self._amounts = addable(self._amounts + other._amounts)
        self._summed = distinct(np.append(self._summed, other._summed))
        self._task_threads = distinct(np.append(self._task_threads, other._task_threads))
        self._threaded |= other._threaded
        self.tasks |= other.tasks

    def compact(self, horizon: int) -> None:
        """Adds up the intervals that end before `horizon`."""
        self._time.compact(horizon)
        for times in self._threads.values():
            times.compact(horizon)

    def _add_amounts(self, rows: Rows, state: Ints, chosen: Mask) -> None:
        """Adds the rows that stand for several calls.  The calls within them have rows of their own: their time is
        taken off."""
        many = np.flatnonzero(chosen & self._without_interval(rows))
        if len(many):
            where = np.where(rows.outer, 1, 0)[many], state[many], rows.process[many]
            np.add.at(self._amounts, where, rows.duration[many])
            self._summed = distinct(np.append(self._summed, rows.id[many]))[-_MOST_SUMMED:]
        if len(self._summed):
            inner = np.flatnonzero(chosen & (state <= STACK.index("lock")) & (rows.request > 0))
            inner = inner[find(self._summed, rows.request[inner])[1]]
            where = np.ones(len(inner), np.int64), np.full(len(inner), STACK.index("library")), rows.process[inner]
            np.subtract.at(self._amounts, where, rows.duration[inner])
        self._amounts = addable(self._amounts)

    def _without_interval(self, rows: Rows) -> Mask:
        """Rows that stand for several calls, or for calls of all processes together."""
        found: Mask = (rows.count > 1) | (rows.process == len(self._begins) - 1)
        return found

    def _main(self, read: SummaryRows, container: Mask) -> Mask:
        """Which rows belong to main threads and to threads that run tasks."""
        rows, main = read.rows, read.who.main
        if container.any():
            self.tasks[rows.process[container]] = True
        if main.all():
            return main
        thread = rows.process << 32 | read.thread
        if container.any():
            self._task_threads = distinct(np.append(self._task_threads, thread[container]))
        if len(self._task_threads):
            main = main | find(self._task_threads, thread)[1]
        self._threaded[rows.process.take(np.flatnonzero(~main))] = True
        return main

    def _add_threads(self, times: StackedTime, rows: Rows, calls: Mask, main: Mask, horizon: int) -> None:
        at = np.flatnonzero(calls & self._threaded.take(rows.process))
        if len(at):
            process, time = rows.process.take(at), rows.time.take(at)
            starts, ends = times.on_axis(process, time, time + rows.duration.take(at))
            for channel, which in enumerate((main.take(at), ~main.take(at))):
                chosen = np.flatnonzero(which)
                times.add((channel,), starts.take(chosen), ends.take(chosen))
            times.add_up_before(horizon)

    def finish(self, walls: Ints, workers: Mask, ready: Ints) -> list[Split]:
        """The split of each process.  walls: ns; workers: processes that are idle outside tasks; ready: ns that each
        process waited for what was ready, which is handing over.  No rows may be added later."""
        unions, _ = self._time.finish()
        first = np.where(workers, np.maximum(self._first, self._first_task), self._first)
        began = np.minimum(first, FARTHEST) - self._begins
        started = np.where(first == _NEVER, walls, np.clip(began, 0, walls))
        early = np.minimum(np.where(workers, FARTHEST, self._origins.early), started)
        importing = self._origins.imports - self._own_in_imports - np.minimum(early, self._origins.imports)
        unions = np.minimum(unions, walls - started)
        times = np.diff(unions, axis=0, prepend=np.zeros((1, len(walls)), np.int64))
        times[STACK.index("starting")] += started
        beside = {}
        for state, of_threads in self._threads.items():
            main, every = of_threads.finish()[0]
            beside[f"beside_{state}_ns"] = np.minimum(every - main, walls).tolist()
        beside["beside_ns"] = beside.pop("beside_io_ns")
        self._amounts += self._amounts[:, :, -1:] // self._origins.sharing
        splits = []
        for process, wall in enumerate(walls.tolist()):
            left = dict(zip(STACK, times[:, process].tolist(), strict=True))
            left["rest"] = wall - sum(left.values())
            imported = left["importing"]
            for part, state in _PART_OF.items():
                left[state] += left.pop(part)
            _move(left, ("rest",), "starting", int(importing[process]) - imported)
            for amounts, order in zip(self._amounts[:, :, process].tolist(), (_INSIDE, _OUTSIDE), strict=True):
                for state, amount in zip(STACK, amounts, strict=True):
                    _move(left, order, _PART_OF.get(state, state), amount)
            _move(left, ("waiting",), "hand_over", int(ready[process]))
            rest, worker = left.pop("rest"), bool(workers[process])
            named = {f"{state}_ns": time for state, time in left.items()}
            idle, other = (rest, 0) if worker else (None, rest)
            named |= {name: threads[process] for name, threads in beside.items()}
            splits.append(Split(**named, idle_ns=idle, other_ns=other, wall_ns=wall))
        return splits


def _find_first(first: Ints, rows: Rows, which: Mask) -> None:
    """Notes the time of the earliest of these rows for each process that has none yet."""
    at = np.flatnonzero(which)
    at = at[first[rows.process[at]] == _NEVER]
    np.minimum.at(first, rows.process[at], rows.time[at])


def _move(left: dict[str, int], order: tuple[str, ...], state: str, amount: int) -> None:
    """Moves up to `amount` ns into a state, from those of `order` as long as they have any."""
    for source in order:
        if amount <= 0:
            return
        if source != state:
            moved = min(amount, left[source])
            left[source] -= moved
            left[state] += moved
            amount -= moved
