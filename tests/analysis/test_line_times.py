"""Wall time by line: from samples and exact calls of which the truth is known."""

from __future__ import annotations

from functools import reduce
from pathlib import Path

import numpy as np
import pytest

from pyio_trace.analysis.reducer import scan
from pyio_trace.analysis.reducers.by_line_time import ByLineTime
from pyio_trace.analysis.results.line_time import AFTER, BEFORE, IDLE, NOWHERE, LineTime, LineTimes
from pyio_trace.analysis.scan.filters import Filter, restrict
from pyio_trace.errors import ConfigError
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.sources.opening import open_log
from pyio_trace.log import layout
from tests.analysis.test_scan import as_tree, parts_of
from tests.support.logwriter import LogWriter
from tests.support.results import plain

pytestmark = pytest.mark.once

MS = 1_000_000
SCRIPT, LIBRARY = "/home/u/train.py", "/usr/lib/python3.11/site-packages/PIL/Image.py"


class Run:
    """A log of one process in the making; frames are (file, function, line), outermost first."""

    def __init__(self, folder: Path) -> None:
        self.writer, self.path = LogWriter(mono=0, ticks=0), folder / "run.pyio"
        self.writer.header["sampling_hz"] = 100
        self.process = self.writer.process(100, argv=["python", "train.py"], version=b"3.11")
        self.codes: dict[tuple[str, str], int] = {}
        self.file = self.writer.desc(3, "/data/a.bin")

    def stack(self, *frames: tuple[str, str, int]) -> int:
        found = []
        for file, function, line in reversed(frames):
            if (file, function) not in self.codes:
                self.codes[file, function] = self.writer.code(file, function)
            found.append((self.codes[file, function], line))
        return self.writer.stack(*found)

    def times(self) -> LineTimes:
        (result,) = scan(open_log(self.writer.save(self.path)), [ByLineTime()])
        assert isinstance(result, LineTimes) and result.dropped == 0
        return result

    def lines(self) -> dict[str, LineTime]:
        return {row.line.removeprefix(f"{SCRIPT}:"): row for row in self.times().rows}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def at(line: int, function: str = "<module>") -> tuple[str, str, int]:
    return SCRIPT, function, line


def near(found: int, truth: float, by: float = 0.02) -> bool:
    return abs(found - truth) <= by * max(truth, 10 * MS)


def test_exact_calls_are_taken_out_of_the_samples_made_in_them(run: Run) -> None:
    # GIVEN 2 s of a loop: a read of 4 ms at line 3, and 6 ms of work at line 4, found half the time here, half there
    thread, read, work = run.writer.thread(run.process, 100), run.stack(at(3)), run.stack(at(4))
    for number in range(200):
        begin = (1 + 10 * number) * MS
        thread.record("PREAD", begin=begin, duration=4 * MS, desc=run.file, size=9, result=9, stack=read)
        run.writer.sample(run.process, 100, begin=begin, ticks=4 * MS, stack=read)
        run.writer.sample(run.process, 100, begin=begin + 4 * MS, ticks=6 * MS, stack=work)
    # WHEN it is summed up THEN the read is I/O, exactly, and nothing else
    lines = run.lines()
    assert lines["3:<module>"].io_ns == 800 * MS and lines["3:<module>"].calls == 200
    assert lines["3:<module>"].cpu_ns <= 10 * MS
    assert near(lines["4:<module>"].cpu_ns, 1200 * MS) and lines["4:<module>"].io_ns == 0


def test_calls_of_another_thread_are_not_taken_out(run: Run) -> None:
    reading, stack = run.writer.thread(run.process, 101), run.stack(at(3))
    reading.record("PREAD", begin=MS, duration=900 * MS, desc=run.file, size=9, result=9, stack=stack)
    run.writer.sample(run.process, 100, begin=MS, ticks=1000 * MS, samples=100, stack=stack)
    row = run.lines()["3:<module>"]
    assert (row.io_ns, row.cpu_ns) == (900 * MS, 1000 * MS) and row.time_ns == 1900 * MS


