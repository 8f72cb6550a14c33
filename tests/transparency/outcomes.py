"""What a run of a test module said of each test, and how two runs compare.

A test's outcome is one line of text: `passed`, `failed: AssertionError`,
`skipped: requires zlib`, ...  Two runs are alike when every test has the same
line in both, so a test that is skipped for another reason, or fails in another
way, is a difference too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

#: The end of a whole module, among its tests: a crash or a hang is a difference like any other.
WHOLE = "(the module as a whole)"

# "FAIL: test_x (test.test_io.CTest.test_x) (i=3)": a subtest's failure is in no other place.
_HEADING = re.compile(r"^(FAIL|ERROR): \S+ \(([\w.]+)\)(.*)$", re.MULTILINE)
# What differs between any two runs: addresses, process numbers, temporary names, durations.
_VARIES = re.compile(r"0x[0-9a-f]+|\b\d+(\.\d+)? ?m?s(ec(onds)?)?\b|/tmp/\S+|\b\d{3,}\b")


@dataclass
class Run:
    """One run of one module.  status: its exit status (negative: a signal); None: stopped, its time was up."""

    traced: bool
    status: int | None
    tests: dict[str, str] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)  # what the tracer printed on stderr: must be none
    operations: int = 0  # rows in the log
    processes: int = 0
    losses: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    def count(self) -> Counter[str]:
        """Tests by the first word of their outcome."""
        return Counter(outcome.split(":")[0] for name, outcome in self.tests.items() if name != WHOLE)


def read(report: Path, text: str, status: int | None) -> dict[str, str]:
    """Test -> outcome, from a JUnit report and the output of the run.

    When there is no report (the process crashed), the tests are those that the output names.
    """
    tests: dict[str, str] = {}
    try:
        cases = list(ElementTree.parse(report).iter("testcase"))
    except (OSError, ElementTree.ParseError):
        cases = []
    for case in cases:
        name = ".".join(filter(None, (case.get("classname"), case.get("name"))))
        if name:
            tests[_unused(name, tests)] = _outcome(case)
    for kind, name, subtest in _HEADING.findall(text):
        known = f"{name}{_plain(subtest)}"
        if tests.get(known, "passed").startswith("passed"):
            tests[known] = "failed" if kind == "FAIL" else "error"
    if not cases:
        for name, outcome in re.findall(r"^\S+ \(([\w.]+)\)(?:\n.*?)? \.\.\. (.*)$", text, re.MULTILINE):
            tests.setdefault(name, "passed" if outcome == "ok" else _plain(outcome))
    tests[WHOLE] = _ending(text, status)
    return tests


def _outcome(case: ElementTree.Element) -> str:
    if case.get("outcome") == "UNEXPECTED_SUCCESS" or case.find("outcome") is not None:
        return "unexpected success"
    if case.find("output") is not None:
        return "expected failure"
    for tag, word in (("failure", "failed"), ("error", "error")):
        found = case.find(tag)
        if found is not None:
            first = (found.get("message") or "").partition("\n")[0]
            kind = _plain(found.get("type") or first.split(":")[0])
            return f"{word}: {kind}" if kind else word
    skipped = case.find("skipped")
    if skipped is not None:
        if skipped.get("type") == "pytest.xfail":
            return "expected failure"
        return f"skipped: {_plain(skipped.get('message') or skipped.text or '')}"
    return "passed"


def _ending(text: str, status: int | None) -> str:
    """How the process ended, with what regrtest found changed in its own interpreter (environment, files, threads)."""
    if status is None:
        return "stopped: out of time"
    notes = sorted(set(re.findall(r"^(?:Warning -- |test\w+ (?=skipped -- ))(.*)$", text, re.MULTILINE)))
    return ": ".join(filter(None, (f"status {status}", _plain("; ".join(notes)))))


def _plain(text: str) -> str:
    return _VARIES.sub("#", " ".join(text.split()))[:200]


def _unused(name: str, tests: Mapping[str, str]) -> str:
    if name not in tests:
        return name
    number = 2
    while f"{name} #{number}" in tests:
        number += 1
    return f"{name} #{number}"


def differences(one: Run, other: Run) -> Iterator[str]:
    """Names of the tests whose outcomes are not the same; of tests that one run did not come to, its end says why."""
    ended = all(run.status is not None and run.status >= 0 for run in (one, other))
    for name in dict.fromkeys([*one.tests, *other.tests]):
        if one.tests.get(name) != other.tests.get(name) and (ended or name in one.tests.keys() & other.tests.keys()):
            yield name


@dataclass
class Difference:
    """A test that did not end the same, with its outcomes in all the runs that were made of it."""

    test: str
    untraced: list[str]
    traced: list[str]

    @property
    def stable(self) -> bool:
        """Whether it is more than chance: no outcome came up both ways, or a crash or a hang only when traced."""
        new = set(self.traced) - set(self.untraced)
        return new == set(self.traced) or any(outcome.startswith(("status -", "stopped")) for outcome in new)

    def __str__(self) -> str:
        return f"{self.test}: untraced {_tally(self.untraced)}; traced {_tally(self.traced)}"


def _tally(outcomes: list[str]) -> str:
    return ", ".join(f"{outcome} ({times}/{len(outcomes)})" for outcome, times in Counter(outcomes).most_common())
