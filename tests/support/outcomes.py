"""`pytest --outcomes FILE`: what .ci/run needs to know of a session, as JSON.

{"counts": {"passed": N, "failed": N, "skipped": N},
 "passed": [NODEID],
 "failed": {NODEID: {"text": the failure, "load": the machine's load average of the last minute}},
 "seconds": {NODEID: of its phases}}

The file is there only once the session has ended by itself: one that died leaves none.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path

import pytest


class Outcomes:
    """A plugin that collects the reports of one session.  Under pytest-xdist, of the process that has them all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.passed: list[str] = []
        self.counts = {"passed": 0, "failed": 0, "skipped": 0}
        self.failed: dict[str, dict[str, object]] = {}
        self.seconds: dict[str, float] = defaultdict(float)
        path.unlink(missing_ok=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A phase of a test: it has failed if any of its three did."""
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            self._fail(report)
        elif report.skipped or report.when == "call":
            self.counts[report.outcome] += 1
            if report.passed:
                self.passed.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file whose tests could not even be found has failed as a whole."""
        if report.failed:
            self._fail(report)

    def pytest_sessionfinish(self) -> None:
        """Writes the file."""
        self.counts["failed"] = len(self.failed)
        passed = [nodeid for nodeid in self.passed if nodeid not in self.failed]
        found = {"counts": self.counts, "passed": passed, "failed": self.failed, "seconds": self.seconds}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(found, indent=1))

    def _fail(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        sections = "".join(f"\n--- {title}\n{text}" for title, text in report.sections)
        before = self.failed.get(report.nodeid, {}).get("text", "")
        self.failed[report.nodeid] = {"text": f"{before}{report.longreprtext}{sections}", "load": os.getloadavg()[0]}


def passed_in(path: Path) -> set[str]:
    """The tests that passed in the session that wrote this file: nothing if it is not there."""
    return set(json.loads(path.read_text()).get("passed", ())) if path.exists() else set()
