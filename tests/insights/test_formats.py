"""What `pyio-trace insights` prints in each format, and its exit status."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyio_trace.cli.main import main
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Query, Recoverable, Remedy, Site
from pyio_trace.insights.insights import Insights
from pyio_trace.insights.registry import found
from pyio_trace.report.findings import FORMATS, MOST_RESULTS, LogFindings, as_text
from pyio_trace.report.findings_screen import View
from pyio_trace.report.findings_text import findings_section
from pyio_trace.report.schemas import schema_of
from tests.support.programs import Runner, succeeded
from tests.support.summaries import RUN

pytestmark = pytest.mark.once
jsonschema = pytest.importorskip("jsonschema")
SCHEMA = schema_of("insights")
SARIF = json.loads((Path(__file__).parent / "sarif" / "sarif-schema-2.1.0.json").read_text())

PROGRAM = """
import os
with open("log.txt", "w") as f:
    for n in range(50):
        f.write("record\\n")
        f.flush()
        os.fsync(f.fileno())
"""

#: A finding whose texts try to break every format.
HOSTILE = Finding(
    slug="stat-storm",
    severity="warning",
    title="a % b `c` <d> [e](f) | \x1b[31m\n::error::g",
    recoverable_ns=1_500_000_000,
    recoverable=Recoverable("h ``` i", "upper", 2_000_000_000),
    evidence=[Evidence("j\r\nk", {"calls": 1})],
    query=Query("SELECT '```\n'''"),
    remedy=Remedy("l", "```", "m"),
    sites=[Site("/n o/p,q:r\n.py", 3, "s"), Site("/n o/p,q:r\n.py", 3, "s"), Site("t.py", 0)],
    files=["/u\x07"],
    processes=[0],
    persistence=0.5,
    confidence=Confidence(0.7, "v", ["w"]),
)
OK = replace(HOSTILE, severity="ok", recoverable_ns=0, sites=[], persistence=None, remedy=None)
WRONG = replace(HOSTILE, severity="critical", recoverable=Recoverable("x", "none"), recoverable_ns=0)


def written(format: str, *findings: Finding, view: View | None = None, **insights: Any) -> str:
    if view is not None:
        return as_text([LogFindings("a.pyio", RUN, Insights(list(findings), **insights))], {}, view)
    return FORMATS[format]([LogFindings("a.pyio", RUN, Insights(list(findings), **insights))], found(third_party=False))


@pytest.fixture
def log(program: Runner) -> str:
    return str(succeeded(program.traced(PROGRAM)).path)


def test_json_of_a_run(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    # GIVEN the log of a run WHEN its findings are printed as JSON THEN they fit the schema of the documentation
    assert main(["insights", log, "--format", "json"]) == 0
    objects = json.loads(capsys.readouterr().out)
    jsonschema.validate(objects, SCHEMA)
    # THEN what the syncs cost is one of them (a busy disk may make others)
    (one,) = [one for one in objects if one["slug"] == "sync-per-write"]
    assert one["log"] == log
    assert one["sites"] == [{"file": str(Path(log).parent / "program.py"), "line": 7, "function": "<module>"}]


def test_text_of_a_run(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["insights", log]) == 0
    text = capsys.readouterr().out
    assert re.match(r"1  (INFO|WARNING|CRITICAL) +sync-per-write +up to [\d.]+ m?s of [\d.]+ m?s  program.py:7\n", text)
    assert "\n   before  for record in records:\n" in text and "SELECT" not in text
    # AND with more, what it rests on
    assert main(["insights", log, "--proof"]) == 0
    text = capsys.readouterr().out
    lines = text.split("\n")
    proof = lines.index("   proof:")
    assert max(len(line) for line in lines[:proof]) <= 80
    assert lines[proof + 1].startswith(f"pyio-trace sql {log} ") and "FROM operations" in text


def test_two_logs(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["insights", log, log]) == 0
    assert capsys.readouterr().out.count(f"==> {log} <==") == 2


def test_into_a_file(log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # GIVEN a file that is there already WHEN findings are written to it THEN they replace what it had
    output = tmp_path / "found.json"
    output.write_text("earlier")
    assert main(["insights", log, "--format", "json", "--output", str(output)]) == 0
    assert json.loads(output.read_text())[0]["slug"] == "sync-per-write"
    # but a log is never overwritten
    assert main(["insights", str(output), log, "--output", log]) == 2
    assert "[contradictory-options]" in capsys.readouterr().err


@pytest.mark.parametrize(("level", "status"), [("critical", 0), ("warning", 0), ("info", 1)])
def test_the_exit_status(log: str, level: str, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a run with one finding, where nothing is more than info
    monkeypatch.chdir(Path(log).parent)
    Path("pyproject.toml").write_text("[tool.pyio_trace.insights.severity]\nwarning_ms = 1e9\n")
    assert main(["insights", log, "--fail-on", level]) == status


def test_one_rule_only(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["insights", log, "--rule", "stat-storm"]) == 0
    assert capsys.readouterr().out == "No findings.\n"
    assert main(["insights", log, "--rule", "stat-strom"]) == 2
    assert "did you mean stat-storm?" in capsys.readouterr().err


def test_a_part_of_the_run(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["insights", log, "--line", "program.py:3"]) == 0
    assert capsys.readouterr().out == "No findings.\n"


def test_json_fits_its_schema() -> None:
    jsonschema.validate(json.loads(written("json", HOSTILE, OK, WRONG)), SCHEMA)
    assert json.loads(written("json")) == []


def test_sarif_fits_its_schema() -> None:
    log = json.loads(written("sarif", HOSTILE, OK, WRONG))
    jsonschema.validate(log, SARIF)
    (run,) = log["runs"]
    assert [result["level"] for result in run["results"]] == ["warning", "none", "error"]
    rule = run["tool"]["driver"]["rules"][run["results"][0]["ruleIndex"]]
    assert rule["id"] == run["results"][0]["ruleId"] == "stat-storm"
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "file:///n%20o/p%2Cq%3Ar%0A.py"}, "region": {"startLine": 3}}
    jsonschema.validate(json.loads(written("sarif")), SARIF)


def test_sarif_is_bounded() -> None:
    log = json.loads(written("sarif", *[OK] * (MOST_RESULTS + 7)))
    (run,) = log["runs"]
    assert len(run["results"]) == MOST_RESULTS and run["properties"] == {"resultsLeftOut": 7}


def test_sarif_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a line in a file of the current folder THEN it is named as a repository's service knows it
    monkeypatch.chdir(tmp_path)
    inside = replace(HOSTILE, sites=[Site(str(tmp_path / "sub" / "a.py"), 3)])
    result = json.loads(written("sarif", inside))["runs"][0]["results"][0]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "sub/a.py"
    assert "file=sub/a.py,line=3," in written("github", inside)


def test_sarif_has_no_links_of_a_log() -> None:
    # GIVEN a text that viewers of SARIF would show as a link WHEN written THEN its bracket is escaped, others are not
    text = json.loads(written("sarif", replace(HOSTILE, title="[a] b [c](https://d)")))
    assert text["runs"][0]["results"][0]["message"]["text"].startswith("[a] b \\[c](https://d)")


def test_annotations() -> None:
    # GIVEN texts with line breaks WHEN they are annotations THEN each is one command, and no other one begins
    lines = written("github", HOSTILE, OK, WRONG).split("\n")
    assert len(lines) == 4 and lines[3] == ""
    form = re.compile(r"::(error|warning|notice) (file=[^:,]*,line=[1-9]\d*,)?title=[^:,]+::\S.*")
    assert all(form.fullmatch(line) for line in lines[:3])
    assert [line.split(" ")[0] for line in lines[:3]] == ["::warning", "::notice", "::error"]


def test_markdown() -> None:
    text = written("markdown", HOSTILE, OK, suppressed=2, failed={"x": "y"})
    assert "\x1b" not in text and "<d>" not in text.replace("\\<d\\>", "")
    # AND a fence is longer than any in what it holds
    assert "````sql\nSELECT '```\n'''\n````" in text
    assert "2 findings suppressed" in text and "The rule x failed: y" in text


def test_text() -> None:
    text = written("text", HOSTILE, OK, WRONG, suppressed=1)
    assert "data at risk" not in text and "data at risk" in written("text", replace(WRONG, severity="warning"))
    assert "\x1b" not in text and "\r" not in text
    assert r"| \x1b[31m\n::error::g" in text  # a line break of a name is shown, not made
    assert "up to 1.50 s of 2 s" in text and "no cost" in text and "wrong results" in text
    assert "1 finding suppressed" in text


def test_what_was_left_out() -> None:
    given: dict[str, Any] = {"suppressed": 1, "more": {"stat-storm": 1234}, "failed": {"x": "y"}}
    assert "\n1,234 more: --all    " in written("text", HOSTILE, **given)
    text = written("text", HOSTILE, view=View(everything=True), **given)
    assert "1,234 further findings of stat-storm, with less time each.\n" in text


def test_the_section_of_the_summary() -> None:
    small = replace(HOSTILE, severity="info", recoverable_ns=1000)
    lines = findings_section(Insights([WRONG, HOSTILE, small, OK]), 3)
    assert lines[0].startswith("FINDINGS") and len(lines) == 4
    assert [line.rpartition("(")[2] for line in lines[1:]] == ["critical)", "warning)", "ok)"]
    assert max(map(len, lines)) <= 80
    assert findings_section(Insights([small]), 3) == []
    # one that has no line has its time all the same; one that is not about time has none
    lines = findings_section(Insights([replace(HOSTILE, sites=[], files=[]), replace(WRONG, sites=[], files=[])]), 3)
    assert lines[1].startswith("       1.50 s  ") and lines[2].startswith(" " * 15) and "0 ns" not in lines[2]


@pytest.mark.parametrize("name", ["a' OR true --", "a'\n\x1b\\ OR true --"])
def test_a_query_quotes_what_a_log_says(program: Runner, name: str) -> None:
    # GIVEN a file name that closes an SQL string and adds a condition, or one with a line break WHEN its rows are read
    outcome = succeeded(
        program.traced(r"""
        for name in ("a' OR true --", "a'\n\x1b\\ OR true --", "b"):
            with open(name, "w") as f: f.write("x")
        """)
    )
    query = sql.rows({"path": f"{program.folder}/{name}", "op": ["write", "w'rite"]})
    # THEN they are the ones of this file alone, and the query has no control characters
    assert all(line.isprintable() for line in query.text.split("\n")) and query.text.count("\n") == 6
    pytest.importorskip("duckdb")
    assert [int(row["bytes"]) for row in outcome.log.sql(query.text).to_pylist()] == [1]
