"""The first findings in the summary: of a command, and at the end of a run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pyio_trace.cli.main import main
from tests.support.programs import Runner, succeeded

pytestmark = pytest.mark.once

PROGRAM = """
import os
with open("log.txt", "w") as f:
    for n in range(100):
        f.write("record\\n")
        f.flush()
        os.fsync(f.fileno())
"""
#: A busy machine may interrupt a close for longer than the threshold of this rule is.
PROJECT = "[tool.pyio_trace.insights]\nclose-stall = { ms = 1e6 }\n"


@pytest.fixture(autouse=True)
def project(program: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs and commands have these settings."""
    (program.folder / "pyproject.toml").write_text(PROJECT)
    monkeypatch.chdir(program.folder)


def verdict(text: str) -> list[str]:
    """The last lines of the end of a run, below the blank one."""
    return text.rpartition("\n\n")[2].splitlines()


def findings(text: str) -> list[str]:
    """The lines below the heading."""
    rest = text.partition("\nFINDINGS")[2]
    return [line for line in rest.partition("\n\n")[0].split("\n")[1:] if line]


@pytest.mark.parametrize("name", ["run.pyio", "run.parquet"])
def test_at_the_end_of_a_run(program: Runner, name: str) -> None:
    # GIVEN a program that waits for the disk after each record WHEN it has ended THEN the summary says so
    path = program.write(PROGRAM)
    outcome = succeeded(program.command([sys.executable, "-P", "-m", "pyio_trace", "-o", name, path]))
    *_, line, remedy, following = verdict(outcome.stderr)
    assert "program.py:7  a sync after every 7 B" in line and remedy == "  → Sync once for many records."
    # AND where to go on, by the name as a shell takes it
    assert following.startswith(f"next: pyio-trace insights {name}  (no more findings; log ")
    assert len(outcome.stderr.splitlines()) < 24


def test_of_the_command(program: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    log = str(succeeded(program.traced(PROGRAM)).path)
    assert main(["summary", log]) == 0
    assert len(findings(capsys.readouterr().out)) == 1
    # AND what a project does not want is not there
    Path("pyproject.toml").write_text(f'{PROJECT}ignore = ["sync-per-write"]\n')
    assert main(["summary", log]) == 0
    assert "FINDINGS" not in capsys.readouterr().out


def test_a_wrong_setting_at_the_end_of_a_run(program: Runner) -> None:
    # GIVEN a wrong setting of findings WHEN a run ends THEN its summary is printed all the same
    (program.folder / "pyproject.toml").write_text("[tool.pyio_trace.insights]\nignore = 3\n")
    path = program.write(PROGRAM)
    outcome = succeeded(program.command([sys.executable, "-P", "-m", "pyio_trace", "-o", "run.pyio", path]))
    assert any("a sync after every 7 B" in line for line in verdict(outcome.stderr))


def test_a_program_without_problems(program: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    log = str(succeeded(program.traced('open("a.txt", "w").write("a")')).path)
    assert main(["summary", log]) == 0
    assert "FINDINGS" not in capsys.readouterr().out
