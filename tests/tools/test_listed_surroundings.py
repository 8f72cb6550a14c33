"""The surroundings are what they say (tests/surroundings/listed.py)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import clean_environment
from tests.surroundings.__main__ import EVERY, drawn
from tests.surroundings.listed import LISTED, CannotHere, Surrounding, started

pytestmark = pytest.mark.once
ROOT = Path(__file__).resolve().parents[2]

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


def test_the_user_who_follows_readme_is_drawn_every_third_time() -> None:
    # GIVEN many texts, as commits are WHEN each draws THEN all are drawn, and that user by a third of the texts
    names = [drawn(LISTED, f"{number:040x}").name for number in range(3000)]
    assert set(names) == {one.name for one in LISTED}
    assert names.count("ordinary-user") >= len(names) / EVERY * 0.9
    # AND the same text draws the same one; where there is no such user, another
    others = [one for one in LISTED if not one.installs]
    assert drawn(LISTED, "a").name == drawn(LISTED, "a").name
    assert {drawn(others, f"{number:040x}").name for number in range(300)} == {one.name for one in others}


def test_what_that_user_has_run_is_not_run_again(tmp_path: Path) -> None:
    # GIVEN what passed in such a session, or a session that was quick or never ended
    here = f"{Path(__file__).relative_to(ROOT)}::{test_what_that_user_has_run_is_not_run_again.__name__}"
    for text, left in ((json.dumps({"passed": [here]}), 0), ("{}", 1), (None, 1)):
        found = tmp_path / "found.json"
        found.unlink(missing_ok=True)
        if text is not None:
            found.write_text(text)
        # WHEN its tests are collected again THEN what passed there is left out
        words = [sys.executable, "-m", "pytest", "--collect-only", "-q", f"--passed-in={found}"]
        done = subprocess.run([*words, here], cwd=ROOT, env=clean_environment(), capture_output=True, text=True)
        assert done.stdout.splitlines().count(here) == left, done.stdout + done.stderr