def test_what_the_kernel_counted_outweighs_how_often_a_thread_was_found_running(run: Run) -> None:
    # GIVEN a busy machine, on which the sampler found the thread asleep 8 of 10 times, although it computed for 600 ms
    # and waited for a processor for 100 ms
    work, rest = run.stack(at(3)), run.stack(at(4))
    run.writer.sample(run.process, 100, begin=MS, ticks=200 * MS, samples=2, stack=work, cpu=150 * MS, delay=50 * MS)
    run.writer.sample(
        run.process, 100, "sleep", begin=201 * MS, ticks=700 * MS, samples=8, stack=rest, cpu=450 * MS, delay=50 * MS
    )
    # THEN the line that was found running has all of that, and the other one slept for the rest
    lines = run.lines()
    assert (lines["3:<module>"].cpu_ns, lines["3:<module>"].delay_ns) == (600 * MS, 100 * MS)
    assert (lines["4:<module>"].sleep_ns, lines["4:<module>"].cpu_ns) == (200 * MS, 0)


def test_exact_figures_are_of_their_second(run: Run) -> None:
    # GIVEN a second in which line 3 ran, and one in which line 4 mostly slept THEN neither gives the other anything
    run.writer.sample(run.process, 100, begin=MS, ticks=999 * MS, samples=1, stack=run.stack(at(3)))
    for number in range(10):
        run.writer.sample(
            run.process, 100, "running" if number == 5 else "sleep", begin=(1001 + 100 * number) * MS,
            ticks=100 * MS, samples=10, stack=run.stack(at(4)), cpu=2 * MS,
        )  # fmt: skip
    lines = run.lines()
    assert near(lines["3:<module>"].cpu_ns, 999 * MS) and near(lines["4:<module>"].cpu_ns, 20 * MS)


@pytest.mark.parametrize("state", [state for state in layout.SAMPLE_STATES if state != "running"])
def test_waits_by_what_they_wait_for(run: Run, state: str) -> None:
    run.writer.sample(run.process, 100, state, begin=MS, ticks=1000 * MS, samples=100, stack=run.stack(at(3)), cpu=MS)
    row = run.lines()["3:<module>"]
    assert getattr(row, f"{state.replace(' ', '_')}_ns") == 999 * MS and row.cpu_ns == MS
    assert row.time_ns == row.here_ns == 1000 * MS


def test_the_outermost_library_function_beneath_each_line(run: Run) -> None:
    # GIVEN main() of the program, which calls a function of its own, which converts images; and imports torch
    loads = ("/usr/lib/python3.11/json/__init__.py", "loads", 299)
    image = [(LIBRARY, "Image.convert", 900), ("/usr/lib/python3.11/site-packages/PIL/ImageFile.py", "load", 1)]
    torch = [
        ("<frozen importlib._bootstrap>", "_find_and_load", 1),
        ("/usr/lib/python3.11/site-packages/torch/__init__.py", "<module>", 2), loads,
    ]  # fmt: skip
    for number, (ticks, frames) in enumerate(
        [
            (500, [at(30), at(20, "convert"), *image]),
            (200, [at(30), at(21, "convert")]),
            (100, [at(30), at(21, "convert"), at(21, "convert"), loads]),
            (400, [at(1), *torch]),
        ]
    ):
        stack = run.stack(*frames)
        run.writer.sample(run.process, 100, begin=(1 + 1000 * number) * MS, ticks=ticks * MS, stack=stack)
    # THEN each line has the time in what it called, and a line that called itself counts once
    lines = run.lines()
    assert [(row.function, row.cpu_ns) for row in lines["20:convert"].called] == [("PIL.Image.Image.convert", 500 * MS)]
    assert [row.function for row in lines["1:<module>"].called] == ["import torch"]
    twice = lines["21:convert"]
    assert (twice.time_ns, twice.here_ns, twice.own_ns) == (300 * MS, 300 * MS, 200 * MS)
    whole = lines["30:<module>"]
    assert (whole.time_ns, whole.here_ns, whole.own_ns) == (800 * MS, 0, 200 * MS)
    assert [row.function for row in whole.called] == ["PIL.Image.Image.convert", "json.loads"]


