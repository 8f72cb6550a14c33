"""The states of a process's wall time: they add up to it, whatever the log says, and each has what its calls took."""

from __future__ import annotations

import random
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from pyio_trace.analysis.results.overview_figures import STATES, Overview, Split
from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.sources.opening import open_log
from pyio_trace.log import layout
from tests.support.logwriter import LogWriter
from tests.support.smallrun import small_run


def overview(path: Path) -> Overview:
    found = summarize(open_log(path)).overview
    assert found is not None
    return found


def adds_up(split: Split) -> bool:
    """Whether the states are disjoint parts of the wall time."""
    times = [split.state(state) for state in STATES]
    return sum(times) == split.wall_ns and min(times) >= 0 and 0 <= split.beside_ns <= split.wall_ns


class Run:
    """One process from 0 to 1,000,000 ns, and its threads; begins are ns since its start."""

    def __init__(self, **origin: Any) -> None:
        """origin: what the process table says of how it began."""
        self.writer = LogWriter()
        self.process = self.writer.process(
            100, begin=1_000, end=1_001_000, end_kind=layout.END_EXIT, stack_state=1, version=b"3.11.7",
            **{"argv": ["python", "train.py"], **origin},
        )  # fmt: skip
        self.line = self.writer.stack((self.writer.code("/home/u/train.py", "main"), 10))
        self.file = self.writer.desc(3, "/d/in.bin", kind=1, dev=1, ino=11)
        self.threads = {tid: self.writer.thread(self.process, tid) for tid in (100, 101)}

    def call(self, op: str, begin: int, end: int, tid: int = 100, **fields: int) -> int:
        values = {"desc": self.file, "stack": self.line, **fields}
        return self.threads[tid].record(op, begin=1_000 + begin, duration=end - begin, **values)

    def split(self, path: Path) -> Split:
        (process,) = overview(self.writer.save(path)).processes
        assert adds_up(process.split)
        return process.split


def test_each_state_has_what_its_calls_took(tmp_path: Path) -> None:
    # GIVEN an own call after 100,000 ns: a request of 300,000 ns around a read of 50,000 and an fsync of 20,000; then
    # a read of 30,000 on its own, in which nothing else is open; nothing in the rest
    run = Run()
    request = run.call("A_BUF_READ", 100_000, 400_000, result=10)
    run.call("PREAD", 150_000, 200_000, parent=request, link=1, result=10, offset=0)
    run.call("FSYNC", 300_000, 320_000, parent=request, link=1)
    run.call("PREAD", 500_000, 530_000, result=10, offset=0)
    # THEN a request has what is beneath it taken off
    assert run.split(tmp_path / "run.pyio") == Split(
        io_ns=80_000, sync_ns=20_000, library_ns=230_000, starting_ns=100_000, other_ns=570_000, wall_ns=1_000_000
    )


def test_a_request_that_waits_for_a_fifo_waits(tmp_path: Path) -> None:
    # GIVEN a FIFO that is read by a request of 300,000 ns, in which the system call waits 280,000
    run = Run()
    fifo = run.writer.desc(4, "/d/fifo", kind=3, dev=1, ino=12)
    request = run.call("A_BUF_READ", 100_000, 400_000, desc=fifo, result=10)
    run.call("READ", 110_000, 390_000, parent=request, link=1, desc=fifo, result=10)
    # THEN that is no time of a library
    split = run.split(tmp_path / "run.pyio")
    assert (split.waiting_ns, split.library_ns, split.io_ns, split.other_ns) == (280_000, 20_000, 0, 600_000)


def test_io_of_other_threads_is_beside(tmp_path: Path) -> None:
    # GIVEN the main thread in a read from 100,000 to 200,000, another thread in one from 150,000 to 400,000
    run = Run()
    run.call("PREAD", 100_000, 200_000, result=10, offset=0)
    run.call("PREAD", 150_000, 400_000, tid=101, result=10, offset=0)
    split = run.split(tmp_path / "run.pyio")
    # THEN the main thread's is I/O; what the other one adds to it is beside
    assert (split.io_ns, split.beside_ns, split.other_ns) == (100_000, 200_000, 800_000)


