"""A line gives a pool of threads many small tasks, and handing them over takes longer than running them.

Each task goes through a queue and wakes a thread, and its result wakes the event loop
or the waiting thread again. That costs the same however little the task does.
aiofiles makes a task of every call, even for a single line. Make the tasks larger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.enums import THREAD_TASK, OpClass
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Recoverable, Remedy
from pyio_trace.insights.library_frames import FramesOfLines
from pyio_trace.insights.library_use import NEEDS, Group, calls_of
from pyio_trace.insights.observed import site_of
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import number, seconds

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed

_AIOFILES = Remedy(
    "Read blocks, or the whole file: every call of aiofiles is a task of a thread.",
    "async def lines(f):\n    async for line in f:\n        use(line)",
    "async def lines(f):\n    text = await f.read()    # or blocks of 1 MiB\n    for line in text.splitlines():\n"
    "        use(line)",
    "aiofiles",
)
_WRITTEN = Remedy(
    "Write many lines in one call: every call of aiofiles is a task of a thread.",
    "async def save(f, lines):\n    for line in lines:\n        await f.write(line)",
    "async def save(f, lines):\n    await f.write(''.join(lines))    # or thousands at a time",
    "aiofiles",
)
#: Where a file has no more tasks than these, it is read whole: opened, read, closed.
_OF_A_FILE = 3
_WHOLE = Remedy(
    "Read each file in one task, and several at once: every call of aiofiles is a task of a thread.",
    "async def load(path):\n    async with aiofiles.open(path) as f:\n        return await f.read()",
    "async def load(path):\n    return await asyncio.to_thread(Path(path).read_text)\n"
    "# all of them: await asyncio.gather(*map(load, paths))",
    "aiofiles",
)
#: Libraries whose callers choose how much each task does.
_HAND_OVER = frozenset(("aiofiles", "anyio"))
_LARGER = Remedy(
    "Give the pool larger pieces: many items in one task.",
    "async def main():\n    for item in items:\n        await asyncio.to_thread(work, item)",
    "async def main():\n    await asyncio.to_thread(lambda: [work(item) for item in items])",
    "asyncio",
)


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    tasks = calls_of(run, THREAD_TASK)
    for (code,), group in tasks.by("site"):
        line = tasks.calls.sites[code] if code >= 0 else ""
        if line not in run.wall or not run.is_own(line) or len(group) < limits["tasks"]:
            continue
        if not _HAND_OVER.issuperset(run.of(FramesOfLines()).between([line])):
            continue  # another library makes the tasks
        work, row = group.total("duration"), run.wall[line]
        over = min(row.here_ns - row.aside_ns, run.wall_ns) - work
        if over >= limits["share"] * run.wall_ns and over > work:
            yield _finding(run, line, group, over, work)


def _finding(run: Observed, line: str, group: Group, over: int, work: int) -> Finding:
    site, count = site_of(line), len(group)
    of_aiofiles = any(one.function.startswith("aiofiles.") for one in run.wall[line].called)
    moves = [run.calls.where_line(line).where(kind=kind).total("calls") for kind in (OpClass.READ, OpClass.WRITE)]
    whole = count <= _OF_A_FILE * run.calls.where_line(line).distinct("path")
    how, saved = "the line's time without its tasks", over
    if of_aiofiles and not whole:  # each task moves a piece
        how, saved = "the line's time: few tasks move the same in large pieces", over + work
    text = (
        f"{number(count)} tasks of threads took {seconds(work)}, {seconds(work // max(count, 1))} each; the line took "
    )
    text += f"{seconds(over + work)}."
    return Finding(
        title=f"{number(count)} small tasks are handed to threads one by one",
        recoverable_ns=saved,
        recoverable=Recoverable(how, "upper", run.wall_ns),
        evidence=[Evidence(text, {"tasks": count, "work_ns": work, "line_ns": over + work})],
        remedy=(_WHOLE if whole else _WRITTEN if moves[1] > moves[0] else _AIOFILES) if of_aiofiles else _LARGER,
        confidence=Confidence(0.7, "what else the event loop does at this line is not known"),
        query=sql.rows({"op": THREAD_TASK, "site": line}),
        sites=[] if site is None else [site],
        processes=group.processes(),
    )


RULE = Rule(
    "computing",
    find,
    limits={
        "tasks": Limit(100, "at a line, at least"),
        "share": Limit(0.05, "of the wall time that handing over takes, at least"),
    },
    needs=NEEDS,
)
