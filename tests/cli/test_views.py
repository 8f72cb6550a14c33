"""The commands views and view."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyio_trace.analysis.typed_results import views
from pyio_trace.cli.main import main
from tests.analysis.test_scan import BUSY
from tests.support.programs import Runner, succeeded
from tests.support.smallrun import small_run

pytestmark = pytest.mark.once


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return str(small_run(tmp_path / "run.pyio"))


def said(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    assert main(list(words)) == status
    out, err = capsys.readouterr()
    return out if status == 0 else err


def test_views_lists_every_reducer(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "views")
    names = [line.split()[0] for line in text.splitlines() if not line.startswith(" ")]
    assert names == sorted(views()) and max(map(len, text.splitlines())) <= 80
    listed = {one["name"]: one for one in json.loads(said(capsys, "views", "--json"))}
    assert list(listed) == names and all(one["about"] for one in listed.values())
    rows = listed["by_line"]["result"]["properties"]["rows"]["items"]["properties"]
    assert rows["time_ns"] == {"type": "integer"} and rows["key"] == {"type": "string"}


@pytest.mark.parametrize("name", sorted(views()))
def test_each_view_in_80_columns_and_as_its_schema_says(
    name: str, log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(capsys, "view", name, log)
    assert text and max(map(len, text.splitlines())) <= 80
    result = json.loads(said(capsys, "view", name, log, "--json"))
    schema = {one["name"]: one["result"] for one in json.loads(said(capsys, "views", "--json"))}[name]
    check(result, schema, name)


def check(value: object, schema: dict[str, object], where: str) -> None:
    """A JSON value against the parts of a schema that results use."""
    if "anyOf" in schema:
        kinds = [one for one in schema["anyOf"] if fits(value, one)]  # type: ignore[attr-defined]
        assert kinds, where
        schema = kinds[0]
    assert fits(value, schema), f"{where}: {value!r} is not {schema.get('type')}"
    if isinstance(value, dict) and "properties" in schema:
        assert set(value) == set(schema["properties"]), where  # type: ignore[call-overload]
        for name, one in value.items():
            check(one, schema["properties"][name], f"{where}.{name}")  # type: ignore[index]
    if isinstance(value, list) and "items" in schema and schema["items"]:
        for one in value:
            check(one, schema["items"], f"{where}[]")  # type: ignore[arg-type]


def fits(value: object, schema: dict[str, object]) -> bool:
    kinds = {"object": dict, "array": list, "integer": int, "string": str, "boolean": bool, "number": (int, float)}
    kind = schema.get("type")
    if kind is None:
        return True
    if kind == "null":
        return value is None
    return isinstance(value, kinds[str(kind)]) and (kind == "boolean" or not isinstance(value, bool))


def test_selection_limit_and_output(log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    only = json.loads(said(capsys, "view", "by_op", log, "--json", "--layer", "posix", "--op", "pwrite"))
    assert [row["key"] for row in only["rows"]] == ["posix pwrite"]
    few = json.loads(said(capsys, "view", "by_op", log, "--json", "--limit", "2"))
    assert len(few["rows"]) == 2 and few["more"] > 0
    assert "more row" in said(capsys, "view", "by_op", log, "--limit", "2")
    assert said(capsys, "view", "totals", log, "--output", "t.txt") == ""
    assert "all" in (tmp_path / "t.txt").read_text()


@pytest.mark.parametrize("name", ["by_line", "accesses", "metadata", "reuse", "phases", "concurrency", "by_span"])
def test_in_several_processes(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # GIVEN a run with several files, lines and threads WHEN two processes read its log THEN the result is the same
    run = succeeded(Runner(tmp_path).traced(BUSY)).path
    alone = json.loads(said(capsys, "view", name, str(run), "--json"))
    assert json.loads(said(capsys, "view", name, str(run), "--json", "--jobs", "2")) == alone


def test_several_logs(log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = str(small_run(tmp_path / "other.pyio"))
    both = json.loads(said(capsys, "view", "totals", log, other, "--json"))
    assert list(both) == [log, other] and both[log] == both[other]
    assert [line for line in said(capsys, "view", "totals", log, other).splitlines() if line.endswith(":")] == [
        f"{log}:",
        f"{other}:",
    ]


@pytest.mark.parametrize(
    ("words", "said_so"),
    [
        (["by_lin", "run.pyio"], "no view 'by_lin'; did you mean by_line?"),
        (["by_line", "none.pyio"], "none.pyio"),
        (["by_line"], "LOG"),
        (["by_line", "run.pyio", "--layer", "kernel"], "--layer"),
        (["by_line", "run.pyio", "--output", "run.pyio"], "run.pyio"),
    ],
)
def test_mistakes_are_one_line(words: list[str], said_so: str, log: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "view", *words, status=2)
    assert said_so in text and text.count("\n") == 1
