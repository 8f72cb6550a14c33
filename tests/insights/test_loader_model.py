"""The model of DataLoaders: what it predicts for other numbers of workers, and whether real runs come out so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyio_trace.analysis.view_sums.loader_calls import FETCH, START, WAIT
from pyio_trace.insights.loader_model import Batch, Call, Epoch, Model, model, with_start

MS = 1_000_000


def epoch(fetch: int, compute: int = 0, cpu: int = 0, workers: int = 1, count: int = 40) -> Model:
    """A loader whose batches (ms) are all alike; starting a worker takes 10 ms."""
    batches = [Batch(n % max(workers, 1), compute * MS, fetch * MS, 0, 0, cpu=cpu * MS) for n in range(count)]
    return Model(workers, [Epoch(batches, 10 * MS * workers)], workers, cores=2)


@pytest.mark.parametrize("workers", [1, 2])
def test_fetches_that_wait(workers: int) -> None:
    # GIVEN 40 fetches of 300 ms that use no processor, on 2 cores
    made = epoch(300, cpu=1, workers=workers)
    # THEN each doubling of the workers halves the epoch, also beyond the cores, and about as many are advised
    assert made.waits and made.predicted(8) < made.predicted(4) < made.predicted(2) < made.predicted(1)
    assert made.predicted(8) == 5 * 300 * MS + 80 * MS and made.best > 8
    # THEN the workers that are advised are not advised against
    assert replace(epoch(300, cpu=1, workers=made.best)).best == made.best


def test_fetches_that_compute() -> None:
    # GIVEN fetches that are all computing, and a trainer that does nothing THEN no more workers than cores are advised
    made = epoch(300, cpu=300)
    assert made.best == 2 and max(made.counts) == 2 and not made.waits
    # GIVEN 8 workers on these cores, whose fetches take four times as long for want of one
    many = epoch(1200, cpu=300, workers=8)
    # THEN that is not taken for waiting, and more of them are no advice
    assert many.crowded and not many.waits and many.fastest <= 2 and max(many.counts) == 8
    assert many.predicted(2) < many.predicted(8)


def test_a_busy_machine() -> None:
    # GIVEN 8 workers whose fetches have a processor for a seventh of their time, as all computing of the run has
    made = replace(epoch(1365, cpu=195, workers=8), stretch=7.0)
    # THEN they do not wait, and more workers than cores are no advice
    assert not made.waits and made.best <= 8 and made.fastest <= 2
    # GIVEN fetches that have it for a hundredth THEN they wait, on a busy machine too
    assert replace(epoch(600, cpu=6, workers=2), stretch=7.0).best > 8
    # GIVEN hand-overs of which most are late, as others had the processors THEN that is not laid to the workers
    batches = [Batch(0, MS, 5 * MS, 0, (30 if n % 3 else 1) * MS, cpu=5 * MS) for n in range(60)]
    busy = Model(1, [Epoch(batches)], 1, cores=2)
    assert busy.predicted(1) < busy.length() / 2


def test_tiny_items() -> None:
    # GIVEN fetches of 1 ms beside workers that take 10 ms to start THEN none are best, whether there were some or not
    assert epoch(1, cpu=1, workers=8, count=20).best == 0
    assert with_start(epoch(1, cpu=1, workers=0, count=100)).best == 0
    assert epoch(0, cpu=0, workers=8).best == 0


def test_a_trainer_that_computes() -> None:
    # GIVEN fetches of 50 ms in the trainer, which computes for 50 ms THEN one worker halves the epoch
    made = with_start(epoch(50, 50, cpu=50, workers=0, count=100))
    assert made.best == 1 and made.saved > 4000 * MS
    # GIVEN one core THEN nothing is gained
    alone = replace(made, cores=1)
    assert alone.best == 0 and alone.saved == 0
    # GIVEN a trainer that waits for an accelerator THEN the core is free for fetches
    assert replace(made, cores=1, trainer_cpu=0).best == 1


def test_workers_that_stay() -> None:
    # GIVEN three epochs, each of which starts workers for 1 s
    one = epoch(10, 10, cpu=1, workers=2).epochs[0]
    made = Model(2, [replace(one, start=1000 * MS, stop=100 * MS)] * 3, 2, cores=4)
    # THEN keeping them saves two starts and two ends
    assert made.predicted(2) - made.predicted(2, kept=True) == 2 * 1100 * MS


def test_one_long_fetch() -> None:
    # GIVEN a worker whose every tenth fetch takes as long as ten THEN fetching further ahead hides it
    batches = [Batch(0, 20 * MS, (100 if n % 10 == 9 else 5) * MS, 0, 0, cpu=MS) for n in range(60)]
    made = Model(1, [Epoch(batches)], 1, cores=2)
    assert made.predicted(1, prefetched=8) < made.predicted(1)


def call(op: str, begin: int, duration: int, **detail: object) -> Call:
    return Call(op, {"loader": "1.0", "epoch": 0, **detail}, 0, begin, duration)


def test_from_calls() -> None:
    # GIVEN the calls of an epoch: a start of 10, fetches of 50 and 60 by two workers, a trainer that computes for 5
    calls = [
        call(START, 0, 10, num_workers=2),
        call(FETCH, 20, 50, worker=0, batch=0), call(FETCH, 20, 60, worker=1, batch=1),
        call(WAIT, 10, 62, batch=0), call(WAIT, 77, 5, batch=1), call(WAIT, 90, 7, raised="StopIteration"),
    ]  # fmt: skip
    made = model(calls)
    assert made is not None and made.workers == 2
    (own,) = made.epochs
    assert (own.start, own.ready, own.stop) == (10, 10, 7)
    assert [(one.compute, one.fetch, one.hand_over, one.cpu) for one in own.batches] == [(0, 50, 2, 50), (5, 60, 2, 60)]
    # THEN the epoch laid out as it was takes as long as it took, without the trainer's last step
    assert made.length() == 10 + (72 - 10) + 5 + 5 + 7
    # GIVEN calls that make no sense THEN they are left out
    assert (
        model([call(FETCH, 0, 1, batch="x"), call(WAIT, 0, 1, batch=None), call(START, 0, 1, num_workers=-5)]) is None
    )
    assert model([]) is None