def test_a_generator_expression_belongs_to_the_line_that_has_it(run: Run) -> None:
    thread, inner = run.writer.thread(run.process, 100), run.stack(at(3), at(3, "main.<locals>.<genexpr>"))
    thread.record("PREAD", begin=MS, duration=40 * MS, desc=run.file, size=9, result=9, stack=inner)
    run.writer.sample(run.process, 100, begin=MS, ticks=100 * MS, samples=10, stack=inner)
    run.writer.sample(run.process, 100, begin=101 * MS, ticks=100 * MS, samples=10, stack=run.stack(at(3)))
    lines = run.lines()
    assert set(lines) == {"3:<module>"} and near(lines["3:<module>"].here_ns, 200 * MS)
    # ... and one in another line does not
    run.writer.sample(run.process, 100, begin=201 * MS, ticks=50 * MS, stack=run.stack(at(4), at(3, "<lambda>")))
    assert set(run.lines()) == {"3:<module>", "3:<lambda>", "4:<module>"}


@pytest.mark.parametrize(
    "made",
    [
        [("<string>", "<module>", 1)],  # exec() and eval()
        [("<stdin>", "<module>", 1)],
        [("<string>", "__init__", 2), ("<string>", "<lambda>", 1)],  # methods of dataclasses and named tuples
        [(LIBRARY, "load", 9), ("<string>", "f", 3)],
    ],
)
def test_generated_code_has_the_line_that_runs_it(run: Run, made: list[tuple[str, str, int]]) -> None:
    run.writer.sample(run.process, 100, begin=MS, ticks=500 * MS, samples=50, stack=run.stack(at(3), *made))
    assert list(run.lines()) == ["3:<module>"]


@pytest.mark.parametrize(
    ("argv", "file"), [(("-c", "def f(): ...\nf(); exec('1')"), "<string>"), (("-",), "<stdin>"), ((), "<stdin>")]
)
def test_a_program_without_a_file_has_lines(run: Run, argv: tuple[str, ...], file: str) -> None:
    # GIVEN a command, or standard input, that calls a function of its own from a thread and by way of a module, and
    # generated code
    run.process = run.writer.process(200, argv=["python", *argv], version=b"3.11")
    thread, f = ("/usr/lib/python3.11/threading.py", "Thread.run", 1), (file, "f", 2)
    stacks = [[(file, "<module>", 1)], [thread, f], [(file, "<module>", 3), at(9, "helper"), f]]
    if file == "<string>":
        stacks.append([(file, "<module>", 4), ("<string>", "<module>", 1)])
    for number, frames in enumerate(stacks):
        stack = run.stack(*frames)
        run.writer.sample(run.process, 200, begin=(1 + 1000 * number) * MS, ticks=100 * MS, samples=10, stack=stack)
    # THEN they are lines of the program, and its generated code is not
    here = {line: row.here_ns for line, row in run.lines().items() if row.here_ns}
    expected = {f"{file}:1:<module>": 100 * MS, f"{file}:2:f": 200 * MS}
    assert here == expected | ({"<string>:4:<module>": 100 * MS} if file == "<string>" else {})


@pytest.mark.parametrize("function", ["spawn_main", "main"])
def test_the_command_of_a_worker_is_no_line_of_the_program(run: Run, function: str) -> None:
    module = "spawn" if function == "spawn_main" else "forkserver"
    around = [("<string>", "<module>", 1), (f"/usr/lib/python3.11/multiprocessing/{module}.py", function, 9)]
    run.writer.sample(run.process, 100, begin=MS, ticks=500 * MS, samples=50, stack=run.stack(*around, at(3, "work")))
    assert list(run.lines()) == ["3:work"]


