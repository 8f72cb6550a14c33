"""Predicts how long the epochs of a DataLoader would take with other numbers of workers, for all rules about loaders.

The epochs are simulated, not run: the trainer's computing, the workers' fetches
and the hand-overs follow each other as they do in the loader, with the times of
the log.  The processors then set a lower bound: all CPU time, divided by the
cores.  So more workers than cores help where fetches wait (for a server, a disk,
a sleep), but not where they compute.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any, NamedTuple

from pyio_trace.analysis.view_sums.loader_calls import FETCH, START, WAIT
from pyio_trace.light_dataclass import dataclass

#: Batches that the trainer requests from each worker in advance, by default.
PREFETCHED = 2
#: Numbers of workers that are looked at, beside the run's own.
COUNTS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
#: Assumed for a run without workers, ns: forking a worker, its way to the first fetch, ending it, handing over a batch.
_FORK, _READY, _STOP, _HAND_OVER = 20_000_000, 10_000_000, 10_000_000, 500_000
#: A hand-over that takes over this many times the first quartile was delayed by the machine, not by the loader.
_LONGER = 3
#: Fetches wait if they spend less than this share of their time on a processor.
_WAITS = 1 / 3
#: Above this load of the processors, fetches are assumed to wait for one.
_BUSY = 0.7
#: The smallest number of workers is preferred whose epochs take at most this many times the shortest ones.
_AS_GOOD = 1.05
#: Another number of workers is advised only if it saves this share of the epochs, and this many ns.
_WORTH, _WORTH_NS = 0.1, 50_000_000


class Call(NamedTuple):
    """One call of a loader.  io: ns of it in calls that read; cpu: ns of it on a processor, -1: not known."""

    op: str
    detail: Mapping[str, Any]
    ident: int
    begin: int
    duration: int
    io: int = 0
    cpu: int = -1


@dataclass(frozen=True)
class Batch:
    """One batch; times in ns.

    compute: the trainer's computing before it asks for the batch.
    fetch: the fetch; io: its part in calls that read; cpu: its part on a processor, the whole if that is not known.
    hand_over: from the moment when the batch is both fetched and asked for until the trainer has it.
    behind: the part of that in which the worker could not hand over because it was in its next fetch; not in hand_over.
    ident: of the fetch's row.
    """

    worker: int
    compute: int
    fetch: int
    io: int
    hand_over: int
    behind: int = 0
    ident: int = -1
    cpu: int = 0


@dataclass
class _Epoch:
    """begin, start: of __iter__, -1 if it is not in the log; stop: ns that ending it took; waits: by batch, (begin,
    end); fetches: by batch, (worker, the call)."""

    begin: int = -1
    start: int = 0
    stop: int = 0
    workers: int = 0
    prefetched: int = PREFETCHED
    waits: dict[int, tuple[int, int]] = field(default_factory=dict)
    fetches: dict[int, tuple[int, Call]] = field(default_factory=dict)


@dataclass(frozen=True)
class Epoch:
    """One epoch as it was recorded.  start: ns until __iter__ had returned; ready: ns after that until its workers
    began their first fetches, as a mean; stop: ns that ending it took."""

    batches: list[Batch]
    start: int = 0
    ready: int = 0
    stop: int = 0

    @property
    def around(self) -> tuple[int, int, int]:
        """ns around its batches: start, ready, stop."""
        return self.start, self.ready, self.stop

    def length(self, share: float, workers: int | None, slower: float, without_io: bool, prefetched: int) -> int:
        """ns with so many workers; share: of the time that starting and stopping them took."""
        start = int(self.start * share)
        ready = self.ready if share > 0 and workers != 0 else 0
        laid_out = length(self.batches, workers, slower, without_io, ready, prefetched)
        return start + laid_out + int(self.stop * share)


@dataclass(frozen=True)
class Model:
    """A loader; None stands for what is not known.

    workers: in the run.
    starters: the number of workers that the times of starting and stopping are for, 0: not known.
    trainer_cpu: the most CPU time, ns, that the trainer can have used while it computed.
    prefetched: batches that each worker is asked for in advance.
    stretch: how many times longer computing took because other processes had the processors.
    """

    workers: int
    epochs: list[Epoch]
    starters: int = 0
    cores: int | None = None
    trainer_cpu: int | None = None
    prefetched: int = PREFETCHED
    stretch: float | None = None

    @property
    def batches(self) -> list[Batch]:
        """Of all epochs, in the order of the trainer."""
        return [batch for epoch in self.epochs for batch in epoch.batches]

    def length(
        self, workers: int | None = None, slower: float = 1.0, without_io: bool = False, kept: bool = False,
        prefetched: int | None = None,
    ) -> int:  # fmt: skip
        """ns of all epochs with this many workers; None: as in the run.

        slower: how many times longer calls that read take than in the run; kept: the workers stay from the first epoch
        to the last; prefetched: None: as in the run.  Starting and stopping a worker takes as long as in the run.  If
        the run had no workers, that counts as nothing, and so does handing over (see with_start).
        """
        count = self.workers if workers is None else workers
        share = count / self.starters if self.starters else 0.0
        ahead = self.prefetched if prefetched is None else prefetched
        epochs = self.epochs
        if kept:
            last = len(epochs) - 1
            epochs = [
                replace(one, start=0 if n else one.start, ready=0 if n else one.ready, stop=0 if n < last else one.stop)
                for n, one in enumerate(epochs)
            ]
        turns = workers if workers is not None or self.workers else 0
        return sum(one.length(share, turns, slower, without_io, ahead) for one in epochs)

    # ---- other numbers of workers

    @cached_property
    def fetch_ns(self) -> int:
        """The time of all fetches."""
        return sum(batch.fetch for batch in self.batches)

    @cached_property
    def cpu_ns(self) -> int:
        """The time of all fetches on a processor."""
        return sum(batch.cpu for batch in self.batches)

    @cached_property
    def compute_ns(self) -> int:
        """The time that the trainer computes between batches."""
        return sum(batch.compute for batch in self.batches)

    @property
    def _computing(self) -> int:
        known = self.trainer_cpu
        return self.compute_ns if known is None else min(self.compute_ns, known)

    @cached_property
    def crowded(self) -> bool:
        """Whether fetches probably waited for a processor: there were more processes than cores, and the cores were
        busy.  False if `stretch` says how long they waited."""
        if self.stretch is not None or self.cores is None or self.workers + 1 <= self.cores:
            return False
        return self.cpu_ns + self._computing >= _BUSY * self.cores * max(self.length(), 1)

    @cached_property
    def waits(self) -> bool:
        """Whether fetches spend most of their time waiting for something other than a processor."""
        return self.cpu_ns * (self.stretch or 1.0) < _WAITS * self.fetch_ns and not self.crowded

    @cached_property
    def _alone(self) -> Model:
        """The loader on an idle machine with a processor for each fetch.  Hand-overs that took far longer than the
        first quartile are shortened."""
        known = sorted(batch.hand_over for batch in self.batches)
        most = _LONGER * known[len(known) // 4] + _HAND_OVER if known else 0
        slow = self.stretch or 1.0
        epochs = [
            Epoch([self._freed(batch, most) for batch in one.batches], *(int(ns / slow) for ns in one.around))
            for one in self.epochs
        ]
        return replace(self, epochs=epochs)

    def _freed(self, batch: Batch, most: int) -> Batch:
        waited = batch.fetch - batch.cpu if self.crowded else int(batch.cpu * ((self.stretch or 1.0) - 1))
        fetch = max(batch.fetch - waited, min(batch.cpu, batch.fetch))
        return replace(batch, fetch=fetch, io=min(batch.io, fetch), hand_over=min(batch.hand_over, most))

    def predicted(self, workers: int, kept: bool = False, prefetched: int | None = None) -> int:
        """ns of all epochs with so many workers on these cores."""
        found = self._alone.length(workers, kept=kept, prefetched=prefetched)
        if not workers or self.cores is None:
            return found
        share = workers / self.starters if self.starters else 0.0
        epochs = self._alone.epochs
        starting = sum(one.start for one in epochs[: 1 if kept else None])
        ending = sum(one.stop for one in epochs[-1 if kept else 0 :])
        working = (self.cpu_ns + self._computing) // max(self.cores, 1)
        return max(found, int((starting + ending) * share) + working)

    @cached_property
    def counts(self) -> list[int]:
        """The numbers of workers to compare; more than there are cores only if fetches wait, or if the run had them."""
        most = max((len(epoch.batches) for epoch in self.epochs), default=0)
        cores = self.cores or 1
        counts = [one for one in COUNTS if one <= most and (one <= cores or self.waits)]
        return sorted({*counts, self.workers})

    @cached_property
    def best(self) -> int:
        """The number of workers to advise: `fastest`, or the run's own number if that is hardly slower."""
        own, best = self.predicted(self.workers, self.several), self.fastest
        saved = own - self.predicted(best, self.several)
        return best if saved >= max(_WORTH * own, _WORTH_NS) else self.workers

    @cached_property
    def fastest(self) -> int:
        """The smallest number of workers that is about as good as the best one, however little it saves."""
        times = {count: self.predicted(count, self.several) for count in self.counts}
        enough = _AS_GOOD * min(times.values())
        return min(count for count, time in times.items() if time <= enough)

    @property
    def several(self) -> bool:
        """Whether workers can stay from one epoch to the next."""
        return len(self.epochs) > 1

    @property
    def saved(self) -> int:
        """ns that the best number of workers saves, with workers that stay."""
        return max(self.predicted(self.workers) - self.predicted(self.best, self.several), 0)

    def even(self) -> int:
        """ns of the epochs if each fetch took as long as the mean, and each worker had as many."""
        count = max(len(self.batches), 1)
        fetch = self.fetch_ns // count
        epochs = [replace(own, batches=[replace(one, fetch=fetch, io=0) for one in own.batches]) for own in self.epochs]
        return replace(self, epochs=epochs).length(self.workers)


