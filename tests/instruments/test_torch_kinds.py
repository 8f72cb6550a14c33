"""PyTorch: loaders of every kind, and those whose workers fail or end early."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.instruments.torch_loaders import (
    LOADERS,
    SIZES,
    Run,
    by_batch,
    expected,
    printed,
    read_in,
    reconciled,
    rows_of,
)
from tests.support.programs import Runner, succeeded

pytestmark = pytest.mark.frameworks("torch")


@pytest.mark.slow
@pytest.mark.parametrize("case", ["stream", "persistent stream", "no batches", "broken off"])
def test_other_kinds_of_loaders(run: Run, case: str) -> None:
    outcome = run("fork", case)
    found = reconciled(outcome)
    # THEN the n-th wait of an epoch that came to something has what the trainer was given n-th
    batches: dict[int, list[list[int]]] = defaultdict(list)
    for _, epoch, batch in sorted(found):
        batches[epoch].append(found[_, epoch, batch])
    given: dict[int, list[list[int]]] = defaultdict(list)
    for _, epoch, numbers in printed(outcome):
        given[epoch].append(sorted(numbers))
    assert batches == given


@pytest.mark.slow
def test_data_that_end_are_told_from_failures(run: Run) -> None:
    outcome = run("fork", "stream")
    for op in ("DataLoader.__next__", "DataLoader.fetch"):
        ended = [(row["errno"], told["raised"]) for row, told in rows_of(outcome, op) if "raised" in told]
        assert ended == [(0, "StopIteration")] * (2 if op == "DataLoader.__next__" else 4)


@pytest.mark.slow
def test_batches_out_of_order(items: Runner) -> None:
    import inspect

    from torch.utils.data import DataLoader

    if "in_order" not in inspect.signature(DataLoader).parameters:
        pytest.skip("this version of torch has no in_order")
    traced = succeeded(items.traced(LOADERS, "fork", "unordered"))  # not the same twice
    found = reconciled(traced)
    assert sorted(found.values()) == expected(traced)
    waits = [told for _, told in rows_of(traced, "DataLoader.__next__") if "raised" not in told]
    given = [batch for _, _, batch in printed(traced)]
    assert [found[told["loader"], told["epoch"], told["batch"]] for told in waits] == given


@pytest.mark.slow
def test_without_workers(run: Run) -> None:
    outcome = run("fork", "alone")
    found = reconciled(outcome)
    assert sorted(found.values()) == expected(outcome)
    waits = by_batch(outcome, "DataLoader.__next__")
    for key, (row, told) in by_batch(outcome, "DataLoader.fetch").items():
        assert "worker" not in told
        assert outcome.parents(row)[0]["id"] == waits[key][0]["id"]


@pytest.mark.slow
def test_a_loader_within_a_worker(run: Run) -> None:
    outcome = run("fork", "within")
    fetches = by_batch(outcome, "DataLoader.fetch")
    outer = {key: row for key, (row, told) in fetches.items() if "worker" in told}
    assert [key[1:] for key in outer] and {key[0] for key in outer} == {f"{outcome.pid}.0"}
    assert sorted(key[2] for key in outer) == [0, 1, 2, 3]
    for (loader, _, _), (row, told) in fetches.items():
        if "worker" not in told:  # the inner ones' are the worker's own, and beneath its fetch
            assert loader.startswith(f"{row['pid']}.")
            assert {parent["id"] for parent in outcome.parents(row)} & {one["id"] for one in outer.values()}
    assert {sum(read_in(outcome, row).values()) for row in outer.values()} == {
        sum(SIZES[3 * number : 3 * number + 3]) for number in range(4)
    }


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_an_exception_in_a_worker(run: Run, method: str) -> None:
    # GIVEN a dataset that raises in a worker THEN the trainer's exception is word for word what it is untraced
    outcome = run(method, "raises")
    assert "ValueError Caught ValueError in DataLoader worker process 0." in outcome.stdout
    assert "ValueError: thirteen" in outcome.stdout
    # AND the wait and the fetch that it belongs to say so
    for op in ("DataLoader.__next__", "DataLoader.fetch"):
        (raised,) = [told for _, told in rows_of(outcome, op) if told.get("raised") == "ValueError"]
        assert (raised["batch"], raised["worker"], raised["epoch"]) == (4, 0, 0)


@pytest.mark.slow
def test_a_worker_that_is_killed(items: Runner) -> None:
    # GIVEN a worker that is killed within a fetch, by SIGKILL
    outcome = succeeded(items.traced(LOADERS, "spawn", "killed"))
    # THEN the fetch is there, begun, with its batch and what it had read
    (begun,) = [(row, told) for row, told in rows_of(outcome, "DataLoader.fetch") if row["duration"] is None]
    assert (begun[1]["epoch"], begun[1]["batch"], begun[1]["worker"]) == (0, 4, 0)
    assert read_in(outcome, begun[0]) == {12: SIZES[12], 13: SIZES[13]}
    # AND so are the waits.  Whether one of them raised, and what, is chance: PyTorch's handler of SIGCHLD raises
    # wherever the trainer is then
    waits = [told for _, told in rows_of(outcome, "DataLoader.__next__")]
    assert {told["loader"] for told in waits} == {begun[1]["loader"]}
    assert [told.get("batch", number) for number, told in enumerate(waits)] == list(range(len(waits)))
    assert not [told for told in waits[:-1] if "raised" in told]


@pytest.mark.slow
def test_the_example(program: Runner) -> None:
    # GIVEN the example WHEN it is traced and shows its log THEN each batch has a line, with a fetch of its own
    example = Path(__file__).parents[2] / "examples" / "dataloader.py"
    env = {"PYIO_TRACE": "1", "PYIO_TRACE_QUIET": "1", "PYIO_TRACE_OUTPUT": "epoch.pyio"}
    succeeded(program.command([sys.executable, example], env))
    shown = succeeded(program.command([sys.executable, example, "epoch.pyio"])).stdout.splitlines()
    assert [line.split()[:3] for line in shown[1:-1]] == [["0", str(n), str(n % 2)] for n in range(8)]
    assert shown[-1].startswith("waits ")