def test_a_forked_worker_has_no_line_of_its_parent(run: Run) -> None:
    # GIVEN a worker that was forked at line 30 of main(), and reads and works at line 5
    trainer = run.stack(at(30))
    fork = run.writer.thread(run.process, 100).record("FORK", begin=5 * MS, stack=trainer)
    child = run.writer.process(
        101, start=layout.START_FORK, parent=run.process, started_by=fork, version=b"3.11", begin=6 * MS
    )
    beneath = run.stack(at(30), at(5, "read"))
    run.writer.thread(child, 101).record("PREAD", begin=10 * MS, duration=50 * MS, desc=run.file, size=9, stack=beneath)
    run.codes = {}  # the sampler describes code itself
    beneath = run.stack(at(30), at(5, "read"))
    run.writer.sample(child, 101, begin=10 * MS, ticks=200 * MS, samples=20, stack=beneath)
    # THEN line 30 has no part in it
    lines = run.lines()
    assert set(lines) == {"5:read"} and lines["5:read"].io_ns == 50 * MS and near(lines["5:read"].cpu_ns, 150 * MS)


def test_time_at_no_line_of_the_program_is_named(run: Run) -> None:
    # GIVEN an interpreter that starts, a helper of a library that waits and then works, and no Python frame at all
    begin = int(run.writer.header["first"]["ticks"]) + 100 * MS
    run.process = run.writer.process(200, argv=["python", "b.py"], version=b"3.11", script_since=begin)
    helper = run.stack(("/usr/lib/python3.11/threading.py", "Thread.run", 5))
    run.writer.sample(run.process, 200, begin=begin - 90 * MS, ticks=80 * MS, stack=helper)
    run.writer.sample(run.process, 200, begin=begin + 10 * MS, ticks=7 * MS)
    run.writer.sample(run.process, 201, "lock", begin=begin, ticks=900 * MS, samples=9, stack=helper)
    run.writer.sample(run.process, 201, begin=begin + 1000 * MS, ticks=30 * MS, stack=helper)
    # THEN each is named, and what ran at no line is the residual
    result = run.times()
    assert {row.line: row.here_ns for row in result.rows} == {BEFORE: 80 * MS, IDLE: 900 * MS, NOWHERE: 37 * MS}
    assert (result.thread_ns, result.residual_ns) == (1017 * MS, 37 * MS)


@pytest.mark.parametrize("works", [True, False])
def test_what_a_process_of_a_library_runs_before_the_programs_first_line(run: Run, works: bool) -> None:
    # GIVEN a notebook's kernel or a worker that imports its library, waits for work, does it, and goes on
    child = run.writer.process(101, parent=run.process, start=layout.START_SPAWN, version=b"3.11", script_since=MS)
    library = run.stack(("/usr/lib/python3.11/site-packages/kernel/app.py", "launch", 5))
    run.writer.sample(child, 101, begin=10 * MS, ticks=60 * MS, stack=library)
    run.writer.sample(child, 101, "poll", begin=70 * MS, ticks=30 * MS, stack=library)
    if works:
        run.writer.sample(child, 102, begin=100 * MS, ticks=20 * MS, stack=run.stack(at(5, "cell")))
    run.writer.sample(child, 101, begin=120 * MS, ticks=7 * MS, stack=library)
    # THEN what it ran before that is no residual; of a helper that runs no line of the program, all is
    found = {row.line: row.here_ns for row in run.times().rows if row.line.startswith("(")}
    before = {BEFORE: 60 * MS, NOWHERE: 7 * MS} if works else {NOWHERE: 67 * MS}
    assert found == before | {IDLE: 30 * MS}


@pytest.mark.parametrize(("ended", "named"), [(True, AFTER), (False, NOWHERE)])
def test_time_after_the_last_line_is_named(run: Run, ended: bool, named: str) -> None:
    # GIVEN a program that has run its last line and is found without a frame twice: between its lines, and at the end
    fields = {"end": 900 * MS, "end_kind": layout.END_EXIT} if ended else {}
    run.process = run.writer.process(300, argv=["python", "c.py"], version=b"3.11", **fields)
    line = run.stack(at(7))
    run.writer.sample(run.process, 300, begin=10 * MS, ticks=40 * MS, stack=line)
    run.writer.sample(run.process, 300, begin=50 * MS, ticks=20 * MS)
    run.writer.sample(run.process, 300, begin=70 * MS, ticks=30 * MS, stack=line)
    run.writer.sample(run.process, 300, begin=100 * MS, ticks=500 * MS)
    # THEN its shutting down is told from time at no line; a program that goes on has not run its last line
    found = {row.line: row.here_ns for row in run.times().rows if row.line.startswith("(")}
    assert found == ({NOWHERE: 20 * MS, AFTER: 500 * MS} if ended else {NOWHERE: 520 * MS})
    assert named in found