def length(
    batches: Sequence[Batch],
    workers: int | None = None,
    slower: float = 1.0,
    without_io: bool = False,
    ready: int = 0,
    prefetched: int = PREFETCHED,
) -> int:
    """ns of an epoch, from the first fetches to the last batch.

    A worker begins a batch when it is free and has been asked for it: it is asked
    for its first ones (prefetched) at once, and for one more whenever the trainer
    gets one from it.  workers: this many take the batches in turn; None: each
    batch goes to the worker that had it; 0: the trainer fetches.  slower: how many
    times longer calls that read take; ready: ns until the workers begin.
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
        if len(before) >= prefetched:
            begin = max(begin, before[-prefetched])
        free[worker] = end = begin + fetch
        now = max(now + batch.compute, end) + batch.hand_over + (0 if without_io else batch.behind)
        before.append(now)
    return now


def model(
    calls: Iterable[Call], cores: int | None = None, trainer_cpu: int | None = None, stretch: float | None = None
) -> Model | None:
    """The loader that made these calls; None if no batch has both its wait and its fetch among them."""
    recorded = list(_epochs(calls).values())
    epochs = [made for epoch in recorded if (made := _recorded(epoch)).batches]
    if not epochs:
        return None
    workers = max(epoch.workers for epoch in recorded)
    ahead = max(epoch.prefetched for epoch in recorded)
    return Model(workers, epochs, workers, cores, trainer_cpu, ahead, stretch)


def with_start(made: Model) -> Model:
    """The model of a run without workers, given the usual times of starting a worker and handing over a batch."""
    if made.workers:
        return made
    epochs = [
        Epoch([replace(one, hand_over=_HAND_OVER) for one in epoch.batches], _FORK, _READY, _STOP)
        for epoch in made.epochs
    ]
    return replace(made, epochs=epochs, starters=1)


def _epochs(calls: Iterable[Call]) -> dict[tuple[str, int], _Epoch]:
    """The epochs in the log, by loader and number."""
    found: dict[tuple[str, int], _Epoch] = defaultdict(_Epoch)
    for call in calls:
        detail = call.detail
        loader, epoch, batch = (detail.get(name) for name in ("loader", "epoch", "batch"))
        if call.op not in (START, WAIT, FETCH) or not isinstance(loader, str) or not isinstance(epoch, int):
            continue
        one = found[loader, epoch]
        if call.op == FETCH:
            worker = detail.get("worker")
            if isinstance(batch, int) and "raised" not in detail:
                one.fetches[batch] = worker if isinstance(worker, int) else 0, call
        elif call.op == START:
            one.begin, one.start = call.begin, call.duration
            one.workers = _count(detail.get("num_workers"), 0)
            one.prefetched = _count(detail.get("prefetch_factor"), PREFETCHED) or PREFETCHED
        elif "raised" in detail:
            one.stop += call.duration
        elif isinstance(batch, int):
            one.waits[batch] = (call.begin, call.begin + call.duration)
    return found


def _count(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and 0 <= value < 1 << 16 else otherwise


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
        (asked, got), (worker, call) = epoch.waits[number], epoch.fetches[number]
        began, fetch, io = call.begin, call.duration, call.io
        cpu = fetch if call.cpu < 0 else min(call.cpu, fetch)
        firsts.setdefault(worker, max(began - begin, 0))
        compute = max(asked - last, 0)
        last = got
        if not epoch.workers:
            compute += max(got - asked - fetch, 0)
            batches.append(Batch(worker, compute, fetch, io, 0, 0, call.ident, cpu))
            continue
        ready = max(asked, began + fetch)
        behind = _overlap(following.get(number), ready, got)
        batches.append(Batch(worker, compute, fetch, io, max(got - ready - behind, 0), behind, call.ident, cpu))
    known = epoch.begin >= 0 and epoch.workers > 0
    waited = sum(firsts.values()) // len(firsts) if known and firsts else 0
    return Epoch(batches, epoch.start if known else 0, waited, epoch.stop if epoch.workers else 0)


def _following(epoch: _Epoch) -> dict[int, tuple[int, int]]:
    """Number of a batch -> begin and end of its worker's next fetch."""
    found: dict[int, tuple[int, int]] = {}
    before: dict[int, int] = {}
    for number, (worker, call) in sorted(epoch.fetches.items(), key=lambda item: item[1][1].begin):
        if worker in before:
            found[before[worker]] = (call.begin, call.begin + call.duration)
        before[worker] = number
    return found


def _overlap(span: tuple[int, int] | None, begin: int, end: int) -> int:
    return 0 if span is None else max(min(span[1], end) - max(span[0], begin), 0)
