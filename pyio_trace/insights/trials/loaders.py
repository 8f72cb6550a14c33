"""PyTorch's loaders: how long epochs would last with other numbers of workers, or if no batch had to be read.

Nothing is run here.  The epochs are simulated: the trainer's computing, the
workers' fetches and the hand-overs follow each other as in the loader, with the
times of the log.  A second simulation leaves out the time that fetches spent in
calls that read.  The difference is the most that a remedy of I/O can save; reads
that computing hides already save nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pyio_trace.analysis.view_sums.loader_calls import FETCH, START, WAIT
from pyio_trace.insights.finding import LOADER
from pyio_trace.insights.trials.attempt import Attempt
from pyio_trace.insights.trials.recorded import Rows
from pyio_trace.insights.trials.replay import NotTried

#: Batches that the trainer requests from each worker in advance, by default.
_PREFETCHED = 2


@dataclass(frozen=True)
class Batch:
    """One batch, ns.  compute: of the trainer before it asks for it; fetch: its fetch; io: of that in calls that
    read; hand_over: from when it was both fetched and asked for until the trainer had it; behind: beside that, as long
    as the worker's next fetch kept it from handing over.  ident: of the fetch's row."""

    worker: int
    compute: int
    fetch: int
    io: int
    hand_over: int
    behind: int = 0
    ident: int = -1


@dataclass
class _Epoch:
    """begin, start: of __iter__, -1 if it is not in the log; stop: ns that ending it took; waits: by batch, (begin,
    end); fetches: by batch, (worker, begin, duration, io, ident)."""

    begin: int = -1
    start: int = 0
    stop: int = 0
    workers: int = 0
    waits: dict[int, tuple[int, int]] = field(default_factory=dict)
    fetches: dict[int, tuple[int, int, int, int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Epoch:
    """One epoch as it was recorded.  start: ns until __iter__ had returned; ready: ns after that until its workers
    began their first fetches, as a mean; stop: ns that ending it took."""

    batches: list[Batch]
    start: int = 0
    ready: int = 0
    stop: int = 0

    def length(self, share: float, workers: int | None, slower: float, without_io: bool) -> int:
        """ns with so many workers; share: of the time that starting and stopping them took."""
        start = int(self.start * share)
        laid_out = length(self.batches, workers, slower, without_io, int(self.ready * share) if workers != 0 else 0)
        return start + laid_out + int(self.stop * share)


@dataclass(frozen=True)
class Loader:
    """The loader that a finding is about.  workers: in the run."""

    workers: int
    epochs: list[Epoch]

    @property
    def batches(self) -> list[Batch]:
        """Of all epochs, in the order of the trainer."""
        return [batch for epoch in self.epochs for batch in epoch.batches]

    def length(self, workers: int | None = None, slower: float = 1.0, without_io: bool = False) -> int:
        """ns of all epochs with so many workers, None: as in the run.

        slower: times that calls that read take longer than in the run.  Starting and stopping workers takes as long
        for each as in the run; where the run had none, this is not known, and neither is handing over.
        """
        share = 1.0 if workers is None else workers / self.workers if self.workers else 0.0
        count = self.workers if workers is None else workers
        return sum(epoch.length(share, count, slower, without_io) for epoch in self.epochs)


def loader_of(attempt: Attempt) -> Loader:
    """The loader that the finding is about.  Raises NotTried if the log does not have its fetches."""
    names = [name for one in attempt.finding.evidence for name in str(one.values.get(LOADER, "")).split()]
    recorded = [epoch for (name, _), epoch in _epochs(attempt.rows).items() if name in names]
    epochs = [made for epoch in recorded if (made := _recorded(epoch)).batches]
    if not epochs:
        raise NotTried("needs the program: the log has no fetches of its batches")
    return Loader(max(epoch.workers for epoch in recorded), epochs)


def length(
    batches: Sequence[Batch],
    workers: int | None = None,
    slower: float = 1.0,
    without_io: bool = False,
    ready: int = 0,
) -> int:
    """ns of an epoch, from the first fetches to the last batch.

    A worker begins a batch when it is free and has been asked for it: for its
    first two at once, for each further one when the trainer got one of its own.
    workers: take the batches by turns, None: those that had them, 0: the trainer
    fetches; slower: times that calls that read take longer; ready: when the
    workers begin.
    """
    got: dict[int, list[int]] = defaultdict(list)  # when the trainer had each batch of a worker
    free: dict[int, int] = defaultdict(lambda: ready)
    now = 0
    for number, batch in enumerate(batches):
        fetch = batch.fetch - batch.io + (0 if without_io else int(batch.io * slower))
        if workers == 0:
            now += batch.compute + fetch
            continue
        worker = batch.worker if workers is None else number % workers
        begin, before = free[worker], got[worker]
        if len(before) >= _PREFETCHED:
            begin = max(begin, before[-_PREFETCHED])
        free[worker] = end = begin + fetch
        now = max(now + batch.compute, end) + batch.hand_over + (0 if without_io else batch.behind)
        before.append(now)
    return now


def _epochs(rows: Rows) -> dict[tuple[str, int], _Epoch]:
    """What the log has of each epoch of each loader."""
    found: dict[tuple[str, int], _Epoch] = defaultdict(_Epoch)
    reading = _reading(rows)
    columns = (rows.texts("op"), rows.details, *(rows.columns[name].tolist() for name in ("id", "time", "duration")))
    for op, detail, ident, begin, duration in zip(*columns, strict=True):
        loader, epoch, batch = (detail.get(name) for name in ("loader", "epoch", "batch"))
        if op not in (START, WAIT, FETCH) or not isinstance(loader, str) or not isinstance(epoch, int):
            continue
        one = found[loader, epoch]
        worker = detail.get("worker")
        if op == FETCH:
            if isinstance(batch, int):
                io = min(reading.get(ident, 0), duration)
                one.fetches[batch] = (worker if isinstance(worker, int) else 0, begin, duration, io, ident)
            continue
        if op == START:
            one.begin, one.start = begin, duration
            workers = detail.get("num_workers")
            one.workers = workers if isinstance(workers, int) and 0 <= workers < 1 << 16 else 0
        elif "raised" in detail:
            one.stop += duration
        elif isinstance(batch, int):
            one.waits[batch] = (begin, begin + duration)
    return found


def _reading(rows: Rows) -> dict[int, int]:
    """Id of a fetch -> ns of the outermost I/O in it."""
    at = np.flatnonzero((rows.columns["outer"] != 0) & (rows.columns["task_id"] >= 0))
    sums: dict[int, int] = defaultdict(int)
    for task, time in zip(rows.columns["task_id"][at].tolist(), rows.columns["duration"][at].tolist(), strict=True):
        sums[task] += time
    return sums


def _recorded(epoch: _Epoch) -> Epoch:
    """The batches in the order in which the trainer received them."""
    batches = []
    following = _following(epoch)
    begin = epoch.begin + epoch.start
    last = begin if epoch.begin >= 0 else min((asked for asked, _ in epoch.waits.values()), default=0)
    firsts: dict[int, int] = {}
    for number in sorted(epoch.waits):
        if number not in epoch.fetches:
            continue
        (asked, got), (worker, began, fetch, io, ident) = epoch.waits[number], epoch.fetches[number]
        firsts.setdefault(worker, max(began - begin, 0))
        compute = max(asked - last, 0)
        last = got
        if not epoch.workers:
            batches.append(Batch(worker, compute + max(got - asked - fetch, 0), fetch, io, 0, 0, ident))
            continue
        ready = max(asked, began + fetch)
        behind = _overlap(following.get(number), ready, got)
        batches.append(Batch(worker, compute, fetch, io, max(got - ready - behind, 0), behind, ident))
    known = epoch.begin >= 0 and epoch.workers > 0
    waited = sum(firsts.values()) // len(firsts) if known and firsts else 0
    return Epoch(batches, epoch.start if known else 0, waited, epoch.stop if epoch.workers else 0)


def _following(epoch: _Epoch) -> dict[int, tuple[int, int]]:
    """Number of a batch -> begin and end of its worker's next fetch."""
    found: dict[int, tuple[int, int]] = {}
    before: dict[int, int] = {}
    for number, (worker, begin, fetch, _, _) in sorted(epoch.fetches.items(), key=lambda item: item[1][1]):
        if worker in before:
            found[before[worker]] = (begin, begin + fetch)
        before[worker] = number
    return found


def _overlap(span: tuple[int, int] | None, begin: int, end: int) -> int:
    return 0 if span is None else max(min(span[1], end) - max(span[0], begin), 0)
