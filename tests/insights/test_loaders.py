"""Rules about PyTorch's DataLoader and checkpoints, on real training loops."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from tests.support.findings import findings_of, none, only, without_times
from tests.support.programs import Runner

pytestmark = [pytest.mark.frameworks("torch"), pytest.mark.once]

#: A dataset whose items take a while to fetch, and a loop whose batches take a while to learn from.
LOOP = """
import os, sys, time
import torch
from torch.utils.data import DataLoader
torch.set_num_threads(1)

class Data:
    def __len__(self):
        return ITEMS
    def __getitem__(self, n):
        with open("data.bin", "rb") as f:
            f.seek(n)
            f.read(16)
        end = time.monotonic() + FETCH
        while time.monotonic() < end:
            pass
        return torch.zeros(4)

if __name__ == "__main__":
    open("data.bin", "wb").write(bytes(1 << 16))
    loader = DataLoader(Data(), batch_size=4, OPTIONS)
    for epoch in range(EPOCHS):
        for batch in loader:
            time.sleep(COMPUTE)
"""


def loop(options: str, fetch: float, compute: float, items: int = 80, epochs: int = 1) -> str:
    values = {"ITEMS": items, "FETCH": fetch, "OPTIONS": options, "EPOCHS": epochs, "COMPUTE": compute}
    text = LOOP
    for name, value in values.items():
        text = text.replace(name, str(value))
    return text


def test_a_starved_trainer(program: Runner) -> None:
    # GIVEN batches that take 200 ms to fetch and next to nothing to learn from
    outcome = program.traced(loop("num_workers=1", 0.05, 0.0001))
    finding = only(findings_of(outcome), "loader-starved")
    # THEN the trainer's waits and the dataset's line are named
    assert finding.evidence[0].values["batches"] == 20
    assert int(finding.evidence[1].values["fetch_ns"]) >= 200_000_000
    assert [site.line for site in finding.sites] == [23]
    # AND that the time of a fetch is in none of the calls that are seen: the dataset computes
    assert "in no call that is seen" in finding.evidence[2].text
    # AND most of the epoch, of four seconds and more, was waited for
    assert int(finding.evidence[0].values["not_ready_ns"]) >= 1_000_000_000


WAITING = """
import pickle, time
import torch
from torch.utils.data import DataLoader

class Item:
    def __setstate__(self, state):
        time.sleep(0.005)

class Data:
    def __len__(self):
        return 80
    def __getitem__(self, n):
        with open("item.pkl", "rb") as f:
            pickle.load(f)
        return torch.zeros(4)

if __name__ == "__main__":
    item = Item()
    item.x = 1
    with open("item.pkl", "wb") as f:
        pickle.dump(item, f)
    for batch in DataLoader(Data(), batch_size=4, num_workers=1):
        pass
