"""Workers that a program starts by multiprocessing or a pool, and how long it waits for them."""

from __future__ import annotations

from pyio_trace.analysis.results.line_time import POOLS
from pyio_trace.insights.finding import Site
from pyio_trace.insights.line_walls import held_ns
from pyio_trace.insights.observed import Observed, site_of

#: Functions whose names begin so wait for workers.
_WAITS = ("multiprocessing.", "concurrent.futures.", "joblib.", "loky.", "multiprocess.")
#: What such workers are in the process table.  Loaders of PyTorch have rules of their own.
POOL_WORKER = "pool worker"
WORKERS = (POOL_WORKER, "multiprocessing process")


def waits_for_workers(run: Observed) -> dict[Site, int]:
    """ns for which each line of the program waited for workers; {} without samples."""
    found = {}
    for line, row in run.wall.items():
        time = min(sum(one.time_ns for one in row.called if one.function.startswith(_WAITS)), held_ns(row))
        site = site_of(line)
        if time and site is not None and run.is_own(line):
            found[site] = time
    return found


def between_tasks(run: Observed) -> int:
    """ns that threads of pools computed, or were ready to, while they took tasks and gave results back: pickling."""
    row = run.wall.get(POOLS)
    return 0 if row is None else row.cpu_ns + row.delay_ns


def work(run: Observed, worker: int, waits: bool = True) -> int:
    """ns that a worker (index) spent on its tasks.  waits: for a worker without tasks, whether its waits count, such as
    those for room in a queue."""
    split = next((one.split for one in run.overview.processes if one.index == worker), None)
    if split is None:
        return 0
    if split.idle_ns is not None:  # it has tasks
        return split.task_ns + split.io_ns
    known = not waits and split.computing_ns is not None
    return split.io_ns + ((split.computing_ns or 0) + (split.asleep_ns or 0) if known else split.other_ns)
