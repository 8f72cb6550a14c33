"""Wall time of the program's lines: samples, split, and calls on files by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.calls.code_texts import texts
from pyio_trace.analysis.calls.stack_lines import Line, StackLines, place_of, serves_pools
from pyio_trace.analysis.results.line_time import (
    AFTER,
    BEFORE,
    IDLE,
    NOWHERE,
    POOLS,
    CalledTime,
    LineTime,
    LineTimes,
    MainThread,
    OtherLine,
)
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.analysis.sums.time_bins import TimeBins
from pyio_trace.analysis.view_sums.meanwhile import meanwhile, numbered
from pyio_trace.analysis.view_sums.sampled_times import Split, ThreadCalls, split
from pyio_trace.analysis.view_sums.submitted_times import (
    AWAITED,
    BESIDE,
    BETWEEN,
    LOOPING,
    PLAIN,
    REPLACED,
    Pieces,
    SubmittedTasks,
    pieces,
    submitted_tasks,
)
from pyio_trace.errors import ConfigError
from pyio_trace.join.base.samples import Samples
from pyio_trace.log import layout, runs

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

#: What stands for a line where a stack has none of the program.
_KINDS = (BEFORE, AFTER, IDLE, NOWHERE, POOLS)
#: What time is made of, in the order of LineTime's fields; those after delay are states of samples.
_STATES = ("gil", "lock", "sleep", "poll", "wait", "system call", "fault")
_PARTS = ("io", "sync", "cpu", "delay", *(state.replace(" ", "_") for state in _STATES), "unseen")
_OTHERS = ("here", "aside", "own", "calls", "samples")
_RUNNING = layout.SAMPLE_STATES.index("running")
#: States in which a thread waits for something to do, as a rule.
_BLOCKED = [layout.SAMPLE_STATES.index(state) for state in ("lock", "sleep", "poll", "wait", "system call")]
#: States in which it may wait for another thread or process.
_FOR_OTHERS = ("lock", "poll", "wait", "system call")
#: Functions that a row names.
_CALLED = 8


def line_times(log: Log, when: TimeBins, where: GroupedSums, tasks: TimeBins, top: int) -> LineTimes:
    """The times of lines; when, where: of calls on files, by thread and time, and by site and stack; tasks: of pools.

    Raises ConfigError bad-value for a part of a log that has other calls besides: their time would be taken for
    something else.
    """
    if not log.has_whole_processes:
        raise ConfigError("bad-value", "by_line_time: only processes can be selected; a call left out would be no I/O")
    samples = log.sampled()
    lines = StackLines(log.own_code())
    sums = _Sums()
    calls = where.columns()
    stacks = texts(log, "call_stack", calls["stack"])
    for at, (site, stack) in enumerate(zip(texts(log, "site", calls["site"]), stacks, strict=True)):
        own = lines.of(stack) if stack else []
        if site is not None and place_of(site) not in [place_of(one.line) for one in own]:
            own = [*own, Line(site, "")]  # it submitted the work to this thread, or is a library's
        sums.add(own or [Line(NOWHERE, "")], {"io": calls["io"][at], "sync": calls["sync"][at]}, calls["calls"][at], 0)
    calling = {stack.rpartition(";")[2] for stack in stacks if stack}
    main = _add_samples(sums, log, samples, lines, when, submitted_tasks(log, tasks), calling)
    rows = sums.rows()
    residual = sum(row.here_ns for row in rows if row.line == NOWHERE)
    whole = sum(row.here_ns for row in rows)
    dropped = when.dropped + where.dropped + tasks.dropped
    return LineTimes(len(samples) > 0, whole, residual, rows[:top], main, len(rows[top:]), dropped)


def _add_samples(
    sums: _Sums, log: Log, samples: Samples, lines: StackLines, when: TimeBins, tasks: SubmittedTasks, calling: set[str]
) -> list[MainThread]:
    """Adds the time of samples; returns that of main threads.  calling: innermost lines of calls on files."""
    if not len(samples):
        return []
    count = len(samples.stacks)
    stack = np.where(samples["stack"] < 0, count, samples["stack"])
    in_calls = np.array([*(text.rpartition(";")[2] in calling for text in samples.stacks), False])[stack]
    bins = when.columns()
    order = np.lexsort((bins["bin"], bins["thread"], bins["process"]))
    process, thread, begin, time = (bins[name][order] for name in ("process", "thread", "bin", "time"))
    of_threads = ThreadCalls(process, thread, begin, time, when.width)
    parts = split(samples, in_calls, of_threads, whole=log.info()["mode"] == "profile")
    used = np.bincount(stack, minlength=count + 1)
    on_stack = [lines.of(text) if used[at] else [] for at, text in enumerate(samples.stacks)]
    table = log.processes().to_pylist()
    nowhere = np.array([*(not own for own in on_stack), True])[stack]
    serving = np.array([*(serves_pools(text) for text in samples.stacks), False])[stack]
    kinds = np.where(nowhere, count + _kinds(table, samples, nowhere, serving), -1)
    looping = np.array([*(lines.loops(text) for text in samples.stacks), False])[stack]
    cut = pieces(samples, tasks.times, looping)
    aside = ~_main(table, samples) & np.isin(samples["state"], _BLOCKED)
    for (at, kind, line, fate), amounts in _by_place(samples, parts, cut, stack, kinds, aside):
        own, text = (on_stack[at], samples.stacks[at]) if at < count else ([], "")
        if fate in (REPLACED, BETWEEN):
            own = [*own, Line(IDLE if fate == REPLACED else POOLS, "")]
        elif line >= 0:
            own = lines.submitted(tasks.lines[line], text, own, looping=fate == LOOPING)
        sums.add(own or [Line(_KINDS[kind - count], "")], amounts, 0, amounts["samples"])
    innermost, names = _innermost(on_stack, tasks, cut, stack)
    sums.longest = _longest(samples, parts, innermost, names)
    sums.directly = _directly(samples, parts, on_stack, stack)
    _add_meanwhile(sums, samples, parts, innermost, names, in_calls, _main(table, samples))
    importing = np.array([*(any(one.called.startswith("import") for one in own) for own in on_stack), False])
    return _main_threads(table, samples, parts, importing[stack])


def _innermost(on_stack: list[list[Line]], tasks: SubmittedTasks, cut: Pieces, stack: Ints) -> tuple[Ints, list[str]]:
    """By sample, the number of its innermost line, -1: none; and what that stands for.  Of a pool's thread that has
    none it is the line of the task that it is in longest."""
    number, names = numbered([*(own[-1].line if own else None for own in on_stack), None, *tasks.lines])
    found = number[stack]
    tagged = np.flatnonzero((cut.line >= 0) & np.isin(cut.fate, (PLAIN, AWAITED, BESIDE)))
    tagged = tagged[np.argsort(cut.part[tagged], kind="stable")]
    of_task = np.full(len(stack), -1)
    of_task[cut.sample[tagged]] = number[len(on_stack) + 1 + cut.line[tagged]]
    return np.where(found < 0, of_task, found), names


def _longest(samples: Samples, parts: Split, line: Ints, names: list[str]) -> dict[str, float]:
    """For each line, the share of its time that one thread spent there, the one with the most.  line, names: what
    _innermost() returns."""
    at = np.flatnonzero(line >= 0)
    time = (parts.cpu + parts.delay + parts.blocked)[at]
    order = np.lexsort((samples["thread"][at], samples["process"][at], line[at]))
    first = runs.starts(*(one[at][order] for one in (line, samples["process"], samples["thread"])))
    if not len(first):
        return {}
    of_line, of_thread = line[at][order][first], np.add.reduceat(time[order], first)
    whole, most = np.zeros(len(names)), np.zeros(len(names))
    np.add.at(whole, of_line, of_thread)
    np.maximum.at(most, of_line, of_thread)
    return {names[one]: most[one] / whole[one] for one in np.flatnonzero(whole > 0).tolist()}


def _directly(samples: Samples, parts: Split, on_stack: list[list[Line]], stack: Ints) -> dict[str, float]:
    """For each line, ns for which it was the innermost one on the stack of one thread, the one with the most.  Threads
    of pools that work for it are no part of that."""
    number, names = numbered([*(own[-1].line if own else None for own in on_stack), None])
    line = number[stack]
    at = np.flatnonzero(line >= 0)
    time = (parts.cpu + parts.delay + parts.blocked)[at]
    order = np.lexsort((samples["thread"][at], samples["process"][at], line[at]))
    first = runs.starts(*(one[at][order] for one in (line, samples["process"], samples["thread"])))
    if not len(first):
        return {}
    most = np.zeros(len(names))
    np.maximum.at(most, line[at][order][first], np.add.reduceat(time[order], first))
    return {names[one]: most[one] for one in np.flatnonzero(most > 0).tolist()}


def _by_place(
    samples: Samples, parts: Split, cut: Pieces, stack: Ints, kinds: Ints, aside: Bools
) -> Iterator[tuple[tuple[int, int, int, int], dict[str, float]]]:
    """(stack, kind, line, fate) of pieces -> their amounts.  aside: samples whose waits are aside, as a rule."""
    row, state = cut.sample, samples["state"][cut.sample]
    columns = (stack[row], kinds[row], cut.line, cut.fate)
    order = np.lexsort(columns)
    first = runs.starts(*(column[order] for column in columns))
    if not len(first):
        return
    on, delay, blocked = (one[row] * cut.part for one in (parts.cpu, parts.delay, parts.blocked))
    values = {"cpu": on, "delay": delay, "samples": samples["samples"][row] * cut.part}
    for name in (*_STATES, "running"):
        of_state = blocked * (state == layout.SAMPLE_STATES.index(name))
        values["unseen" if name == "running" else name.replace(" ", "_")] = of_state
    values["aside"] = np.where(aside[row] & (cut.fate != AWAITED), blocked, 0)
    beside = np.isin(cut.fate, (BESIDE, BETWEEN))
    values["aside"][beside] = (on + delay + blocked)[beside]
    sums = {name: np.add.reduceat(one[order], first).tolist() for name, one in values.items()}
    keys = np.stack([column[order][first] for column in columns], 1).tolist()
    for at, key in enumerate(keys):
        yield tuple(key), {name: one[at] for name, one in sums.items()}


def _add_meanwhile(
    sums: _Sums, samples: Samples, parts: Split, line: Ints, names: list[str], in_calls: Bools, main: Bools
) -> None:
    """Adds what others did while lines waited for them.

    line, names: by sample, the number of its innermost line, and what that stands for; in_calls: whether it makes calls
    on files; main: of main threads.
    """
    state, duration, blocked = samples["state"], samples["duration"], parts.blocked
    waits = np.isin(state, [layout.SAMPLE_STATES.index(state) for state in _FOR_OTHERS])
    working = np.where((state == _RUNNING) | in_calls, np.maximum(duration - blocked, 0), 0)
    asleep = blocked * (np.isin(state, _BLOCKED) & ~in_calls & ~(main & (samples["process"] == 0)))
    joins = state == layout.SAMPLE_STATES.index("lock")
    for at, others in meanwhile(samples, line, blocked * waits, working, asleep, joins).items():
        sums.meanwhile[names[at]] = [OtherLine(names[other], *times) for other, *times in others]


def _main_threads(table: list[dict[str, Any]], samples: Samples, parts: Split, importing: Bools) -> list[MainThread]:
    """importing: by sample, whether an import was under way."""
    since = np.array([*(row["script_begin"] or 0 for row in table), 0], np.int64)[samples["process"]]
    own = _main(table, samples) & ~importing & (samples["time"] >= since) & (samples["process"] >= 0)
    state, process = samples["state"], np.where(own, samples["process"], len(table))
    gil, asleep = (state == layout.SAMPLE_STATES.index(name) for name in ("gil", "sleep"))
    amounts = (parts.cpu + parts.delay, parts.blocked * gil, parts.blocked * asleep, parts.blocked * ~(gil | asleep))
    sums = np.stack([np.bincount(process, one, len(table) + 1)[:-1] for one in amounts], 1)
    return [MainThread(at, *map(round, sums[at].tolist())) for at in np.flatnonzero(sums.any(axis=1)).tolist()]


def _main(table: list[dict[str, Any]], samples: Samples) -> Bools:
    """Samples of main threads."""
    pid = np.array([*(row["pid"] or 0 for row in table), 0], np.int64)[samples["process"]]
    found: Bools = samples["thread"] == pid
    return found


def _kinds(table: list[dict[str, Any]], samples: Samples, nowhere: Bools, serving: Bools) -> Ints:
    """By sample, if no line of the program is on its stack (nowhere): which of _KINDS stands for it.  serving: in code
    of pools."""
    since = np.array([*(row["script_begin"] or 0 for row in table), 0], np.int64)[samples["process"]]
    first = np.array([*(row["parent"] is None for row in table), False])[samples["process"]]
    main, running = _main(table, samples), samples["state"] == _RUNNING
    here = np.where((main & first) | running, _KINDS.index(NOWHERE), _KINDS.index(IDLE))
    here = np.where(serving & running, _KINDS.index(POOLS), here)
    bare = np.array([*(not text for text in samples.stacks), True])[samples["stack"]]  # Python has no frame any more
    here = np.where(main & (first | bare) & _ends(table, samples, main, nowhere), _KINDS.index(AFTER), here)
    begins = main & (samples["time"] < since) | main & running & ~first & _begins(table, samples, nowhere)
    return np.where(begins, _KINDS.index(BEFORE), here)


def _begins(table: list[dict[str, Any]], samples: Samples, nowhere: Bools) -> Bools:
    """Whether a sample was taken before its process ran a line of the program, in any thread.  Of a worker: before its
    first task, while libraries are imported."""
    never = np.iinfo(np.int64).max
    own, since = np.flatnonzero(~nowhere), np.full(len(table) + 1, never)
    np.minimum.at(since, samples["process"][own], samples["time"][own])
    before: Bools = samples["time"] < np.where(since == never, 0, since)[samples["process"]]
    return before


def _ends(table: list[dict[str, Any]], samples: Samples, main: Bools, nowhere: Bools) -> Bools:
    """Whether a sample was taken after its process had run its last line, while Python and libraries shut down.  A main
    thread that is found at a line again later was only between two lines."""
    last = np.full(len(table) + 1, np.iinfo(np.int64).min)
    own = np.flatnonzero(main & ~nowhere)
    np.maximum.at(last, samples["process"][own], samples["time"][own])
    known = last > np.iinfo(np.int64).min
    ended = np.array([*(row["end"] is not None for row in table), False])
    after: Bools = (known & ended)[samples["process"]] & (samples["time"] > last[samples["process"]])
    return after


class _Sums:
    """Sums by line, over stacks."""

    def __init__(self) -> None:
        self._lines: dict[str, dict[str, float]] = {}
        self.meanwhile: dict[str, list[OtherLine]] = {}
        self.longest: dict[str, float] = {}
        self.directly: dict[str, float] = {}
        self._called: dict[str, dict[str, list[float]]] = {}

    def add(self, own: Iterable[Line], amounts: dict[str, float], calls: int, samples: float) -> None:
        """Adds what is known of a stack to each line on it, the innermost last."""
        *_, innermost = own
        known, aside = amounts.get("cpu", 0.0), amounts.get("aside", 0.0)
        sampled = sum(amounts.get(name, 0.0) for name in _PARTS[2:])
        whole = sum(amounts.get(name, 0.0) for name in _PARTS)
        for line, called in own:
            found = self._lines.setdefault(line, dict.fromkeys((*_PARTS, *_OTHERS), 0.0))
            for name in _PARTS:
                found[name] += amounts.get(name, 0.0)
            found["calls"] += calls
            found["samples"] += samples
            if line == innermost.line:
                found["here"] += whole
                found["aside"] += aside
            if called:
                times = self._called.setdefault(line, {}).setdefault(called, [0.0, 0.0, 0.0])
                for n, amount in enumerate((sampled, known, calls)):
                    times[n] += amount
            else:
                found["own"] += sampled

    def _longest_ns(self, line: str, here: float) -> int:
        direct = min(self.directly.get(line, 0.0), here)
        return round(max(here * self.longest.get(line, 1), direct))

    def rows(self) -> list[LineTime]:
        rows = []
        for line, found in self._lines.items():
            called = [CalledTime(name, *map(round, amounts)) for name, amounts in self._called.get(line, {}).items()]
            called.sort(key=lambda one: (-one.time_ns, one.function))
            parts: dict[str, Any] = {f"{name}_ns": round(found[name]) for name in _PARTS}
            rows.append(
                LineTime(
                    line=line, time_ns=sum(parts.values()), here_ns=round(found["here"]),
                    aside_ns=round(found["aside"]), own_ns=round(found["own"]),
                    calls=int(found["calls"]), samples=round(found["samples"]), called=called[:_CALLED],
                    meanwhile=self.meanwhile.get(line, []), longest_ns=self._longest_ns(line, found["here"]),
                    **parts,
                )
            )  # fmt: skip
        return sorted(rows, key=lambda row: (-row.here_ns, -row.time_ns, row.line))
