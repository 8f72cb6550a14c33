"""The system beside the program (--system): what is seen, at what cost, and that nothing of it outlives the run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyio_trace.insights.finding import Finding
from pyio_trace.join.sources.opening import open_log
from tests.support.findings import findings_of, without_times
from tests.support.programs import Outcome, Runner, alike, succeeded
from tests.support.waiting import gone, wait_until

SYSTEM = {"PYIO_TRACE_SYSTEM": "50ms", "PYIO_TRACE_SAMPLE": "off"}
NEIGHBOUR = """\
import os, sys
data = bytes(1 << 20)
with open(sys.argv[1], "wb") as file:
    while True:
        file.seek(0)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
        os.utime(sys.argv[2]) if os.path.exists(sys.argv[2]) else open(sys.argv[2], "w").close()
"""
#: Writes until there were so many looks at the machine, in time (s) that is enough on any computer.
PROGRAM = """\
import os, sys, time
end = time.monotonic() + 2
with open("out.bin", "wb") as file:
    while time.monotonic() < end:
        file.write(bytes(1 << 14))
        file.flush()
        os.fsync(file.fileno())
"""
#: Counts and bytes decide whether something is found, and no time.
NO_TIMES = without_times({"busy-disk": {"busy": 0, "share": 0, "others": 0.01}})


@pytest.fixture
def neighbour(tmp_path: Path) -> Iterator[int]:
    """The pid of a process that writes to the disk of the test's folder and syncs each time."""
    program, sign = tmp_path / "neighbour.py", tmp_path / "sign"
    program.write_text(NEIGHBOUR)
    process = subprocess.Popen([sys.executable, "-I", program, tmp_path / "noise.bin", sign])
    try:
        wait_until(sign.exists, "the neighbour to write")
        yield process.pid
    finally:
        process.kill()
        process.wait()


def rows(outcome: Outcome, kind: str) -> list[dict[str, Any]]:
    return [row for row in succeeded(outcome).log.system().to_pylist() if row["kind"] == kind]


def busy_disk(outcome: Outcome) -> list[Finding]:
    return [one for one in findings_of(outcome, NO_TIMES) if one.slug == "busy-disk"]


@pytest.mark.slow
def test_a_noisy_neighbour_is_named(program: Runner, neighbour: int) -> None:
    # GIVEN a process that keeps the disk busy WHEN a program writes beside it
    outcome = program.traced(PROGRAM, env=SYSTEM)
    # THEN its bytes are in the table, from and to storage
    theirs = [row for row in rows(outcome, "other") if row["pid"] == neighbour]
    assert theirs and sum(row["written_bytes"] for row in theirs) >= 1 << 20
    disks = {row["device"] for row in rows(outcome, "disk")}
    if os.stat(program.folder).st_dev not in disks:
        pytest.skip("the test's folder is not on a disk of its own device number")
    # ... and if it has moved enough for the rule, the finding names it
    if sum(row["written_bytes"] for row in theirs) >= 1 << 26:
        (finding,) = busy_disk(outcome)
        assert f"pid {neighbour}" in finding.title
        assert finding.evidence[0].values["pid"] == neighbour


@pytest.mark.slow
def test_the_table_of_a_run(program: Runner) -> None:
    # GIVEN a run that was looked at
    outcome = program.traced(PROGRAM, env=SYSTEM)
    machine = rows(outcome, "machine")
    # THEN looks follow each other on the log's clock, within the run
    assert machine
    ends = [row["time"] + row["duration"] for row in machine]
    assert all(abs(end - row["time"]) < 10_000 for end, row in zip(ends, machine[1:], strict=False))
    (process,) = outcome.processes
    assert process["begin"] <= machine[0]["time"] and ends[-1] <= process["end"] + 1_000_000
    # ... what they cost is within half a per cent of the time between them
    assert all(row["cost"] <= row["duration"] / 200 for row in machine[1:])
    assert all(row["cores"] >= 1 and row["available"] > 0 and row["cached"] > 0 for row in machine)
    pressure = Path("/proc/pressure/io").exists()
    assert all((row["io_stall"] is not None) == pressure for row in machine)
    # ... what the program wrote is its own, and nobody else's
    assert all(row["pid"] != process["pid"] for row in rows(outcome, "other"))
    if Path("/proc/self/io").exists() and rows(outcome, "own"):
        assert sum(row["written_bytes"] for row in rows(outcome, "own")) <= process["storage_written"] + (8 << 20)


@pytest.mark.slow
def test_a_short_run_among_many_processes(program: Runner) -> None:
    # GIVEN so many processes that a look at all of them costs more than the budget of a short run
    ended = [subprocess.Popen(["/bin/true"]) for _ in range(600)]
    try:
        # WHEN the machine is looked at THEN the run has a row all the same
        outcome = program.traced("import time; time.sleep(0.5)", env=SYSTEM)
        assert rows(outcome, "machine")
    finally:
        for process in ended:
            process.wait()


def test_off_by_default(program: Runner) -> None:
    outcome = succeeded(program.traced("import time; time.sleep(0.2)"))
    assert outcome.log.system().num_rows == 0
    assert busy_disk(outcome) == []


@pytest.mark.parametrize("sample", ["off", "100"])
def test_it_ends_with_the_run(program: Runner, sample: str) -> None:
    # GIVEN a run that says who looks
    outcome = program.traced("import time; time.sleep(0.3)", env={**SYSTEM, "PYIO_TRACE_SAMPLE": sample})
    pid = int(succeeded(outcome).log._source._log.header["sampler_pid"])  # type: ignore[attr-defined]
    # THEN it has ended
    assert pid
    wait_until(lambda: gone(pid), "the sampler's end")


def test_the_program_does_not_notice(program: Runner) -> None:
    text = "import os\ntry:\n    print(os.waitpid(-1, os.WNOHANG))\nexcept ChildProcessError as e:\n    print(e)"
    alike(program.traced(text, env=SYSTEM), program.bare(text))


def test_one_of_the_ranks_of_a_host_looks(program: Runner) -> None:
    text = "import time; time.sleep(0.4)"
    for rank, looks in ((0, True), (1, False)):
        ranks = {name: str(rank) for name in ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")}
        succeeded(program.traced(text, env={**SYSTEM, **ranks, "OMPI_COMM_WORLD_SIZE": "2"}))
        log = open_log(program.folder / f"run-rank{rank}.pyio")
        period = int(log._source._log.header["system_period"])  # type: ignore[attr-defined]
        assert (period > 0) == looks
