"""`insights --verify` with other numbers of readers, and loaders whose batches come from memory."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from pyio_trace.insights import loader_model
from pyio_trace.insights.finding import Finding, Verified
from pyio_trace.insights.settings import Settings
from pyio_trace.insights.trials.attempt import cores
from pyio_trace.insights.trials.recorded import Rows
from pyio_trace.insights.trials.rounds import ROUNDS
from pyio_trace.report.findings_text import verified_label, verified_text
from tests.insights.test_verify import verified
from tests.support.programs import Outcome, Runner, succeeded

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("own_time")]
#: What a trial that ran may show.
MEASURED = ("gain", "no gain", "harm", "not known")
#: Batches are small and quick here.
ANY = Settings(limits={
    "loader-starved": {"ms": 0.001, "share": 0, "fewer": 1}, "loader-in-trainer": {"us": -1e9, "share": -1e9},
    "loader-too-many-workers": {"ms": 0, "share": 0},
})  # fmt: skip
#: argv: workers.  Each item reads its own file; each batch is two items.
ITEMS = """
import sys, torch
from torch.utils.data import DataLoader, Dataset
class Data(Dataset):
    def __len__(self): return 40
    def __getitem__(self, n):
        for k in range(30):
            with open(f"item{n}.bin", "rb") as f: f.read()
        return n
if __name__ == "__main__":
    for n in range(40):
        with open(f"item{n}.bin", "wb") as f: f.write(bytes(100_000))
    for epoch in DataLoader(Data(), batch_size=2, num_workers=int(sys.argv[1])): sum(range(20000))
"""
#: Prints the seconds of an epoch that reads, and of one that has its items in memory.
TWO_LOADERS = """
import time, numpy as np, torch
from torch.utils.data import DataLoader, Dataset
class Data(Dataset):
    def __init__(self, kept): self.kept = kept
    def __len__(self): return 40 if self.kept else 60
    def __getitem__(self, n):
        for k in range(0 if self.kept else 20): np.load("a.npy")
        return torch.zeros(1)
def epoch(kept):
    loader = DataLoader(Data(kept), batch_size=2, num_workers=1)
    begin = time.perf_counter()
    for batch in loader: pass
    return time.perf_counter() - begin
if __name__ == "__main__":
    np.save("a.npy", np.zeros(500_000))
    print(epoch(False), epoch(True))
"""
SHARED = """
import os
from multiprocessing import get_context
def work(barrier, number):
    barrier.wait()
    if number == 0:
        with open("data.bin", "rb", buffering=0) as f:
            for n in range(500): f.read(1 << 16)
    barrier.wait()
if __name__ == "__main__":
    with open("data.bin", "wb") as f: f.truncate(500 << 16)
    context = get_context("fork")
    barrier = context.Barrier(4)
    all = [context.Process(target=work, args=(barrier, number)) for number in range(4)]
    for one in all: one.start()
    for one in all: one.join()
