"""IOR's counts and bandwidth are those of the log, and its phases are found.

IOR itself cannot be had here: neither Debian 12 nor PyPI has it.  tests/csrc/ior.c does what IOR does through its POSIX
interface, with the same options, and prints IOR's result lines.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from pyio_trace.analysis.reducer import scan
from pyio_trace.analysis.reducers.phases import PhasesOfRun
from pyio_trace.analysis.scan.filters import Filter, restrict
from tests.support.programs import Outcome, Row, Runner, succeeded

pytestmark = pytest.mark.once

SOURCE = Path(__file__).parent.parent / "csrc" / "ior.c"
TASKS, ITERATIONS, BLOCK, TRANSFER, SEGMENTS = 2, 3, 1 << 20, 1 << 18, 16
#: How many of each kind of call a phase makes, over all tasks.
TRANSFERS = TASKS * SEGMENTS * BLOCK // TRANSFER
MIB = 1 << 20
#: The program's clock and the log's may differ by this part.
CLOCKS = 0.001


@dataclass(frozen=True)
class Result:
    """A line of IOR's results; times in s, bandwidth in MiB/s."""

    access: str
    bandwidth: float
    transfer_s: float
    total_s: float
    iteration: int
    transfers: int


@pytest.fixture(scope="module")
def ior(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or pytest.skip("there is no cc")
    path = tmp_path_factory.mktemp("ior") / "ior"
    subprocess.run([compiler, "-O1", "-Wall", "-Werror", "-pthread", "-o", path, SOURCE], check=True)
    return path


@pytest.fixture(params=[["-F", "-C", "-e"], []], ids=["file for each task", "shared file"])
def run(request: pytest.FixtureRequest, program: Runner, ior: Path) -> tuple[Outcome, list[str]]:
    """A traced run of IOR, and its further options."""
    sizes = ["-N", TASKS, "-i", ITERATIONS, "-b", BLOCK, "-t", TRANSFER, "-s", SEGMENTS, "-o", "ior.dat"]
    text = "import subprocess, sys\nsys.exit(subprocess.run(sys.argv[1:]).returncode)\n"
    env = {"PYIO_TRACE_FOLLOW": "all"}
    return succeeded(program.traced(text, ior, *sizes, *request.param, env=env)), request.param


def results(outcome: Outcome) -> list[Result]:
    lines = [line.split() for line in outcome.stdout.splitlines()[1:]]
    return [Result(one[0], float(one[1]), float(one[5]), float(one[7]), int(one[8]), int(one[9])) for one in lines]


def on_files(outcome: Outcome) -> list[Row]:
    """The calls on IOR's files, in order of time."""
    rows = [row for row in outcome.select(layer="posix") if row["path"] and "/ior.dat" in row["path"]]
    return sorted(rows, key=lambda row: row["time"])


def test_every_call_is_there(run: tuple[Outcome, list[str]]) -> None:
    # GIVEN a run of IOR, which knows what it does
    outcome, options = run
    printed = results(outcome)
    assert [one.access for one in printed] == ["write", "read"] * ITERATIONS
    assert {one.transfers for one in printed} == {TRANSFERS}
    # WHEN the calls of its log are counted THEN none is missing, and none is too many
    rows = on_files(outcome)
    calls = {op: sum(row["calls"] for row in rows if row["op"] == op) for op in ("write", "read", "lseek", "fsync")}
    syncs = TASKS * ITERATIONS if "-e" in options else 0
    assert calls == {
        "write": sum(one.transfers for one in printed if one.access == "write"),
        "read": sum(one.transfers for one in printed if one.access == "read"),
        "lseek": sum(one.transfers for one in printed),
        "fsync": syncs,
    }
    opens, closes = (sum(row["op"] == op for row in rows) for op in ("open", "close"))
    assert (opens, closes) == (2 * TASKS * ITERATIONS, 2 * TASKS * ITERATIONS)
    # AND each transfer is where IOR's definition puts it
    own = "-F" in options
    for op in ("write", "read"):
        mine = [row for row in rows if row["op"] == op]
        assert {row["bytes_moved"] for row in mine} == {TRANSFER}
        places = sorted((row["path"][-8:] if own else "", row["file_offset"]) for row in mine)
        width = SEGMENTS * BLOCK if own else TASKS * SEGMENTS * BLOCK
        files = [f"{task:08}" for task in range(TASKS)] if own else [""]
        assert places == sorted(itertools.product(files, list(range(0, width, TRANSFER)) * ITERATIONS))
    # AND with -C a task reads the file of the next one
    if "-C" in options:
        wrote = {row["path"]: row["process"] for row in rows if row["op"] == "write"}
        assert all(wrote[row["path"]] != row["process"] for row in rows if row["op"] == "read")
    assert outcome.log.losses() == {}


def test_the_bandwidth_is_that_of_ior(run: tuple[Outcome, list[str]]) -> None:
    # GIVEN the calls of each phase: barriers part the phases, each of which opens every file once
    outcome, _ = run
    rows = on_files(outcome)
    opened = [row for row in rows if row["op"] == "open"]
    closed = sorted((row for row in rows if row["op"] == "close"), key=lambda row: row["time"] + row["duration"])
    for number, one in enumerate(results(outcome)):
        mine = slice(number * TASKS, (number + 1) * TASKS)
        begin = min(row["time"] for row in opened[mine])
        end = max(row["time"] + row["duration"] for row in closed[mine])
        moved = sum(row["bytes_moved"] for row in rows if row["op"] == one.access and begin <= row["time"] < end)
        # WHEN its bytes are divided by its time THEN that is IOR's bandwidth: IOR's clock is read before the first open
        # and after the last close, so its time is no shorter; its transfers alone are within that time
        assert moved == one.transfers * TRANSFER
        bandwidth = moved / MIB / ((end - begin) / 1e9)
        assert one.bandwidth == pytest.approx(moved / MIB / one.total_s)
        assert one.bandwidth * (1 - CLOCKS) <= bandwidth <= moved / MIB / one.transfer_s * (1 + CLOCKS)


def test_the_phases_are_found(run: tuple[Outcome, list[str]]) -> None:
    # GIVEN the calls on IOR's files WHEN phases are looked for
    outcome, _ = run
    (view,) = scan(
        restrict(outcome.log, Filter(paths=[f"{outcome.path.parent}/ior.dat*"])), [PhasesOfRun(100_000, bins=1 << 14)]
    )
    # THEN writing and reading take turns, once in each iteration, with all bytes in them
    assert view.more == view.dropped == 0
    kinds = [phase.kind for phase in view.rows if phase.moved_bytes]
    turns = [kind for kind, _ in itertools.groupby(kind for kind in kinds if kind in ("read", "write"))]
    assert turns == ["write", "read"] * ITERATIONS
    assert sum(phase.moved_bytes for phase in view.rows) == 2 * ITERATIONS * TRANSFERS * TRANSFER
    assert np.all(np.diff([phase.begin_ns for phase in view.rows]) > 0)
