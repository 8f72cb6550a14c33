"""Threads: the operations of each, and the span from which their work was submitted."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyio_trace
from tests.support import frameworks
from tests.support.programs import Outcome, Row, Runner, alike, succeeded


def span_of(outcome: Outcome, row: Row) -> str | None:
    """The user's span that a row is in."""
    return next((parent["op"] for parent in outcome.parents(row) if parent["layer"] == "user"), None)


#: A pool's tasks have no row, and what they do is right beneath the span in which they were submitted.
NO_TASKS = {"PYIO_TRACE_INSTRUMENTS": "-concurrent"}


def test_executor_work_belongs_to_the_span_that_submitted_it(program: Runner, tmp_path: Path) -> None:
    # GIVEN spans that submit reads to one pool of threads, and a thread made by hand
    text = """\
    import os, sys, threading
    from concurrent.futures import ThreadPoolExecutor
    import pyio_trace

    def write(name):
        with open(name, "w") as file:
            file.write(name)

    with ThreadPoolExecutor(3) as pool:
        for step in range(4):
            with pyio_trace.span(f"step {step}", number=step):
                for part in range(3):
                    pool.submit(write, f"s{step}-{part}")
        pool.submit(write, "outside").result()
        with pyio_trace.span("map"):
            list(pool.map(write, ["m0", "m1"]))
    by_hand = threading.Thread(target=write, args=["by-hand"])
    by_hand.start()
    by_hand.join()
    with pyio_trace.span("starts a thread"):
        started = threading.Thread(target=write, args=["started"])
        started.start()
        started.join()
        with ThreadPoolExecutor(1) as short:  # its thread starts in this span
            short.submit(write, "in-short")
        lasting = ThreadPoolExecutor(1)
        lasting.submit(write, "in-lasting").result()
    lasting.submit(write, "later").result()
    lasting.shutdown()
    """
    # WHEN it is run traced, without a row of its own for each task
    outcome = succeeded(program.traced(text, env=NO_TASKS))
    # THEN every operation on a file is in the span of its submission, and is known to be so by handing over
    for step in range(4):
        for part in range(3):
            rows = outcome.select(path=tmp_path / f"s{step}-{part}")
            assert {row["op"] for row in rows} >= {"open", "write", "close"}
            assert {span_of(outcome, row) for row in rows} == {f"step {step}"}
            assert {row["link"] for row in rows if row["layer"] == "app"} == {"context"}
            assert all(row["tid"] != outcome.pid for row in rows)
    assert {span_of(outcome, row) for row in outcome.select(path=tmp_path / "outside")} == {None}
    mapped = outcome.select(path=(str(tmp_path / "m0"), str(tmp_path / "m1")))
    assert {span_of(outcome, row) for row in mapped} == {"map"}
    assert {span_of(outcome, row) for row in outcome.select(path=tmp_path / "by-hand")} == {None}
    for name in ("started", "in-short", "in-lasting"):
        rows = outcome.select(path=tmp_path / name)
        assert {span_of(outcome, row) for row in rows} == {"starts a thread"}
        assert {row["link"] for row in rows if row["layer"] == "app"} == {"context"}
    # ... and a thread of a pool does not stay in the span in which it happened to be started
    assert {span_of(outcome, row) for row in outcome.select(path=tmp_path / "later")} == {None}


def test_asyncio_to_thread_belongs_to_the_span(program: Runner, tmp_path: Path) -> None:
    # GIVEN a coroutine that reads through to_thread and run_in_executor within a span
    text = """\
    import asyncio, pathlib
    import pyio_trace

    async def main():
        with pyio_trace.span("load"):
            await asyncio.to_thread(pathlib.Path("one").write_text, "1")
            await asyncio.get_running_loop().run_in_executor(None, pathlib.Path("two").write_text, "2")
        await asyncio.to_thread(pathlib.Path("three").write_text, "3")

    asyncio.run(main())
    """
    # WHEN it is run traced THEN the work of the threads is in the span, and what came after is not
    outcome = succeeded(program.traced(text))
    names = ("one", "two", "three")
    spans = {name: {span_of(outcome, row) for row in outcome.select(path=tmp_path / name)} for name in names}
    assert spans == {"one": {"load"}, "two": {"load"}, "three": {None}}


