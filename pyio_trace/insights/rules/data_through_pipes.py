"""Workers get their data, or give their results, through a pipe.

What is passed to another process is pickled, written into a pipe, read out of it, and unpickled: each byte is copied
several times, and the process that hands out the work does its part alone. Hand over where the data are instead:
a path, a range of rows, the name of a block of shared memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Query, Remedy, Site
from pyio_trace.insights.pool_use import POOL_WORKER, WORKERS, between_tasks, waits_for_workers, work
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import counted, number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Gain, Observed

#: ns that pickling, copying and unpickling a byte takes at most: of arrays, and of small objects.
_SLOWEST, _SLOWEST_OBJECTS = 10, 200
_SENT = Remedy(
    "Hand over where the data are, not the data: each worker reads its part, and what all of them share once.",
    "data = np.load(path)\nwith Pool() as pool:\n    results = pool.map(work, [data[n] for n in range(count)])",
    "def begin(path):\n    global data\n    data = np.load(path, mmap_mode='r')\n\n"
    "def work_at(n):\n    return work(data[n])\n\n"
    "with Pool(initializer=begin, initargs=(path,)) as pool:\n    results = pool.map(work_at, range(count))",
)
_RECEIVED = Remedy(
    "Let each worker write its result where it is needed, or keep what becomes of it small, and return that.",
    "with Pool() as pool:\n    parts = pool.map(load, paths)    # arrays come through a pipe\n"
    "total = sum(part.sum() for part in parts)",
    "def load_sum(path):\n    return load(path).sum()\n\n"
    "with Pool() as pool:\n    total = sum(pool.map(load_sum, paths))",
)
_QUEUE = Remedy(
    "Pass what says where the data are: a path and a range of rows, or the name of a block that is shared "
    "(multiprocessing.shared_memory).",
    "def produce(q):    # in a process\n    for path in paths:\n        q.put(load(path))    # pickled, into a pipe\n"
    "def consume(q):\n    while (data := q.get()) is not None: use(data)",
    "def produce(q):    # in a process\n    for path in paths:\n        q.put(path)\n"
    "def consume(q):\n    while (path := q.get()) is not None: use(load(path))",
)


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    waits = waits_for_workers(run)
    if not waits:
        return
    pipes: dict[int, list[int]] = defaultdict(list)  # by the process that started them: workers
    bytes_of = {row["process"]: row["bytes"] or 0 for row in run.counters if row["kind"] == "pipe"}
    for row in run.processes:
        if row["process_kind"] in WORKERS and bytes_of.get(row["index"]):
            pipes[run.starter(row)].append(row["index"])
    for parent, workers in pipes.items():
        moved = sum(bytes_of[worker] for worker in workers)
        if parent not in bytes_of or moved < limits["bytes"] or _is_a_funnel(run, bytes_of, parent, workers):
            continue
        waited, busiest = sum(waits.values()), max(work(run, worker, waits=False) for worker in workers)
        pickled = max(moved * _SLOWEST, min(moved * _SLOWEST_OBJECTS, between_tasks(run)))
        gain = run.gain(
            {parent: min(waited - busiest, pickled)},
            "the wait for the workers less the work of the busiest one; at most 10 ns for each byte, or what the "
            "pool's threads computed between their tasks",
        )
        if gain.ns >= limits["share"] * run.wall_ns:
            yield _finding(run, parent, workers, moved, waits, gain)


def _is_a_funnel(run: Observed, bytes_of: Mapping[int, int], parent: int, workers: list[int]) -> bool:
    """Whether the workers send their data to one of them, which writes it to files: one-does-all says more.

    bytes_of: through the pipes of each process.
    """
    written = {worker: run.calls.where(process=worker).transfers("write").total("moved") for worker in workers}
    writer = max(workers, key=lambda worker: written[worker])
    received, others = bytes_of[writer], sum(bytes_of[worker] for worker in workers if worker != writer)
    return bytes_of[parent] <= received and 2 * received >= others and 2 * written[writer] >= received


def _finding(
    run: Observed, parent: int, workers: list[int], moved: int, waits: Mapping[Site, int], gain: Gain
) -> Finding:
    sites = sorted(waits, key=lambda site: -waits[site])
    sent = 2 * (run.processes[parent]["kernel_written"] or 0) >= moved
    return Finding(
        title=f"{size(moved)} go through pipes {'to' if sent else 'from'} {counted(len(workers), 'worker')}",
        recoverable_ns=gain.ns,
        recoverable=gain.recoverable,
        evidence=[
            Evidence(
                f"The program waited {seconds(sum(waits.values()))} for {number(len(workers))} workers; the busiest "
                f"of them worked for {seconds(max(work(run, worker, waits=False) for worker in workers))}.",
                {"bytes": moved, "workers": len(workers), "wait_ns": sum(waits.values())},
            )
        ],
        remedy=_remedy(run, workers, sent),
        sites=sites[:3],
        processes=[parent, *workers[:9]],
        persistence=None,
        confidence=Confidence(0.7, "bytes are counted; where the wait went is from samples"),
        query=Query(
            "SELECT pid, process_name, kernel_read, kernel_written\nFROM processes\n"
            f"WHERE {sql.condition('process_kind', list(WORKERS))}"
        ),
    )


def _remedy(run: Observed, workers: list[int], sent: bool) -> Remedy:
    """Processes that no pool began have queues."""
    if all(run.processes[worker]["process_kind"] != POOL_WORKER for worker in workers):
        return _QUEUE
    return _SENT if sent else _RECEIVED


RULE = Rule(
    "overlap",
    find,
    limits={
        "bytes": Limit(1 << 20, "through pipes between a program and its workers, at least"),
        "share": Limit(0.05, "of the wall time to gain, at least"),
    },
)
