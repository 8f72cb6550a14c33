"""A coroutine or callback calls on files itself, on the thread of its event loop, which serves nobody meanwhile.

An event loop (asyncio, uvloop, trio; anyio runs on these) switches between tasks
where they `await`. A read, write, open, stat, sync or lock is no such place: while
it lasts, no other task runs, no request is answered, no timeout fires. On a
network file system, and at a sync, one call can take seconds. Let a thread make
the calls, and await the thread: once for many calls, as handing over takes time,
too.

The call stack of each call says whether it was made beneath the loop's dispatch,
and the line is the innermost of the program there, at whatever depth. What ran
before the loop was up, in other threads (`asyncio.to_thread`) or in the loop's own
code is not a task's. Nor are imports within a coroutine, which `import-storm` is
about, and cells of notebooks. The rule says nothing of calls without a stack
(`--stacks=off`) or whose stack was cut beneath the dispatch (`--stacks=site` keeps 8
frames), of callbacks without a line of the program, as in `call_later(1, os.stat, path)`, and of uvloop unless
`asyncio.run`, `asyncio.Runner`, `uvloop.run` or aiohttp's `run_app` runs it.

The log does not know whether another task was ready at that moment, so the
time is an upper bound. The confidence is low unless calls of several coroutines or
callbacks alternate on the loop, or the process makes many calls on sockets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyio_trace.insights import sql
from pyio_trace.insights.event_loops import conditions
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.line_walls import with_libraries
from pyio_trace.insights.loop_calls import LOOPS, LoopTable
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import counted, seconds

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import Group
    from pyio_trace.insights.observed import Observed

_MS = 1_000_000
#: Calls on sockets (of which the log counts reads, writes and closes) from which on a loop is taken to serve others.
_CONNECTIONS = 20
_NOT_KNOWN = "whether another task was ready then is not in the log"

_TEXT = "Let a thread run the function that makes all of these calls, and await it."
_REMEDY = Remedy(
    f"{_TEXT} aiofiles does so for single calls.",
    "async def handle(path):\n    config = read_config(path)",
    "async def handle(path):\n    config = await asyncio.to_thread(read_config, path)",
    "asyncio",
)
_REMEDIES = {
    "asyncio": _REMEDY,
    **{
        library: replace(
            _REMEDY,
            text=f"{_TEXT} {library}.Path and {library}.open_file do so for single calls.",
            after=f"async def handle(path):\n    run = {library}.to_thread.run_sync\n"
            "    config = await run(read_config, path)",
            library=library,
        )
        for library in ("anyio", "trio")
    },
}
#: (process, tid) -> the program's outermost function beneath the dispatch -> when its first call began, its last ended.
Spans = dict[tuple[int, int], dict[str, tuple[int, int]]]


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    table = run.of(LOOPS)
    calls = table.calls.rows(table.calls.own)
    spans = _spans(table)
    for line in calls.by("site"):
        longest = int(line.rows.columns["longest"].max())
        if line.time < limits["ms"] * _MS:
            break  # the one with the most time is first
        if not line.calls:  # all are inside requests of other lines
            continue
        if line.calls < limits["calls"] and longest < limits["longest_ms"] * _MS:
            continue
        yield _finding(run, table, line, longest, spans)


def _finding(run: Observed, table: LoopTable, line: Group, longest: int, spans: Spans) -> Finding:
    stacks = [table.stacks[stack] for stack in line.rows.codes("stack")]
    libraries = Counter(dict.fromkeys(_REMEDIES, 0))
    for group in line.rows.by("stack"):
        libraries[table.stacks[group["stack"]].library] += 1 + group.time
    least = "at least " if line.rows.columns["longer"].any() else ""
    value, others = _others(run, table, line, spans)
    how = "the time in these calls, in which the loop ran nothing else"
    gain = run.gain(run.times(line.rows), how)
    gain = with_libraries(run, gain, run.sites(line.rows), 1, line.rows.codes("process"), line.moved)
    more = f" With what libraries do between them it is {seconds(gain.ns)}." if gain.ns > 2 * line.time else ""
    return Finding(
        title=f"An event loop stood still for {seconds(line.time)} in {counted(line.calls, 'call')} on files",
        evidence=[
            Evidence(
                f"The loop stood still for {seconds(line.time)}, in the longest call for {least}{seconds(longest)}."
                f"{more} {others}; {_NOT_KNOWN}.",
                {"calls": line.calls, "time_ns": line.time, "longest_ns": longest},
            )
        ],
        remedy=_REMEDIES[libraries.most_common(1)[0][0]],
        confidence=Confidence(value, "the stack of each call is in the log", [_NOT_KNOWN]),
        query=sql.rows(
            {"site": run.calls.site(line["site"]), "op_role": ("request", "io", "sync", "lock")},
            more="coalesce(request_id, id) = id\n  AND " + conditions(sorted({one.loop for one in stacks})),
        ),
        **run.about(line.rows, gain),
    )


def _spans(table: LoopTable) -> Spans:
    found: Spans = {}
    for group in table.calls.by("process", "tid", "stack"):
        roots = found.setdefault((group["process"], group["tid"]), {})
        root = table.stacks[group["stack"]].root
        first, last = roots.get(root, (group.first, group.last))
        roots[root] = min(first, group.first), max(last, group.last)
    return found


def _others(run: Observed, table: LoopTable, line: Group, spans: Spans) -> tuple[float, str]:
    """(confidence, sentence): what the log knows of others that the loop may have kept waiting."""
    for group in line.rows.by("process", "tid"):
        roots = spans[group["process"], group["tid"]]
        now = {root: span for root, span in roots.items() if span[0] < group.last and group.first < span[1]}
        own = [now[root] for root in {table.stacks[stack].root for stack in group.rows.codes("stack")} & set(now)]
        at_work = [span for span in now.values() if any(span[0] < last and first < span[1] for first, last in own)]
        if len(at_work) > len(own) or any(_overlap(span, own) for span in own):
            names = counted(len(at_work), "coroutine or callback", "coroutines or callbacks")
            return 0.7, f"Calls of {names} alternate on it"
    sockets = sum(run.socket_calls().get(process, 0) for process in line.rows.codes("process"))
    if sockets >= _CONNECTIONS:
        return 0.6, f"{counted(sockets, 'read, write or close', 'reads, writes and closes')} of sockets were counted"
    return 0.4, "At any time its calls on files are of one coroutine or callback, be it one task or several"


def _overlap(span: tuple[int, int], spans: list[tuple[int, int]]) -> bool:
    """Whether a span overlaps others of a list that it is in."""
    return sum(span[0] < last and first < span[1] for first, last in spans) > 1


RULE = Rule(
    "overlap",
    find,
    limits={
        "ms": Limit(10, "that a loop stood still for the calls of one line, at least"),
        "calls": Limit(100, "of that line, at least, unless one of them takes long", few=3),
        "longest_ms": Limit(5, "of one call, at least, if there are fewer calls"),
    },
    needs=(LOOPS,),
)
