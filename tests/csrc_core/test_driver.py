"""The core alone, under a C program with eight threads (tests/csrc/driver.c): plain, and under the sanitizers.

What the program says it did must be what its log says, and no sanitizer may have anything to say.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

import pyio_trace
from pyio_trace.join.sources.facade import Log
from tests.csrc_core.conftest import BUILDS, Build
from tests.support.programs import clean_environment

pytestmark = pytest.mark.slow  # three builds of the core


def run(build: Build, way: str, scenario: str, log: Path, budget: int = 64 << 20) -> subprocess.CompletedProcess[str]:
    """Runs a scenario in a folder of its own."""
    work = log.parent / "work"
    work.mkdir(exist_ok=True)
    words = [str(build(way) / "driver"), scenario, str(log), str(work), str(budget)]
    environment = clean_environment(**BUILDS[way][1])
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)


def told(log: Log) -> dict[str, tuple[int, int]]:
    """What the log says, by operation: how many and how many bytes, recorded or counted only."""
    counts, moved = Counter[str](), Counter[str]()
    for row in log.operations(["op", "calls", "bytes_moved"]).to_pylist():
        counts[row["op"]] += row["calls"]
        moved[row["op"]] += row["bytes_moved"] or 0
    for row in log.counters().to_pylist():
        if row["why"] == "counted":
            counts[row["op"]] += row["calls"]
            moved[row["op"]] += row["bytes"]
    return {op: (counts[op], moved[op]) for op in counts}


def done(output: str) -> dict[str, tuple[int, int]]:
    """What the driver says that it did."""
    lines = [line.split() for line in output.splitlines()]
    return {op: (int(count), int(moved)) for op, count, moved in lines}


@pytest.mark.parametrize("way", BUILDS)
@pytest.mark.parametrize("scenario", ["plain", "names", "mappings", "short", "signals"])
def test_eight_threads(build: Build, tmp_path: Path, scenario: str, way: str) -> None:
    # GIVEN eight threads that do this WHEN they are traced THEN the log has what they did, call by call
    outcome = run(build, way, scenario, tmp_path / "run.pyio")
    assert (outcome.returncode, outcome.stderr) == (0, "")
    log = pyio_trace.open(tmp_path / "run.pyio")
    expected = done(outcome.stdout)
    assert expected and expected.items() <= told(log).items()
    # Mapped pages are measured within an allowance of time, which a sanitizer uses up.
    assert set(log.losses()) <= {"mappings_unmeasured"}


@pytest.mark.parametrize("way", BUILDS)
@pytest.mark.parametrize("budget", [48 << 10, 200 << 10])
def test_eight_threads_and_no_more_room(build: Build, tmp_path: Path, budget: int, way: str) -> None:
    # GIVEN a log that is soon full, under threads that all claim room WHEN they are traced
    outcome = run(build, way, "plain", tmp_path / "run.pyio", budget)
    assert (outcome.returncode, outcome.stderr) == (0, "")
    # THEN records and counters together are what they did
    log = pyio_trace.open(tmp_path / "run.pyio")
    assert done(outcome.stdout).items() <= told(log).items()
    assert log.losses()["reason"]  # it was full, and so some calls have no record
    assert "torn" not in log.losses()


@pytest.mark.parametrize("way", BUILDS)
def test_stopping_and_starting_under_threads(build: Build, tmp_path: Path, way: str) -> None:
    # GIVEN threads at work WHEN tracing is stopped and started sixty times THEN they never notice, and the log is whole
    outcome = run(build, way, "restarts", tmp_path / "run.pyio")
    assert (outcome.returncode, outcome.stderr) == (0, "")
    log = pyio_trace.open(tmp_path / "run.pyio")
    assert set(log.losses()) <= {"in_flight"}


@pytest.mark.parametrize(
    ("way", "scenario", "word"),
    [("thread", "race", "data race"), ("address and undefined", "overrun", "insufficient space")],
)
def test_the_sanitizers_are_at_work(build: Build, tmp_path: Path, way: str, scenario: str, word: str) -> None:
    # GIVEN a mistake on purpose WHEN it is run under its sanitizer THEN that says so
    outcome = run(build, way, scenario, tmp_path / "run.pyio")
    assert outcome.returncode and word in outcome.stderr
