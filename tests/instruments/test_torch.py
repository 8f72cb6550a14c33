"""PyTorch: every batch has its wait, its fetch and the bytes read for it; checkpoints agree with their files."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import Outcome, Row, Runner, alike, succeeded

pytestmark = pytest.mark.frameworks("torch")

#: Sizes that no two files share, and some larger than a buffer.
SIZES = [3000 + 1009 * number for number in range(20)]

#: Datasets of files; the trainer says what it was given.  argv: the start method, the case.
LOADERS = """
import hashlib, json, os, pickle, sys
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info
try:
    import pyio_trace
    span = pyio_trace.span
except ImportError:
    raise SystemExit("not installed")

def item(number):
    with open(f"item{number}.bin", "rb") as file:
        data = file.read()
    return torch.tensor([number, len(data), sum(data[:7])])

class Items(Dataset):
    def __len__(self):
        return 20
    def __getitem__(self, number):
        if number == 13 and sys.argv[2] == "raises":
            raise ValueError("thirteen")
        found = item(number)
        if number == 13 and sys.argv[2] == "killed":
            os.kill(os.getpid(), 9)
        return found

class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        for number in range(first, 20 - 8 * first, step):  # the second worker ends early
            yield item(number)

class Within(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, number):
        return torch.cat(list(DataLoader(Items(), sampler=range(3 * number, 3 * number + 3))))

def prepared(number):
    return None

def epoch(loader):
    iterator = iter(loader)
    while True:
        batch = next(iterator, None)
        if batch is None:
            return
        with span("compute"):
            yield batch

def run(*loaders, epochs=2):
    for number in range(epochs):
        with span("epoch"):
            for batches in zip(*map(epoch, loaders)):
                for place, batch in enumerate(batches):
                    print(json.dumps([place, number, batch.tolist()]))

def main(method, case):
    workers = dict(num_workers=2, multiprocessing_context=method, worker_init_fn=prepared)
    if case == "map":
        run(DataLoader(Items(), batch_size=3, **workers), epochs=1)
    elif case == "persistent":
        run(DataLoader(Items(), batch_size=3, shuffle=True, generator=torch.Generator().manual_seed(1),
                       persistent_workers=True, prefetch_factor=4, **workers))
    elif case == "stream":
        run(DataLoader(Stream(), batch_size=3, **workers))
    elif case == "persistent stream":
        run(DataLoader(Stream(), batch_size=3, drop_last=True, persistent_workers=True, **workers))
    elif case == "no batches":
        run(DataLoader(Items(), batch_size=None, **workers))
    elif case == "two":  # alive at once, seeded alike
        seeded = lambda: torch.Generator().manual_seed(7)
        run(*(DataLoader(Items(), batch_size=size, generator=seeded(), **workers) for size in (4, 5)))
    elif case == "unordered":
        run(DataLoader(Items(), batch_size=3, in_order=False, **workers))
    elif case == "within":
        run(DataLoader(Within(), batch_size=None, **workers), epochs=1)
    elif case == "alone":
        run(DataLoader(Items(), batch_size=3), DataLoader(Stream(), batch_size=3))
    elif case == "broken off":  # the next epoch begins with what is left of this one
        loader = DataLoader(Items(), batch_size=2, persistent_workers=True, **workers)
        for number in range(3):
            for place, batch in enumerate(loader):
                print(json.dumps([0, number, batch.tolist()]))
                if place == number:
                    break
    elif case == "killed":
        try:
            run(DataLoader(Items(), batch_size=3, **workers))
        except Exception as problem:  # which one depends on what the worker had in hand
            print(type(problem).__name__)
    elif case == "raises":
        import traceback
        loader = DataLoader(Items(), batch_size=3, **workers)
        for one in (DataLoader, DataLoader.__iter__, loader.dataset, torch.save):
            print(hashlib.sha256(pickle.dumps(one)).hexdigest())
        got = iter(loader)
        while True:
            try:
                print(next(got).tolist())
            except StopIteration:
                break
            except Exception as problem:  # where it takes the batch from depends on which worker was first
                frames = traceback.extract_tb(problem.__traceback__)
                print(type(problem).__name__, problem, [(frame.filename, frame.name) for frame in frames])

if __name__ == "__main__":
    main(*sys.argv[1:])
