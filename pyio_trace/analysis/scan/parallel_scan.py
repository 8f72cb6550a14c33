"""One scan in several processes, over the divisions of a log or of a folder of logs.

A division is a row group of a Parquet log, a block of a live one.  A task opens
the log where it runs, reads some divisions and returns the parts of the
reducers; only parts travel.  Parts are combined here, in the order of the log.

Reducers that depend on the order of rows get a part from one task to the next,
one such chain for each log: a folder of logs has as many chains at once as there
are workers, a single log has one, next to the tasks of all other reducers.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from typing import TYPE_CHECKING, Any

from pyio_trace.analysis.scan.decoding import decoded
from pyio_trace.analysis.scan.filters import Filter, restrict_unchecked
from pyio_trace.analysis.scan.running import Reducer, Running, columns_of
from pyio_trace.errors import ConfigError, LogError, PyioTraceError
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log_constants import RUNNING

if TYPE_CHECKING:
    from pyio_trace.analysis.scan.workers import Workers
    from pyio_trace.join.sources.facade import Log

Reducers = Sequence[Reducer[Any, Any]]
#: Rows that a task should read at most, so that progress shows and little is lost with a worker.
_TASK_ROWS = 4 << 20
#: Tasks that are planned for each worker, so that none waits long for the last one.
_TASKS_EACH = 4
_OPEN_LOGS = 4


@dataclass(frozen=True)
class Address:
    """Where a worker finds the log.  path: absolute; runs: (run, host, start, rows) that it must have; chosen: which
    operations, None: all."""

    path: str
    runs: tuple[Any, ...]
    rows: int
    chosen: Filter | None


@dataclass(frozen=True)
class Task:
    """Divisions to read."""

    address: Address
    reducers: Reducers
    divisions: tuple[int, int]


def scan_with(
    workers: Workers, log: Log, reducers: Reducers, progress: Callable[[int], None] | None = None
) -> list[Any]:
    """The result of each reducer; see pyio_trace.analysis.reducer.scan().

    Raises what reading the log raises, in whichever process; ConfigError
    still-running; LogError log-changed, worker-lost.
    """
    if RUNNING in log.processes()["ended"].to_pylist():
        raise ConfigError("still-running", f"{log.path}: its run goes on; read it without --jobs and --scheduler")
    chosen = log.choice.made_from if log.choice is not None else None
    assert chosen is None or isinstance(chosen, Filter)
    address = Address(os.path.abspath(log.path), _runs(log), log.rows(), chosen)
    ranges = _ranges(log.divisions(), log.rows(), workers.count)
    ordered = [reducer for reducer in reducers if is_ordered(reducer)]
    others = [reducer for reducer in reducers if not is_ordered(reducer)]
    groups = [_Group(ordered, ranges), _Group(others, [[one] for own in ranges for one in own])]
    _Run(workers, [group for group in groups if group.reducers], address, progress).run()
    parts = {True: iter(groups[0].parts), False: iter(groups[1].parts)}
    return [reducer.finish(next(parts[is_ordered(reducer)]), log) for reducer in reducers]


def _runs(log: Log) -> tuple[Any, ...]:
    info = log.info()
    every = [info, *info.get("logs", ())]
    return log.rows(), *((one["run"], one["host"], one["start"]) for one in every)


def is_ordered(reducer: Reducer[Any, Any]) -> bool:
    """Whether its result depends on the order of rows."""
    return bool(getattr(reducer, "ordered", False))


def _ranges(divisions: list[int], rows: int, workers: int) -> list[list[tuple[int, int]]]:
    """For each log, what its tasks read: divisions from the first number up to the second."""
    total = max(sum(divisions), 1)
    step = max(min(-(-total // (_TASKS_EACH * workers)), _TASK_ROWS * total // max(rows, 1)), 1)
    ranges, begin = [], 0
    for count in divisions:
        end = begin + count
        ranges.append([(first, min(first + step, end)) for first in range(begin, end, step)])
        begin = end
    return [own for own in ranges if own]


class _Group:
    """Reducers that are run together: chains of tasks, each of which gets the parts of the one before it."""

    def __init__(self, reducers: Reducers, chains: list[list[tuple[int, int]]]) -> None:
        self.reducers, self.chains = reducers, chains
        self.parts: list[Any] = [None] * len(reducers)
        self._ended: dict[int, list[Any]] = {}  # chains that ended before an earlier one
        self._next = 0

    @property
    def waiting(self) -> int:
        """How many chains have ended whose parts wait for an earlier one."""
        return len(self._ended)

    def end(self, chain: int, parts: list[Any]) -> None:
        """Takes the parts of a chain that has ended, and combines those that are next in order."""
        self._ended[chain] = parts
        while self._next in self._ended:
            later = self._ended.pop(self._next)
            for number, reducer in enumerate(self.reducers):
                if later[number] is not None:
                    before = self.parts[number]
                    self.parts[number] = later[number] if before is None else reducer.combine(before, later[number])
            self._next += 1


class _Run:
    """Keeps the workers busy until all chains have ended."""

    def __init__(
        self, workers: Workers, groups: list[_Group], address: Address, progress: Callable[[int], None] | None
    ) -> None:
        self._workers, self._address, self._progress = workers, address, progress
        self._starts = deque((group, chain) for group in groups for chain in range(len(group.chains)))
        self._running: dict[Future[list[Any]], tuple[_Group, int, int]] = {}
        self._divisions = sum(last - first for group in groups for chain in group.chains for first, last in chain)
        self._done = self._reported = 0

    def run(self) -> None:
        """Returns when everything is done; raises what a task raises."""
        try:
            while self._starts or self._running:
                self._start()
                for future in wait(self._running, return_when=FIRST_COMPLETED).done:
                    self._take(future)
        finally:
            for future in self._running:
                future.cancel()

    def _start(self) -> None:
        most = self._workers.count
        while self._starts and len(self._running) <= most and self._starts[0][0].waiting <= 4 * most:
            self._submit(*self._starts.popleft(), 0, None)

    def _submit(self, group: _Group, chain: int, step: int, before: list[Any] | None) -> None:
        task = Task(self._address, group.reducers, group.chains[chain][step])
        try:
            parts = [] if before is None else [self._workers.send(before)]
            future = self._workers.executor.submit(run_task, task, *parts)
        except BrokenExecutor as error:
            raise self._lost(error) from None
        self._running[future] = group, chain, step

    def _take(self, future: Future[list[Any]]) -> None:
        group, chain, step = self._running.pop(future)
        try:
            parts = future.result()
        except PyioTraceError as error:
            if error.slug == "no-such-log" and os.path.exists(self._address.path):
                text = f"{self._address.path}: {self._workers.where} cannot see it; use a folder that all hosts have"
                raise LogError("no-such-log", text) from None
            raise
        except Exception as error:  # a Dask cluster raises errors of many kinds for a worker that is gone
            raise self._lost(error) from error
        first, last = group.chains[chain][step]
        self._report(last - first)
        if step + 1 < len(group.chains[chain]):
            self._submit(group, chain, step + 1, parts)
        else:
            group.end(chain, parts)

    def _report(self, divisions: int) -> None:
        self._done += divisions
        if self._progress is not None:
            rows = self._address.rows * self._done // max(self._divisions, 1)
            self._progress(rows - self._reported)
            self._reported = rows

    def _lost(self, error: Exception) -> LogError:
        reason = (str(error) or type(error).__name__).partition("\n")[0][:200]
        text = f"{self._workers.where} could not finish: {reason}; see their output, or read the log without them"
        return LogError("worker-lost", text)


# ---- in a worker

_opened: OrderedDict[tuple[Any, ...], Log] = OrderedDict()
_opening = threading.Lock()


def run_task(task: Task, before: list[Any] | None = None) -> list[Any]:
    """The parts of the reducers, in a worker; None where there are no rows.  before: the parts of what is before the
    divisions, None: they are the first."""
    log = _open(task.address)
    reducers = [one.of_a_part() if hasattr(one, "of_a_part") else one for one in task.reducers]
    running = Running(reducers, before)
    for batch in decoded(log, columns_of(task.reducers), within=task.divisions):
        running.add(batch, [_at_once])
    return running.parts


def _at_once(function: Callable[..., None], *arguments: Any) -> None:
    function(*arguments)


def _open(address: Address) -> Log:
    """The log, which stays open for further tasks."""
    from pyio_trace.join.sources.opening import open_log

    key = address.path, address.runs, repr(address.chosen)
    with _opening:
        if key in _opened:
            _opened.move_to_end(key)
            return _opened[key]
        log = open_log(address.path)
        if _runs(log) != address.runs:
            raise LogError("log-changed", f"{address.path}: another log since the command began; run it again")
        if address.chosen is not None:
            log = restrict_unchecked(log, address.chosen)
        _opened[key] = log
        while len(_opened) > _OPEN_LOGS:
            _opened.popitem(last=False)
        return log
