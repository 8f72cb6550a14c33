"""Wall time of the program's lines: samples, split, and calls on files by line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.calls.code_texts import texts
from pyio_trace.analysis.calls.stack_lines import Line, StackLines
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.analysis.sums.time_bins import TimeBins
from pyio_trace.analysis.view_sums.sampled_times import ThreadCalls, split
from pyio_trace.errors import ConfigError
from pyio_trace.join.base.samples import Samples
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log import layout

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: What stands for a line where a stack has none of the program: before its first line; in a further thread that waits;
#: otherwise.
BEFORE, IDLE, NOWHERE = (
    "(before the program's first line)",
    "(idle threads of libraries)",
    "(at no line of the program)",
)
_KINDS = (BEFORE, IDLE, NOWHERE)
#: What time is made of, in the order of LineTime's fields; those after delay are states of samples.
_STATES = ("gil", "lock", "sleep", "poll", "wait", "system call", "fault")
_PARTS = ("io", "sync", "cpu", "delay", *(state.replace(" ", "_") for state in _STATES), "unseen")
#: Functions that a row names.
_CALLED = 8


@dataclass(frozen=True)
class CalledTime:
    """A library function that a line called: the outermost one beneath it ("import NAME" of an import).  time_ns: while
    it ran, without exact calls on files; cpu_ns: of that, with a processor."""

    SHOWN: ClassVar[tuple[str, ...]] = ("time_ns", "cpu_ns")

    function: str
    time_ns: int
    cpu_ns: int


@dataclass(frozen=True)
class LineTime:
    """One line of the program.  Times of several threads add up.

    time_ns: while it was on the stack of its thread, the sum of all that follows up to unseen_ns.  here_ns: of that,
    while no other line of the program was beneath it.  io_ns, sync_ns: calls on files, and syncs and locks of files:
    exact.  cpu_ns: with a processor; delay_ns: ready, and waiting for one.  gil_ns, lock_ns,
    sleep_ns, poll_ns (select, epoll), wait_ns (for a child process), system_call_ns (another one, such as reading a
    socket), fault_ns (a page that was not in memory, or stopped): blocked in that.  unseen_ns: blocked, too briefly to
    be found so.  own_ns: in the program's own code, and in functions written in C that it called.  called: the library
    functions that it called, longest first.  calls: on files; samples: how often it was found there.
    """

    SHOWN: ClassVar[tuple[str, ...]] = ("here_ns", "time_ns", "io_ns", "cpu_ns", "gil_ns", "lock_ns", "sleep_ns")

    line: str
    time_ns: int
    here_ns: int
    io_ns: int
    sync_ns: int
    cpu_ns: int
    delay_ns: int
    gil_ns: int
    lock_ns: int
    sleep_ns: int
    poll_ns: int
    wait_ns: int
    system_call_ns: int
    fault_ns: int
    unseen_ns: int
    own_ns: int
    calls: int
    samples: int
    called: list[CalledTime]


@dataclass(frozen=True)
class LineTimes:
    """sampled: whether there was a sampler; without one, only calls on files are known.  thread_ns: time that threads
    were watched for, sampled or in calls on files.  residual_ns: of that, at no line of the program while it ran, which
    a row names; waits of further threads are not in it.  rows: most time on the innermost line first.  more: further
    rows; dropped: sums that did not fit into memory (0: all figures are exact)."""

    sampled: bool
    thread_ns: int
    residual_ns: int
    rows: list[LineTime]
    more: int
    dropped: int


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
        if site is not None and site not in [one.line for one in own]:
            own = [*own, Line(site, "")]  # it submitted the work to this thread, or is a library's
        sums.add(own or [Line(NOWHERE, "")], {"io": calls["io"][at], "sync": calls["sync"][at]}, calls["calls"][at], 0)
    _add_samples(sums, log, samples, lines, when, {stack.rpartition(";")[2] for stack in stacks if stack})
    rows = sums.rows()
    residual = sum(row.here_ns for row in rows if row.line == NOWHERE)
    whole = sum(row.here_ns for row in rows)
    return LineTimes(len(samples) > 0, whole, residual, rows[:top], len(rows[top:]), when.dropped + where.dropped)


def _add_samples(sums: _Sums, log: Log, samples: Samples, lines: StackLines, when: TimeBins, calling: set[str]) -> None:
    """Adds the time of samples.  calling: innermost lines of calls on files."""
    if not len(samples):
        return
    count = len(samples.stacks)
    stack = np.where(samples["stack"] < 0, count, samples["stack"])
    in_calls = np.array([*(text.rpartition(";")[2] in calling for text in samples.stacks), False])[stack]
    bins = when.columns()
    order = np.lexsort((bins["bin"], bins["thread"], bins["process"]))
    of_threads = ThreadCalls(*(bins[name][order] for name in ("process", "thread", "bin", "time")), when.width)
    parts = split(samples, in_calls, of_threads, whole=log.info()["mode"] == "profile")
    used = np.bincount(stack, minlength=count + 1)
    on_stack = [lines.of(text) if used[at] else [] for at, text in enumerate(samples.stacks)]
    nowhere = np.array([*(not own for own in on_stack), True])[stack]
    places = np.where(nowhere, count + _kinds(log, samples), stack)
    size = count + len(_KINDS)
    amounts = {"cpu": np.bincount(places, parts.cpu, size), "delay": np.bincount(places, parts.delay, size)}
    for name in (*_STATES, "running"):
        of_state = parts.blocked * (samples["state"] == layout.SAMPLE_STATES.index(name))
        amounts["unseen" if name == "running" else name.replace(" ", "_")] = np.bincount(places, of_state, size)
    looks = np.bincount(places, samples["samples"], size)
    for at in np.flatnonzero(looks).tolist():
        own = on_stack[at] if at < count else [Line(_KINDS[at - count], "")]
        sums.add(own, {name: float(values[at]) for name, values in amounts.items()}, 0, int(looks[at]))


def _kinds(log: Log, samples: Samples) -> Ints:
    """By sample, if no line of the program is on its stack: which of _KINDS stands for it."""
    table = log.processes().to_pylist()
    pid = np.array([*(row["pid"] or 0 for row in table), 0], np.int64)[samples["process"]]
    since = np.array([*(row["script_begin"] or 0 for row in table), 0], np.int64)[samples["process"]]
    main = samples["thread"] == pid
    running = samples["state"] == layout.SAMPLE_STATES.index("running")
    early = main & (samples["time"] < since)
    return np.where(early, _KINDS.index(BEFORE), np.where(main | running, _KINDS.index(NOWHERE), _KINDS.index(IDLE)))


class _Sums:
    """Sums by line, over stacks."""

    def __init__(self) -> None:
        self._lines: dict[str, dict[str, float]] = {}
        self._called: dict[str, dict[str, list[float]]] = {}

    def add(self, own: Iterable[Line], amounts: dict[str, float], calls: int, samples: int) -> None:
        """Adds what is known of a stack to each line on it, the innermost last."""
        *_, innermost = own
        known = amounts.get("cpu", 0.0)
        sampled = sum(amount for name, amount in amounts.items() if name not in ("io", "sync"))
        whole = sum(amounts.values())
        for line, called in own:
            found = self._lines.setdefault(line, dict.fromkeys((*_PARTS, "here", "own", "calls", "samples"), 0.0))
            for name, amount in amounts.items():
                found[name] += amount
            found["calls"] += calls
            found["samples"] += samples
            found["here"] += whole if line == innermost.line else 0.0
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
                    line=line, time_ns=sum(parts.values()), here_ns=round(found["here"]), own_ns=round(found["own"]),
                    calls=int(found["calls"]), samples=int(found["samples"]), called=called[:_CALLED], **parts,
                )
            )  # fmt: skip
        return sorted(rows, key=lambda row: (-row.here_ns, -row.time_ns, row.line))
