"""PyTorch: every batch has its wait, its fetch and the bytes read for it."""

from __future__ import annotations

import pytest

from tests.instruments.torch_loaders import Run, by_batch, printed, reconciled, rows_of

pytestmark = pytest.mark.frameworks("torch")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_every_batch_of_an_epoch(run: Run, method: str) -> None:
    # GIVEN an epoch with two workers WHEN it is traced THEN every batch has its wait, its fetch and its bytes
    outcome = run(method, "map")
    found = reconciled(outcome)
    assert [found[key] for key in sorted(found)] == [batch for _, _, batch in printed(outcome)]
    # AND the fetches are two other processes', which the loader has named; a batch's order is each worker's
    (begun,) = rows_of(outcome, "DataLoader.__iter__")
    fetches = by_batch(outcome, "DataLoader.fetch")
    for row, told in fetches.values():
        assert row["pid"] == begun[1]["workers"][told["worker"]]
        assert told["batch"] == 2 * told["ordinal"] + told["worker"]
    assert {row["pid"] for row, _ in fetches.values()} == set(begun[1]["workers"])
    assert begun[1]["loader"] == f"{outcome.pid}.0"
    # AND a worker waits for each, and for its end
    for worker in begun[1]["workers"]:
        waits = [row for row, told in rows_of(outcome, "Queue.get") if row["pid"] == worker and "raised" not in told]
        assert len(waits) == sum(row["pid"] == worker for row, _ in fetches.values()) + 1
        assert {row["op_role"] for row in waits} == {"wait"}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_are_called_by_loader_and_number(run: Run, method: str) -> None:
    # GIVEN two loaders that are alive at once, each with two workers, whose fetches say which they are
    outcome = run(method, "two")
    fetches = [(row, told) for row, told in rows_of(outcome, "DataLoader.fetch")]
    assert {told["loader"] for _, told in fetches} == {f"{outcome.pid}.{number}" for number in (0, 1)}
    for row, told in fetches:
        # THEN the process of each is called so
        process = outcome.processes[row["process"]]
        number = told["loader"].partition(".")[2]
        assert process["process_name"] == f"DataLoader {number}, worker {told['worker']}"
        assert process["process_kind"] == "DataLoader worker"
    # AND nothing else is
    called = [row["pid"] for row in outcome.processes if row["process_kind"] == "DataLoader worker"]
    assert set(called) == {row["pid"] for row, _ in fetches}
    assert outcome.process(outcome.pid)["process_name"] == "program.py"


@pytest.mark.slow
def test_loaders_alive_at_once(run: Run) -> None:
    # GIVEN two loaders in step, with the same seeds THEN neither's batches are taken for the other's
    outcome = run("spawn", "two")
    found = reconciled(outcome)
    assert sorted({loader for loader, _, _ in found}) == [f"{outcome.pid}.0", f"{outcome.pid}.1"]
    for place, name in enumerate(sorted({loader for loader, _, _ in found})):
        given = [(epoch, batch) for at, epoch, batch in printed(outcome) if at == place]
        kept = [(epoch, found[name, epoch, batch]) for loader, epoch, batch in sorted(found) if loader == name]
        assert [one for one in kept if one in given] == given


@pytest.mark.slow
def test_waits_and_compute_add_up_to_the_epoch(run: Run) -> None:
    outcome = run("fork", "map")
    (epoch,) = outcome.select(layer="user", op="epoch")
    waits = [row for row, _ in rows_of(outcome, "DataLoader.__next__")]
    computes = outcome.select(layer="user", op="compute")
    assert len(waits) == len(computes) + 1
    # WHEN waits and the gaps between them are summed THEN each gap has one batch's compute, and nothing is left over
    total = 0
    for wait, compute, following in zip(waits, computes, waits[1:], strict=False):
        gap = following["time"] - wait["time"] - wait["duration"]
        assert wait["time"] + wait["duration"] <= compute["time"]
        assert compute["time"] + compute["duration"] <= following["time"]
        assert compute["duration"] <= gap
        total += wait["duration"] + gap
    total += waits[-1]["duration"]
    assert total == waits[-1]["time"] + waits[-1]["duration"] - waits[0]["time"]
    (begun,) = rows_of(outcome, "DataLoader.__iter__")
    assert epoch["time"] <= begun[0]["time"]
    assert begun[0]["time"] + begun[0]["duration"] <= waits[0]["time"]
    assert waits[0]["time"] + total <= epoch["time"] + epoch["duration"]
    assert {parent["op"] for row in waits for parent in outcome.parents(row)} == {"epoch"}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_persistent_workers(run: Run, method: str) -> None:
    outcome = run(method, "persistent")
    found = reconciled(outcome)
    assert [(epoch, found[_, epoch, batch]) for _, epoch, batch in sorted(found)] == [
        (epoch, sorted(batch)) for _, epoch, batch in printed(outcome)
    ]
    # THEN the workers are the same in both epochs, and their fetches are counted on
    begun = [told for _, told in rows_of(outcome, "DataLoader.__iter__")]
    assert [told["epoch"] for told in begun] == [0, 1]
    assert begun[0]["workers"] == begun[1]["workers"]
    ordinals = [told["ordinal"] for _, told in rows_of(outcome, "DataLoader.fetch") if told["worker"] == 0]
    assert ordinals == list(range(8))
