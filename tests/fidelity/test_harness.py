"""Our log has what strace saw, call by call: for some programs run here, and for all on the page in docs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fidelity import harness, page, strace
from tests.fidelity.compare import Row, compare
from tests.fidelity.programs import PROGRAMS
from tests.support.soak import SOAK

pytestmark = pytest.mark.skipif(not strace.has_stacks(), reason="no strace that tells stacks")

MARKS = {"quick": [], "slow": [pytest.mark.slow], "soak": [pytest.mark.slow, pytest.mark.soak]}
LIVE = [
    pytest.param(name, marks=MARKS[program.live])
    for name, program in PROGRAMS.items()
    if program.live and (SOAK or program.live != "soak")
]


@pytest.mark.parametrize("name", LIVE)
def test_no_unexplained_difference(name: str, tmp_path: Path) -> None:
    # GIVEN a program
    program = PROGRAMS[name]
    if needed := harness.missing_needs(program):
        pytest.skip(f"{', '.join(needed)} is not installed")
    # WHEN it runs under strace and under us
    run = harness.run(program, tmp_path / "traced")
    # THEN every call of it has its row or a reason, and every row its call
    assert run.status == 0, run.output
    assert run.result.unexplained == []
    assert run.result.same > 20
    if program.group == "scripts":
        assert [name for name in run.losses if not name.startswith(("mapped_", "mappings_"))] == []  # estimates
        # and it makes the calls that it makes without us
        untraced = harness.bare_calls(program, tmp_path / "bare")
        assert harness.calls_on(run.world, run.folder) == untraced


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> harness.Run:
    return harness.run(PROGRAMS["copies"], tmp_path_factory.mktemp("copies") / "run")


def without(op: str) -> Callable[[list[Row]], list[Row]]:
    return lambda rows: [row for row in rows if row is not next(row for row in rows if row["op"] == op)]


def altered(op: str, **columns: Any) -> Callable[[list[Row]], list[Row]]:
    def alter(rows: list[Row]) -> list[Row]:
        row = next(row for row in reversed(rows) if row["op"] == op and row["layer"] == "posix" and not row["errno"])
        return [other | columns if other is row else other for other in rows]

    return alter


def exchanged(first: str, second: str) -> Callable[[list[Row]], list[Row]]:
    def exchange(rows: list[Row]) -> list[Row]:
        one, two = (next(row for row in rows if row["op"] == op) for op in (first, second))
        times = {one["id"]: two["time"], two["id"]: one["time"]}
        return [row | {"time": times.get(row["id"], row["time"])} for row in rows]

    return exchange


FORGERIES = {
    "a row missing": without("pwritev2"),
    "a row too many": lambda rows: [*rows, next(row for row in rows if row["op"] == "ftruncate")],
    "another size": altered("sendfile", bytes_requested=3),
    "other bytes": altered("copy_file_range", bytes_moved=3),
    "another offset": altered("preadv2", file_offset=3),
    "another position": altered("readv", file_offset=3),
    "another path": altered("truncate", path="/elsewhere"),
    "another descriptor": altered("fdatasync", fd=99),
    "another error": altered("fchmod", errno=5),
    "no end": altered("fchmod", duration=None),
    "another order": exchanged("ftruncate", "truncate"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_log_is_noticed(copies: harness.Run, name: str) -> None:
    assert compare(copies.world, copies.rows).unexplained == []
    forged = FORGERIES[name](copies.rows)
    assert forged != copies.rows
    assert compare(copies.world, forged).unexplained


def test_page_has_no_unexplained_line() -> None:
    found = page.unexplained(page.PATH.read_text())
    assert set(found) == set(PROGRAMS)
    assert {name: count for name, count in found.items() if count} == {}
