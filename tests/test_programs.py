"""How the tests end a program that hangs (tests/support/programs.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import programs
from tests.support.programs import output_of
from tests.support.waiting import gone, wait_until

pytestmark = pytest.mark.once

#: Says its own number and that of a child, which sleeps and holds the same output.  argv: what the child does first,
#: what the program does last, and a file it makes when both are said.
HOLDS = """\
import os, sys, time
pid = os.fork()
if pid == 0:
    exec(sys.argv[1])
    time.sleep(600)
print(os.getpid(), pid, flush=True)
open(sys.argv[3], "x").close()
exec(sys.argv[2])
"""
HANGS, ENDS = "time.sleep(600)", "os._exit(3)"


def numbers(child: str, last: str, folder: Path) -> tuple[list[int], str]:
    """The two processes, and what the failed test says, of a program that takes longer than it may."""
    said = folder / "said"
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, child, last, said], text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    wait_until(said.exists, "both numbers")
    with pytest.raises(AssertionError) as failure:
        output_of(process, timeout=0.5)
    text = str(failure.value)
    (line,) = [line for line in text.splitlines() if line.startswith("stdout: ")]
    return [int(word) for word in line.split()[1:]], text


@pytest.mark.parametrize("child", ["pass", "os.setpgid(0, 0)"])
def test_a_program_that_hangs_ends_with_its_children(child: str, tmp_path: Path) -> None:
    # GIVEN a program that hangs, with a child in its group or in one of its own WHEN its time is up
    pids, said = numbers(child, HANGS, tmp_path)
    # THEN both are ended, and the failure has what was written
    assert said.startswith("the program hangs") and len(pids) == 2
    wait_until(lambda: all(map(gone, pids)), "the end of both")


def test_an_orphan_that_holds_the_output_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "LAST_WORDS", 0.5)
    # GIVEN a program that has ended, while a daemon of it, in a session of its own, holds its output
    pids, said = numbers("os.setsid()", ENDS, tmp_path)
    try:
        # WHEN its time is up THEN the test fails and says so, though the daemon lives on
        assert said.startswith("the program ended with 3, but its output is held open")
        assert not gone(pids[1])
    finally:
        os.kill(pids[1], 9)
