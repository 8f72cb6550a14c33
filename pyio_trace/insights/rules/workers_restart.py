"""A program starts worker processes again and again, instead of keeping those that it has.

A pool that is made in a loop, and a pool whose workers end after each task (maxtasksperchild), start
a process for little work: each has to be forked, to load what its initializer loads, and to be
waited for. Make the pool once, and give it all the work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Query, Remedy
from pyio_trace.insights.observed import site_of
from pyio_trace.insights.pool_use import POOL_WORKER, WORKERS, waits_for_workers, work
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import counted, number, seconds

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed

_POOLS = Remedy(
    "Make the pool once, before the loop.",
    "for batch in batches:\n    with Pool() as pool:\n        results += pool.map(work, batch)",
    "with Pool() as pool:    # once\n    for batch in batches:\n        results += pool.map(work, batch)",
)
_REPLACED = Remedy(
    "Let each worker do more tasks before another one takes its place.",
    "with Pool(maxtasksperchild=1) as pool:\n    results = pool.map(work, items, chunksize=1)",
    "with Pool() as pool:\n    results = pool.map(work, items, chunksize=1)",
)
_PROCESSES = Remedy(
    "Give the items to a pool: its workers stay.",
    "for item in items:\n    worker = Process(target=work, args=(item,))\n    worker.start()\n    worker.join()",
    "with Pool() as pool:\n    pool.map(work, items)",
)


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    waits = waits_for_workers(run)
    started: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in run.processes if waits else ():
        if row["start"] == "fork" and row["process_kind"] in WORKERS and row["end"] is not None:
            started[run.starter(row)].append(row)
    for parent, workers in started.items():
        at_once = _at_once(workers)
        restarts = len(workers) - at_once
        if restarts < limits["restarts"] * at_once:
            continue
        waited, worked = sum(waits.values()), sum(work(run, row["index"]) for row in workers) // at_once
        gain = run.gain(
            {parent: max(waited - worked, 0) * restarts // len(workers)},
            "the wait for the workers less their work, for all but those that live at a time",
        )
        if gain.ns >= limits["share"] * run.wall_ns:
            sites = sorted(waits, key=lambda site: -waits[site])[:3]
            yield Finding(
                title=f"{number(len(workers))} workers are started, of which {number(at_once)} live at a time",
                recoverable_ns=gain.ns,
                recoverable=gain.recoverable,
                evidence=[
                    Evidence(
                        f"The program waited {seconds(waited)} for {counted(len(workers), 'worker')}, whose work took "
                        f"{seconds(worked)} side by side.",
                        {"workers": len(workers), "at_once": at_once, "wait_ns": waited, "work_ns": worked},
                    )
                ],
                remedy=_remedy(run, workers),
                sites=sites,
                processes=[parent, *(row["index"] for row in workers[:9])],
                persistence=run.persistence(min(row["begin"] for row in workers), max(row["end"] for row in workers)),
                confidence=Confidence(0.7, "starts and ends are in the log; where the wait went is from samples"),
                severity="warning",
                query=Query(
                    'SELECT pid, process_name, ("end" - "begin") / 1e9 AS seconds\nFROM processes\n'
                    f"WHERE {sql.condition('process_kind', list(WORKERS))}\n  AND start = 'fork'"
                ),
            )


def _at_once(workers: Sequence[Mapping[str, Any]]) -> int:
    """How many of them were alive at the same time, at most."""
    edges = sorted([(row["begin"], 1) for row in workers] + [(row["end"], -1) for row in workers])
    alive = most = 0
    for _, change in edges:
        alive += change
        most = max(most, alive)
    return max(most, 1)


def _remedy(run: Observed, workers: Sequence[Mapping[str, Any]]) -> Remedy:
    """Workers that no line of the program started were started by their pool, instead of earlier ones."""
    if all(row["process_kind"] != POOL_WORKER for row in workers):
        return _PROCESSES
    own = sum(site_of(row["site"]) is not None and run.is_own(row["site"]) for row in workers if row["site"])
    return _POOLS if 2 * own >= len(workers) else _REPLACED


RULE = Rule(
    "start-up",
    find,
    limits={
        "restarts": Limit(2, "for each worker that lives at a time, at least"),
        "share": Limit(0.05, "of the wall time to gain, at least"),
    },
)
