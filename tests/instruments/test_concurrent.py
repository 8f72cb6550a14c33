"""concurrent.futures: which thread or process ran what was submitted, from which line, and what it read and wrote."""

from __future__ import annotations

import json

import pytest

from pyio_trace.analysis.reducer import scan
from pyio_trace.analysis.reducers.tasks import Task, TasksOfRun
from tests.capture.test_multiprocessing import METHODS
from tests.support.programs import Outcome, Runner, alike, succeeded

#: Each task writes a file of its own and says where it ran.  A module, so that processes find it.
TASKS = """
import os, threading

class NoGood(Exception):
    pass

class Writer:
    def __getattr__(self, name):
        raise SystemExit(f"a traced program is asked for {name}")
    def __reduce__(self):
        return Writer, ()
    def write(self, number):
        return write(number)

def write(number):
    with open(f"file-{number}", "wb", 0) as file:
        file.write(bytes(1000 + number))
    return number, os.getpid(), threading.get_native_id()

def fails(number):
    write(number)
    raise NoGood(number)

def first(number):
    open(f"first-{os.getpid()}", "w").close()

def no_start():
    raise OSError("not this one")
"""
WORK = """
import functools, json, multiprocessing, os, pickle, sys, traceback
from concurrent.futures import CancelledError, ProcessPoolExecutor, ThreadPoolExecutor
from tasks import Writer, fails, first, no_start, write

if __name__ == "__main__":
    kind = sys.argv[1]
    if kind == "threads":
        make = ThreadPoolExecutor
    else:
        make = functools.partial(ProcessPoolExecutor, mp_context=multiprocessing.get_context(kind))
    ran = []
    with make(2, initializer=first, initargs=(0,)) as pool:
        ran += [future.result() for future in [pool.submit(write, number) for number in range(4)]]  # submits
        ran.append(pool.submit(functools.partial(write, number=4)).result())  # partial
        ran.append(pool.submit(Writer().write, 5).result())  # method
        ran += pool.map(write, range(6, 10), chunksize=2)  # maps
        problem = pool.submit(fails, 10).exception()  # fails
        print(repr(problem), [entry.name for entry in traceback.extract_tb(problem.__traceback__)])
        print(repr(problem.__cause__).replace(os.getcwd(), ""))
        cancelled = pool.submit(write, 11)
        if cancelled.cancel():
            try:
                cancelled.result()
            except CancelledError:
                print(end="")
        # Last: before CPython 3.11.3 a pool never ends if nothing is submitted after a cancelled future (gh-94440).
        unpicklable = pool.submit(lambda: None)
        print(type(unpicklable.exception()).__name__)
    with make(1, initializer=no_start) as pool:
        try:
            pool.submit(write, 12).result()
        except Exception as problem:
            print(type(problem).__name__)
    with open("ran.json", "w") as file:
        json.dump(ran, file)
"""


def tasks_of(outcome: Outcome) -> list[Task]:
    (found,) = scan(outcome.log, [TasksOfRun(100)])
    assert found.more == found.dropped == 0
    return sorted(found.rows, key=lambda one: one.begin_ns)


def line_of(part: str) -> int:
    (found,) = [number for number, line in enumerate(WORK.splitlines(), 1) if line.endswith(part)]
    return found


@pytest.mark.parametrize("kind", ["threads", *METHODS])
def test_each_callable_is_a_task(program: Runner, kind: str) -> None:
    # GIVEN pools of each kind, with an initializer, and work that returns, raises, is cancelled, or cannot be pickled
    program.write(TASKS, "tasks.py")
    bare = program.bare(WORK, kind)
    outcome = alike(succeeded(program.traced(WORK, kind)), bare)
    ran = {number: (pid, tid) for number, pid, tid in json.loads((program.folder / "ran.json").read_text())}
    # THEN each callable that ran is a task with its name, of the thread or process that ran it
    op = "thread.task" if kind == "threads" else "pool.task"
    rows = [row for row in outcome.select(op=op) if "lambda" not in row["detail"]]
    by_file: dict[int, list[tuple[int, int]]] = {}
    for row in rows:
        beneath = [one for one in outcome.select(op="write") if row in outcome.parents(one)]
        for one in beneath:
            number = int(one["path"].rpartition("-")[2])
            # AND its I/O, every byte of it, is beneath that task
            assert (one["bytes_moved"], one["task_id"]) == (1000 + number, row["id"])
            by_file.setdefault(row["id"], []).append((number, one["tid"]))
            assert number not in ran or (row["pid"], row["tid"]) == ran[number] or kind != "threads"
    numbers = sorted(number for files in by_file.values() for number, _ in files)
    assert [number for number in numbers if number != 11] == [*range(11)]
    for number, (pid, tid) in ran.items():
        (row,) = [row for row in rows if number in [one for one, _ in by_file[row["id"]]]]
        assert (row["pid"], row["tid"]) == (pid, tid)
    # AND the line that submitted it is known, in the view of tasks
    tasks = [task for task in tasks_of(outcome) if "lambda" not in task.name and task.written_bytes]
    names = [(task.name, task.failed) for task in tasks]
    assert names.count(("fails", True)) == 1 and names.count(("Writer.write", False)) == 1
    lines = [int((task.line or "::").rsplit(":", 2)[1]) for task in tasks]
    mapped = 4 if kind == "threads" else 2
    expected = {"# submits": 4, "# partial": 1, "# method": 1, "# maps": mapped, "# fails": 1}
    assert {part: lines.count(line_of(part)) for part in expected} == expected
    assert {task.op for task in tasks} == {op}


def test_an_exception_with_any_name(program: Runner) -> None:
    # GIVEN a task that raises an exception whose class has a name that JSON must escape
    program.write(
        """
        def fails():
            raise Odd
        class Odd(Exception):
            pass
        Odd.__name__ = 'a "name"\\\\'
        """,
        "odd.py",
    )
    text = """
    from concurrent.futures import ProcessPoolExecutor
    import odd
    if __name__ == "__main__":
        with ProcessPoolExecutor(1) as pool:
            pool.submit(odd.fails).exception()
    """
    # WHEN it is traced THEN its details are whole
    (row,) = succeeded(program.traced(text)).select(op="pool.task")
    details = json.loads(row["detail"])
    assert (details["prefix"], details["failed"], details["raised"]) == ("fails", True, 'a "name"\\')


def test_threads_of_a_pool_are_beside_their_program(program: Runner) -> None:
    # GIVEN a program whose pool writes while it computes WHEN it is traced
    text = """
    from concurrent.futures import ThreadPoolExecutor
    def write():
        with open("file", "wb", 0) as file:
            for _ in range(200):
                file.write(bytes(100_000))
    with ThreadPoolExecutor(1) as pool:
        pool.submit(write)
    """
    from pyio_trace.analysis.summary.summarize import summarize

    overview = summarize(succeeded(program.traced(text)).log).overview
    # THEN its pool's task is no state of the program, and what it wrote is beside it
    assert overview is not None
    (split,) = [kind.split for kind in overview.kinds]
    assert split.task_ns == 0 and split.idle_ns is None and split.beside_ns > 0
    assert [(task.name, task.count) for task in overview.tasks] == [("write", 1)]
