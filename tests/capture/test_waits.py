"""Waiting for children is an operation: its time is that of the wait, and it names the child."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.support.programs import Outcome, Runner, succeeded

CALLS = {
    "wait": ("os.wait()[0]", None),
    "waitpid": ("os.waitpid(child, 0)[0]", None),
    "wait3": ("os.wait3(os.WUNTRACED)[0]", "WUNTRACED"),
    "wait4": ("os.wait4(child, 0)[0]", None),
    "waitid": ("os.waitid(os.P_PID, child, os.WEXITED).si_pid", "WEXITED"),
}


@pytest.mark.parametrize("op", CALLS)
def test_a_wait_is_a_row(program: Runner, op: str) -> None:
    # GIVEN a program that times one wait for a child, which ends when it is told to
    call, command = CALLS[op]
    text = f"""\
import os, time
go, told = os.pipe()
child = os.fork()
if child == 0:
    os.close(told)
    os.read(go, 1)
    time.sleep(0.05)
    os._exit(3)
os.write(told, b"x")
before = time.monotonic_ns()
ended = {call}
print(child, ended, time.monotonic_ns() - before)
"""
    # WHEN it runs traced
    outcome = succeeded(program.traced(text))
    # THEN there is one row of that call: its line, its child, its time within what the program measured
    child, ended, measured = map(int, outcome.stdout.split())
    [row] = outcome.select(op=op)
    assert child == ended == json.loads(row["detail"])["child"]
    assert (row["op_class"], row["errno"], row["command"]) == ("process", 0, command)
    assert row["site"] == f"{program.folder}/program.py:11:<module>"
    assert 0 < row["duration"] <= measured


def test_polls_and_failures(program: Runner) -> None:
    # GIVEN a program that polls a child that runs, waits for it, and then waits for nobody
    text = """\
import os
go, told = os.pipe()
child = os.fork()
if child == 0:
    os.close(told)
    os.read(go, 1)
    os._exit(0)
assert os.waitpid(child, os.WNOHANG) == (0, 0)
os.close(told)
os.waitpid(-1, 0)
try:
    os.waitpid(child, 0)
except ChildProcessError as error:
    print(child, error.errno)
"""
    # WHEN it runs traced
    outcome = succeeded(program.traced(text))
    # THEN the rows tell the three apart
    child, errno = map(int, outcome.stdout.split())
    assert [(row["command"], row["detail"], row["errno"]) for row in outcome.select(op="waitpid")] == [
        ("WNOHANG", None, 0),
        (None, json.dumps({"child": child}), 0),
        (None, None, errno),
    ]


def test_a_library_s_waits(program: Runner) -> None:
    # GIVEN a program that waits for a child of each module
    text = """\
import multiprocessing, subprocess, sys
def nothing():
    pass
run = subprocess.Popen([sys.executable, "-c", "pass"])
run.wait()
process = multiprocessing.get_context("fork").Process(target=nothing)
process.start()
process.join()
print(run.pid, process.pid)
"""
    # WHEN it runs traced
    outcome = succeeded(program.traced(text))
    # THEN both were waited for, in the line that did
    waited = {json.loads(row["detail"])["child"]: row["site"] for row in outcome.select(op="waitpid") if row["detail"]}
    run, process = map(int, outcome.stdout.split())
    script = f"{program.folder}/program.py"
    assert waited == {run: f"{script}:5:<module>", process: f"{script}:8:<module>"}


def test_polls_are_sums_in_a_profile(program: Runner) -> None:
    # GIVEN a program that polls a child ten thousand times
    text = """\
import os
go, told = os.pipe()
child = os.fork()
if child == 0:
    os.close(told)
    os.read(go, 1)
    os._exit(0)
for _ in range(10_000):
    os.waitpid(child, os.WNOHANG)