"""


def test_a_call_in_fetches_that_waits(program: Runner) -> None:
    # GIVEN fetches whose calls of a library take their time without computing
    finding = only(findings_of(program.traced(WAITING)), "loader-starved")
    inside = finding.evidence[2]
    assert inside.values["calls"] == 80 and "pickle.load" in inside.text
    # THEN the library is not said to be slow
    assert int(inside.values["cpu_ns"]) * 2 < int(inside.values["time_ns"]) >= 80 * 5_000_000
    assert "waiting" in inside.text and "the rest in the library" not in inside.text


def test_a_trainer_that_does_not_wait(program: Runner) -> None:
    # GIVEN batches that take 2 ms to fetch and 200 ms to learn from: a worker that is held up for long is early still
    outcome = program.traced(loop("num_workers=1", 0.0005, 0.2))
    settings = without_times({"loader-starved": {"ms": 50, "share": 0.5}})
    assert none(findings_of(outcome, settings), "loader-starved")


def test_workers_started_for_each_epoch(program: Runner) -> None:
    outcome = program.traced(loop("num_workers=2", 0, 0, 8, 3))
    finding = only(findings_of(outcome), "loader-workers-restart")
    assert finding.evidence[0].values["epochs"] == 3 and finding.recoverable.bound == "estimate"
    assert finding.remedy is not None and "persistent_workers=True" in finding.remedy.after
    kept = program.traced(loop("num_workers=2, persistent_workers=True", 0, 0, 8, 3), log="kept.pyio")
    assert none(findings_of(kept), "loader-workers-restart")


def test_a_loader_made_for_each_epoch(program: Runner) -> None:
    # GIVEN a program that makes a loader for each of three epochs
    text = loop("num_workers=2", 0, 0, 8, 3)
    made = "loader = DataLoader(Data(), batch_size=4, num_workers=2)"
    assert made in text
    text = text.replace(f"    {made}\n", "")
    text = text.replace("        for batch in loader:", f"        {made}\n        for batch in loader:")
    outcome = program.traced(text)
    # THEN the three are one in each finding, and the remedy is to make one
    found = findings_of(outcome, without_times({"loader-too-many-workers": {"share": 0, "ms": -1e9}}))
    finding = only(found, "loader-workers-restart")
    assert finding.evidence[0].values["epochs"] == 3
    assert finding.remedy is not None and "persistent_workers=True" in finding.remedy.after.partition("for epoch")[0]
    costly = only(found, "loader-too-many-workers")
    assert costly.evidence[0].text.startswith("All 6 fetches")
    assert len(str(costly.evidence[0].values["loader"]).split()) == 3


def test_two_loaders_used_by_one_line(program: Runner) -> None:
    # GIVEN two loaders of different length that one function goes through, each once
    text = loop("num_workers=1", 0, 0, 8, 1).replace(
        "    for epoch in range(1):\n        for batch in loader:",
        "    for one in (loader, DataLoader(list(range(12)), batch_size=4, num_workers=1)):\n        for batch in one:",
    )
    # THEN they are two, with an epoch each
    assert none(findings_of(program.traced(text)), "loader-workers-restart")


def test_workers_that_cost_more_than_they_save(program: Runner) -> None:
    # GIVEN spawned workers, which take seconds to start, for items that take no time
    outcome = program.traced(loop("num_workers=1, multiprocessing_context='spawn'", 0, 0, 8))
    finding = only(findings_of(outcome), "loader-too-many-workers")
    assert finding.remedy is not None and "num_workers=0" in finding.remedy.after
    # AND not where the fetches take two seconds: forking and ending a worker would have to take as long
    worth = program.traced(loop("num_workers=1", 0.05, 0.0, 40), log="worth.pyio")
    settings = without_times({"loader-too-many-workers": {"share": 0.5}})
    assert none(findings_of(worth, settings), "loader-too-many-workers")


def test_fetching_in_the_trainer(program: Runner) -> None:
    # GIVEN fetches of 12 ms and compute of 10 ms, one after the other
    outcome = program.traced(loop("num_workers=0", 0.003, 0.01))
    found = findings_of(outcome)
    finding = only(found, "loader-in-trainer")
    # THEN workers would hide a part of the shorter of both, and nothing is said of waiting for workers
    values = finding.evidence[0].values
    assert 0 < finding.recoverable_ns <= int(values["fetch_ns"]) and int(values["compute_ns"]) >= 190_000_000
    assert all(none(found, slug) for slug in ("loader-starved", "loader-workers-restart", "loader-too-many-workers"))
    # AND not where there is nothing to hide: 5 ms of each batch is more than a busy machine adds to both
    quick = program.traced(loop("num_workers=0", 0, 0), log="quick.pyio")
    settings = without_times({"loader-in-trainer": {"us": 5000}})
    assert none(findings_of(quick, settings), "loader-in-trainer")


FILES = """
import os, time
import torch
from torch.utils.data import DataLoader

class Data:
    def __len__(self):
        return 300
    def __getitem__(self, n):
        with open(f"d/{n}.bin", "rb") as f:
            return torch.frombuffer(bytearray(f.read()), dtype=torch.uint8)

if __name__ == "__main__":
    os.mkdir("d")
    for n in range(300):
        open(f"d/{n}.bin", "wb").write(bytes(100))
    for batch in DataLoader(Data(), batch_size=10, num_workers=1):
        time.sleep(COMPUTE)
"""


def test_a_small_file_for_each_item(program: Runner) -> None:
    # GIVEN 300 files of 100 bytes, read while the trainer computes
    outcome = program.traced(FILES.replace("COMPUTE", "0.02"))
    finding = only(findings_of(outcome), "loader-file-per-item")
    # THEN the files are counted
    values = finding.evidence[0].values
    assert (values["files"], values["opens"], values["read"]) == (300, 300, 30_000)
    assert finding.files == [f"{program.folder}/d/*.bin"]


CHECKPOINTS = """
import os, threading
import torch
state = {"a": torch.zeros(100_000), "b": torch.zeros(10)}

def save(n):
    for name, tensor in state.items():
        with open(f"{n}-{name}.pt", "wb") as f:
            torch.save(tensor, f)
            f.flush()
            os.fsync(f.fileno())

def save_all():
    for n in range(10):
        save(n)
