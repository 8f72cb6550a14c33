"""Wall time of the program's lines: samples, split, and calls on files by line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.calls.code_texts import texts
from pyio_trace.analysis.calls.stack_lines import Line, StackLines, place_of
from pyio_trace.analysis.results.line_time import (
    BEFORE,
    IDLE,
    NOWHERE,
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
from pyio_trace.errors import ConfigError
from pyio_trace.join.base.samples import Samples
from pyio_trace.log import layout

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: What stands for a line where a stack has none of the program.
_KINDS = (BEFORE, IDLE, NOWHERE)
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


def line_times(log: Log, when: TimeBins, where: GroupedSums, top: int) -> LineTimes:
    """The times of lines; when, where: of calls on files, by thread and time, and by site and stack.

    Raises ConfigError bad-value for a part of a log that has other calls besides: their time would be taken for
    something else.
    """
    if log.choice is not None and not set(log.choice.columns) <= {"process"}:
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
    main = _add_samples(sums, log, samples, lines, when, {stack.rpartition(";")[2] for stack in stacks if stack})
    rows = sums.rows()
    residual = sum(row.here_ns for row in rows if row.line == NOWHERE)
    whole = sum(row.here_ns for row in rows)
    return LineTimes(len(samples) > 0, whole, residual, rows[:top], main, len(rows[top:]), when.dropped + where.dropped)


def _add_samples(
    sums: _Sums, log: Log, samples: Samples, lines: StackLines, when: TimeBins, calling: set[str]
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
    places = np.where(nowhere, count + _kinds(table, samples), stack)
    size = count + len(_KINDS)
    amounts = {"cpu": np.bincount(places, parts.cpu, size), "delay": np.bincount(places, parts.delay, size)}
    for name in (*_STATES, "running"):
        of_state = parts.blocked * (samples["state"] == layout.SAMPLE_STATES.index(name))
        amounts["unseen" if name == "running" else name.replace(" ", "_")] = np.bincount(places, of_state, size)
    aside = parts.blocked * (~_main(table, samples) & np.isin(samples["state"], _BLOCKED))
    amounts["aside"] = np.bincount(places, aside, size)
    looks = np.bincount(places, samples["samples"], size)
    for at in np.flatnonzero(looks).tolist():
        own = on_stack[at] if at < count else [Line(_KINDS[at - count], "")]
        sums.add(own, {name: float(values[at]) for name, values in amounts.items()}, 0, int(looks[at]))
    _add_meanwhile(sums, samples, parts, [own[-1].line if own else None for own in on_stack], stack, in_calls)
    importing = np.array([*(any(one.called.startswith("import") for one in own) for own in on_stack), False])
    return _main_threads(table, samples, parts, importing[stack])


def _add_meanwhile(
    sums: _Sums, samples: Samples, parts: Split, innermost: list[str | None], stack: Ints, in_calls: NDArray[np.bool_]
) -> None:
    """Adds what others did while lines waited for them.

    innermost: by stack, its line; stack, in_calls: by sample, and whether its innermost line makes calls on files.
    """
    line, names = numbered([*innermost, None])
    waits = np.isin(samples["state"], [layout.SAMPLE_STATES.index(state) for state in _FOR_OTHERS])
    works = (samples["state"] == _RUNNING) | in_calls
    working = np.where(works, np.maximum(samples["duration"] - parts.blocked, 0), 0)
    for at, others in meanwhile(samples, line[stack], parts.blocked * waits, working).items():
        sums.meanwhile[names[at]] = [OtherLine(names[other], time) for other, time in others]


def _main_threads(
    table: list[dict[str, Any]], samples: Samples, parts: Split, importing: NDArray[np.bool_]
) -> list[MainThread]:
    """importing: by sample, whether an import was under way."""
    since = np.array([*(row["script_begin"] or 0 for row in table), 0], np.int64)[samples["process"]]
    own = _main(table, samples) & ~importing & (samples["time"] >= since) & (samples["process"] >= 0)
    state, process = samples["state"], np.where(own, samples["process"], len(table))
    gil, asleep = (state == layout.SAMPLE_STATES.index(name) for name in ("gil", "sleep"))
    amounts = (parts.cpu + parts.delay, parts.blocked * gil, parts.blocked * asleep, parts.blocked * ~(gil | asleep))
    sums = np.stack([np.bincount(process, one, len(table) + 1)[:-1] for one in amounts], 1)
    return [MainThread(at, *map(round, sums[at].tolist())) for at in np.flatnonzero(sums.any(axis=1)).tolist()]


def _main(table: list[dict[str, Any]], samples: Samples) -> NDArray[np.bool_]:
    """Samples of main threads."""
    pid = np.array([*(row["pid"] or 0 for row in table), 0], np.int64)[samples["process"]]
    found: NDArray[np.bool_] = samples["thread"] == pid
    return found


def _kinds(table: list[dict[str, Any]], samples: Samples) -> Ints:
    """By sample, if no line of the program is on its stack: which of _KINDS stands for it."""
    since = np.array([*(row["script_begin"] or 0 for row in table), 0], np.int64)[samples["process"]]
    first = np.array([*(row["parent"] is None for row in table), False])[samples["process"]]
    main, running = _main(table, samples), samples["state"] == _RUNNING
    here = np.where((main & first) | running, _KINDS.index(NOWHERE), _KINDS.index(IDLE))
    return np.where(main & (samples["time"] < since), _KINDS.index(BEFORE), here)


class _Sums:
    """Sums by line, over stacks."""

    def __init__(self) -> None:
        self._lines: dict[str, dict[str, float]] = {}
        self.meanwhile: dict[str, list[OtherLine]] = {}
        self._called: dict[str, dict[str, list[float]]] = {}

    def add(self, own: Iterable[Line], amounts: dict[str, float], calls: int, samples: int) -> None:
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
                times = self._called.setdefault(line, {}).setdefault(called, [0.0, 0.0])
                times[0] += sampled
                times[1] += known
            else:
                found["own"] += sampled

    def rows(self) -> list[LineTime]:
        rows = []
        for line, found in self._lines.items():
            called = [
                CalledTime(name, round(time), round(cpu)) for name, (time, cpu) in self._called.get(line, {}).items()
            ]
            called.sort(key=lambda one: (-one.time_ns, one.function))
            parts: dict[str, Any] = {f"{name}_ns": round(found[name]) for name in _PARTS}
            rows.append(
                LineTime(
                    line=line, time_ns=sum(parts.values()), here_ns=round(found["here"]),
                    aside_ns=round(found["aside"]), own_ns=round(found["own"]),
                    calls=int(found["calls"]), samples=int(found["samples"]), called=called[:_CALLED],
                    meanwhile=self.meanwhile.get(line, []), **parts,
                )
            )  # fmt: skip
        return sorted(rows, key=lambda row: (-row.here_ns, -row.time_ns, row.line))
