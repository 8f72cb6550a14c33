"""Processor time of processes, and what killed ones did to storage, against what the processes measured themselves."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.support.programs import Row, Runner, succeeded

#: Processor time that the tracing of a process takes before and after the program's own figures, at most, in ns.
OF_TRACING = 200_000_000
#: A sync by anybody cleans the log's pages, which then count once more.  One run between two syncs is enough.
ATTEMPTS = 10

BURN = """\
import json, os, resource, signal, subprocess, sys, time
def burn(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
def used():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return int((usage.ru_utime + usage.ru_stime) * 1e9)
"""


def _cpu(process: Row) -> int:
    return int(process["cpu_user"]) + int(process["cpu_system"])


@pytest.mark.parametrize("ending", ["os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)", "os.abort()"])
def test_processes_have_their_processor_time(program: Runner, ending: str) -> None:
    # GIVEN a parent and a child that compute for different times and say how long; the child ends in this way
    text = f"""\
{BURN}
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
child = os.fork()
if child == 0:
    burn(0.3)
    print(os.getpid(), used(), flush=True)
    {ending}
os.waitpid(child, 0)
burn(0.1)
print(os.getpid(), used())
"""
    # WHEN it runs traced
    outcome = succeeded(program.traced(text))
    # THEN the process table has the same, and no process that of another
    for line in outcome.stdout.splitlines():
        pid, nanoseconds = map(int, line.split())
        assert nanoseconds - OF_TRACING / 2 <= _cpu(outcome.process(pid)) <= nanoseconds + OF_TRACING


def test_a_killed_process_has_its_own_share_only(program: Runner) -> None:
    # GIVEN a child that waits for a grandchild, which computes, and is then killed
    text = f"""\
{BURN}
told, tell = os.pipe()
child = os.fork()
if child == 0:
    grandchild = os.fork()
    if grandchild == 0:
        burn(0.5)
        os._exit(0)
    os.waitpid(grandchild, 0)
    os.write(tell, f"{{os.getpid()}} {{used()}}".encode())
    signal.pause()
print(os.read(told, 100).decode())
os.kill(child, signal.SIGTERM)
os.waitpid(child, 0)
"""
    # WHEN it runs traced
    outcome = succeeded(program.traced(text))
    # THEN the child's figure, which the kernel gave its parent, is without the grandchild's
    pid, nanoseconds = map(int, outcome.stdout.split())
    assert outcome.process(pid)["ended"] == "signal 15 (SIGTERM)"
    assert nanoseconds <= _cpu(outcome.process(pid)) <= nanoseconds + OF_TRACING


@pytest.mark.parametrize("way", ["subprocess.Popen(words).pid", "os.fork() or os.execv(words[0], words)"])
def test_unfollowed_programs_have_theirs(program: Runner, way: str) -> None:
    # GIVEN a program that runs a shell, which computes
    text = f"""\
{BURN}
before = resource.getrusage(resource.RUSAGE_CHILDREN)
words = ["/bin/sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"]
shell = {way}
os.waitpid(shell, 0)
after = resource.getrusage(resource.RUSAGE_CHILDREN)
print(shell, int((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e9))
"""
    # WHEN it runs traced, and the shell is not
    outcome = succeeded(program.traced(text))
    # THEN the process table has the shell's processor time as the kernel told the program
    pid, nanoseconds = map(int, outcome.stdout.split())
    assert abs(_cpu(outcome.process(pid)) - nanoseconds) < 1_000_000


def test_storage_of_killed_processes(program: Runner) -> None:
    # GIVEN children that write a file, and are killed
    text = """\
import os, signal
for number in (signal.SIGTERM, signal.SIGKILL):
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        file = os.open(f"data{number}", os.O_CREAT | os.O_WRONLY)
        os.write(file, bytes(3_000_000))
        os.fsync(file)
        os.write(tell, b".")
        signal.pause()
    os.read(told, 1)
    os.kill(child, number)
    os.waitpid(child, 0)
    print(child)
"""
    told = subprocess.run(["stat", "-f", "-c", "%T", program.folder], capture_output=True, text=True, check=True)
    if told.stdout == "tmpfs\n":
        pytest.skip("tmpfs has no storage behind it")
    # WHEN it runs traced
    outcome = succeeded(program.traced(text))
    # THEN the process table has what they wrote, in whole pages, and not the log's own pages
    for pid in map(int, outcome.stdout.split()):
        process = outcome.process(pid)
        assert process["ended"].startswith("signal")
        assert process["kernel_written"] is None
        assert 3_000_000 <= process["storage_written"] <= 3_000_000 + 20 * 4096


ACCOUNT = """
import os
def written():
    account = dict(line.split(": ") for line in open("/proc/self/io").read().splitlines())
    return int(account["write_bytes"])
before = written()
for _ in range(40_000):
    os.stat(".")
with open("data", "wb") as file:
    file.write(bytes(83))
child = os.fork()
if child == 0:
    for _ in range(40_000):
        os.stat(".")
    os._exit(0)
os.waitpid(child, 0)
print(child, written() - before)
"""


def test_the_log_s_own_pages_are_no_output_of_the_program(program: Runner) -> None:
    # GIVEN a program and its child that write hardly anything, and have many operations
    bare = int(succeeded(program.bare(ACCOUNT)).stdout.split()[1])
    limit = bare + 20 * 4096
    for _ in range(ATTEMPTS):
        # WHEN it is traced
        outcome = succeeded(program.traced(ACCOUNT))
        child, traced = map(int, outcome.stdout.split())
        # THEN the kernel counts the pages of the log as theirs
        if not traced:
            pytest.skip("a file system in memory")
        assert traced > 40_000 * 48
        # AND the process table does not
        first, second = (outcome.process(pid)["storage_written"] for pid in (outcome.pid, child))
        if first <= limit and second <= 20 * 4096:
            return
    pytest.fail(f"{first} and {second} bytes in the process table, {bare} bare")


def test_the_run_knows_its_cores(program: Runner) -> None:
    outcome = succeeded(program.traced("import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"))
    assert outcome.log.info()["cores"] == len(os.sched_getaffinity(0))
