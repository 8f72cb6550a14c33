"""A line starts a Python interpreter for each item.

Each has to start Python and import its modules again. Do the work in this process, or in a pool of
processes that lives as long as the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Query, Remedy
from pyio_trace.insights.import_use import is_fresh_worker
from pyio_trace.insights.observed import covered, site_of
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import number, seconds

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    by_line: dict[str, list[int]] = {}
    for row in run.processes:
        if row["start"] == "joined" and row["site"] and row["version"]:
            by_line.setdefault(row["site"], []).append(row["index"])
    starting = {one.index: one.split.starting_ns for one in run.overview.processes}
    for line, started in by_line.items():
        if len(started) < limits["interpreters"]:
            continue
        begins = [run.processes[index]["begin"] for index in started]
        time = covered(begins, [begin + starting.get(index, 0) for begin, index in zip(begins, started, strict=True)])
        gain = run.gain(
            {run.starter(run.processes[started[0]]): time}, "starting interpreters, until the first call of their own"
        )
        site = site_of(line)
        yield Finding(
            title=f"{number(len(started))} Python interpreters are started by one line",
            recoverable_ns=gain.ns,
            recoverable=gain.recoverable,
            evidence=[
                Evidence(
                    f"Starting them took {seconds(time)}, those that started at once counted once.",
                    {"interpreters": len(started), "start_ns": time},
                )
            ],
            remedy=_remedy(all(is_fresh_worker(run.processes[index]) for index in started)),
            sites=[site] if site is not None else [],
            processes=started[:10],
            persistence=None,
            confidence=Confidence(0.8, "how long each took to its first own call is in the log"),
            query=Query(
                f"SELECT pid, argv, import_time / 1e9 AS seconds\nFROM processes\n"
                f"WHERE {sql.condition('site', line)}\n  AND start = 'joined'"
            ),
        )


def _remedy(workers: bool) -> Remedy:
    """workers: multiprocessing started all of them."""
    if workers:
        return Remedy(
            "Keep the workers; and let a fork server start them, which is one interpreter.",
            "context = multiprocessing.get_context('spawn')\nfor item in items:\n"
            "    worker = context.Process(target=convert, args=(item,))\n    worker.start()",
            "context = multiprocessing.get_context('forkserver')\nwith context.Pool() as pool:\n"
            "    pool.map(convert, items)",
        )
    return Remedy(
        "Import the script, and call it; or use a pool.",
        "for path in paths:\n    subprocess.run([sys.executable, 'convert.py', path])",
        "from convert import convert\nif __name__ == '__main__':\n    with multiprocessing.Pool() as pool:\n"
        "        pool.map(convert, paths)",
    )


RULE = Rule(
    "start-up",
    find,
    limits={"interpreters": Limit(10, "started by one line, at least", few=4)},
    yields_to=("worker-reimport",),
)
