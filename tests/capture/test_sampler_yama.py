"""Where Yama lets a process be read by its ancestors only: each process of a run names the sampler, once, and first.

No kernel with Yama is needed: a folder stands in for its settings, and strace shows what the processes ask for.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.support.programs import Outcome, Runner, succeeded
from tests.support.samples import Live

SAMPLED = {"PYIO_TRACE": "1", "PYIO_TRACE_QUIET": "1", "PYIO_TRACE_OUTPUT": "run.pyio", "PYIO_TRACE_SAMPLE": "100"}

#: SCOPE COMMAND...: where /proc/sys/kernel has Yama's setting, and what the log needs.
WITH_YAMA = """\
boot=$(cat /proc/sys/kernel/random/boot_id) && mount -t tmpfs none /proc/sys/kernel || exit 77
mkdir /proc/sys/kernel/random /proc/sys/kernel/yama
echo "$boot" > /proc/sys/kernel/random/boot_id
echo "$1" > /proc/sys/kernel/yama/ptrace_scope
shift
exec strace -f -e trace=prctl -o calls.txt "$@"
"""

#: 0x59616d61: PR_SET_PTRACER.
FAMILY = """\
import ctypes, os, subprocess, sys
prctl = ctypes.CDLL(None).prctl

def forks(then):
    child = os.fork()
    if child == 0:
        then()
        os._exit(0)
    os.waitpid(child, 0)
    return child

def names_its_own():
    prctl(0x59616d61, 1, 0, 0, 0)
    os.execv(sys.executable, [sys.executable, "-c", "pass"])

print("first", os.getpid())
print("forked", forks(lambda: None))
print("debugged", forks(names_its_own))
sys.stdout.flush()
subprocess.run([sys.executable, "-c", "import os; print('spawned', os.getpid())"])
os.execv(sys.executable, [sys.executable, "-c", "import os; print('became', os.getpid())"])
"""

LATE = """\
import os, pyio_trace
with pyio_trace.trace("run.pyio", sample=100):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
print("forked", child)
"""


def _run(program: Runner, scope: int, text: str, env: dict[str, str]) -> tuple[Outcome, dict[int, list[int]]]:
    """How it ended; the processes that were named, by the process that named them, in order."""
    words = ["unshare", "--mount", "sh", "-c", WITH_YAMA, "sh", str(scope), sys.executable, program.write(text)]
    able = os.geteuid() == 0 and shutil.which("strace") and shutil.which("unshare")
    if not able or subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("needs root, unshare --mount and strace")
    outcome = program.command(words, env=env)
    if outcome.status == 77:
        pytest.skip("nothing can be mounted over /proc/sys/kernel")
    named: dict[int, list[int]] = {}
    for line in (program.folder / "calls.txt").read_text().splitlines():
        found = re.match(r"(\d+) +prctl\((?:PR_SET_PTRACER|0x59616d61[^,]*), (\d+)", line)
        if found:
            named.setdefault(int(found[1]), []).append(int(found[2]))
    return succeeded(outcome), named


def _pids(outcome: Outcome) -> dict[str, int]:
    return {name: int(pid) for name, pid in re.findall(r"(\w+) (\d+)", outcome.stdout)}


def test_each_process_names_the_sampler_before_its_own_code_runs(program: Runner) -> None:
    # GIVEN a program that forks, spawns, names another reader in a child, and becomes another program
    # WHEN it is sampled where a reader has to be named
    outcome, named = _run(program, 1, FAMILY, SAMPLED)
    pids, sampler = _pids(outcome), int(Live(outcome.path).header["sampler_pid"])
    # THEN each process names the sampler once, and not again after an exec; the program's own call wins
    assert pids["became"] == pids["first"]
    expected = {pids[name]: [sampler] for name in ("first", "forked", "spawned")}
    assert named == {**expected, pids["debugged"]: [sampler, 1]}


def test_a_program_that_runs_already_is_not_named(program: Runner) -> None:
    # GIVEN a program that may have named a reader WHEN it begins to trace
    outcome, named = _run(program, 1, LATE, {})
    # THEN only its new children name the sampler
    sampler = int(Live(outcome.path).header["sampler_pid"])
    assert named == {_pids(outcome)["forked"]: [sampler]}


@pytest.mark.parametrize("scope", [0, 2])
def test_nobody_is_named_where_that_makes_no_difference(program: Runner, scope: int) -> None:
    # GIVEN a kernel on which naming a reader changes nothing WHEN a program is sampled
    _, named = _run(program, scope, "pass", SAMPLED)
    # THEN it names nobody
    assert named == {}
