"""A line asks for the same path at a steady interval: it waits for something to happen there.

Each question is a call, on a network file system a message, and the answer is
late by half an interval on average. Let the other process say when it is done: a
pipe, a queue, a future; or have the kernel say when a file changes (inotify, as in
`watchfiles`). Where only polling works, ask less often.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.analysis.reducers.metadata import MetadataByPath
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy, Site
from pyio_trace.insights.observed import MOST_NAMED, site_of
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import number, seconds

if TYPE_CHECKING:
    from pyio_trace.analysis.reducers.metadata import MetadataCalls
    from pyio_trace.analysis.view_sums.call_table import CallTable
    from pyio_trace.insights.observed import Observed


METADATA = MetadataByPath(summed=False)
#: For lines that ask for a path until something happens there.
WAIT = Remedy(
    "Wait for a message instead of a file; if it has to be a file, ask less often.",
    "while not os.path.exists('done'):\n    time.sleep(0.1)",
    "process.wait()    # or queue.get(), future.result(),\n                  # watchfiles.watch(folder)",
)
#: For lines that list a folder, or ask for its files, until something changes there.
WATCH = Remedy(
    "Have the kernel say what changes (inotify), instead of asking for all of it; or ask less often.",
    "while True:\n    newest = max(Path(folder).iterdir(), key=os.path.getmtime)\n    time.sleep(0.1)",
    "for changes in watchfiles.watch(folder):\n    ...    # only what has changed",
)
#: Calls that ask for what is known of a path.
ASKING = ("stat", "lstat", "fstatat", "statx", "access", "faccessat")
#: For lines that make a file, which tells others to wait, until it is not there.
LOCK = Remedy(
    "Have the kernel hold the lock: it wakes the next one at once, and frees the lock of a process that ends.",
    "while True:\n    try:\n        os.close(os.open(path, os.O_CREAT | os.O_EXCL))\n        break\n"
    "    except FileExistsError:\n        time.sleep(0.1)",
    "with open(path, 'w') as f:\n    fcntl.flock(f, fcntl.LOCK_EX)    # waits\n    ...",
)
#: Share of the run that a program sleeps that watches something.
_ASLEEP = 0.1
_REMOVING = ("unlink", "unlinkat", "remove")
_KINDS = ("ask", "open", "list")
#: Bytes that are read of a file to see its state, at most.
_STATE = 4096


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    asked: dict[tuple[str, str], list[MetadataCalls]] = {}
    reads: dict[str, int] = {}
    for one in run.of(METADATA).rows:
        if one.line is None or not run.is_own(one.line) or one.kind not in _KINDS or one.interval_ns is None:
            continue
        slow = one.interval_ns >= limits["ms"] * 1e6
        if (
            slow
            and one.calls >= limits["calls"]
            and len(asked) < MOST_NAMED
            and (one.steady or _refused(run, one) is not None)
            and _asks(run, one, reads)
        ):
            asked.setdefault((one.line, one.op), []).append(one)
    for (line, _), same in asked.items():
        yield _finding(run, line, same)


def is_watching(run: Observed, sites: Collection[Site]) -> bool:
    """Whether the functions of these lines also sleep, for a good part of the run: they do it at intervals."""
    functions = {(site.file, site.function) for site in sites}
    asleep = 0
    for line, row in run.wall.items():
        site = site_of(line)
        if site is not None and (site.file, site.function) in functions:
            asleep += row.sleep_ns
    return asleep > _ASLEEP * run.wall_ns


def _refused(run: Observed, one: MetadataCalls) -> CallTable | None:
    """The calls of a line that were to make a file which was there, as its function slept in between; None: few, or
    nobody removes it."""
    site = site_of(one.line)
    if one.kind != "open" or one.line is None or site is None:
        return None
    of_path = run.calls.where_paths([one.path])
    calls = of_path.where_line(one.line).where(op=(one.op,), errno=errno.EEXIST)
    freed = of_path.where(op=_REMOVING, errno=0).total("calls")
    return calls if freed and 3 * calls.total("calls") >= one.calls and is_watching(run, [site]) else None


def _asks(run: Observed, one: MetadataCalls, reads: dict[str, int]) -> bool:
    """Whether the calls ask for the state of a path rather than use it, or are inside a library's call that does.

    reads: by line, how often it reads, filled in here.
    """
    if run.is_database(one.path):
        return False
    line = one.line or ""
    of_path = run.calls.where_paths([one.path])  # few, of which the line's are found fast
    calls = of_path.where_line(line)
    if calls.transfers("write").total("calls"):
        return False  # the line writes it: it asks for what it has made itself
    if one.kind == "open":  # it is not there, or little is read of it
        if _refused(run, one) is not None:
            return True
        read = of_path.transfers("read").total("moved")
        return 2 * one.missing >= one.calls or 0 < read <= _STATE * one.calls
    if line not in reads:
        reads[line] = run.calls.where_line(line).transfers("read").total("calls")
    if reads[line] >= one.calls:
        return False  # the line reads as often as it asks: it waits for nothing
    made = calls.where(op=("mkdir", "mkdirat")).total("calls")  # os.makedirs(exist_ok=True)
    return not made and calls.where(op=(one.op,), inside=0).total("calls") > 0


def _finding(run: Observed, line: str, same: list[MetadataCalls]) -> Finding:
    """same: what a line asks for with one operation."""
    one, paths = same[0], [each.path for each in same]
    calls = run.calls.where_line(line).where_paths(paths).where(op=(one.op,))
    gain = run.gain(run.times(calls), "the calls themselves; how long each change went unnoticed is not known")
    refused = [found for each in same if (found := _refused(run, each)) is not None]
    if refused:
        late: Counter[int] = Counter()
        for each in refused:
            late.update({group["process"]: group.calls * (one.interval_ns or 0) // 2 for group in each.by("process")})
        gain = run.gain(late, "half an interval for each time that it was held: it may have been free since then")
    count, missing = sum(each.calls for each in same), sum(each.missing for each in same)
    every = f"one every {seconds(one.interval_ns or 0)}"
    what = "one path, " if len(same) == 1 else f"{number(len(same))} paths, of each "
    begin, end = min(each.first_ns for each in same), max(each.last_ns for each in same)
    return Finding(
        title=f"{number(count)} calls ask for {what}{every}",
        evidence=[
            Evidence(
                f"{number(count)} {one.op} calls between {seconds(begin)} and {seconds(end)} of the run; "
                f"{number(missing)} found nothing there.",
                {
                    "calls": count,
                    "interval_ns": one.interval_ns or 0,
                    "missing": missing,
                    "time_ns": sum(each.time_ns for each in same),
                },
            )
        ],
        remedy=LOCK if refused else WAIT,
        confidence=Confidence(0.9, "half of the intervals are within 80 % and 125 % of the median"),
        query=sql.rows({"site": line, "op": one.op, "path": paths}, select="time, errno", group="", order="time"),
        **run.about(calls, gain),
    )


RULE = Rule(
    "metadata",
    find,
    limits={
        "calls": Limit(20, "of one line on one path, at least"),
        "ms": Limit(1, "between two of them, at least; without a pause it is another finding"),
    },
    needs=(METADATA,),
    topic="metadata",
    yields_to=("list-again",),
    each_call=True,
)
