"""The surroundings are what they say (tests/surroundings/listed.py)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import clean_environment
from tests.surroundings.listed import LISTED, CannotHere, Surrounding, started

pytestmark = pytest.mark.once

TYPE = """
import os
lines = [line.split(" - ") for line in open("/proc/self/mountinfo")]
print([last.split()[0] for first, last in lines if first.split()[4] == os.environ["TMPDIR"]])
"""
IGNORED = """
import signal
print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN, signal.SIGALRM in signal.pthread_sigmask(signal.SIG_BLOCK, []))
"""
BUSY = """
import os
def words(number):
    try: return open(f"/proc/{number}/cmdline").read()
    except OSError: return ""  # it has ended meanwhile
print(sum("-ISc" in words(number) for number in os.listdir("/proc") if number.isdecimal()) >= 4)
"""
#: What a program says there.
SAYS = {
    "plain": ("print('ran')", "ran"),
    "ids-from-1": ("import os; print(os.getpid() < 10)", "True"),
    "ids-of-7-digits": ("import os; print(os.getpid() > 999_999)", "True"),
    "signals": (IGNORED, "True True"),
    "no-terminal": ("import os; print(os.getsid(0) == os.getpid())", "True"),
    "terminal": ("import sys; print(sys.stdin.isatty(), sys.stdout.isatty())", "True True"),
    "umask-077": ("import os; print(oct(os.umask(0)))", "0o77"),
    "locale-C": ("import locale; print(locale.setlocale(locale.LC_ALL, ''))", "C"),
    "locale-de": (
        "import locale; locale.setlocale(locale.LC_ALL, ''); print(locale.localeconv()['decimal_point'])",
        ",",
    ),
    "tmpdir-tmpfs": (TYPE, "['tmpfs']"),
    "tmpdir-overlayfs": (TYPE, "['overlay']"),
    "tmpdir-ext4": (TYPE, "['ext4']"),
    "no-home": ("import os; print('HOME' in os.environ)", "False"),
    "home-read-only": ("import os; print(os.environ['HOME'])", "/proc"),
    "descriptors-256": ("import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))", "(256, 256)"),
    "descriptors-million": ("import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])", "1000000"),
    "ordinary-user": ("import os; print(os.getuid() != 0, os.getgroups())", "True []"),
    "random-order": ("print('ran')", "ran"),
    "busy": (BUSY, "True"),
}


@pytest.mark.parametrize("one", LISTED, ids=lambda one: one.name)
def test_what_a_program_finds_there(one: Surrounding, tmp_path: Path) -> None:
    # GIVEN surroundings WHEN a program runs in them THEN it finds what they are about
    code, expected = SAYS[one.name]
    python = "/usr/bin/python3" if one.installs else sys.executable
    try:
        with started(one, [python, "-c", code], tmp_path) as words:
            done = subprocess.run(
                words, env=clean_environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd="/"
            )
    except CannotHere as reason:
        pytest.skip(str(reason))
    assert (done.returncode, done.stdout.strip()) == (0, expected), done.stderr
