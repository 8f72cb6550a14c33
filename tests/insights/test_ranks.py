"""Findings about the ranks of a job: file per rank, stragglers by phase, pieces of blocks; also under mpirun."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyio_trace.insights import insights, registry
from pyio_trace.insights.finding import Finding
from pyio_trace.join.sources.opening import open_log
from tests.support import mpi
from tests.support.findings import check, without_times
from tests.support.programs import Runner, succeeded
from tests.support.ranks import Call, findings_in, write_job

MIB = 1 << 20


def found_by_counts(folder: Path, slug: str, **limits: float) -> list[Finding]:
    """What a rule finds in the logs of a folder if no time decides."""
    log = open_log(folder)
    _, found = insights.find(log, registry.found(), without_times({slug: limits}))
    assert found.failed == {}
    for finding in found.findings:
        check(finding, log)
    return [one for one in found.findings if one.slug == slug]


# ---- a file for each rank


def own_files(ranks: int, files: int = 1, shared: bool = False) -> list[list[Call]]:
    def of(rank: int) -> list[Call]:
        names = ["/d/all.bin"] if shared else [f"/d/state-{rank * files + n}.bin" for n in range(files)]
        calls = [(Call("OPEN", name, 2, 1), Call("PWRITE", name, 4, 1, MIB, 0)) for name in names]
        return [call for pair in calls for call in pair]

    return [of(rank) for rank in range(ranks)]


@pytest.mark.once
def test_a_file_for_each_of_many_ranks(tmp_path: Path) -> None:
    (finding,) = findings_in(write_job(tmp_path / "logs", own_files(64, 2)), "file-per-rank")
    assert finding.title == "64 of 64 ranks write files of their own, 128 in all"
    assert finding.evidence[0].values["bytes"] == 128 * MIB
    assert finding.files == ["/d/state-*.bin"]


@pytest.mark.once
@pytest.mark.parametrize(
    "calls",
    [
        own_files(16),  # few ranks: it is the fastest way
        own_files(64, shared=True),  # one file
        [*own_files(4), *([Call("STAT", "/d/x", 1, 1)] for _ in range(60))],  # few of many write
    ],
    ids=["few", "shared", "some"],
)
def test_no_file_for_each_rank(tmp_path: Path, calls: list[list[Call]]) -> None:
    assert findings_in(write_job(tmp_path / "logs", calls), "file-per-rank") == []


# ---- stragglers by phase


def phases(times: list[list[float]], gap: float = 200) -> list[list[Call]]:
    """times: by phase, of each rank, ms.  A phase begins `gap` ms after the longest of the one before has ended."""
    calls: list[list[Call]] = [[] for _ in times[0]]
    begin = 1.0
    for of_ranks in times:
        for rank, time in enumerate(of_ranks):
            calls[rank].append(Call("PWRITE", f"/d/{rank}.bin", begin, time, MIB, 0))
        begin += max(of_ranks) + gap
    return calls


@pytest.mark.once
def test_a_straggler_of_one_phase_is_named(tmp_path: Path) -> None:
    # GIVEN four ranks of which another one is the last in each phase, so that in sum they are even
    times = [[500, 100, 100, 100], [100, 500, 100, 100], [100, 100, 500, 100], [100, 100, 100, 500]]
    folder = write_job(tmp_path / "logs", phases(times), wall=4000)
    found = findings_in(folder, "stragglers-by-phase")
    # THEN each is named with its phase, while over the whole run nobody is
    assert [(one.evidence[0].values["rank"], one.evidence[0].values["phases"]) for one in found] == [
        (rank, str(rank + 1)) for rank in range(4)
    ]
    assert all(one.evidence[0].values["of_phases"] == 4 for one in found)
    assert all(abs(one.recoverable_ns - 400_000_000) < 10_000_000 for one in found)
    assert findings_in(folder, "stragglers") == []


@pytest.mark.once
@pytest.mark.parametrize(
    "times",
    [
        [[100, 100, 100], [100, 100, 100]],  # even
        [[500, 100, 100]],  # one phase: stragglers says it
        [[500, 100], [500, 100]],  # two ranks
        [[150, 100, 100], [150, 100, 100]],  # not by far
        [[9, 1, 1], [9, 1, 1]],  # in no time
    ],
    ids=["even", "one phase", "two ranks", "little", "short"],
)
def test_no_straggler(tmp_path: Path, times: list[list[float]]) -> None:
    assert findings_in(write_job(tmp_path / "logs", phases(times), wall=4000), "stragglers-by-phase") == []


@pytest.mark.once
@pytest.mark.parametrize("times", [[[500, 500], [500, 500]], [[300] * 4, [300] * 4]], ids=["two ranks", "four ranks"])
def test_what_ranks_start_are_no_ranks(tmp_path: Path, times: list[list[float]]) -> None:
    # GIVEN ranks that write for as long as each other, and have started helpers that write nothing
    folder = write_job(tmp_path / "logs", phases(times), wall=4000, helpers=3)
    # THEN nobody is a straggler, as there would be if each process were a rank
    assert findings_in(folder, "stragglers-by-phase") == []


@pytest.mark.once
def test_phases_that_follow_at_once_are_one(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "logs", phases([[500, 100, 100], [500, 100, 100]], gap=2), wall=4000)
    assert findings_in(folder, "stragglers-by-phase") == []


# ---- pieces of blocks


def pieces(size: int, ranks: int = 4, writes: int = 40) -> list[list[Call]]:
    return [
        [Call("PWRITE", "/d/all.bin", 1 + n, 1, size, (n * ranks + rank) * size) for n in range(writes)]
        for rank in range(ranks)
    ]


@pytest.mark.once
def test_pieces_of_blocks(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "logs", pieces(47_008))
    (finding,) = findings_in(folder, "shared-unaligned")
    values = finding.evidence[0].values
    exact = sum(at * 47_008 % 4096 != 0 for at in range(160))
    assert (values["ranks"], values["writes"], values["unaligned"]) == (4, 160, exact)
    # ... and what says the same less exactly is left out
    assert findings_in(folder, "shared-file") == []


@pytest.mark.once
@pytest.mark.parametrize(
    "calls", [pieces(8192), pieces(3 * MIB + 1), pieces(47_008, 1), pieces(47_008, 2, 10), own_files(8)],
    ids=["whole blocks", "large", "one rank", "few", "own files"],
)  # fmt: skip
def test_no_pieces_of_blocks(tmp_path: Path, calls: list[list[Call]]) -> None:
    assert findings_in(write_job(tmp_path / "logs", calls), "shared-unaligned") == []


# ---- real jobs

SHARED = """
import numpy
file = opened("shared.bin")
for n in range(60):
    file.Write_at((n * size + rank) * 1000, numpy.full(1000, rank, "u1"))
