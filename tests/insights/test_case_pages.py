"""The pages of docs/cases name lines that are there, and advise what the findings advise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyio_trace.insights.rules import handle_over_fork, one_does_all
from tests.docs.pages import ROOT
from tests.insights.test_cases import EXPECTED

pytestmark = pytest.mark.once
PAGES = ROOT / "docs" / "cases"


@pytest.mark.parametrize("name", EXPECTED)
def test_the_line_of_a_page(name: str) -> None:
    # GIVEN a case's page WHEN its finding's line is looked up THEN it is the one that the case is about
    text = (PAGES / f"{name.replace('_', '-')}.md").read_text()
    found = re.search(r"^\| found \| `(\S+)`,? at (?:`(\S+):(\d+)`|no line)", text, re.M)
    assert found and found[1] in (EXPECTED[name].slug, *EXPECTED[name].beside)
    if found[2]:
        lines = Path(ROOT / "examples" / "cases" / found[2]).read_text().splitlines()
        assert EXPECTED[name].line in lines[int(found[3]) - 1]
        assert re.search(rf"^(?:   at |.*  ){re.escape(found[2])}:{found[3]}$", text, re.M)


@pytest.mark.parametrize(
    ("page", "code"),
    [
        ("funnel", one_does_all._PROCESSES["write"].after),
        ("fork-trap", handle_over_fork._remedy("", of_loader=True).after),
    ],
)
def test_the_remedy_of_a_page(page: str, code: str) -> None:
    shown = "\n".join(line.strip() for line in (PAGES / f"{page}.md").read_text().splitlines())
    assert "\n".join(line.strip() for line in code.splitlines()).partition("\n")[2] in shown