def test_syncs_of_other_threads_are_beside(tmp_path: Path) -> None:
    # GIVEN the main thread in a sync from 100,000 to 200,000, another in one from 150,000 to 400,000, then in a read
    run = Run()
    run.call("FSYNC", 100_000, 200_000)
    run.call("FSYNC", 150_000, 400_000, tid=101)
    run.call("PREAD", 400_000, 450_000, tid=101, result=10, offset=0)
    split = run.split(tmp_path / "run.pyio")
    # THEN what the other thread adds is beside, each apart
    assert (split.sync_ns, split.beside_sync_ns, split.beside_ns) == (100_000, 200_000, 50_000)


def test_rows_of_many_calls_have_an_amount(tmp_path: Path) -> None:
    # GIVEN 1,000 lines read in 40,000 ns, spread over 300,000, with a read of 10,000 among them
    run = Run()
    run.call("PREAD", 100_000, 110_000, result=10, offset=0)
    lines = run.call("A_TEXT_NEXT", 200_000, 240_000, flags=layout.COALESCED, aux=1_000, offset=300_000, result=30_000)
    run.call("PREAD", 300_000, 310_000, parent=lines, link=1, result=10, offset=0)
    split = run.split(tmp_path / "run.pyio")
    # THEN the amount counts, not the extent, without the read
    assert (split.io_ns, split.library_ns, split.starting_ns) == (20_000, 30_000, 100_000)


def test_a_process_without_a_call_of_its_own_only_starts(tmp_path: Path) -> None:
    run = Run()
    foreign = run.writer.stack((run.writer.code("/v/lib/python3.11/site-packages/x.py", "f"), 1))
    run.call("PREAD", 100_000, 110_000, result=10, offset=0, stack=foreign)
    assert run.split(tmp_path / "run.pyio").starting_ns == 1_000_000


def test_starting_ends_when_the_script_begins(tmp_path: Path) -> None:
    # GIVEN a script that begins after 50,000 ns and reads after 400,000; before, a library reads on its behalf
    run = Run(script_since=51_000)
    foreign = run.writer.stack((run.writer.code("/v/lib/python3.11/site-packages/x.py", "f"), 1))
    run.call("PREAD", 100_000, 130_000, result=10, offset=0, stack=foreign)
    run.call("PREAD", 400_000, 420_000, result=10, offset=0)
    # THEN it is the log's word that counts, and what comes later is the program's
    split = run.split(tmp_path / "run.pyio")
    assert (split.starting_ns, split.io_ns, split.other_ns) == (50_000, 50_000, 900_000)


@pytest.mark.parametrize(
    ("argv", "early", "starting"),
    [
        (["python", "train.py"], 60_000, 290_000),
        (["python", "-m", "train"], 60_000, 290_000),
        (["python", "train.py"], None, 350_000),  # logs of earlier versions
        (["python", "-m", "train"], None, 260_000),
        (["python", "train.py"], 10**12, 260_000),  # a forged one
    ],
)
def test_imports_are_starting(tmp_path: Path, argv: list[str], early: int | None, starting: int) -> None:
    # GIVEN imports that take 300,000 ns: the import system itself makes a call of 20,000 ns, and an imported module of
    # the program makes one of 40,000 ns.  The script begins after 90,000 ns, of which `early` are in imports.
    ticks = 0 if early is None else early + 1
    run = Run(argv=argv, script_since=91_000, import_ticks=300_000, imports=3, early_import_ticks=ticks)
    bootstrap = run.writer.code("<frozen importlib._bootstrap>", "_load")
    library = run.writer.code("/v/lib/python3.11/site-packages/x.py", "f")
    run.call("PREAD", 100_000, 120_000, result=10, offset=0, stack=run.writer.stack((library, 1), (bootstrap, 1)))
    own = run.writer.code("/home/u/data.py", "<module>")
    run.call("PREAD", 200_000, 240_000, result=10, offset=0, stack=run.writer.stack((own, 3), (bootstrap, 1)))
    split = run.split(tmp_path / "run.pyio")
    # THEN what the own module did is no part of it, and no import is counted twice; where it is not known which of them
    # were early, of -m only those are counted that cannot have been
    assert (split.io_ns, split.starting_ns) == (40_000, starting)


