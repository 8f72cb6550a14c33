"""Processes of one run in several pid namespaces, where one number stands for several of them."""

from __future__ import annotations

import os
import subprocess

import numpy as np
import pytest

from pyio_trace.join.processes.liveness import Liveness
from pyio_trace.join.sources.opening import open_log
from tests.support.programs import Runner, succeeded
from tests.support.waiting import wait_until

HELPS = """
import ctypes, os, signal
from waiting import wait_until
def begin_namespace():
    assert ctypes.CDLL(None).unshare(0x20000000) == 0  # CLONE_NEWPID
def say(name, text=""):
    with open(f"{name}-new", "x") as file: file.write(text)
    os.rename(f"{name}-new", name)
def wait_for(name):
    wait_until(lambda: os.path.exists(name), name)
"""
#: Its first process ends while one in another namespace, whose parent has ended as well, still writes.
OUTLIVES = (
    HELPS
    + """
if os.fork() == 0:
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for fd in range(3): os.dup2(null, fd)
    begin_namespace()
    if os.fork() == 0:
        fd = os.open("late", os.O_CREAT | os.O_WRONLY)
        os.write(fd, b"l" * 100)
        say("worker", os.readlink("/proc/self"))
        wait_for("go")
        for n in range(29): os.write(fd, b"l" * 100)
    os._exit(0)
os.wait()
wait_for("worker")
"""
)
#: Two workers with the number 1 in namespaces of their own, each with a child that has the number 2 there.
ALIKE = (
    HELPS
    + """
def help(n):
    begin_namespace()
    worker = os.fork()
    if worker == 0:
        child = os.fork()
        if child == 0:
            say(f"child{n}")
            wait_for("end")
            os._exit(10 + n)
        wait_for("child2")
        if n == 1:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            say("end")
        else:
            os.waitpid(child, 0)
        os._exit(20 + n)
    os.waitpid(worker, 0)
    os._exit(30 + n)
helpers = []
for n in (1, 2):
    helpers.append(os.fork())
    if helpers[-1] == 0: help(n)
    wait_for(f"child{n}")
for helper in helpers: os.waitpid(helper, 0)
"""
)


@pytest.fixture(autouse=True)
def _namespaces() -> None:
    unshare = ["unshare", "--pid", "--fork", "true"]
    if os.geteuid() or subprocess.run(unshare, capture_output=True).returncode:
        pytest.skip("needs root and unshare --pid")


@pytest.mark.parametrize("killed", [False, True])
def test_a_process_in_a_namespace_outlives_the_run(program: Runner, killed: bool) -> None:
    # GIVEN a run whose first process ends before one that is in another pid namespace
    program.write_waiting()
    live, packed = program.folder / "run.pyio", program.folder / "run.parquet"
    succeeded(program.traced(OUTLIVES, log=packed.name))
    worker = int((program.folder / "worker").read_text())
    # THEN the log stays live, and knows that the process runs
    assert live.exists() and not packed.exists()
    (row,) = [row for row in open_log(live).processes().to_pylist() if row["pid"] == 1]
    assert row["ended"] == "running"
    # WHEN it goes on, or is killed
    if killed:
        os.kill(worker, 9)
    else:
        (program.folder / "go").touch()
    wait_until(lambda: not Liveness(np.zeros((), [("namespace_inode", "<u8")])).alive(worker, 0), "the worker's end")
    # THEN all that it did is there, and how it ended
    log = open_log(live)
    writes = [row for row in log.operations().to_pylist() if row["op"] == "write" and row["path"].endswith("/late")]
    assert sum(row["bytes_moved"] for row in writes) == (100 if killed else 3000)
    ended = log.processes()["ended"].to_pylist()[writes[0]["process"]]
    assert ended == ("lost (killed or crashed; not seen)" if killed else "exit 0")


def test_processes_with_one_number(program: Runner) -> None:
    # GIVEN processes of one run that have the same numbers at once, each in its namespace WHEN some are killed
    program.write_waiting()
    outcome = succeeded(program.traced(ALIKE))
    # THEN each has its own end and its own parent
    rows = outcome.processes
    found = {
        (row["pid"], row["ended"], rows[row["parent"]]["ended"], rows[rows[row["parent"]]["parent"]]["ended"])
        for row in rows
        if row["pid"] in (1, 2)
    }
    assert found == {
        (1, "exit 21", "exit 31", "exit 0"), (1, "exit 22", "exit 32", "exit 0"),
        (2, "signal 9 (SIGKILL)", "exit 21", "exit 31"), (2, "exit 12", "exit 22", "exit 32"),
    }  # fmt: skip