"""


def test_checkpoints_on_the_main_thread(program: Runner) -> None:
    outcome = program.traced(CHECKPOINTS + "save_all()\n")
    finding = only(findings_of(outcome), "checkpoint-stall")
    # THEN saves, files and syncs are what the program made, and both lines are named
    values = finding.evidence[0].values
    assert (values["saves"], values["files"], values["syncs"], values["bytes"]) == (20, 20, 20, 10 * 400_040)
    assert {site.line for site in finding.sites} >= {9, 11}


def test_checkpoints_in_another_thread(program: Runner) -> None:
    outcome = program.traced(CHECKPOINTS + "t = threading.Thread(target=save_all)\nt.start()\nt.join()\n")
    assert none(findings_of(outcome), "checkpoint-stall")


def test_a_checkpoint_that_is_loaded(program: Runner) -> None:
    # GIVEN checkpoints that are loaded again and again
    outcome = program.traced(CHECKPOINTS + "save_all()\nfor n in range(100): torch.load('0-a.pt')\n")
    finding = only(findings_of(outcome), "checkpoint-stall")
    # THEN they stall training by what saving them takes
    on_files = outcome.select(
        layer="posix", op_class=lambda kind: kind != "read", path=lambda p: (p or "").endswith(".pt")
    )
    most = sum(row["duration"] for row in (*outcome.select(op="torch.save"), *on_files))
    assert len(outcome.select(op="torch.load")) == 100
    assert int(finding.evidence[0].values["time_ns"]) <= most


def test_a_large_load(program: Runner) -> None:
    text = """
        import torch
        torch.save(torch.zeros(20_000_000), "large.pt")
        torch.load("large.pt", mmap=MAPPED)
    """
    finding = only(findings_of(program.traced(text.replace("MAPPED", "False"))), "torch-load-copies")
    assert finding.evidence[0].values["bytes"] == 80_000_000 and [site.line for site in finding.sites] == [4]
    assert none(findings_of(program.traced(text.replace("MAPPED", "True"), log="mapped.pyio")), "torch-load-copies")


def test_a_first_batch_that_comes_late(program: Runner) -> None:
    # GIVEN spawned workers, which take seconds to start, and forked ones
    spawned = findings_of(program.traced(loop("num_workers=1, multiprocessing_context='spawn'", 0, 0, 8)))
    late = only(spawned, _FIRST)
    values = late.evidence[0].values
    assert late.recoverable_ns <= int(values["start_ns"]) + int(values["first_ns"]) and late.sites
    # THEN it says what the worker spent in imports, which is no finding of its own
    assert late.evidence[1].values["importing"] == 1 and none(spawned, "worker-reimport")
    forked = findings_of(program.traced(loop("num_workers=1", 0.01, 0.01, 40), log="forked.pyio"), _RARELY)
    assert none(forked, _FIRST) and none(forked, "worker-reimport")


_FIRST = "loader-first-batch"
_RARELY = without_times({_FIRST: {"share": 0.5, "ms": 300}})  # a busy machine forks slowly

RUN = """
import torch
class DataLoader:
    def __init__(self, data, sampler): self.epochs = [list(sampler) for _ in range(2)]
def work(data):
REMEDY
    return DataLoader(data, sampler=Blocks(len(data))).epochs
epochs = work(range(2000))
"""

SHUFFLED = """
import os, random, torch
from torch.utils.data import DataLoader

class Data:
    def __init__(self):
        self.fd = -1
    def __len__(self):
        return 2000
    def __getitem__(self, n):
        if self.fd < 0: self.fd = os.open("x.bin", os.O_RDONLY)
        return torch.frombuffer(bytearray(os.pread(self.fd, 500, 1000 * n)), dtype=torch.uint8)

if __name__ == "__main__":
    with open("x.bin", "wb") as f: f.write(bytes(2_000_000))
    for batch in DataLoader(Data(), batch_size=20, num_workers=1, shuffle=SHUFFLE): pass
"""


def test_a_sampler_that_shuffles_items(program: Runner) -> None:
    finding = only(findings_of(program.traced(SHUFFLED.replace("SHUFFLE", "True"))), "random-reads")
    assert finding.evidence[0].values["reads"] == 2000
    assert finding.remedy is not None and "sampler" in finding.remedy.after
    # WHEN the remedy is followed THEN each item comes once in each epoch, in blocks whose order changes
    names: dict[str, Any] = {}
    exec(RUN.replace("REMEDY", textwrap.indent(finding.remedy.after, "    ")), names)
    first, second = names["epochs"]
    assert sorted(first) == sorted(second) == list(range(2000)) and first != second
    assert len({n // 256 for n in first[:208]}) <= 2
    in_order = program.traced(SHUFFLED.replace("SHUFFLE", "False"), log="order.pyio")
    assert none(findings_of(in_order), "random-reads")


def test_a_distributed_checkpoint_of_many_files(program: Runner) -> None:
    # GIVEN three distributed checkpoints with a file and a sync for each of 40 tensors WHEN findings are made
    text = """
    import torch, warnings
    import torch.distributed.checkpoint as dcp
    warnings.simplefilter("ignore")
    state = {f"layer.{n}": torch.full((3000,), float(n)) for n in range(40)}
    for step in range(3):
        dcp.save(state, storage_writer=dcp.FileSystemWriter(f"step-{step}", single_file_per_rank=False))
    """
    outcome = program.traced(text)
    finding = only(findings_of(outcome, without_times({"checkpoint-stall": {"share": 0}})), "checkpoint-stall")
    # THEN its files, bytes and syncs are those in the checkpoints' folders
    values, files = finding.evidence[0].values, [path for path in program.folder.glob("step-*/*") if path.is_file()]
    assert values["saves"] == 3 and int(values["files"]) >= len(files) >= 120 and int(values["syncs"]) >= 120
    assert int(values["bytes"]) >= sum(path.stat().st_size for path in files)
    assert finding.remedy is not None and "async_save" in finding.remedy.after