def test_waits_of_workers_and_of_further_threads_are_told_apart(run: Run) -> None:
    # GIVEN a worker whose library waits for work, and a thread of the program that waits, and then works
    worker = run.writer.process(101, parent=run.process, start=layout.START_SPAWN, version=b"3.11")
    queue = ("/usr/lib/python3.11/multiprocessing/connection.py", "Connection.recv", 5)
    run.writer.sample(worker, 101, "system call", begin=MS, ticks=600 * MS, stack=run.stack(queue))
    own = run.stack(at(9, "serve"), queue)
    run.writer.sample(run.process, 105, "lock", begin=MS, ticks=800 * MS, samples=80, stack=own)
    run.writer.sample(run.process, 105, begin=801 * MS, ticks=100 * MS, samples=10, stack=own)
    # THEN the first is idle, and of the second it is known what is no work
    lines = run.lines()
    assert lines[IDLE].here_ns == 600 * MS
    assert (lines["9:serve"].here_ns, lines["9:serve"].aside_ns) == (900 * MS, 800 * MS)


def test_what_others_did_while_a_line_waited(run: Run) -> None:
    # GIVEN a main thread that waits for its pool from 100 to 900 ms, workers of which one works all the time, one
    # at another line from 500 ms on, one that syncs for 200 ms; and a thread of the program that only sleeps
    run.writer.sample(run.process, 100, begin=MS, ticks=100 * MS, samples=10, stack=run.stack(at(2)))
    run.writer.sample(run.process, 100, "lock", begin=101 * MS, ticks=800 * MS, samples=80, stack=run.stack(at(3)))
    workers = [run.writer.process(pid, start=layout.START_SPAWN, parent=run.process) for pid in (101, 102)]
    run.writer.sample(workers[0], 101, begin=MS, ticks=999 * MS, samples=99, stack=run.stack(at(7, "work")))
    run.writer.sample(workers[1], 102, begin=501 * MS, ticks=300 * MS, samples=30, stack=run.stack(at(8, "work")))
    writes = run.stack(at(6, "write"))
    run.writer.thread(workers[1], 103).record("FSYNC", begin=301 * MS, duration=200 * MS, desc=run.file, stack=writes)
    run.writer.sample(workers[1], 103, "system call", begin=301 * MS, ticks=200 * MS, samples=20, stack=writes)
    run.writer.sample(run.process, 104, "sleep", begin=MS, ticks=900 * MS, samples=90, stack=run.stack(at(9, "nap")))
    # THEN their lines are named with their time meanwhile, and nothing else; lines that do not wait have none
    lines = run.lines()
    others = [(other.line.rpartition(":")[0][-1], other.time_ns) for other in lines["3:<module>"].meanwhile]
    assert [line for line, _ in others] == ["7", "8", "6"]
    assert all(near(time, truth * MS) for (_, time), truth in zip(others, (800, 300, 200), strict=True))
    assert not lines["2:<module>"].meanwhile and not lines["7:work"].meanwhile


def test_where_workers_wait_if_nobody_works(run: Run) -> None:
    # GIVEN a main thread that waits for its pool, one worker of which works for 100 of 800 ms and sleeps for the rest;
    # another that waits in select() for a socket meanwhile; and threads of the main process that sleep
    run.writer.sample(run.process, 100, "lock", begin=MS, ticks=800 * MS, samples=80, stack=run.stack(at(3)))
    run.writer.sample(run.process, 100, "poll", begin=801 * MS, ticks=600 * MS, samples=60, stack=run.stack(at(4)))
    worker = run.writer.process(101, start=layout.START_SPAWN, parent=run.process)
    run.writer.sample(worker, 101, begin=MS, ticks=100 * MS, samples=10, stack=run.stack(at(7, "work")))
    run.writer.sample(
        worker, 101, "sleep", begin=101 * MS, ticks=1300 * MS, samples=130, stack=run.stack(at(8, "work"))
    )
    run.writer.sample(run.process, 102, "sleep", begin=MS, ticks=1400 * MS, samples=140, stack=run.stack(at(9, "nap")))
    # THEN the line that joins is told where they sleep; one that waits for something else, only of another process
    lines = run.lines()
    joined = {other.line[-6:]: (other.time_ns, other.waited_ns) for other in lines["3:<module>"].meanwhile}
    assert joined == {":9:nap": (0, 800 * MS), "8:work": (0, 700 * MS), "7:work": (100 * MS, 0)}
    assert [(other.line[-6:], other.waited_ns) for other in lines["4:<module>"].meanwhile] == [("8:work", 600 * MS)]


