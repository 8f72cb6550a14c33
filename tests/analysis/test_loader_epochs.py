"""Waits of a data loader joined with the fetches they waited for, on calls made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from pyio_trace.analysis.results.overview_figures import LoaderEpoch, Steps
from pyio_trace.analysis.view_sums.loader_calls import FETCH, START, WAIT, Call
from pyio_trace.analysis.view_sums.loader_epochs import epochs

TRAINER, WORKER, SECOND, THIRD = range(4)


def call(op: str, process: int, begin: int, end: int, **detail: Any) -> Call:
    return Call(op, process, begin, end - begin, {"loader": "1.0", "epoch": 0, **detail})


def test_a_wait_is_split_where_its_fetch_ended() -> None:
    # GIVEN three workers, started in 10 ns; batch 0: waited for from 20 to 100, fetched from 40 to 90 as its worker's
    # first; batch 1: ready long before it is waited for from 200 to 230; batch 2: waited for from 300 to 340, its fetch
    # of 330 ns ends at 335; the wait that ends the epoch, of 7 ns
    calls = [
        call(START, TRAINER, 0, 10, num_workers=3),
        call(WAIT, TRAINER, 20, 100, batch=0),
        call(FETCH, WORKER, 40, 90, batch=0, ordinal=0),
        call(WAIT, TRAINER, 200, 230, batch=1),
        call(FETCH, SECOND, 50, 100, batch=1, ordinal=0),
        call(WAIT, TRAINER, 300, 340, batch=2),
        call(FETCH, THIRD, 5, 335, batch=2, ordinal=1),
        call(WAIT, TRAINER, 400, 407, raised="StopIteration"),
    ]
    # WHEN waits and fetches are matched, in either order
    for given in (calls, calls[::-1]):
        found, ready = epochs(given)
        # THEN not ready: 70 + 0 + 35; handed over: 10 + 30 + 5; the worker began 20 ns after the first wait
        expected = {
            "workers": 3, "batches": 3, "ready": 1, "wait_ns": 150, "not_ready_ns": 105, "hand_over_ns": 45,
            "first_ns": 20, "fetch_ns": 430, "start_ns": 10, "stop_ns": 7,
        }  # fmt: skip
        assert found == [LoaderEpoch(loader="1.0", epoch=0, process=TRAINER, steps=Steps(1, 70, 30, 70.0), **expected)]
        assert ready == {TRAINER: 45}


def test_a_worker_that_fetches_the_next_batch_hands_none_over() -> None:
    # GIVEN a batch that is fetched by 30, which its worker hands over after its next fetch, from 35 to 80
    calls = [
        call(WAIT, TRAINER, 20, 90, batch=0),
        call(FETCH, WORKER, 0, 30, batch=0),
        call(FETCH, WORKER, 35, 80, batch=1),
        call(FETCH, SECOND, 0, 90, batch=2),
    ]
    # WHEN they are joined
    (found,), ready = epochs(calls)
    # THEN the trainer waited for fetches from 20 to 30 and from 35 to 80
    assert (found.not_ready_ns, found.hand_over_ns, found.ready, ready) == (55, 15, 0, {TRAINER: 15})


def test_what_is_not_known_of_a_loader_is_null() -> None:
    # GIVEN a loader whose beginning was not seen, and whose workers' fetches do not say of which batches they are
    calls = [
        call(WAIT, TRAINER, 20, 90, batch=0), call(FETCH, WORKER, 0, 30), call(FETCH, SECOND, 5, 25),
    ]  # fmt: skip
    # WHEN they are joined THEN neither its workers nor how many batches were ready are known; all fetches took 50
    (found,), _ = epochs(calls)
    assert (found.workers, found.batches, found.ready, found.fetch_ns) == (None, 1, None, 50)
    # AND a trainer that fetches within its waits has no workers
    (alone,), _ = epochs([call(WAIT, TRAINER, 20, 90, batch=0), call(FETCH, TRAINER, 30, 80, batch=0)])
    assert (alone.workers, alone.ready) == (0, 0)


def test_the_trainer_fetches_by_itself() -> None:
    # GIVEN a fetch inside the wait, in one process: nothing is handed over
    calls = [call(FETCH, TRAINER, 10, 90, batch=0), call(WAIT, TRAINER, 0, 100, batch=0)]
    (found,), ready = epochs(calls)
    assert (found.workers, found.not_ready_ns, found.hand_over_ns, ready) == (0, 100, 0, {})


def test_loaders_and_epochs_are_apart() -> None:
    calls = [call(WAIT, TRAINER, 0, n + 1, epoch=n % 2, loader=f"1.{n // 2}", batch=0) for n in range(4)]
    found, _ = epochs(calls)
    assert [(one.loader, one.epoch, one.wait_ns) for one in found] == [
        ("1.0", 0, 1), ("1.0", 1, 2), ("1.1", 0, 3), ("1.1", 1, 4),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "detail", [{"loader": None}, {"epoch": "0"}, {"epoch": [1]}, {"batch": {"x": 1}}, {"batch": None}]
)
def test_details_that_are_forged(detail: dict[str, Any]) -> None:
    found, _ = epochs([call(WAIT, TRAINER, 0, 10, **detail), call(FETCH, WORKER, 0, 5, **detail)])
    assert sum(one.wait_ns for one in found) in (0, 10)


def test_a_worker_whose_fetches_lie_within_each_other() -> None:
    # GIVEN a batch fetched from 10 to 20, inside a longer fetch of the same worker, from 0 to 100
    calls = [
        call(WAIT, TRAINER, 20, 90, batch=1),
        call(FETCH, WORKER, 0, 100, batch=0),
        call(FETCH, WORKER, 10, 20, batch=1),
    ]
    # WHEN waits and fetches are matched THEN the trainer waited all that time for a batch that was not ready
    (found,), _ = epochs(calls)
    assert (found.not_ready_ns, found.hand_over_ns) == (70, 0)
