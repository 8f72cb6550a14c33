"""Bytes read from and written to each file as strace saw them: ground truth for the log of the same run."""

from __future__ import annotations

import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.programs import Outcome, Runner, succeeded

_READS = ("read", "pread64", "readv", "preadv", "preadv2")
_WRITES = ("write", "pwrite64", "writev", "pwritev", "pwritev2")
_CALL = re.compile(r"^(\d+) +(\w+)\(\d+<([^>]*)>")
_RESUMED = re.compile(r"^(\d+) +<\.\.\. (\w+) resumed>")
_RESULT = re.compile(r" = (-?\d+)")


def straced(program: Runner, text: str, *args: object) -> tuple[Outcome, dict[str, tuple[int, int]]]:
    """The program, traced by us and by strace at once: its outcome, and by path bytes read and written."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    recording = program.folder / "strace.out"
    script = program.write(text)
    words = ["strace", "-f", "-qq", "-y", "-o", recording, "-e", "trace=" + ",".join((*_READS, *_WRITES))]
    log = program.folder / "run.pyio"
    env = {"PYIO_TRACE": "1", "PYIO_TRACE_OUTPUT": str(log), "PYIO_TRACE_QUIET": "1"}
    outcome = succeeded(program.command([*words, sys.executable, script, *args], env=env))
    return outcome, transfers(recording)


def transfers(recording: Path) -> dict[str, tuple[int, int]]:
    """By path: bytes read, bytes written."""
    read: dict[str, int] = defaultdict(int)
    written: dict[str, int] = defaultdict(int)
    begun: dict[str, tuple[str, str]] = {}
    for line in recording.read_text(errors="replace").splitlines():
        call, resumed = _CALL.match(line), _RESUMED.match(line)
        if call:
            thread, name, path = call.groups()
            begun[thread] = name, path
        elif resumed:
            thread = resumed.group(1)
            name, path = begun[thread]
        else:
            continue
        results = _RESULT.findall(line)
        if results and "<unfinished" not in line:
            of = read if name in _READS else written
            of[path] += max(int(results[-1]), 0)
    return {path: (read[path], written[path]) for path in {*read, *written}}


def moved_by_posix(outcome: Outcome, wanted: Callable[[str], bool]) -> dict[str, tuple[int, int]]:
    """The same of the log's POSIX rows, for the paths that are wanted."""
    read: dict[str, int] = defaultdict(int)
    written: dict[str, int] = defaultdict(int)
    for row in outcome.rows:
        if row["layer"] == "posix" and row["path"] and wanted(row["path"]) and row["bytes_moved"]:
            if row["op"] in ("read", "pread", "readv", "preadv", "preadv2"):
                read[row["path"]] += row["bytes_moved"]
            elif row["op"] in ("write", "pwrite", "writev", "pwritev", "pwritev2"):
                written[row["path"]] += row["bytes_moved"]
    return {path: (read[path], written[path]) for path in {*read, *written}}