def test_without_a_sampler_calls_alone_are_known(run: Run) -> None:
    run.writer.header["sampling_hz"] = 0
    thread = run.writer.thread(run.process, 100)
    thread.record("PREAD", begin=MS, duration=4 * MS, desc=run.file, size=9, result=9, stack=run.stack(at(3)))
    thread.record("FSYNC", begin=9 * MS, duration=6 * MS, desc=run.file, stack=run.stack(at(4)))
    result = run.times()
    assert not result.sampled and [row.line for row in result.rows] == [f"{SCRIPT}:{n}:<module>" for n in (4, 3)]
    assert [(row.io_ns, row.sync_ns, row.cpu_ns) for row in result.rows] == [(0, 6 * MS, 0), (4 * MS, 0, 0)]


def several_threads(run: Run) -> Path:
    """Threads at several lines with calls of any length, some of them across many samples."""
    random = np.random.default_rng(3)
    for tid in (100, 101, 102):
        thread, now = run.writer.thread(run.process, tid), MS
        for number in range(150):
            length, line = int(random.integers(1, 60)) * MS, int(random.integers(3, 9))
            stack, state = run.stack(at(line)), layout.SAMPLE_STATES[int(random.integers(0, 8))]
            if line < 5:
                thread.record("PREAD", begin=now, duration=length * 9 // 10, desc=run.file, size=9, stack=stack)
            if number % 7:
                run.writer.sample(run.process, tid, state, begin=now, ticks=length, samples=3, stack=stack)
            now += length
    return run.writer.save(run.path)


def test_however_the_log_is_divided_and_packed(run: Run, tmp_path: Path) -> None:
    log = open_log(several_threads(run))
    (whole,) = scan(log, [ByLineTime()])
    assert len(whole.rows) >= 6
    for rows in (1, 50):
        whole_tree = as_tree(ByLineTime(), parts_of(log, ByLineTime(), rows))
        for combined in (reduce(ByLineTime().combine, parts_of(log, ByLineTime(), rows)), whole_tree):
            assert plain(ByLineTime().finish(combined, log)) == plain(whole)
    pack(run.path, tmp_path / "run.parquet")
    (packed,) = scan(open_log(tmp_path / "run.parquet"), [ByLineTime()])
    assert plain(packed) == plain(whole)


def test_a_selection_of_calls_is_refused_and_one_of_processes_is_not(run: Run) -> None:
    log = open_log(several_threads(run))
    with pytest.raises(ConfigError, match="only processes"):
        scan(restrict(log, Filter(layers=("posix",))), [ByLineTime()])
    (whole,), (chosen,) = (scan(one, [ByLineTime()]) for one in (log, restrict(log, Filter(processes=("100",)))))
    assert plain(chosen) == plain(whole)


def test_anything_in_samples_gives_times_that_can_be(run: Run) -> None:
    # GIVEN samples of random bytes between sound ones
    random = np.random.default_rng(5)
    start = run.writer.chunk(layout.CHUNK_SAMPLES, layout.PAGE)
    rows = random.integers(1, 256, (80, layout.SAMPLE.itemsize), np.uint8).view(layout.SAMPLE).reshape(-1)
    rows["process"][::3] = run.process
    rows["stack"][::5] = run.stack(at(3))
    run.writer.put(start + layout.HEAP_START, rows)
    several_threads(run)
    result = run.times()
    assert all(value >= 0 for row in result.rows for value in plain(row).values() if isinstance(value, int))
