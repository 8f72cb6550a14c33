"""Importing modules takes much of the run, with many calls on files.

Python looks for each module along sys.path. On a slow file system, or with many
processes that start at once, this can take longer than the work. Import what is
needed where it is needed, shorten sys.path, or keep the environment on a local
disk or in one archive (a container image, zipimport). How much of the time is the
file system's is known only if the log has a row for each import (`--include imports`); else
it is estimated. If it is a small part of the run, running the modules takes the time,
and there is no finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.enums import OpClass, Role
from pyio_trace.insights import import_use
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Query, Remedy, Term
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import counted, number, percent, seconds

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Gain, Observed

#: ns that a call on a file is taken to last at least.
_EACH = 2_000
_QUERY = """SELECT process_name, pid, imports, import_time / 1e9 AS seconds
FROM processes
WHERE import_time > 0
ORDER BY seconds DESC"""


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    # Each interpreter imports some modules: many that start are another finding, so no process counts for another one.
    # Workers that import what their parent had imported are one as well (worker-reimport).
    again = {worker.index for worker in import_use.workers_again(run)}
    made = {n: calls for n, calls in run.import_calls().items() if calls >= limits["calls"] and n not in again}
    times = {row["index"]: row["import_time"] for row in run.processes if row["index"] in made and row["import_time"]}
    rows = run.imported.where(imported=True, process=times)
    calls = sum(made[index] for index in times)
    recorded = 2 * rows.total("calls") > calls  # else only those that modules made while they were imported
    gain = run.gain(times, "all of it; what is needed has to be imported")
    if not times or gain.ns < limits["share"] * run.wall_ns:
        return
    worst = sorted(times, key=lambda index: -times[index])
    name = run.processes[worst[0]]["process_name"] or "the program"
    modules = sum(run.processes[index]["imports"] or 0 for index in times)
    texts = [
        Evidence(
            f"{number(modules)} import statements that loaded something took {seconds(sum(times.values()))} in "
            f"{counted(len(times), 'process', 'processes')}, with {number(calls)} calls on files.",
            {"imports": modules, "calls": calls, "import_ns": sum(times.values()), "processes": len(times)},
        )
    ]
    if recorded:
        terms = [Term("calls on files", rows.total("time"))]
        folders = import_use.worst_folders(rows.sums("path"), rows.words["path"])
        texts.append(Evidence(f"The folders with the most time: {', '.join(folders)}.", {"io_ns": rows.total("time")}))
        gain = run.gain(run.times(rows), "the calls on files that imports made", terms=terms)
    else:
        gain = _estimated(run, times, calls)
    if gain.ns < limits["calls_share"] * run.wall_ns:
        return  # running the modules is what takes long
    if packages := _packages(run, worst[0]):
        texts.append(Evidence(f"The packages that took longest, each without others: {', '.join(packages)}."))
    yield Finding(
        title=f"Imports take {percent(times[worst[0]] / max(run.wall_ns, 1))} of the run in {name}",
        recoverable_ns=gain.ns,
        recoverable=gain.recoverable,
        evidence=texts,
        remedy=Remedy(
            "Import late what only some runs need" + _elsewhere(run, worst),
            "import matplotlib.pyplot as plt\n\ndef report(): ...",
            "def report():\n    import matplotlib.pyplot as plt\n    ...",
        ),
        processes=worst[:10],
        confidence=Confidence(0.8 if recorded else 0.5, "the time in import statements, running the modules included"),
        severity="critical" if recorded else "info",
        query=Query(_QUERY),
    )


def _packages(run: Observed, process: int) -> list[str]:
    """Up to three packages whose import took longest in a process."""
    found = next((one.packages for one in run.overview.processes if one.index == process), [])
    return [f"{one.package} {seconds(one.time_ns)}" for one in found[:3]]


def _elsewhere(run: Observed, processes: list[int]) -> str:
    """The end of the remedy's text: what came from the page cache needs no faster place."""
    read = {one.index: one.storage_read for one in run.overview.processes}
    return "." if all(read.get(index) == 0 for index in processes) else "; keep the environment on a local disk."


def _estimated(run: Observed, times: Mapping[int, int], calls: int) -> Gain:
    """What the calls on files may have taken; the rest is running the modules, of which faster files save nothing."""
    asking = run.calls.where(role=Role.IO, kind=(OpClass.OPEN, OpClass.META))
    # Opening to write may wait for other processes: the fastest kind of call says what the file system takes.
    each = max(min((group.time // group.calls for group in asking.by("op") if group.calls >= 10), default=0), _EACH)
    whole = sum(times.values())
    shares = {index: min(time, each * calls * time // whole) for index, time in times.items()}
    return run.gain(shares, f"{number(calls)} calls on files, at the {seconds(each)} that opening and asking take here")


RULE = Rule(
    "start-up",
    find,
    limits={
        "calls": Limit(1000, "on files that imports of one process made, at least"),
        "share": Limit(0.1, "of the wall time, in one process, at least"),
        "calls_share": Limit(0.05, "of the wall time, in calls on files, at least"),
    },
    untried="needs the program: an import runs the module",
)