file.Close()
"""
OWN = """
world.Barrier()
with open(f"state-{rank}.bin", "wb") as file:
    file.write(bytes(100_000))
world.Barrier()
"""
FUNNEL = """
parts = world.gather(bytes(8 << 20), root=0)
if rank == 0:
    with open("all.bin", "wb") as file:
        for part in parts:
            file.write(part)
world.Barrier()
"""
PHASED = """
import time
for phase in range(3):
    world.Barrier()
    with open(f"phase{phase}-{rank}.bin", "wb", buffering=0) as file:
        for n in range(150 if rank == phase else 2):
            file.write(bytes(1 << 20))
            if rank == phase:
                os.fsync(file.fileno())
    world.Barrier()
    time.sleep(0.5)
"""


@pytest.mark.slow
def test_jobs_under_mpirun(program: Runner) -> None:
    for name, text, slug, limits in (
        ("pieces", SHARED, "shared-unaligned", {}),
        ("own", OWN, "file-per-rank", {"ranks": 4}),
        ("funnel", FUNNEL, "one-does-all", {}),
    ):
        folder = program.folder / name
        folder.mkdir()
        job = mpi.run(Runner(folder), text)
        succeeded(job.outcome)
        # mpi-independent may say of the same line what helps more
        slugs = {slug, "mpi-independent"} if name == "pieces" else {slug}
        assert any(found_by_counts(folder, one, **limits) for one in slugs), name
        silent = {"shared-unaligned", "file-per-rank", "one-does-all"} - slugs
        assert not any(found_by_counts(folder, one) for one in silent), name


@pytest.mark.slow
def test_the_straggler_of_each_phase_under_mpirun(program: Runner) -> None:
    # GIVEN a job in which rank n writes a hundred times as much as the others in phase n
    succeeded(mpi.run(program, PHASED).outcome)
    # THEN ranks 0 to 2 are named, each once
    found = found_by_counts(program.folder, "stragglers-by-phase", ms=0, gap=0.001)
    begins = {one.evidence[0].values["rank"]: one.evidence[0].values["begin_ns"] for one in found}
    assert begins[0] < begins[1] < begins[2]


def test_silent_without_mpi(program: Runner) -> None:
    text = "for n in range(200):\n    open('shared.bin', 'r+b' if n else 'wb').write(bytes(1000))\n"
    outcome = succeeded(program.traced(text))
    _, found = insights.find(outcome.log, registry.found(), without_times())
    slugs = {one.slug for one in found.findings}
    assert not slugs & {"file-per-rank", "stragglers-by-phase", "shared-unaligned", "mpi-independent", "slow-node"}
