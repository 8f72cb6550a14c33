"""Programs that adopt orphans: process 1 of a container, and subreapers.  Their wait() does not find the sampler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import Outcome, Runner, succeeded
from tests.support.samples import Live

SAMPLED = {"PYIO_TRACE": "1", "PYIO_TRACE_QUIET": "1", "PYIO_TRACE_OUTPUT": "run.pyio", "PYIO_TRACE_SAMPLE": "100"}

#: Becomes the program; the program adopts the orphans among its descendants.
SUBREAPER = """\
import ctypes, os, sys
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER
os.execv(sys.argv[1], sys.argv[1:])
"""

REAPS = """\
import os, signal, sys, time, waiting

def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

def children():
    tasks = os.listdir("/proc/self/task")
    return {int(child) for task in tasks for child in open(f"/proc/self/task/{task}/children").read().split()}

def has_ended(pid):
    return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] == "Z"

def noticed():
    try:
        waited = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError as problem:
        waited = problem.errno
    return waited, signal.sigpending(), sorted(os.listdir("/proc/self/fd"))

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
spin(0.3)
print(noticed())
helpers = children()
if sys.argv[1] == "killed":
    for helper in helpers:
        os.kill(helper, signal.SIGKILL)
        waiting.wait_until(lambda: has_ended(helper), "its end")
    print(noticed())
own = set()
for number in range(3):
    child = os.fork()
    if child == 0:
        if number == 2 and os.fork() == 0:  # an orphan soon
            waiting.wait_until(lambda: os.getppid() == int(sys.argv[2]) or os.getppid() == 1, "the parent's end")
            os._exit(9)
        os._exit(number)
    own.add(child)
ended = []
while True:
    try:
        ended.append(os.wait())
    except ChildProcessError:
        break
print(sorted(os.waitstatus_to_exitcode(status) for _, status in ended), own <= {pid for pid, _ in ended})
print(signal.sigpending() == {signal.SIGCHLD}, children() - helpers)
print(len(helpers), file=sys.stderr)
sys.exit(5)
"""


def _started_as(kind: str, folder: Path) -> list[str]:
    if kind == "process 1":
        words = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
        if os.geteuid() or subprocess.run([*words, "true"], capture_output=True).returncode:
            pytest.skip("needs root and unshare --pid")
        return words
    (folder / "subreaper.py").write_text(SUBREAPER)
    return [sys.executable, "-S", "subreaper.py"]


def _run(program: Runner, kind: str, what: str, env: dict[str, str]) -> Outcome:
    program.write_waiting()
    program.write("import os, sys, runpy; sys.argv.append(str(os.getpid())); runpy.run_path('reaps.py')")
    program.write(REAPS, "reaps.py")
    words = [*_started_as(kind, program.folder), sys.executable, "program.py", what]
    return program.command(words, env=env)


@pytest.mark.parametrize("what", ["left alone", "killed"])
@pytest.mark.parametrize("kind", ["subreaper", "process 1"])
def test_a_program_that_adopts_orphans_is_sampled_and_does_not_notice(program: Runner, kind: str, what: str) -> None:
    # GIVEN a program that waits for whatever child it has, until it has none
    # WHEN it is sampled, and its sampler perhaps killed
    traced, bare = _run(program, kind, what, SAMPLED), _run(program, kind, what, {})
    # THEN the children it can wait for, its signals, descriptors and status are the same as untraced
    assert (traced.status, traced.stdout) == (bare.status, bare.stdout)
    assert bare.status == 5
    # AND the sampler shows only in a list of its children
    assert (traced.stderr, bare.stderr) == ("1\n", "0\n")
    # AND there are samples
    live = Live(traced.path)
    assert (live.header["sampler_refused"], live.header["sampler_pid"] > 0) == (0, True)
    assert sum(sample.cpu for sample in live.samples() if "spin" in sample.functions) > 0


THREADS = """\
import os, sys, threading, time, pyio_trace
stop = threading.Event()
def writes():
    while not stop.is_set():
        b"".join([bytes(1 << 16)] * 4)
threads = [threading.Thread(target=writes) for _ in range(3)]
for thread in threads:
    thread.start()
with pyio_trace.trace("run.pyio", sample=200):
    held, other = os.pipe()
    end = time.thread_time() + 0.2
    while time.thread_time() < end:
        pass
    os.close(other)
    print(os.read(held, 1))  # nobody else has the other end
stop.set()
for thread in threads:
    thread.join()
try:
    print(os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print("no child")
"""


def test_from_the_middle_of_a_program_with_threads(program: Runner) -> None:
    # GIVEN a subreaper with busy threads WHEN it begins to trace and sample
    program.write(THREADS)
    outcome = succeeded(program.command([*_started_as("subreaper", program.folder), sys.executable, "program.py"]))
    # THEN the sampler, which began as a copy of it, shares nothing with it and is no child that it could wait for
    assert outcome.stdout == "b''\nno child\n"
    assert {"writes", "<module>"} <= {name for sample in Live(outcome.path).samples() for name in sample.functions}
    # AND it does not count as a process that was there before tracing began
    assert "older_processes" not in outcome.log.losses()
