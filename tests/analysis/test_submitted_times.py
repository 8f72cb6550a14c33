"""Whose time it is that threads of pools and event loops have, where the truth is known."""

from __future__ import annotations

from functools import reduce
from pathlib import Path

import numpy as np
import pytest

from pyio_trace.analysis.reducer import scan
from pyio_trace.analysis.reducers.by_line_time import ByLineTime
from pyio_trace.analysis.results.line_time import IDLE, NOWHERE, POOLS
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.sources.opening import open_log
from pyio_trace.log import layout
from tests.analysis.test_line_times import MS, SCRIPT, Run, at, near
from tests.analysis.test_scan import as_tree, parts_of
from tests.support.results import plain

pytestmark = pytest.mark.once

POOL = ("/usr/lib/python3.11/concurrent/futures/thread.py", "_worker", 83)
THREAD = ("/usr/lib/python3.11/threading.py", "Thread.run", 982)
RUNS = ("/usr/lib/python3.11/asyncio/base_events.py", "BaseEventLoop.run_forever", 608)
SELECT = ("/usr/lib/python3.11/selectors.py", "EpollSelector.select", 468)


class Pool:
    """A thread of a pool in the making."""

    def __init__(self, run: Run, tid: int) -> None:
        self.run, self.tid, self.name = run, tid, run.writer.string("thread.task")
        self.thread = run.writer.thread(run.process, tid)

    def task(self, line: int, begin: int, duration: int) -> None:
        """A task that this line of the program submitted; ms."""
        stack = self.run.writer.stack(
            *[
                (self.run.codes.setdefault(frame[:2], self.run.writer.code(*frame[:2])), frame[2])
                for frame in (POOL, THREAD)
            ],
            submitters=(self.run.stack(at(line, "main")),),
        )
        self.thread.record(
            "SPAN_APP_CONTAINER", begin=begin * MS, duration=duration * MS, aux=self.name, stack=stack,
        )  # fmt: skip

    def sample(self, begin: int, duration: int, state: str = "running", *beneath: tuple[str, str, int]) -> None:
        stack = self.run.stack(THREAD, POOL, *beneath)
        self.run.writer.sample(self.run.process, self.tid, state, begin=begin * MS, ticks=duration * MS, stack=stack)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def looped(run: Run, begin: int, duration: int, state: str = "poll") -> None:
    """The main thread is in its event loop, which line 30 has started; ms."""
    stack = run.stack(at(30), RUNS, SELECT)
    run.writer.sample(run.process, 100, state, begin=begin * MS, ticks=duration * MS, samples=9, stack=stack)


def test_a_pools_time_is_of_the_line_that_submitted_the_task(run: Run) -> None:
    # GIVEN a pool's thread with tasks of two lines: one of a library's function, one of the program's own
    loads = ("/usr/lib/python3.11/json/__init__.py", "loads", 299)
    pool = Pool(run, 101)
    pool.task(5, 1, 400)
    pool.task(6, 501, 300)
    pool.sample(1, 400, "running", loads)
    pool.sample(401, 100, "lock")
    pool.sample(501, 300, "running", at(9, "work"))
    run.writer.sample(run.process, 100, "lock", begin=MS, ticks=800 * MS, stack=run.stack(at(20)))
    # THEN the first has it all, by function; the second is what is around the line that did the work
    lines = run.lines()
    first, second, work = (lines[name] for name in ("5:main", "6:main", "9:work"))
    assert near(first.here_ns, 400 * MS) and near(first.cpu_ns, 400 * MS)
    assert [one.function for one in first.called] == ["json.loads"]
    assert near(second.time_ns, 300 * MS) and second.here_ns <= MS and near(work.here_ns, 300 * MS)
    assert near(lines[IDLE].here_ns, 100 * MS) and NOWHERE not in lines


def test_a_loops_wait_is_of_the_line_whose_task_it_waits_for(run: Run) -> None:
    # GIVEN a loop that waits from 0 to 1000 ms: for a task that computes for 400 ms, for one that sleeps for 300,
    # and then for something else
    pool = Pool(run, 101)
    pool.task(5, 1, 400)
    pool.task(6, 501, 300)
    pool.sample(1, 400)
    pool.sample(401, 100, "lock")
    pool.sample(501, 300, "sleep")
    pool.sample(801, 200, "lock")
    looped(run, 1, 1000)
    # THEN each line holds the loop up for as long, counted once, and by what the thread did; the rest is the loop's
    lines = run.lines()
    first, second, loop = (lines[name] for name in ("5:main", "6:main", "30:<module>"))
    assert near(first.here_ns - first.aside_ns, 400 * MS) and near(first.cpu_ns, 400 * MS)
    assert near(second.here_ns - second.aside_ns, 300 * MS) and near(second.sleep_ns, 300 * MS)
    assert near(loop.here_ns, 300 * MS, 0.03) and near(loop.time_ns, 1000 * MS)