def test_a_forked_process_goes_on_with_its_parents_code(tmp_path: Path) -> None:
    run = Run(script_since=51_000)
    child = run.writer.process(
        101, argv=["python", "train.py"], begin=101_000, end=601_000, end_kind=layout.END_EXIT, stack_state=1,
        version=b"3.11.7", parent=run.process, ppid=100, start=layout.START_FORK,
    )  # fmt: skip
    run.writer.thread(child, 101).record(
        "PREAD", begin=501_000, duration=10_000, desc=run.file, stack=run.line, result=10, offset=0
    )
    first, second = (process.split for process in overview(run.writer.save(tmp_path / "run.pyio")).processes)
    assert adds_up(first) and adds_up(second)
    assert (second.starting_ns, second.io_ns, second.other_ns) == (0, 10_000, 490_000)


def test_a_worker_starts_until_its_first_task(tmp_path: Path) -> None:
    # GIVEN a spawned worker, which calls something after 100,000 ns and runs its first task after 300,000
    run = Run(script_since=51_000)
    worker = run.writer.process(
        101, argv=["python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main()"], begin=101_000,
        end=601_000, end_kind=layout.END_EXIT, stack_state=1, version=b"3.11.7", ppid=100,
        start=layout.START_JOINED, script_since=102_000,
    )  # fmt: skip
    thread = run.writer.thread(worker, 101)
    thread.record("PREAD", begin=201_000, duration=10_000, desc=run.file, stack=run.line, result=10, offset=0)
    thread.record("SPAN_USER", begin=401_000, duration=100_000, stack=run.line)
    split = overview(run.writer.save(tmp_path / "run.pyio")).processes[1].split
    assert adds_up(split)
    assert (split.starting_ns, split.task_ns) == (300_000, 100_000)


def test_live_and_packed_say_the_same(tmp_path: Path) -> None:
    live = small_run(tmp_path / "run.pyio")
    pack(live, tmp_path / "run.parquet")
    assert overview(live) == overview(tmp_path / "run.parquet")
    assert all(adds_up(process.split) for process in overview(live).processes)


@pytest.mark.parametrize("seed", range(12))
def test_they_add_up_whatever_the_log_says(seed: int, tmp_path: Path) -> None:
    # GIVEN calls at any times, of any length, before the process began and after it ended, nested or not
    dice, run = random.Random(seed), Run()
    ids = [0]
    for _ in range(200):
        op = dice.choice(["A_BUF_READ", "PREAD", "FSYNC", "SPAN_USER", "MUNMAP", "STAT", "A_TEXT_NEXT"])
        begin = dice.choice([dice.randrange(10**6), dice.randrange(1 << 40), 0])
        length = dice.choice([dice.randrange(10**4), dice.randrange(10**7), dice.randrange(1 << 31)])
        flags = dice.choice([0, 0, layout.COALESCED]) if op == "A_TEXT_NEXT" else 0
        parent = dice.choice(ids)
        ids.append(
            run.call(op, begin, begin + length, tid=dice.choice((100, 101)), parent=parent, link=1, flags=flags,
                     aux=dice.choice((1, 1000)) if flags else 0, result=dice.choice((1, 10**6)))
        )  # fmt: skip
    # THEN nothing exceeds the wall time and the states add up to it
    run.split(tmp_path / "run.pyio")


def test_splits_add_up() -> None:
    one, two = Split(io_ns=1, other_ns=2, wall_ns=3, cpu_ns=4), Split(io_ns=10, idle_ns=20, wall_ns=30)
    assert one + two == Split(io_ns=11, other_ns=2, idle_ns=20, wall_ns=33, cpu_ns=4)
    assert (one + one).idle_ns is None
    assert {field.name.removesuffix("_ns") for field in fields(Split)} >= set(STATES)
