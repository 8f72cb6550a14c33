"""Bytes that were read again: against what a program says that it read, and brute force."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from pyio_trace.analysis.reducer import scan
from pyio_trace.analysis.reducers import reuse as reuse_module
from pyio_trace.analysis.reducers.reuse import FileReuse, Reuse, ReuseOfBytes
from pyio_trace.analysis.sums.grouped_ranges import GroupedRanges, merged
from tests.support.programs import Outcome, Runner, succeeded

pytestmark = pytest.mark.once

PROGRAM = """\
import os
for name in ("one", "two", "three"):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT)
    os.write(fd, bytes(10_000))
    os.close(fd)
def read(name, begin, end):
    fd = os.open(name, os.O_RDONLY)
    os.pread(fd, end - begin, begin)
    os.close(fd)
read("one", 0, 1000), read("one", 0, 1000), read("one", 500, 1500)
read("two", 0, 4000)
if os.fork() == 0:
    read("two", 2000, 6000), read("three", 0, 10_000)
    os._exit(0)
os.wait()
"""


def reuse(outcome: Outcome) -> tuple[Reuse, dict[str, FileReuse]]:
    (found,) = scan(outcome.log, [ReuseOfBytes()])
    assert isinstance(found, Reuse) and found.dropped == 0
    return found, {Path(row.path).name: row for row in found.rows}


def test_bytes_read_again(program: Runner) -> None:
    # GIVEN two processes that read parts of files WHEN what they read again is summed THEN it is what they say
    found, files = reuse(succeeded(program.traced(PROGRAM)))
    one, two, three = (files[name] for name in ("one", "two", "three"))
    assert (one.reads, one.read_bytes, one.distinct_bytes, one.times) == (3, 3000, 1500, 2.0)
    assert (one.again_bytes, one.in_process_bytes, one.other_process_bytes, one.processes) == (1500, 1500, 0, 1)
    assert (two.read_bytes, two.distinct_bytes, two.processes) == (8000, 6000, 2)
    assert (two.again_bytes, two.in_process_bytes, two.other_process_bytes) == (2000, 0, 2000)
    assert (three.again_bytes, three.times, three.other_epoch_bytes, three.other_task_bytes) == (0, 1.0, 0, 0)
    assert [row.path for row in found.rows[:2]] == [two.path, one.path]
    assert found.again_bytes == 3500 and one.line is not None and ":8:read" in one.line


@pytest.mark.parametrize(("most", "processes"), [(4, True), (1, False)])
def test_what_memory_does_not_suffice_for(
    program: Runner, monkeypatch: pytest.MonkeyPatch, most: int, processes: bool
) -> None:
    # GIVEN room for fewer ranges than tasks have, or than processes have
    text = PROGRAM.replace("if os.fork() == 0:", 'with pyio_trace.span("task"): read("two", 0, 10)\nif os.fork() == 0:')
    outcome = succeeded(program.traced("import pyio_trace\n" + text))
    monkeypatch.setattr(GroupedRanges.__init__, "__defaults__", (most,))
    # WHEN the bytes that were read again are summed THEN the sum is right, and parts that cannot be told are not told
    found, files = reuse(outcome)
    two = files["two"]
    assert (two.read_bytes, two.distinct_bytes, two.again_bytes, found.again_bytes) == (8010, 6000, 2010, 3510)
    told = (10, 2000, 2) if processes else (None, None, None)
    assert (two.in_process_bytes, two.other_process_bytes, two.processes) == told
    assert (two.other_task_bytes, two.other_epoch_bytes, two.tasks, two.epochs) == (None,) * 4
    assert (found.in_process_bytes is None) != processes


def test_files_whose_sums_were_dropped_are_left_out(program: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN room for the sums of one file and line, of three that were read
    outcome = succeeded(program.traced(PROGRAM))
    monkeypatch.setattr(reuse_module, "_MANY", 2)
    # WHEN the bytes that were read again are summed
    (found,) = scan(outcome.log, [ReuseOfBytes()])
    # THEN those of the other files are in no figure, and no file has those of another
    assert found.dropped > 0
    (row,) = found.rows
    assert (Path(row.path).name, row.read_bytes, row.distinct_bytes, row.again_bytes) == ("three", 10_000, 10_000, 0)


LOADER = """\
import os
import torch
from torch.utils.data import DataLoader, Dataset
for n in range(4):
    with open(f"item{n}", "wb") as file: file.write(bytes(1000))
class Items(Dataset):
    def __len__(self): return 4
    def __getitem__(self, n):
        with open(f"item{n}", "rb", buffering=0) as file: return torch.tensor(len(file.read(1000)))
for epoch in range(3):
    for batch in DataLoader(Items(), batch_size=2, num_workers=WORKERS): pass
"""


@pytest.mark.frameworks("torch")
@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_epochs_of_a_loader_read_again(program: Runner, workers: int) -> None:
    found, files = reuse(succeeded(program.traced(LOADER.replace("WORKERS", str(workers)))))
    for n in range(4):
        item = files[f"item{n}"]
        assert (item.read_bytes, item.distinct_bytes, item.epochs) == (3000, 1000, 3)
        assert (item.other_epoch_bytes, item.again_bytes) == (2000, 2000)
        assert item.in_process_bytes + item.other_process_bytes == 2000
    assert found.other_epoch_bytes == 8000


@pytest.mark.parametrize("widest", [0, 1 << 62])  # a group and a place fit into 64 bits as they are, or as ranks
def test_merged_ranges_are_those_of_brute_force(widest: int) -> None:
    chance = np.random.default_rng(4)
    group, other = chance.integers(-2, 2, 300), chance.integers(0, 3, 300)
    starts = chance.integers(0, 500, 300) + (1 << 60)
    ends = starts + chance.integers(1, 9, 300)
    starts[0], ends[0] = starts[0] - widest, starts[0] - widest + 1
    expected = {(g, o, byte) for g, o, s, e in zip(group, other, starts, ends, strict=True) for byte in range(s, e)}
    (groups, others), first, last = merged((group, other), starts.copy(), ends.copy())
    rows = list(zip(groups.tolist(), others.tolist(), first.tolist(), last.tolist(), strict=True))
    covered = [(g, o, byte) for g, o, s, e in rows for byte in range(s, e)]
    assert len(covered) == len(set(covered)) and set(covered) == expected
    touching = [one for one, after in itertools.pairwise(rows) if one[:2] == after[:2] and one[3] >= after[2]]
    assert rows == sorted(rows) and touching == []


def test_keys_are_given_up_when_there_are_too_many_ranges() -> None:
    ranges = GroupedRanges(3, most=10)
    file, process, task = (np.zeros(100, np.int64), np.arange(100) % 2, np.arange(100))
    ranges.add((file, process, task), np.zeros(100, np.int64), np.full(100, 10))
    (files, processes, tasks), starts, ends = ranges.ranges()
    assert ranges.given_up == 1 and set(tasks.tolist()) == {-1}
    assert (files.tolist(), processes.tolist(), starts.tolist(), ends.tolist()) == ([0, 0], [0, 1], [0, 0], [10, 10])
