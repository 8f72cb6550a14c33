"""The figures on pages are those of the code and of the pages of evidence; pages about the same things agree."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from pyio_trace.cli.main import COMMANDS
from pyio_trace.cli.parser import Parser
from pyio_trace.report.text import SEARCHED, SEARCHED_AT_END

pytestmark = pytest.mark.once
ROOT = Path(__file__).resolve().parents[2]
EVIDENCE = ROOT / "docs" / "evidence"
README = (ROOT / "README.md").read_text()


def test_calls_compared_with_strace() -> None:
    # GIVEN the table of the page WHEN its programs and calls are summed THEN README says the same
    rows = re.findall(
        r"^\| \w[\w ]+: [^|]+ \| ([\d,]+) \|.* \| ([\d,]+) \|$", (EVIDENCE / "fidelity.md").read_text(), re.M
    )
    calls = sum(int(calls.replace(",", "")) for calls, _ in rows)
    assert f"{calls:,} system calls of {len(rows)} programs" in README
    assert {unexplained for _, unexplained in rows} == {"0"}


def test_tests_with_and_without_tracing() -> None:
    # GIVEN the page's first table WHEN the tests on each Python are summed THEN README says the same
    rows = re.findall(
        r"^\| 3\.\d+\.\d+ \| [\d,]+ \| ([\d,]+) \|.* \| ([\d,]+) \|$", (EVIDENCE / "transparency.md").read_text(), re.M
    )
    assert f"{sum(int(tests.replace(',', '')) for tests, _ in rows):,} tests" in " ".join(README.split())
    assert {unexplained for _, unexplained in rows} == {"0"}


def added(row: str) -> float:
    """The column "added" of the first row of the benchmarks that begins so, on disk where there are two."""
    text = (EVIDENCE / "benchmarks.md").read_text()
    found = re.search(rf"^\| {re.escape(row)} +\|(?: disk +)?(?: +)?\|[^|]+\|[^|]+\| \+([\d.]+) ", text, re.M)
    assert found, row
    return float(found[1])


def test_costs() -> None:
    text = " ".join(README.split())
    assert f"costs {added('Python, os.pread 4 KiB, stack of 3'):.0f} ns more" in text
    assert f"`f.read(16)` {added('Python, f.read(16)'):.0f} ns" in text
    assert f"starting the program {added('start-up, python -m pyio_trace'):.0f} ms" in text


def test_number_of_rules() -> None:
    rules = list((ROOT / "pyio_trace" / "insights" / "rules").glob("[a-z]*.py"))
    assert f"Some {round(len(rules), -1)} rules" in README


def test_logs_in_which_findings_are_looked_for() -> None:
    text = " ".join((ROOT / "docs" / "reference" / "summary.md").read_text().split())
    assert f"in up to {SEARCHED_AT_END:,} operations, `pyio-trace summary` in up to {SEARCHED:,}" in text


@pytest.mark.parametrize(
    ("option", "page", "words"),
    [
        ("--path", "reference/modes.md", r"\n((?:`\w+`(?:, | and )?)+) take the same options"),
        ("--jobs", "how-to/clusters.md", r" ((?:`\w+`(?:, | and )?)+) can also\nread them in several processes"),
    ],
)
def test_commands_that_take_an_option(option: str, page: str, words: str) -> None:
    # GIVEN the page that says which commands take an option WHEN they are asked THEN these do, and no others
    found = re.search(words, (ROOT / "docs" / page).read_text())
    assert found
    takes = set()
    for name in COMMANDS.keys() - {"run"}:
        parser = Parser(f"pyio-trace {name}", "")
        import_module(f"pyio_trace.cli.commands.{name}_command").arguments(parser)
        takes |= {name} if option in parser.format_help() else set()
    assert sorted(re.findall(r"`(\w+)`", found[1])) == sorted(takes)


def test_cases_and_their_index() -> None:
    # GIVEN the table of all cases WHEN it is compared with the case's pages THEN each case has a page, and both agree
    folder = ROOT / "docs" / "cases"
    rows = re.findall(
        r"^\| \d+ \| \[(.+)\]\((\S+)\) \| `(\S+)` \| (\S+)[^|]* \| ([^|]+) \|", (folder / "index.md").read_text(), re.M
    )
    assert {page for _, page, *_ in rows} == {path.name for path in folder.glob("*.md")} - {"index.md"}
    assert len(rows) == len(list((ROOT / "examples" / "cases").glob("*.py"))) - 1  # case.py is what they have in common
    for title, page, slug, estimated, measured in rows:
        text = (folder / page).read_text()
        assert text.startswith(f"# {title}\n") and f"| found | `{slug}`" in text, page
        assert re.search(rf"^\| estimated gain, \w+(?: most)? \| {re.escape(estimated.rstrip(':'))}", text, re.M), page
        assert measured == "-" or f"| measured gain, untraced | {measured}" in text, page
