"""Few calls that take a share of the run are findings; rules that said too much are quiet."""

from __future__ import annotations

import pytest

from tests.support.findings import evidence_of, findings_of, none, only, without_times
from tests.support.programs import Runner

pytestmark = pytest.mark.once

COMMITS = """
import sqlite3
db = sqlite3.connect("t.db")
db.execute("CREATE TABLE t (x)")
for n in range(5):
    db.execute("INSERT INTO t VALUES (1)")
    db.commit()
"""
FILES = """
import os
for n in range(12):
    with open("LOG", "MODE") as f: f.write("x")
"""
ALL = {"severity": {"few_share": 0.0}}


def test_few_commits(program: Runner) -> None:
    # GIVEN five commits WHEN a share of the run decides, whatever it is THEN they are a finding, and else they are none
    outcome = program.traced(COMMITS)
    finding = only(findings_of(outcome, without_times(ALL)), "commit-per-row")
    assert finding.evidence[0].values["commits"] == 5 and [site.line for site in finding.sites] == [7]
    assert none(findings_of(outcome), "commit-per-row")
    # AND a threshold that the user has set holds
    limits = without_times({**ALL, "commit-per-row": {"commits": 6}})
    assert none(findings_of(outcome, limits), "commit-per-row")


@pytest.mark.parametrize(("mode", "found"), [("a", True), ("w", False)])
def test_files_that_are_opened_to_empty_them(program: Runner, mode: str, found: bool) -> None:
    # GIVEN a file that is opened 12 times to append to it, or to empty it WHEN findings are made
    outcome = program.traced(FILES.replace("LOG", "log.txt").replace("MODE", mode))
    # THEN only the former could have stayed open
    slugs = [one.slug for one in findings_of(outcome, without_times(ALL))]
    assert ("reopen-per-item" in slugs) == found


MAPS = {
    "mmap": """
        import mmap
        with open("out.bin", "wb+") as f:
            f.truncate(1 << 16)
            mapped = mmap.mmap(f.fileno(), 1 << 16)
        for n in range(25):
            mapped[n] = 1; mapped.flush()
    """,
    "numpy": """
        import numpy
        mapped = numpy.memmap("out.bin", dtype="u1", mode="w+", shape=1 << 16)
        for n in range(25):
            mapped[n] = 1; mapped.flush()
    """,
}


@pytest.mark.parametrize("how", MAPS)
def test_a_sync_of_a_map_per_row(program: Runner, how: str) -> None:
    # GIVEN a map that is flushed after each row WHEN findings are made THEN each flush is a sync, and words fit
    if how == "numpy":
        pytest.importorskip("numpy")
    outcome = program.traced(MAPS[how])
    finding = only(findings_of(outcome), "sync-per-write")
    assert finding.title == "25 syncs of a mapped file" and finding.evidence[0].values["syncs"] == 25
    assert finding.files == [f"{program.folder}/out.bin"]
    assert [int(row["calls"]) for row in evidence_of(finding, outcome.log)] == [25]
    assert finding.remedy is not None and finding.remedy.library == {"mmap": "python", "numpy": "numpy"}[how]


LIBRARY = """
import os
def save(n):
    with open(f"part-{n}", "w") as f:
        f.write("x"); f.flush(); os.fsync(f.fileno())
"""


def test_syncs_in_a_library(program: Runner) -> None:
    # GIVEN a module whose function writes and syncs a file, called 25 times at one line WHEN findings are made
    (program.folder / "site-packages").mkdir()
    (program.folder / "site-packages" / "parts.py").write_text(LIBRARY)
    begin = "import sys; sys.path.insert(0, 'site-packages')\nimport parts\n"
    outcome = program.traced(begin + "for n in range(25): parts.save(n)")
    # THEN the syncs count at that line
    finding = only(findings_of(outcome), "sync-per-write")
    assert finding.evidence[0].values["syncs"] == 25 and [site.line for site in finding.sites] == [3]


COMPUTES = """
import os, time
def solve(path):
    ACCESS
    end = time.process_time() + 0.1
    while time.process_time() < end: step *= 1.1
"""
ACCESSES = {
    "reads its settings": "with open(path) as f: step = float(f.read())",
    "writes its state again": "step = 1.0; open(path, 'r+b').write(b'0.7')",
    "syncs its state": "step = 1.0\n    with open(path, 'ab') as f: f.write(b'0.7'); f.flush(); os.fsync(f.fileno())",
    "writes a file of its own": "step = time.monotonic(); open(f'{path}-{step}', 'wb').write(b'0.7')",
}


@pytest.mark.slow
@pytest.mark.parametrize("access", ACCESSES)
def test_a_library_that_moves_little_and_computes(program: Runner, access: str) -> None:
    # GIVEN a library function that reads or writes a few bytes, then computes WHEN it is called 15 times
    (program.folder / "site-packages").mkdir()
    (program.folder / "site-packages" / "solver.py").write_text(COMPUTES.replace("ACCESS", ACCESSES[access]))
    (program.folder / "state").write_text("0.5")
    begin = "import sys; sys.path.insert(0, 'site-packages')\nimport solver\n"
    outcome = program.traced(begin + "for n in range(15): solver.solve('state')")
    # THEN no finding about its files includes the time that it computes
    calls = [row for row in outcome.rows if "/state" in str(row["path"])]
    most = sum(row["duration"] for row in calls) + 10_000 * sum(row["bytes_moved"] or 0 for row in calls)
    found = findings_of(outcome, without_times(ALL))
    assert [one for one in found if one.files and one.recoverable_ns > most] == []


FIRST = """
for n in range(8):
    with open(f"{n}.bin", "wb", buffering=0) as f:
        for part in [bytes(8 << 20), *20 * [b"x"]]: f.write(part)
"""


def test_first_writes_of_more_bytes(program: Runner) -> None:
    # GIVEN first writes of 8 MiB, and later ones of a byte WHEN findings are made
    settings = without_times({"slow-first-operations": {"share": 0.0, "ratio": 2.0}})
    # THEN what the bytes take is no reason: later ones would take longer for as many
    assert none(findings_of(program.traced(FIRST), settings), "slow-first-operations")


UPLOADS = """
import asyncio
async def keep(n):
    with open(f"upload-{n}", "wb") as f: f.write(bytes(1 << 20))
async def main():
    for n in range(5): await asyncio.gather(keep(2 * n), keep(2 * n + 1))
asyncio.run(main())
"""


@pytest.mark.parametrize(("share", "count"), [(0.0, 1), (2.0, 0)])
def test_few_calls_in_an_event_loop(program: Runner, share: float, count: int) -> None:
    # GIVEN a loop that stands still for ten calls WHEN their share of the run counts, or none does
    settings = without_times({"severity": {"few_share": share}})
    found = [one for one in findings_of(program.traced(UPLOADS), settings) if one.slug == "blocking-call-in-event-loop"]
    # THEN few calls are enough where they cost much
    assert len(found) == count and all([site.line for site in one.sites] == [4] for one in found)
