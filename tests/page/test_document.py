"""What the page says, from figures made by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyio_trace.insights.finding import Finding, Recoverable, Remedy, Site
from pyio_trace.insights.insights import Insights
from pyio_trace.join.sources.opening import open_log
from pyio_trace.page import document as page_document
from pyio_trace.page.document import document, find
from tests.insights.test_formats import HOSTILE
from tests.report.test_overview import MS, overview
from tests.support.smallrun import small_run
from tests.support.summaries import summary

pytestmark = pytest.mark.once

SLOW = replace(
    HOSTILE, title="Each chunk of /x is unpacked 10 times", sites=[Site("/w/train.py", 9, "read")],
    remedy=Remedy("A larger cache.\nIt holds 1 MiB.", "h5py.File(path)", "with a as b:\n    c()"),
)  # fmt: skip
WRONG = replace(SLOW, title="Two processes share a position", recoverable=Recoverable("x", "none"), severity="critical")


def facts(tmp_path: Path, insights: Insights | None, **parts: Any) -> dict[str, Any]:
    run = {"command": ["/usr/bin/python3", "/w/train.py"], "wall": 4180 * MS, "calls": 199_025, "folder": "/w"}
    given = summary(overview=parts.pop("given", overview()), run=run | parts.pop("run", {}), **parts)
    return document(open_log(small_run(tmp_path / "a.pyio")), given, insights, None)


def of(*findings: Finding) -> Insights:
    return Insights([*findings])


def test_the_answer_is_the_verdict(tmp_path: Path) -> None:
    went = [
        "Taking over batches that were ready took the trainer 388 ms.",
        "124 of 126 batches were ready when asked for: fetching is not the bottleneck.",
    ]
    assert facts(tmp_path, of(SLOW))["answer"] == went
    # GIVEN a wrong result THEN it comes before any seconds
    assert facts(tmp_path, of(WRONG, SLOW))["answer"] == ["Two processes share a position.", *went]
    assert facts(tmp_path, of())["answer"][2].startswith("No finding: ")
    assert facts(tmp_path, None)["answer"] == went


def test_every_run_has_an_answer(tmp_path: Path) -> None:
    assert facts(tmp_path, None, given=None)["answer"] == ["199,025 calls in 4.18 s."]
    assert facts(tmp_path, of(), given=None, run={"calls": 0})["answer"] == ["No operation was recorded."]


def test_the_bars_are_those_of_the_summary(tmp_path: Path) -> None:
    kinds = facts(tmp_path, of())["kinds"]
    assert [one["name"] for one in kinds] == ["train.py", "4 DataLoader workers"]
    for one in kinds:  # the states add up
        assert sum(time for _, _, time in one["states"]) == one["wall"]


def test_a_finding_with_its_remedy(tmp_path: Path) -> None:
    (one, wrong) = facts(tmp_path, of(SLOW, WRONG))["findings"]
    assert (one["title"], one["cost"], one["time"]) == (SLOW.title, "up to 1.50 s", SLOW.recoverable_ns)
    assert one["remedy"] == "A larger cache. It holds 1 MiB."
    assert (one["before"], one["after"]) == (["h5py.File(path)"], ["with a as b:", "    c()"])
    assert one["sites"][0] == {
        "text": "/w/train.py:9:read",
        "place": "train.py:9",
        "line": 9,
        "find": "w/train.py:9",
        "source": [],
    }
    assert (wrong["cost"], wrong["time"]) == ("wrong results", None)


def test_what_is_left_out_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_document, "MOST_FINDINGS", 1)
    monkeypatch.setattr(page_document, "MOST_PROCESSES", 1)
    monkeypatch.setattr(page_document, "MOST_ROWS", 1)
    said = facts(tmp_path, of(SLOW, WRONG))
    assert len(said["findings"]) == len(said["processes"]) == len(said["lines"]) == len(said["files"]) == 1
    assert said["notes"] == ["1 further finding with less time each: pyio-trace insights has all of them."]
    assert said["processes_more"] == 1 and said["more"]["lines"] > 0 and said["more"]["files"] > 0


def test_lines_lead_to_their_operations(tmp_path: Path) -> None:
    rows = facts(tmp_path, of())["lines"]
    assert rows[0]["place"] == "train.py:9" and rows[0]["what"].startswith("4,000 numpy.load of ")
    assert rows[0]["find"].endswith("train.py:9")
    texts = ("/a/b/c.py:12:f", "c.py:1:<module>", "task load", "(before the program's first line)")
    assert [find(text) for text in texts] == ["b/c.py:12", "c.py:1", "", ""]