"""


@pytest.fixture
def items(program: Runner) -> Runner:
    """The folder with the files of the datasets."""
    for number, size in enumerate(SIZES):
        (program.folder / f"item{number}.bin").write_bytes(bytes([number]) * size)
    return program


def run(items: Runner, method: str, case: str) -> Outcome:
    """Traced, with the results that it has untraced."""
    outcome = succeeded(alike(items.traced(LOADERS, method, case), items.bare(LOADERS, method, case)))
    assert "tracer_faults" not in outcome.log.losses()
    return outcome


def printed(outcome: Outcome) -> list[tuple[int, int, list[int]]]:
    """Of each batch that was printed: which loader, which epoch, and the numbers of its items."""
    lines = [json.loads(line) for line in outcome.stdout.splitlines()]
    return [(place, epoch, [one[0] for one in (batch if isinstance(batch[0], list) else [batch])])
            for place, epoch, batch in lines]  # fmt: skip


def rows_of(outcome: Outcome, op: str) -> list[tuple[Row, dict[str, Any]]]:
    return [(row, json.loads(row["detail"] or "{}")) for row in outcome.select(layer="app", op=op)]


def by_batch(outcome: Outcome, op: str) -> dict[tuple[str, int, int], tuple[Row, dict[str, Any]]]:
    """Those that came to something, by (loader, epoch, batch): none twice."""
    found = {}
    for row, told in rows_of(outcome, op):
        if "raised" not in told:
            key = told["loader"], told["epoch"], told["batch"]
            assert key not in found
            found[key] = row, told
    return found


def read_in(outcome: Outcome, fetch: Row) -> dict[int, int]:
    """Bytes of POSIX reads beneath a fetch, by item."""
    sums: dict[int, int] = defaultdict(int)
    for row in outcome.select(layer="posix", op="read", pid=fetch["pid"]):
        if row["path"] and "/item" in row["path"] and fetch["id"] in {parent["id"] for parent in outcome.parents(row)}:
            assert row["link"] == "thread"
            sums[int(row["path"].rpartition("/item")[2].removesuffix(".bin"))] += row["bytes_moved"]
    return dict(sums)


def reconciled(outcome: Outcome) -> dict[tuple[str, int, int], list[int]]:
    """The items of each batch by what was read for it: waits and fetches match, and every byte is some fetch's."""
    waits, fetches = by_batch(outcome, "DataLoader.__next__"), by_batch(outcome, "DataLoader.fetch")
    assert waits.keys() <= fetches.keys()
    items = {}
    for key, (row, told) in fetches.items():
        read = read_in(outcome, row)
        assert {number: SIZES[number] for number in read} == read
        if key in waits:
            items[key] = sorted(read)
            wait, of_wait = waits[key]
            assert of_wait.get("worker") == told.get("worker")
            assert row["time"] + row["duration"] <= wait["time"] + wait["duration"]
    of_items = outcome.select(op="read", path=lambda path: path is not None and "/item" in path)
    every = outcome.select(layer="app", op="DataLoader.fetch")  # one that came to nothing may have read (drop_last)
    assert sum(row["bytes_moved"] for row in of_items) == sum(sum(read_in(outcome, row).values()) for row in every)
    return items


def expected(outcome: Outcome) -> list[list[int]]:
    return sorted(sorted(batch) for _, _, batch in printed(outcome))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_every_batch_of_an_epoch(items: Runner, method: str) -> None:
    # GIVEN an epoch with two workers WHEN it is traced THEN every batch has its wait, its fetch and its bytes
    outcome = run(items, method, "map")
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
def test_workers_are_called_by_loader_and_number(items: Runner, method: str) -> None:
    # GIVEN two loaders that are alive at once, each with two workers, whose fetches say which they are
    outcome = run(items, method, "two")
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
def test_waits_and_compute_add_up_to_the_epoch(items: Runner) -> None:
    outcome = run(items, "fork", "map")
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
def test_persistent_workers(items: Runner, method: str) -> None:
    outcome = run(items, method, "persistent")
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


@pytest.mark.slow
@pytest.mark.parametrize("case", ["stream", "persistent stream", "no batches", "broken off"])
def test_other_kinds_of_loaders(items: Runner, case: str) -> None:
    outcome = run(items, "fork", case)
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
def test_data_that_end_are_told_from_failures(items: Runner) -> None:
    outcome = run(items, "fork", "stream")
    for op in ("DataLoader.__next__", "DataLoader.fetch"):
        ended = [(row["errno"], told["raised"]) for row, told in rows_of(outcome, op) if "raised" in told]
        assert ended == [(0, "StopIteration")] * (2 if op == "DataLoader.__next__" else 4)


@pytest.mark.slow
def test_loaders_alive_at_once(items: Runner) -> None:
    # GIVEN two loaders in step, with the same seeds THEN neither's batches are taken for the other's
    outcome = run(items, "spawn", "two")
    found = reconciled(outcome)
    assert sorted({loader for loader, _, _ in found}) == [f"{outcome.pid}.0", f"{outcome.pid}.1"]
    for place, name in enumerate(sorted({loader for loader, _, _ in found})):
        given = [(epoch, batch) for at, epoch, batch in printed(outcome) if at == place]
        kept = [(epoch, found[name, epoch, batch]) for loader, epoch, batch in sorted(found) if loader == name]
        assert [one for one in kept if one in given] == given


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
def test_without_workers(items: Runner) -> None:
    outcome = run(items, "fork", "alone")
    found = reconciled(outcome)
    assert sorted(found.values()) == expected(outcome)
    waits = by_batch(outcome, "DataLoader.__next__")
    for key, (row, told) in by_batch(outcome, "DataLoader.fetch").items():
        assert "worker" not in told
        assert outcome.parents(row)[0]["id"] == waits[key][0]["id"]


@pytest.mark.slow
def test_a_loader_within_a_worker(items: Runner) -> None:
    outcome = run(items, "fork", "within")
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
def test_an_exception_in_a_worker(items: Runner, method: str) -> None:
    # GIVEN a dataset that raises in a worker THEN the trainer's exception is word for word what it is untraced
    outcome = run(items, method, "raises")
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
