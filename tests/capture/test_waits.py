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
    # GIVEN a program that opens files in each way that changes what they hold, or how writes are done
    text = """\
import ctypes, os
how = {"a": 0, "b": os.O_SYNC, "c": os.O_DSYNC, "d": os.O_APPEND | os.O_SYNC, "e": os.O_TRUNC | os.O_NOFOLLOW}
for name, flags in how.items():
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT | flags))
os.close(os.open("f", os.O_RDWR | os.O_CREAT | os.O_EXCL))
os.close(os.open("a", os.O_PATH))
for name, mode in (("g", "wb"), ("h", "xb"), ("i", "ab"), ("i", "rb"), ("i", "r+b")):
    open(name, mode).close()
try:
    open("missing/j", "wb")
except OSError:
    pass
open(os.open("k", os.O_RDWR | os.O_CREAT | os.O_TRUNC), "wb").close()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
for mode in (b"w", b"a+", b"r"):
    libc.fclose(ctypes.c_void_p(libc.fopen(b"l", mode)))
"""
    # WHEN it runs traced, and its log is packed
    outcome = succeeded(program.traced(text))
    packed = program.folder / "packed.parquet"
    succeeded(program.command([sys.executable, "-m", "pyio_trace", "pack", outcome.path, packed]))
    made = "O_WRONLY|O_CREAT"
    expected = [
        ("a", made), ("b", f"{made}|O_SYNC"), ("c", f"{made}|O_DSYNC"), ("d", f"{made}|O_APPEND|O_SYNC"),
        ("e", f"{made}|O_TRUNC"), ("f", "O_RDWR|O_CREAT|O_EXCL"), ("a", "O_PATH"), ("g", f"{made}|O_TRUNC"),
        ("h", f"{made}|O_EXCL"), ("i", f"{made}|O_APPEND"), ("i", "O_RDONLY"), ("i", "O_RDWR"),
        ("j", f"{made}|O_TRUNC"), ("k", "O_RDWR|O_CREAT|O_TRUNC"),
    ]  # fmt: skip
    streams = [("l", f"{made}|O_TRUNC"), ("l", "O_RDWR|O_CREAT|O_APPEND"), ("l", "O_RDONLY")]
    # THEN both logs say it of the opens, and of nothing else
    for one in (outcome, Outcome(0, "", "", packed)):
        own = [row for row in one.rows if (row["path"] or "").startswith(f"{program.folder}/")]
        opens = [row for row in own if row["op_class"] == "open" and row["path"] != str(program.folder / "program.py")]
        by_layer = {
            layer: [(row["path"].rpartition("/")[2], row["command"]) for row in opens if row["layer"] == layer]
            for layer in ("posix", "stdio", "app")
        }
        assert by_layer["posix"] == expected and by_layer["stdio"] == streams
        assert by_layer["app"] == [*expected[7:12], ("j", None), expected[-1]]
        assert not [row for row in one.rows if row["op_class"] != "open" and (row["command"] or "").startswith("O_")]


def test_from_where_seeks_count(program: Runner) -> None:
    # GIVEN a program that seeks from each place
    text = """\
import ctypes, os
f = os.open("a", os.O_RDWR | os.O_CREAT)
os.write(f, bytes(10_000))
for at, whence in ((7, os.SEEK_SET), (1, os.SEEK_CUR), (0, os.SEEK_END), (-1, os.SEEK_END), (0, os.SEEK_DATA),
                   (0, os.SEEK_HOLE), (0, 77), (0, 256)):
    try:
        os.lseek(f, at, whence)
    except OSError:
        pass
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
stream = ctypes.c_void_p(libc.fopen(b"a", b"r"))
libc.fseek(stream, ctypes.c_long(3), 0), libc.fseek(stream, ctypes.c_long(-3), 2)
libc.ftell(stream), libc.fclose(stream)
"""
    # WHEN it runs traced
    outcome = succeeded(program.traced(text))
    # THEN each row says which
    places = ["SET", "CUR", "END", "END", "DATA", "HOLE"]
    found = [row["command"] for row in outcome.select(op="lseek", path=program.folder / "a")]
    assert found == [*(f"SEEK_{place}" for place in places), "other", "other"]
    of_stream = [outcome.select(op=op, path=program.folder / "a") for op in ("fseek", "ftell")]
    assert [[row["command"] for row in rows] for rows in of_stream] == [["SEEK_SET", "SEEK_END"], [None]]


def test_sums_of_opens_and_seeks_do_not_say_how(program: Runner) -> None:
    # GIVEN opens with different flags, and seeks from different places, at one line each
    text = """\
import os
for flags in (os.O_WRONLY | os.O_CREAT, os.O_RDONLY):
    f = os.open("a", flags)
    os.lseek(f, 0, os.SEEK_SET if flags else os.SEEK_END)
"""
    # WHEN only sums are kept
    outcome = succeeded(program.traced(text, env={"PYIO_TRACE_MODE": "profile"}))
    # THEN nothing is said of them
    rows = outcome.select(op=("open", "lseek"), path=program.folder / "a")
    assert [(row["op"], row["calls"], row["command"]) for row in rows] == [("open", 2, None), ("lseek", 2, None)]
