"""Standard output and error as shells give them: on a full disk, closed, read no further, in another encoding."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import seeds
from tests.support.smallrun import small_run

pytestmark = pytest.mark.once
ROOT = Path(__file__).parents[2]
COMMANDS = [
    ["summary", "LOG"], ["summary", "--json", "LOG"], ["events", "LOG"], ["events", "--format", "csv", "LOG"],
    ["files", "LOG"], ["stacks", "--format", "folded", "LOG"], ["counters", "LOG"], ["processes", "LOG"],
    ["insights", "LOG"], ["insights", "--format", "sarif", "LOG"], ["diff", "LOG", "LOG"], ["views"],
    ["view", "by_line", "LOG"], ["pack", "LOG", "PACKED"], ["summary", "--help"], ["--help"], ["--version"],
]  # fmt: skip


def run(words: list[str], log: Path, shell: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command line, started by a shell with these redirections."""
    named = {"LOG": str(log), "PACKED": str(log.with_name("packed.parquet"))}
    command = [sys.executable, "-m", "pyio_trace", *(named.get(word, word) for word in words)]
    script = ["sh", "-c", f'exec "$@" {shell}', "sh", *command]
    return subprocess.run(
        script, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=200
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return small_run(tmp_path / "log.pyio")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_standard_output_on_a_full_disk(words: list[str], log: Path) -> None:
    # GIVEN standard output on a full disk WHEN a command writes to it
    done = run(words, log, ">/dev/full")
    # THEN one line says why nothing is there
    said = "pyio-trace: standard output cannot be written: No space left on device [unwritable-output]\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_closed_standard_output(words: list[str], log: Path) -> None:
    done = run(words, log, ">&-")
    said = "pyio-trace: standard output is closed; redirect it to a file or a pipe [unwritable-output]\n"
    assert (done.returncode, done.stderr) == (2, said)


def test_nothing_is_said_to_a_file_that_got_the_number_of_a_closed_descriptor(log: Path) -> None:
    # GIVEN closed standard streams, whose numbers the next files to be opened get
    output = log.with_name("out.csv")
    # WHEN a command writes a file, and finds something to complain about afterwards
    done = run(["files", "LOG", "--format", "csv", "--output", str(output)], log, "<&- >&- 2>&-")
    # THEN the file has what it should
    assert done.returncode == 0
    wanted = run(["files", "LOG", "--format", "csv"], log, "")
    assert output.read_text() == wanted.stdout != ""


@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full", ">&- 2>&-"])
def test_closed_standard_error(streams: str, log: Path) -> None:
    assert run(["summary", str(log) + "-not-there"], log, streams).returncode == 2


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_an_encoding_without_most_characters(words: list[str], log: Path) -> None:
    # GIVEN a log with names of all kinds, and standard streams in ASCII
    log.write_bytes(seeds.rich())
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii:strict"}
    # WHEN a command prints it THEN it does
    done = run(words, log, "", **plain)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii() or "csv" in words  # which is in UTF-8, wherever it is written


@pytest.mark.parametrize("columns", ["0", "1", "²", "9" * 5000, "-5", "x"])
def test_any_value_of_columns(columns: str, log: Path) -> None:
    done = run(["summary", "--all", "LOG"], log, "", COLUMNS=columns)
    assert (done.returncode, done.stderr) == (0, "") and "FILES" in done.stdout