"""


def tried(outcome: Outcome, slug: str) -> tuple[Finding, Verified]:
    return verified(outcome, slug, ANY)


def check_table(shown: Verified, numbers: set[int]) -> None:
    """A line for each number of processes, with times."""
    assert {one.processes for one in shown.readers} == numbers
    assert all(0 < one.low_ns <= one.ns <= one.high_ns for one in shown.readers)
    assert shown.rounds >= ROUNDS and shown.cache == "cached"


def up_to_cores(*more: int) -> set[int]:
    return {count for count in (1, 2, 4, 8, 16, 32, 64, 128) if count <= cores()} | set(more)


@pytest.mark.frameworks("torch")
@pytest.mark.parametrize("workers", [1, 2])
def test_more_workers(program: Runner, workers: int) -> None:
    # GIVEN a loader whose trainer waits for its workers WHEN more of them are tried
    finding, shown = tried(program.traced(ITEMS, workers), "loader-starved")
    # THEN the reads of all 20 batches were issued again from each number of processes, up to the cores
    check_table(shown, up_to_cores(0))
    assert shown.of_operations == 20 and 0 < shown.operations <= 20
    # THEN the epochs as they were stand beside those with other numbers
    laid_out = {one.processes: one.laid_out_ns for one in shown.readers}
    if workers in laid_out:
        assert laid_out[workers] == shown.plain_ns
    assert shown.from_memory_ns is not None and 0 < shown.from_memory_ns < shown.plain_ns
    assert shown.plain_ns <= finding.recoverable.of_wall_ns
    # THEN more workers than cores are not tried, and that is said
    if cores() > workers:
        assert shown.outcome in MEASURED and f"instead of {workers} workers" in verified_text(shown)
    else:
        assert shown.outcome == "bound" and verified_label(shown) == "most" and "cores are not tried" in shown.why


@pytest.mark.frameworks("torch")
def test_fetches_in_the_trainer(program: Runner) -> None:
    # GIVEN a loader without workers WHEN some are tried THEN what handing over costs is said not to be known
    _, shown = tried(program.traced(ITEMS, 0), "loader-in-trainer")
    if cores() == 1:
        pytest.skip("needs two cores")
    check_table(shown, up_to_cores(0))
    assert shown.outcome in MEASURED and "handing batches over, which this run did not" in shown.why
    assert shown.readers[0].laid_out_ns == shown.plain_ns


@pytest.mark.frameworks("torch")
def test_too_many_workers(program: Runner) -> None:
    # GIVEN two workers whose fetches are nothing beside their start WHEN none are tried THEN that is faster
    finding, shown = tried(program.traced(ITEMS.replace("range(30)", "range(1)"), 2), "loader-too-many-workers")
    check_table(shown, up_to_cores(0))
    assert shown.outcome == "gain" and "with 0 instead of 2 workers" in shown.why
    assert shown.remedy_ns == shown.readers[0].laid_out_ns < shown.plain_ns <= finding.recoverable.of_wall_ns


@pytest.mark.frameworks("torch")
def test_one_of_two_loaders(program: Runner) -> None:
    # GIVEN a loader that reads, and one of another length that has its items in memory
    outcome = succeeded(program.traced(TWO_LOADERS))
    reading, _ = (float(word) * 1e9 for word in outcome.stdout.split())
    # of 1,200 loads of 4 MB in one epoch, and none in the other, each waits for its own: half of the former is more
    settings = Settings(limits={"loader-starved": {"ms": reading / 2e6, "share": 0, "fewer": 1}})
    # WHEN the remedy of the first is tried
    finding, shown = verified(outcome, "loader-starved", settings)
    # THEN the finding is about its batches alone, and its epoch is shorter by about what its loads took without them
    assert [one.values["batches"] for one in finding.evidence if "batches" in one.values] == [30]
    loads = sum(row["duration"] for row in outcome.select(op="numpy.load"))
    assert shown.from_memory_ns is not None and len(outcome.select(op="numpy.load")) == 60 * 20
    assert loads / 2 <= shown.plain_ns - shown.from_memory_ns <= loads * 1.5
    assert "with all batches from memory: no remedy of I/O saves more than" in verified_text(shown)
    assert finding.recoverable.bound == "upper"


def test_one_process_that_reads_all(program: Runner) -> None:
    if cores() == 1:
        pytest.skip("needs two cores")
    # GIVEN four processes of which one reads WHEN the remedy is tried THEN several processes share its reads
    finding, shown = tried(program.traced(SHARED), "one-does-all")
    check_table(shown, up_to_cores())
    assert shown.of_operations == 500 and "instead of 1 processes" in shown.why
    assert shown.saved_ns <= shown.recorded_ns and finding.recoverable.bound == "upper"


def test_one_process_that_writes_all(program: Runner) -> None:
    text = SHARED.replace('"rb", buffering=0', '"r+b", buffering=0').replace(
        "f.read(1 << 16)", "f.write(bytes(1 << 16))"
    )
    _, shown = tried(program.traced(text), "one-does-all")
    assert shown.outcome == "not tried" and "comes from other processes" in shown.why


def fifo(path: Path) -> None:
    os.mkfifo(path)


def link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.frameworks("torch")
@pytest.mark.parametrize("put", [fifo, link_to_a_device, lambda path: None])
def test_items_that_are_something_else_now(program: Runner, put: Any) -> None:
    # GIVEN the log of a loader WHEN all its files are FIFOs, links or gone THEN none is opened, and it is said why
    outcome = succeeded(program.traced(ITEMS, 1))
    for path in program.folder.glob("item*.bin"):
        path.unlink()
        put(path)
    _, shown = tried(outcome, "loader-starved")
    assert (shown.outcome, shown.rounds, shown.readers) == ("bound", 0, []) and "the reads are not tried" in shown.why


@pytest.mark.frameworks("torch")
def test_forged_loaders(program: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN details and times that make no sense WHEN the loader is tried THEN it ends
    outcome = succeeded(program.traced(ITEMS, 1))
    for wrong in ({"num_workers": 10**9, "epoch": 0}, {"num_workers": -3}, {"batch": 1 << 62}, {"worker": -1}):
        changed = {name: json.dumps(value) for name, value in wrong.items()}
        monkeypatch.setattr(Rows, "details", property(lambda rows, c=changed: details(rows, c)))
        _, shown = tried(outcome, "loader-starved")
        assert shown.outcome in (*MEASURED, "bound", "not tried")


def details(rows: Rows, changed: dict[str, str]) -> list[dict[str, Any]]:
    """The details of each row, with other values."""
    found = [json.loads(text) if text else {} for text in rows.texts("detail")]
    return [one | {name: json.loads(value) for name, value in changed.items() if one} for one in found]


def test_an_epoch_laid_out_again() -> None:
    # GIVEN one worker that is always too slow, and one that is not: its first fetch is the only one that shows
    slow = [loader_model.Batch(worker=0, compute=10, fetch=30, io=25, hand_over=1)] * 8
    fast = [loader_model.Batch(worker=0, compute=30, fetch=10, io=5, hand_over=1)] * 8
    # THEN the slow worker's fetches make the epoch, and reading nothing saves all of them that computing does not hide
    assert loader_model.length(slow) == 8 * 30 + 1
    assert loader_model.length(slow, without_io=True) == 8 * (10 + 1)
    # THEN reading nothing saves nothing where all is hidden
    assert loader_model.length(fast) == loader_model.length(fast, without_io=True) == 8 * (30 + 1)
    # GIVEN two workers THEN they fetch side by side
    both = [loader_model.Batch(number % 2, 0, 30, 0, 0) for number in range(8)]
    assert loader_model.length(both) == loader_model.length(slow_without_compute(), workers=2) == 4 * 30
    # GIVEN none THEN the trainer does all by itself, and hands nothing over
    assert loader_model.length(slow, workers=0) == 8 * (10 + 30)
    assert loader_model.length(slow, workers=0, slower=2.0) == 8 * (10 + 30 + 25)
    # GIVEN workers that begin late THEN the first batch waits for them
    assert loader_model.length(fast, ready=100) == 100 + 10 + 1 + 7 * 31


def slow_without_compute() -> list[loader_model.Batch]:
    return [loader_model.Batch(0, 0, 30, 0, 0)] * 8
