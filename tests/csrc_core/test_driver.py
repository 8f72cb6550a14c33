"""The core alone, under a C program with eight threads (tests/csrc/driver.c): plain, and under the sanitizers.

What the program says it did must be what its log says, and no sanitizer may have anything to say.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import pyio_trace
from pyio_trace.join.facade import Log
from tests.support.programs import clean_environment

ROOT = Path(__file__).resolve().parents[2]
SUPPRESSED = Path(__file__).parent / "tsan.txt"

#: how it is built -> flags; the options of its run
BUILDS = {
    "plain": (["-O2"], {}),
    "address and undefined": (
        ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
        {"ASAN_OPTIONS": "detect_leaks=0:exitcode=66", "UBSAN_OPTIONS": "print_stacktrace=1"},
    ),
    # -Wno-tsan: two fences, which it does not understand, stand beside atomics that it does
    "thread": (
        ["-O1", "-g", "-fsanitize=thread", "-Wno-tsan"],
        {"TSAN_OPTIONS": f"suppressions={SUPPRESSED}:exitcode=66"},
    ),
}
COMMON = ["-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wno-cast-function-type", "-fno-strict-aliasing"]

pytestmark = pytest.mark.slow  # three builds of the core

Build = Callable[[str], Path]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Builds the core and the driver in one of the ways, once."""
    folder = tmp_path_factory.mktemp("driver")
    compiler = shutil.which("gcc")
    if not compiler:
        pytest.skip("needs gcc")

    def build(way: str) -> Path:
        flags = [*COMMON, *BUILDS[way][0]]
        place = folder / way.replace(" ", "-")
        if not place.exists():
            place.mkdir()
            core = [*flags, "-shared", "-fPIC", "-fvisibility=hidden", "-DPT_BUILDING_CORE"]
            _compile([compiler, *core, *map(str, sorted((ROOT / "csrc/core").glob("*.c")))], place / "libpyio_trace.so")
            rest = [f"-L{place}", f"-Wl,-rpath,{place}", "-lpyio_trace"]
            _compile([compiler, *flags, str(ROOT / "tests/csrc/driver.c"), *rest], place / "driver")
        return place / "driver"

    return build


def _compile(words: list[str], out: Path) -> None:
    told = subprocess.run([*words, "-o", str(out), "-ldl", "-lpthread"], capture_output=True, text=True)
    assert (told.returncode, told.stderr) == (0, "")


def run(build: Build, way: str, scenario: str, log: Path, budget: int = 64 << 20) -> subprocess.CompletedProcess[str]:
    """Runs a scenario in a folder of its own."""
    work = log.parent / "work"
    work.mkdir(exist_ok=True)
    words = [str(build(way)), scenario, str(log), str(work), str(budget)]
    environment = clean_environment(**BUILDS[way][1])
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)


def told(log: Log) -> dict[str, tuple[int, int]]:
    """What the log says, by operation: how many and how many bytes, recorded or counted only."""
    counts, moved = Counter[str](), Counter[str]()
    for row in log.operations(["op", "count", "moved"]).to_pylist():
        counts[row["op"]] += row["count"]
        moved[row["op"]] += row["moved"] or 0
    for row in log.counters().to_pylist():
        if row["why"] == "counted":
            counts[row["op"]] += row["count"]
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
    assert log.losses()["operations_counted_only"] > 0
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
