"""What the shell that starts the tests has set must not change their outcome.

Programs inherit signal dispositions, the signal mask, the umask and the environment from pytest.  conftest.py puts
them into a known state once, before any test runs.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import pytest

#: Python itself ignores these; its subprocess module resets them in children.
IGNORED_BY_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}
#: Variables that change what a traced program or a report prints, besides the prefixes below.
CHANGES_OUTPUT = {
    "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "LANG", "LANGUAGE", "TZ", "POSIXLY_CORRECT", "PYTHONUNBUFFERED",
}  # fmt: skip
PREFIXES = ("PYIO_TRACE", "LC_", "TTY_")


def reset() -> None:
    """Undoes what `nohup`, a background job or the user's environment has set."""
    for number in signal.valid_signals() - IGNORED_BY_PYTHON:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.umask(0o022)
    for name in list(os.environ):
        if name in CHANGES_OUTPUT or name.startswith(PREFIXES):
            del os.environ[name]
    os.environ["LC_ALL"] = "C.UTF-8"
    if any(letter.isspace() or letter == ":" for letter in tempfile.gettempdir()):
        # LD_PRELOAD, which many tests need, cannot name a library there.
        os.environ["TMPDIR"] = "/tmp"
        tempfile.tempdir = None
    _keep_apart()


def _keep_apart() -> None:
    """Gives this environment's sessions of pytest a folder of their own, above the one that pytest makes.

    All sessions of a user share that one, and each makes it private again as it
    begins: tests of another session that had opened it (let_everybody_enter)
    then fail.  CI runs two Pythons at once.  Its name is short, because programs
    have sockets in there, and not ours, because tests look for that in tracebacks.
    """
    folder = Path(tempfile.gettempdir()) / f"t{zlib.crc32(sys.prefix.encode()) & 0xFFFF:04x}"
    folder.mkdir(exist_ok=True)
    if folder.stat().st_uid == os.getuid():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(folder))


def let_everybody_enter(folder: Path) -> None:
    """Makes a test's folder reachable for other users: pytest makes the two or three above it private."""
    for place in (folder, *list(folder.parents)[:3]):
        if place.stat().st_mode & 0o055 != 0o055:
            place.chmod(0o755)


def file_system(folder: Path) -> str:
    """The type of the file system that a folder is on, as stat(1) calls it: "overlayfs", "ext2/ext3"."""
    return subprocess.run(["stat", "-f", "-c", "%T", folder], check=True, capture_output=True, text=True).stdout.strip()


def allow_descriptors(most: int) -> None:
    """Raises the limit on open files for the programs of this test; skips it where that is not permitted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = hard == resource.RLIM_INFINITY or hard >= most
    if soft != resource.RLIM_INFINITY and soft < most:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard if enough else most))
        except (ValueError, OSError):
            pytest.skip(f"needs {most} descriptors; {hard} are allowed here")
