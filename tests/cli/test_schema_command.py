"""`pyio-trace schema`: what it prints describes what the commands print."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyio_trace.cli.main import main
from pyio_trace.report.schemas import names
from tests.support.smallrun import small_run

jsonschema = pytest.importorskip("jsonschema")
pytestmark = pytest.mark.once


@pytest.mark.parametrize("name", names())
def test_schema_of_each_output(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # GIVEN a run's log WHEN a command prints JSON of it
    log = str(small_run(tmp_path / "run.pyio"))
    command = {"insights": ["insights", log, "--format", "json"], "summary": ["summary", log, "--json"]}
    assert main(command.get(name, ["view", name, log, "--json"])) == 0
    printed = json.loads(capsys.readouterr().out)
    # THEN it is as its schema says, and not merely because the schema accepts anything
    assert main(["schema", name]) == 0
    schema = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(printed)
    assert not jsonschema.Draft202012Validator(schema).is_valid("text")


def test_a_name_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "insigths"]) == 2
    said = "pyio-trace: schema: there is none of 'insigths'; did you mean insights? [bad-value]\n"
    assert capsys.readouterr().err == said
    assert main(["schema", "qqqq"]) == 2
    assert "a view of pyio-trace views" in capsys.readouterr().err
