"""`pyio-trace sql`: a query over a log."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import pytest

from pyio_trace.cli.main import main
from tests.support.smallrun import small_run

pytestmark = pytest.mark.once


@pytest.fixture
def log(tmp_path: Path) -> str:
    return str(small_run(tmp_path / "run.pyio"))


def test_the_rows_of_a_query(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("duckdb")
    query = "SELECT op, sum(calls) AS calls, sum(duration) / 1e9 AS seconds FROM operations GROUP BY op ORDER BY op"
    said = {}
    for form in ("text", "csv", "json"):
        assert main(["sql", log, query, "--format", form]) == 0
        said[form] = capsys.readouterr().out
    rows = json.loads(said["json"])
    assert rows and sum(int(row["calls"]) for row in rows) > 1000
    assert said["csv"].splitlines()[0] == '"op","calls","seconds"' and len(said["csv"].splitlines()) == len(rows) + 1
    assert said["text"].split()[:3] == ["op", "calls", "seconds"]


@pytest.mark.parametrize(
    ("query", "slug"),
    [
        ("SELECT nothing FROM operations", "bad-query"), ("SELECT FROM WHERE", "bad-query"),
        ("SELECT * FROM '/etc/passwd'", "bad-query"),
    ],
)  # fmt: skip
def test_a_query_that_is_not_accepted_is_one_line(
    log: str, query: str, slug: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("duckdb")
    assert main(["sql", log, query]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and said.err.endswith(f"[{slug}]\n")


def test_without_duckdb_it_says_what_to_install(
    log: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any, **named: Any) -> Any:
        if name == "duckdb":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", missing)
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    assert main(["sql", log, "SELECT 1"]) == 2
    assert "pip install 'pyio_trace[sql]'" in capsys.readouterr().err