os.close(told)
os.waitpid(child, 0)
"""
    # WHEN only sums are kept
    outcome = succeeded(program.traced(text, env={"PYIO_TRACE_MODE": "profile"}))
    # THEN the polls are one row, and the wait another
    rows = outcome.select(op="waitpid")
    assert sorted((row["command"] or "", row["calls"]) for row in rows) == [("", 1), ("WNOHANG", 10_000)]


def test_waits_can_be_left_out(program: Runner) -> None:
    outcome = succeeded(program.traced(_ONE_CHILD, env={"PYIO_TRACE_EXCLUDE": "op:waitpid"}))
    assert not outcome.select(op="waitpid")
    assert outcome.process(int(outcome.stdout))["ended"] == "exit 0"


_ONE_CHILD = """\
import os
child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
print(child)
"""


# ---- what a descriptor leads to, and what a lock was to do


def _kinds(outcome: Outcome, path: Path) -> set[tuple[str, str | None]]:
    return {(row["op"], row["file_kind"]) for row in outcome.select(path=path, layer="posix")}


def test_a_fifo_is_no_file(program: Runner, tmp_path: Path) -> None:
    # GIVEN a program that reads a FIFO that its child writes, and a file, with bare system calls
    text = """\
import os
os.mkfifo("queue")
if os.fork() == 0:
    os.write(os.open("queue", os.O_WRONLY), b"abc")
    os._exit(0)
queue = os.open("queue", os.O_RDONLY)
assert os.read(queue, 10) == b"abc"
file = os.open("file", os.O_RDWR | os.O_CREAT)
os.write(file, b"abc")
folder = os.open(".", os.O_RDONLY)
os.wait()
"""
    # WHEN it runs traced, and its log is packed
    outcome = succeeded(program.traced(text))
    packed = tmp_path / "run.parquet"
    succeeded(program.command([sys.executable, "-m", "pyio_trace", "pack", outcome.path, packed]))
    # THEN both logs tell them apart, although nobody looked at the descriptors or closed them
    for one in (outcome, Outcome(0, "", "", packed)):
        assert _kinds(one, program.folder / "queue") >= {("open", "fifo"), ("read", "fifo"), ("write", "fifo")}
        assert _kinds(one, program.folder / "file") == {("open", "regular"), ("write", "regular")}
        assert _kinds(one, program.folder) >= {("open", "directory")}
        assert all(row["file_kind"] is None for row in one.select(op="wait"))


def test_what_locks_were_to_do(program: Runner) -> None:
    # GIVEN a program that takes and gives back locks in each way
    text = """\
import fcntl
file = open("lock", "w")
fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
fcntl.flock(file, fcntl.LOCK_UN)
fcntl.lockf(file, fcntl.LOCK_EX)
fcntl.fcntl(file, fcntl.F_GETFL)
fcntl.fcntl(file, fcntl.F_GETFD)
try:
    fcntl.fcntl(file, 7777)
except OSError:
    pass
"""
    # WHEN it runs traced
    outcome = succeeded(program.traced(text))
    # THEN each row says what it was, and none asked for bytes
    found = [(row["op"], row["command"]) for row in outcome.select(op=("flock", "fcntl"))]
    assert found == [
        ("flock", "LOCK_EX|LOCK_NB"), ("flock", "LOCK_UN"), ("fcntl", "F_SETLKW"), ("fcntl", "F_GETFL"),
        ("fcntl", "F_GETFD"), ("fcntl", "other"),
    ]  # fmt: skip
    assert {row["bytes_requested"] for row in outcome.select(op=("flock", "fcntl"))} == {None}


def test_what_opens_ask_for(program: Runner) -> None:
    # GIVEN a program that opens files in each way that changes how writes are done
    text = """\
import os
for name, flags in (("a", 0), ("b", os.O_SYNC), ("c", os.O_DSYNC), ("d", os.O_APPEND | os.O_SYNC)):
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT | flags))
open("e", "wb").close()
"""
    # WHEN it runs traced, and its log is packed
    outcome = succeeded(program.traced(text))
    packed = program.folder / "packed.parquet"
    succeeded(program.command([sys.executable, "-m", "pyio_trace", "pack", outcome.path, packed]))
    # THEN both logs say it of the opens, and of nothing else
    for one in (outcome, Outcome(0, "", "", packed)):
        opens = [one.select(op="open", layer="posix", path=program.folder / name) for name in "abcde"]
        assert [row["command"] for (row,) in opens] == [None, "O_SYNC", "O_DSYNC", "O_SYNC", None]
        assert not [row for row in one.rows if row["op"] != "open" and (row["command"] or "").startswith("O_")]
