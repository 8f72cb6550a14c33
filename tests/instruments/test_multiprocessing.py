"""Pool of multiprocessing: which process ran what, what that read and wrote, and where its submitter waited."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.capture.test_multiprocessing import METHODS
from tests.support.programs import Outcome, Runner, alike, succeeded

#: Each call writes a file of its own and says where it ran.  A module, so that processes find it.
CALLS = """
import os

class NoGood(Exception):
    pass

class Writer:
    def __getattr__(self, name):
        raise SystemExit(f"a traced program is asked for {name}")
    def __reduce__(self):
        return Writer, ()
    def __call__(self, number):
        return write(number)

def write(number, more=0):
    with open(f"file-{number}", "wb", 0) as file:
        file.write(bytes(1000 + number))
    return number, os.getpid()

def fails(number):
    write(number)
    raise NoGood(number)

def first(number):
    open(f"first-{os.getpid()}", "w").close()
"""
WORK = """
import functools, importlib, json, os, sys, time
from calls import NoGood, Writer, fails, first, write

def say(*words):  # not print: a thread of the pool may fork while its buffer is full, and both would write it
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

if __name__ == "__main__":
    library, method = sys.argv[1:]
    context = importlib.import_module(library).get_context(method)
    ran = []
    with context.Pool(2, initializer=first, initargs=(0,), maxtasksperchild=9) as pool:
        ran += pool.map(write, range(8), chunksize=2)  # map
        ran += pool.starmap(write, [(8, 1), (9, 1)], chunksize=1)  # starmap
        ran += pool.imap(write, range(10, 13))  # imap
        ran += sorted(pool.imap_unordered(functools.partial(write, more=2), range(13, 16)))  # unordered
        ran.append(pool.apply(Writer(), (16,)))  # apply
        try:
            pool.apply(fails, (17,))  # fails
        except NoGood as problem:
            say(repr(problem), type(problem.__cause__).__name__)
        ready = pool.apply_async(write, (18,))
        while not ready.ready():
            time.sleep(0.01)
        ran.append(ready.get())  # ready
        try:
            pool.apply(write, (19,), {"more": lambda: None})
        except Exception as problem:
            say(type(problem).__name__ in ("PicklingError", "AttributeError", "NoneType") or problem)
        pool.close()
        pool.join()
    with open("ran.json", "w") as file:
        json.dump(ran, file)
"""


def line_of(part: str) -> str:
    (found,) = [number for number, line in enumerate(WORK.splitlines(), 1) if line.endswith(f"# {part}")]
    return f"program.py:{found}:<module>"


def waits_of(outcome: Outcome) -> Counter[tuple[str, str]]:
    rows = [row for op in ("Pool.wait", "Pool.next") for row in outcome.select(op=op)]
    assert all(row["op_role"] == "wait" for row in rows)
    return Counter((row["site"].rpartition("/")[2], row["op"]) for row in rows)


@pytest.mark.parametrize("library", ["multiprocessing", pytest.param("multiprocess", marks=pytest.mark.slow)])
@pytest.mark.parametrize("method", METHODS)
def test_each_call_of_a_pool_is_a_task(program: Runner, method: str, library: str) -> None:
    pytest.importorskip(library)
    program.write(CALLS, "calls.py")
    # GIVEN a pool whose processes are replaced, with an initializer, and calls that return, raise or cannot be sent
    bare = program.bare(WORK, library, method)
    outcome = alike(succeeded(program.traced(WORK, library, method)), bare)
    ran = dict(json.loads((program.folder / "ran.json").read_text()))
    # THEN each call, or chunk of calls, is a task of the process that ran it, and all of its I/O is beneath
    tasks = {row["id"]: (row, json.loads(row["detail"])) for row in outcome.select(op="pool.task")}
    names = Counter((detail["prefix"], detail.get("items")) for _, detail in tasks.values())
    single = 7 + (library == "multiprocess")  # which can send the lambda
    assert names == {
        ("write", 2): 4, ("write", 1): 2, ("write", None): single, ("Writer", None): 1, ("fails", None): 1,
    }  # fmt: skip
    files = {}
    for row in outcome.select(op="write"):
        if "/file-" in (row["path"] or ""):
            number = int(row["path"].rpartition("-")[2])
            task, _ = tasks[row["task_id"]]
            assert task["pid"] == row["pid"] and row["bytes_moved"] == 1000 + number
            files[number] = row["pid"]
    assert {number: files[number] for number in ran} == ran
    # AND the initializer is in no task, a failure names its exception, and each has a key of its own
    assert [row["task_id"] for row in outcome.select(op="open") if "/first-" in (row["path"] or "")].count(None) >= 2
    (failed,) = [detail for _, detail in tasks.values() if detail.get("failed")]
    assert (failed["prefix"], failed["raised"]) == ("fails", "NoGood")
    assert len({detail["key"] for _, detail in tasks.values()}) == len(tasks)
    # AND the submitter's line waited, but not for a result that was there
    waits = waits_of(outcome)
    for part, op in (("map", "Pool.wait"), ("starmap", "Pool.wait"), ("apply", "Pool.wait"), ("fails", "Pool.wait")):
        assert waits[line_of(part), op] == 1
    assert 1 <= waits[line_of("imap"), "Pool.next"] <= 4 and 1 <= waits[line_of("unordered"), "Pool.next"] <= 4
    assert not any(line == line_of("ready") for line, _ in waits)
    assert "tracer_faults" not in outcome.log.losses()


def test_a_pool_of_threads(program: Runner) -> None:
    # GIVEN a pool of threads THEN its waits are there, and what its threads do is theirs
    text = """
    from multiprocessing.pool import ThreadPool
    def write(number):
        with open(f"file-{number}", "wb", 0) as file:
            return file.write(bytes(10))
    with ThreadPool(2) as pool:
        assert sum(pool.map(write, range(20))) == 200
    """
    outcome = alike(succeeded(program.traced(text)), program.bare(text))
    assert [row["site"].rpartition("/")[2] for row in outcome.select(op="Pool.wait")] in (
        ["program.py:7:<module>"], [],
    )  # fmt: skip
    assert outcome.select(op="pool.task") == []
    assert len([row for row in outcome.select(op="write") if "/file-" in (row["path"] or "")]) == 20
