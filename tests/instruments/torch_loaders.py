"""Programs with DataLoaders, and what their logs say of each batch."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from tests.support.programs import Outcome, Row, Runner, alike, succeeded

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


def with_items(program: Runner) -> Runner:
    """Its folder has the files of the datasets."""
    for number, size in enumerate(SIZES):
        (program.folder / f"item{number}.bin").write_bytes(bytes([number]) * size)
    return program


@pytest.fixture
def items(program: Runner) -> Runner:
    return with_items(program)


Run = Callable[[str, str], Outcome]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs LOADERS traced, with the results that it has untraced: each start method and case once, as each of their
    processes takes seconds to import torch."""

    @cache
    def run(method: str, case: str) -> Outcome:
        program = with_items(Runner(tmp_path_factory.mktemp("run")))
        outcome = succeeded(alike(program.traced(LOADERS, method, case), program.bare(LOADERS, method, case)))
        assert "tracer_faults" not in outcome.log.losses()
        return outcome

    return run


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
