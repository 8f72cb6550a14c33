"""Ranks that read or write one file in small independent calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import mpi
from tests.support.findings import evidence_of, findings_of, none, only
from tests.support.programs import Outcome, Runner, succeeded

PROGRAM = """
part = bytearray(4096)
f = opened("data.bin")
for n in range(COUNT):
    CALL
f.Close()
"""
WRITE, READ = "f.Write_at((n * size + rank) * 4096, part)", "f.Read_at((n * size + rank) * 4096, part)"


def findings(program: Runner, call: str, count: str = "60") -> tuple[Outcome, list]:  # type: ignore[type-arg]
    """Of a job of four ranks, the folder of its logs, and what is found in them."""
    job = mpi.run(program, PROGRAM.replace("CALL", call).replace("COUNT", count))
    succeeded(job.outcome)
    logs = program.folder / "logs"
    logs.mkdir()
    for rank in job.ranks:
        Path(rank.path).rename(logs / Path(rank.path).name)
    together = Outcome(0, "", "", logs)
    return together, findings_of(together)


@pytest.mark.parametrize(("call", "what"), [(WRITE, "write"), (READ, "read")])
def test_small_independent_calls(program: Runner, call: str, what: str) -> None:
    # GIVEN four ranks that take turns in one file, 4 KiB at a time
    (program.folder / "data.bin").write_bytes(bytes(60 * 4 * 4096))
    outcome, found = findings(program, call)
    # THEN that is the finding, with the line, and calls of all ranks; and no second one about the same file
    finding = only(found, "mpi-independent")
    assert finding.title == f"4 ranks {what} data.bin independently, 4 KiB at a time"
    assert finding.evidence[0].values["calls"] == 240 and finding.evidence[0].values["bytes"] == 240 * 4096
    assert [site.line for site in finding.sites] == [mpi.PRELUDE.count("\n") + 5]
    assert sum(int(row["calls"]) for row in evidence_of(finding, outcome.log)) == 240
    assert none(found, "shared-file")
    assert finding.remedy is not None and f"{what.title()}_at_all" in finding.remedy.after


@pytest.mark.parametrize(
    ("call", "count"),
    [
        (WRITE.replace("_at", "_at_all"), "60"),  # collective
        (WRITE, "60 + rank"),  # not equally often: a collective call would wait for ever
        ("rank or " + WRITE, "240"),  # by one rank alone
        (WRITE, "5"),
    ],
)
def test_what_cannot_be_collective_or_is(program: Runner, call: str, count: str) -> None:
    assert none(findings(program, call, count)[1], "mpi-independent")
