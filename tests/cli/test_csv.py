"""CSV goes to spreadsheets, which run what looks like a formula, and to terminals, which obey escapes."""

from __future__ import annotations

import csv
import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from pyio_trace.cli.main import main
from pyio_trace.report.tables import FORMATS
from tests.support.logwriter import LogWriter

FORMULAS = ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "=cmd|' /C calc'!A0", '=LINK("http://x","y")']
HARMLESS = ["-5", "+3.25", "/d/=x", "a=b", " =1", "é", ""]
ESCAPES = "/d/\x1b[2J\n\x9b31m\u202e"


@pytest.fixture
def log(tmp_path: Path) -> str:
    """A forged log: a traced program's own paths are absolute, a forger's may be anything."""
    writer = LogWriter()
    thread = writer.thread(writer.process(100), 100)
    for n, path in enumerate([*FORMULAS, *HARMLESS, ESCAPES]):
        thread.record("STAT", begin=2_000 + n, desc=writer.string(path) if path else 0)
    return str(writer.save(tmp_path / "run.pyio"))


def paths(text: str) -> list[str]:
    return [row["path"] for row in csv.DictReader(io.StringIO(text, newline=""))]


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("place", ["stdout", "file"])
def test_formulas(log: str, raw: bool, place: str, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    words = ["events", log, "--format", "csv", *(["--raw"] if raw else [])]
    words += ["--output", str(tmp_path / "out.csv")] if place == "file" else []
    assert main(words) == 0
    out = capfdbinary.readouterr().out if place == "stdout" else (tmp_path / "out.csv").read_bytes()
    found = paths(out.decode())
    assert found == [*(text if raw else f"'{text}" for text in FORMULAS), *HARMLESS, ESCAPES]


@pytest.mark.parametrize("command", [["events"], ["events", "--raw"], ["files"], ["stacks"], ["counters"]])
def test_a_terminal_is_not_moved(log: str, command: list[str]) -> None:
    # GIVEN a log with escape sequences WHEN it is written as CSV to a terminal THEN they are shown, not obeyed
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "pyio_trace", command[0], log, "--format", "csv", *command[1:]]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs) as running:
        os.close(theirs)
        out = b""
        while part := _read(ours):
            out += part
    os.close(ours)
    assert running.returncode == 0, out
    text = out.decode()
    assert all(line.isprintable() for line in text.split("\r\n")), ascii(text)
    if command[0] in ("events", "files"):
        assert r"/d/\x1b[2J\n\x9b31m\u202e" in text


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # nobody has the other end any more
        return b""


@pytest.mark.parametrize("kind", sorted({*FORMATS} - {"csv", "parquet"}))
def test_other_formats_are_as_they_were(log: str, kind: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["events", log, "--format", kind, "--columns", "path"]) == 0
    assert b"'=" not in capfdbinary.readouterr().out
