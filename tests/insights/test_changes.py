"""Findings of several runs of a program: which are new, gone, worse or better."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pyio_trace.cli.main import main
from pyio_trace.insights.changes import changes
from pyio_trace.insights.finding import Finding, Recoverable, Site
from pyio_trace.insights.insights import Insights
from tests.insights.test_formats import HOSTILE, SCHEMA
from tests.support.programs import Runner, succeeded

pytestmark = pytest.mark.once
jsonschema = pytest.importorskip("jsonschema")
MS = 1_000_000


def at(line: int, ms: float, function: str = "f", file: str = "/a/t.py", **rest: object) -> Finding:
    """A finding of a rule."""
    site = [Site(file, line, function)] if line else []
    return replace(HOSTILE, sites=site, recoverable_ns=int(ms * MS), **{"files": ["/data"], **rest})  # type: ignore[arg-type]


def kinds(before: list[Finding], after: list[Finding], **more: dict[str, int]) -> list[tuple[str, int, int]]:
    """(kind, line before, line after) of each change; 0: not there."""

    def line(finding: Finding | None) -> int:
        return finding.sites[0].line if finding is not None else 0

    found = changes(Insights(before), Insights(after, **more))
    return [(change.kind, line(change.before), line(change.after)) for change in found]


def test_worse_and_better() -> None:
    before = [at(1, 100), at(2, 100), at(3, 100), at(4, 2)]
    after = [at(1, 120), at(2, 80), at(3, 101), at(4, 6)]  # the last two are noise
    assert kinds(before, after) == [("worse", 1, 1), ("better", 2, 2), ("same", 3, 3), ("same", 4, 4)]


def test_new_and_gone() -> None:
    other = at(9, 50, file="/a/other.py")
    assert kinds([at(1, 10)], [at(1, 10), other]) == [("new", 0, 9), ("same", 1, 1)]
    assert kinds([at(1, 10), other], [at(1, 10)]) == [("gone", 9, 0), ("same", 1, 1)]
    # what costs nothing is neither
    assert kinds([replace(other, severity="ok", recoverable_ns=0)], []) == []
    # nor what may be among findings that were counted only
    assert kinds([other], [], more={other.slug: 3}) == []


def test_lines_that_have_moved() -> None:
    # GIVEN findings whose lines were moved: within the function, to another function, to another folder
    before = [at(1, 10, "f"), at(20, 10, "g"), at(30, 10, "h", "/a/u.py")]
    after = [at(7, 10, "f"), at(26, 10, "k"), at(30, 10, "h", "/b/u.py")]
    # THEN they are the same findings; a line that is where it was comes first
    assert kinds(before, after) == [("same", 1, 7), ("same", 30, 30), ("same", 20, 26)]
    assert kinds([at(1, 10), at(5, 10)], [at(5, 10), at(6, 10)]) == [("same", 5, 5), ("same", 1, 6)]


def test_severities_without_times() -> None:
    wrong = at(1, 0, recoverable=Recoverable("x", "none"), severity="warning")
    assert kinds([wrong], [replace(wrong, severity="critical")]) == [("worse", 1, 1)]
    assert kinds([replace(at(1, 0), severity="ok")], [at(1, 2)]) == [("worse", 1, 1)]


PROGRAM = """
import os, sys
def write(count):
    with open("log.txt", "w") as f:
        for n in range(count):
            f.write("record\\n")
            f.flush()
            os.fsync(f.fileno())
if sys.argv[1] == "before":
    write(40)
    for n in range(2000): os.listdir(".")
else:
    write(40)
    for n in range(2000): os.path.exists("none")
"""


def test_runs_of_a_program(program: Runner, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # GIVEN two runs of a program, one after the other, that syncs records in both, then lists, then asks
    logs = [str(succeeded(program.traced(PROGRAM, how, log=f"{how}.pyio")).path) for how in ("before", "after")]
    # WHEN both are looked at THEN it is said what is gone and what is new
    assert main(["insights", *logs]) == 0
    _, _, compared = capsys.readouterr().out.partition(f"==> from {logs[0]} to {logs[1]} <==\n")
    said = [line.split() for line in compared.splitlines()]
    assert said[0] == ["before", "after"]
    assert {(words[0], words[-2]) for words in said[1:]} >= {("gone", "list-again"), ("new", "missing-paths")}
    assert all(len(line) <= 80 for line in compared.splitlines())
    # AND the same in JSON, which fits its schema
    assert main(["insights", *logs, "--format", "json"]) == 0
    objects = json.loads(capsys.readouterr().out)
    jsonschema.validate(objects, SCHEMA)
    changed = {(one["slug"], one["log"]): one.get("change") for one in objects}
    assert changed["list-again", logs[0]] == "gone" and changed["missing-paths", logs[1]] == "new"
    assert changed["sync-per-write", logs[0]] is None and changed["sync-per-write", logs[1]] is not None
    assert main(["insights", *logs, "--format", "markdown"]) == 0
    assert "# Changes" in capsys.readouterr().out


def test_logs_that_are_not_compared(program: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    # GIVEN the log of a run, and that of another program WHEN one is given twice, or both THEN nothing is compared
    one = str(succeeded(program.traced(PROGRAM, "before", log="one.pyio")).path)
    other = str(succeeded(program.traced("open('x', 'w').write('x')", name="other.py", log="other.pyio")).path)
    for logs in ([one, one], [one, other]):
        assert main(["insights", *logs]) == 0
        assert "==> from" not in capsys.readouterr().out
