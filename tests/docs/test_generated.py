"""The pages that the code writes have each command, option and column."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import pytest

import pyio_trace
from pyio_trace import events
from pyio_trace.cli.main import COMMANDS, main
from pyio_trace.config import OPTIONS, Config, Option
from tests.support.smallrun import small_run
from tools import docs_pages


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_section(command: str) -> None:
    assert f"\n## {command}\n" in docs_pages.command_line()


def test_arguments_of_a_command() -> None:
    # GIVEN the command line's page WHEN the section of events is read THEN its options are there, patterns escaped
    section = docs_pages.command_line().partition("\n## events\n")[2].partition("\n## ")[0]
    for words in ("| `--min-duration TIME` |", "| `LOG` | a live log (\\*.pyio)", "```text\npyio-trace events "):
        assert words in section


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_option_has_a_section(option: Option) -> None:
    section = docs_pages.configuration().partition(f"\n## {option.name}\n")[2].partition("\n## ")[0]
    assert f"`{option.variable}`" in section
    assert all(flag in section for flag in option.flags)


def test_every_column_has_a_row() -> None:
    page = docs_pages.columns()
    for column in events.OPERATIONS + events.INTERNAL:
        assert f"\n| `{column.name}` | {column.type} |" in page


def test_options_are_arguments_of_trace_and_fields_of_config() -> None:
    # GIVEN the table of options WHEN trace() and Config, which have to spell them out, are held against it
    names = {option.name for option in OPTIONS}
    # THEN none is missing; a stretch of a program prints no summary, so there is nothing to silence
    assert set(inspect.signature(pyio_trace.trace).parameters) | {"quiet"} == names
    assert set(Config.__annotations__) == names


def test_the_schema_of_the_summary_describes_a_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    # GIVEN the summary of a run with an error, an operation in flight, several processes and lines
    assert main(["summary", str(small_run(tmp_path / "run.pyio")), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    # THEN the schema accepts it, and has all of its keys
    schema = json.loads(docs_pages.schema_page("summary"))
    jsonschema.Draft202012Validator(schema).validate(summary)
    assert schema["properties"].keys() == summary.keys()
    # AND refuses one that lacks a figure
    del summary["run"]["wall"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(summary, schema)


def test_every_public_name_is_described() -> None:
    # GIVEN the page of the API WHEN it is read THEN each public name has its signature or docstring there, and nothing
    # that stands for one is left
    page = docs_pages.api()
    for name in pyio_trace.__all__:
        section = page.partition(f"\n### {name}\n")[2].partition("\n### ")[0]
        assert (getattr(pyio_trace, name).__doc__ or "").partition("\n")[0] in section
    assert "\n    stacks: str | None = None,\n" in page and ":::" not in page


@pytest.mark.parametrize("page", docs_pages.COMMITTED)
def test_pages_of_the_repository_are_those_of_the_code(page: str) -> None:
    # One that is not: python -m tools.docs_pages
    assert (docs_pages.ROOT / "docs" / "reference" / page).read_text("utf-8") == docs_pages.committed(page)


def test_every_page_is_in_the_menu(tmp_path: Path) -> None:
    # GIVEN all pages, as they are written for the site WHEN the menu is held against them THEN it has each of them once
    docs_pages.write(tmp_path / "pages")
    pages = [str(page.relative_to(tmp_path / "pages")) for page in tmp_path.rglob("*.md")]
    menu = (docs_pages.ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    assert sorted(re.findall(r": (\S+\.md)$", menu, re.MULTILINE)) == sorted(pages)