def test_eight_threads_at_once_lose_nothing(program: Runner, data: Path) -> None:
    # GIVEN eight threads that read different blocks of one descriptor at the same time
    text = """\
    import os, sys, threading
    fd = os.open(sys.argv[1], os.O_RDONLY)
    def read(part):
        for n in range(part, 1000, 8):
            for again in range(5):
                os.pread(fd, 4096, n * 4096)
    threads = [threading.Thread(target=read, args=[part]) for part in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    """
    # WHEN it is run traced
    outcome = succeeded(program.traced(text, data))
    # THEN each thread's reads are complete and in order, each by one thread
    rows = outcome.select(op="pread", path=data)
    assert len(rows) == 5000
    by_thread: dict[int, list[int]] = {}
    for row in rows:
        by_thread.setdefault(row["tid"], []).append(row["file_offset"] // 4096)
    assert sorted(by_thread.values()) == [[n for n in range(part, 1000, 8) for _ in range(5)] for part in range(8)]


@pytest.mark.slow
def test_two_hundred_forks_of_a_parent_with_eight_busy_threads(program: Runner, data: Path) -> None:
    # GIVEN a parent whose eight threads do I/O all the time, which forks 200 children that read
    text = """\
    import os, sys, threading
    path, done = sys.argv[1], threading.Event()
    counts = [0] * 8
    def work(part):
        while not done.wait(0.0005):
            with open(path, "rb", buffering=0) as file:
                file.read(100)
            counts[part] += 1
    threads = [threading.Thread(target=work, args=[part]) for part in range(8)]
    for thread in threads: thread.start()
    shared = os.open(path, os.O_RDONLY)
    failed = 0
    for n in range(200):
        pid = os.fork()
        if pid == 0:
            fd = os.open(path, os.O_RDONLY)
            os.pread(fd, 4096, n * 4096)
            os.pread(shared, 4096, n * 4096)
            os._exit(n % 100)
        failed += os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != n % 100
    done.set()
    for thread in threads: thread.join()
    print(failed, sum(counts))
    """
    # WHEN it is run traced
    outcome = succeeded(program.traced(text, data))
    # THEN all children finish, and each one's reads and status are there
    failed, reads = map(int, outcome.stdout.split())
    assert failed == 0
    children = [entry for entry in outcome.processes if entry["start"] == "fork"]
    assert [entry["ended"] for entry in children] == [f"exit {n % 100}" for n in range(200)]
    offsets: dict[int, list[int]] = {}
    for row in outcome.select(op="pread", path=data):
        offsets.setdefault(row["process"], []).append(row["file_offset"])
    assert [offsets[entry["index"]] for entry in children] == [[n * 4096] * 2 for n in range(200)]
    # THEN so is everything its threads did
    assert len(outcome.select(op="read", path=data, pid=outcome.pid, bytes_requested=100)) == reads
    assert len(outcome.select(op="FileIO.read", path=data)) == reads


def test_thread_states_are_used_again(program: Runner, data: Path) -> None:
    # GIVEN 2000 threads one after the other, each of which reads once
    text = """\
    import os, sys, threading
    fd = os.open(sys.argv[1], os.O_RDONLY)
    for n in range(2000):
        thread = threading.Thread(target=os.pread, args=[fd, 10, n])
        thread.start()
        thread.join()
    """
    # WHEN it is run traced THEN each read is there under a thread's id
    outcome = succeeded(program.traced(text, data))
    rows = outcome.select(op="pread", path=data)
    assert [row["file_offset"] for row in sorted(rows, key=lambda row: row["time"])] == list(range(2000))
    assert all(row["tid"] != outcome.pid for row in rows)


@pytest.mark.parametrize("loop", frameworks.LOOPS)
def test_tasks_keep_their_spans(program: Runner, tmp_path: Path, loop: str) -> None:
    # GIVEN tasks that interleave: spans open over awaits, tasks made within them, work in threads, one loop in a span
    text = (
        f"    from {loop} import run"
        + """
    import asyncio, os, pathlib
    import pyio_trace

    def touch(name):
        pathlib.Path(name).touch()

    async def below(name):
        await asyncio.sleep(0.01)
        touch(f"below-{name}")

    async def one(name, pause):
        touch(f"before-{name}")
        with pyio_trace.span(f"task {name}"):
            touch(f"first-{name}")
            await asyncio.sleep(pause)
            touch(f"second-{name}")
            with pyio_trace.span(f"inner {name}"):
                await asyncio.sleep(pause)
                touch(f"third-{name}")
                made = asyncio.create_task(below(name))
                await asyncio.to_thread(touch, f"thread-{name}")
            await asyncio.sleep(0)
            touch(f"fourth-{name}")
            await made
        touch(f"after-{name}")

    async def main():
        await asyncio.gather(one("a", 0.01), one("b", 0.015), one("c", 0))

    with pyio_trace.span("loop"):
        run(main())
    run(one("d", 0))
    """
    )
    outcome = succeeded(program.traced(text))
    # THEN each operation is in its task's span, whichever tasks ran in between
    expected = {
        "before": None, "first": "task", "second": "task", "third": "inner", "thread": "inner", "below": "inner",
        "fourth": "task", "after": None,
    }  # fmt: skip
    for name, around in (("a", "loop"), ("b", "loop"), ("c", "loop"), ("d", None)):
        for when, span in expected.items():
            rows = outcome.select(path=tmp_path / f"{when}-{name}")
            assert rows
            assert {span_of(outcome, row) for row in rows} == {f"{span} {name}" if span else around}, (when, name)


def test_many_threads_of_many_spans(program: Runner, tmp_path: Path) -> None:
    # GIVEN threads that start threads, each in a span of its own, at once; targets of every kind
    text = """
    import functools, threading, _thread, time
    import pyio_trace

    def write(name):
        with open(name, "w") as file:
            file.write(name)

    class Own(threading.Thread):
        def run(self):
            write(f"own-{self.name}")

    def starts(number):
        with pyio_trace.span(f"span {number}"):
            threads = [threading.Thread(target=functools.partial(write, f"partial-{number}")), Own(name=str(number)),
                       threading.Timer(0.001, write, [f"timer-{number}"])]
            for thread in threads: thread.start()
            for thread in threads: thread.join()

    all = [threading.Thread(target=starts, args=[number]) for number in range(20)]
    for thread in all: thread.start()
    for thread in all: thread.join()
    print(threading.active_count())
    """
    bare = succeeded(program.bare(text))
    outcome = succeeded(program.traced(text))
    assert outcome.stdout == bare.stdout == "1\n"
    for number in range(20):
        for kind in ("partial", "own", "timer"):
            rows = outcome.select(path=tmp_path / f"{kind}-{number}")
            assert {span_of(outcome, row) for row in rows} == {f"span {number}"}


def test_spans_that_end_out_of_turn_are_in_nobodys_way(program: Runner, tmp_path: Path) -> None:
    # GIVEN generators with spans that take turns and end in the order in which they began; one that another thread ends
    text = """
    import pathlib, threading
    import pyio_trace

    def steps(name):
        with pyio_trace.span(name):
            yield

    def touch(name):
        pathlib.Path(name).touch()

    with pyio_trace.span("around"):
        three = [steps(name) for name in "abc"]
        for each in three:
            next(each)
        list(three[0]), list(three[1])
        touch("within")
        list(three[2])
        touch("around")
    touch("outside")
    other = steps("d")
    next(other)
    thread = threading.Thread(target=list, args=[other])
    thread.start()
    thread.join()
    touch("at the end")
    """
    outcome = succeeded(program.traced(text))
    # THEN what is done after them is in the innermost span that is still open
    expected = {"within": "c", "around": "around", "outside": None, "at the end": None}
    for name, span in expected.items():
        rows = outcome.select(path=tmp_path / name)
        assert rows
        assert {span_of(outcome, row) for row in rows} == {span}, name


def test_a_span_of_an_earlier_run_leaves_the_next_ones_alone(program: Runner, data: Path) -> None:
    # GIVEN a span that is the first operation of a run and ends within the first of the next, with the same id
    text = """
    import os, sys
    import pyio_trace

    def begun(log, name):
        run, span = pyio_trace.trace(log), pyio_trace.span(name)
        run.start()
        span.__enter__()
        return run, span

    pyio_trace.span("loads the module")
    run, old = begun("first.pyio", "old")
    run.stop()
    run, new = begun("second.pyio", "new")
    old.__exit__(None, None, None)
    os.stat(sys.argv[1])
    new.__exit__(None, None, None)
    run.stop()
    """
    succeeded(program.bare(text, data))
    # THEN what follows is in the next run's
    rows = pyio_trace.open(program.folder / "second.pyio").operations().to_pylist()
    (span,) = (row["id"] for row in rows if row["op"] == "new")
    assert [row["parent"] for row in rows if row["op"] == "stat" and row["path"] == str(data)] == [span]


def test_what_a_bare_thread_raises_is_reported_with_its_function(program: Runner) -> None:
    # GIVEN threads that are started without threading, in a span, and raise
    text = """
    import _thread, sys
    import pyio_trace

    def fails():
        raise ValueError("in the thread")

    def ends():
        raise SystemExit

    def hook(raised):
        print(raised.exc_value, raised.err_msg and raised.err_msg.partition("<")[0], raised.object in (fails, None))
        print(raised.exc_traceback.tb_next is None)
        done.release()

    done = _thread.allocate_lock()
    done.acquire()
    sys.unraisablehook = hook
    with pyio_trace.span("starts"):
        _thread.start_new_thread(ends, ())
        _thread.start_new_thread(fails, ())
    done.acquire()
    """
    # WHEN it is reported THEN as without us
    outcome = succeeded(alike(program.traced(text), program.bare(text)))
    assert outcome.stdout.startswith("in the thread Exception ignored in thread started by")


@pytest.mark.parametrize("loop", frameworks.LOOPS)
def test_context_of_what_was_imported_before_tracing_began(program: Runner, loop: str) -> None:
    # GIVEN a program that has imported all that hands work over, and then traces a part of itself, twice
    text = (
        f"    from {loop} import run"
        + """
    import asyncio, os, sys, threading
    from concurrent.futures import ThreadPoolExecutor
    import pyio_trace
    def touch(name):
        try:
            os.stat(f"/{name}")
        except FileNotFoundError:
            pass
    async def task(name, pause):
        with pyio_trace.span(name):
            await asyncio.sleep(pause)
            touch(name)
            await asyncio.sleep(0.02 - pause)
            touch(name)
    async def tasks():
        await asyncio.gather(*(task(f"task{n}", 0.005 * n) for n in range(4)))
    for number in range(2):
        with pyio_trace.trace(f"{number}.pyio"):
            run(tasks())
            with pyio_trace.span("thread"):
                thread = threading.Thread(target=touch, args=("thread",))
                thread.start()
                thread.join()
            with ThreadPoolExecutor(1) as pool:
                with pyio_trace.span("pool"):
                    future = pool.submit(touch, "pool")
                future.result()
    """
    )
    succeeded(program.bare(text, env=NO_TASKS))
    # THEN each operation is in the span of its name, both times
    for number in range(2):
        rows = {row["id"]: row for row in pyio_trace.open(program.folder / f"{number}.pyio").operations().to_pylist()}
        found = [
            (row["path"], "/" + rows[row["parent"]]["op"], row["link"])
            for row in rows.values()
            if row["op"] == "stat" and row["path"].startswith(("/task", "/thread", "/pool"))
        ]
        names = [f"/task{n}" for n in range(4)] * 2 + ["/thread", "/pool"]
        assert sorted(found) == sorted((name, name, "context") for name in names)


def test_a_thread_of_an_object_that_notices_questions(program: Runner, tmp_path: Path) -> None:
    # GIVEN a thread that is started within a span, and runs a method of an object that answers for any attribute
    text = """
    import _thread, pathlib, threading
    import pyio_trace

    class Work:
        def __getattr__(self, name):
            print("asked for", name)
            raise KeyboardInterrupt
        def run(self):
            pathlib.Path("touched").touch()
            done.release()

    done = _thread.allocate_lock()
    done.acquire()
    with pyio_trace.span("starts"):
        if hasattr(threading, "_start_joinable_thread"):  # from 3.13 on
            threading._start_joinable_thread(Work().run)
        else:
            _thread.start_new_thread(Work().run, ())
        done.acquire()
    """
    # WHEN it runs traced and untraced THEN nobody has asked it for anything
    outcome = succeeded(alike(program.traced(text), program.bare(text)))
    # AND what the thread does is in the span
    rows = outcome.select(path=tmp_path / "touched")
    assert {span_of(outcome, row) for row in rows} == {"starts"}