def test_a_loop_waits_for_a_thread_that_waits_for_a_processor(run: Run) -> None:
    # GIVEN a full machine: two short tasks, a thread that is ready for 100 ms between them, and for 100 ms asleep
    pool = Pool(run, 101)
    pool.task(5, 1, 1)
    pool.task(5, 102, 1)
    pool.sample(1, 1)
    pool.sample(2, 100)
    pool.sample(102, 1)
    pool.sample(103, 100, "lock")
    looped(run, 1, 202)
    # THEN the line that submits them has the time until the second, and the loop the rest
    lines = run.lines()
    line, loop = lines["5:main"], lines["30:<module>"]
    assert near(line.here_ns - line.aside_ns, 102 * MS, 0.05) and near(loop.here_ns, 100 * MS, 0.05)


def test_tasks_at_once_hold_a_loop_up_together(run: Run) -> None:
    # GIVEN three tasks of line 5 and one of line 6 that all take 400 ms, at once, while the loop waits for them
    for tid, line in ((101, 5), (102, 5), (103, 5), (104, 6)):
        pool = Pool(run, tid)
        pool.task(line, 1, 400)
        pool.sample(1, 400)
    looped(run, 1, 400)
    # THEN the threads' times add up, and what is not aside is the 400 ms that the loop waited, shared
    lines = run.lines()
    first, second = lines["5:main"], lines["6:main"]
    assert near(first.here_ns, 1200 * MS) and near(first.here_ns - first.aside_ns, 300 * MS)
    assert near(second.here_ns, 400 * MS) and near(second.here_ns - second.aside_ns, 100 * MS)


def test_many_short_tasks_and_what_is_between_them(run: Run) -> None:
    # GIVEN 200 tasks of 1 ms, one each 2 ms; the loop hands each over and waits for it, the thread runs it
    pool = Pool(run, 101)
    for number in range(200):
        pool.task(5, 1 + 2 * number, 1)
        looped(run, 1 + 2 * number, 1)
        looped(run, 2 + 2 * number, 1, "running")
        pool.sample(1 + 2 * number, 2)
    # THEN the line has the 400 ms of the loop; what the thread did around its tasks is named
    lines = run.lines()
    line = lines["5:main"]
    assert near(line.here_ns - line.aside_ns, 400 * MS, 0.03) and near(lines[POOLS].here_ns, 200 * MS, 0.05)
    assert NOWHERE not in lines and lines["30:<module>"].here_ns <= 4 * MS


def test_the_line_that_submitted_to_a_pool_of_processes(run: Run) -> None:
    # GIVEN a worker's task whose detail has the line that submitted it; and one that no line is known of
    worker = run.writer.process(101, start=layout.START_SPAWN, parent=run.process)
    thread, name = run.writer.thread(worker, 101), run.writer.string("pool.task")
    loads = ("/usr/lib/python3.11/json/__init__.py", "loads", 299)
    stack = run.stack(("/usr/lib/python3.11/concurrent/futures/process.py", "_process_worker", 256), loads)
    for number, detail in enumerate((f'{{"prefix":"loads","submitted":"{SCRIPT}:7:main"}}', '{"prefix":"loads"}')):
        begin = (1 + 500 * number) * MS
        thread.record(
            "SPAN_APP_CONTAINER",
            begin=begin,
            duration=300 * MS,
            aux=name,
            offset=run.writer.string(detail),
            stack=stack,
        )
        run.writer.sample(worker, 101, begin=begin, ticks=300 * MS, samples=30, stack=stack)
    # THEN that line has the first
    lines = run.lines()
    assert near(lines["7:main"].here_ns, 300 * MS) and lines["7:main"].called[0].function == "json.loads"
    assert near(lines[POOLS].here_ns, 300 * MS)


def test_however_the_log_is_divided_and_packed(run: Run, tmp_path: Path) -> None:
    # GIVEN tasks of several lines and threads, of any length, and a loop that waits now and then
    random, pools = np.random.default_rng(4), [Pool(run, tid) for tid in (101, 102, 103)]
    for pool in pools:
        now = 1
        for _ in range(100):
            length = int(random.integers(1, 40))
            if random.random() < 0.6:
                pool.task(int(random.integers(5, 8)), now, length)
            pool.sample(now, length, layout.SAMPLE_STATES[int(random.integers(0, 8))])
            now += length + int(random.integers(0, 3))
    for number in range(150):
        looped(run, 1 + 13 * number, 12, ("poll", "running")[number % 2])
    log = open_log(run.writer.save(run.path))
    # WHEN it is summed up in parts, or packed, THEN nothing changes, and no time is lost or counted twice
    (whole,) = scan(log, [ByLineTime()])
    samples = log.sampled()
    assert near(whole.thread_ns, int(samples["duration"].sum()), 1e-6)
    for rows in (1, 50):
        whole_tree = as_tree(ByLineTime(), parts_of(log, ByLineTime(), rows))
        for combined in (reduce(ByLineTime().combine, parts_of(log, ByLineTime(), rows)), whole_tree):
            assert plain(ByLineTime().finish(combined, log)) == plain(whole)
    pack(run.path, tmp_path / "run.parquet")
    (packed,) = scan(open_log(tmp_path / "run.parquet"), [ByLineTime()])
    assert plain(packed) == plain(whole)
