"""What the calls of a finding's lines did over time, on logs made by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pyio_trace.analysis.reducer import scan
from pyio_trace.insights.finding import MOTIFS, Finding, Query, Recoverable, Site
from pyio_trace.insights.line_times import CallTimes, LineTimes
from pyio_trace.join.sources.opening import open_log
from pyio_trace.report.findings_screen import View, findings_lines
from tests.support.findings import findings_of, only
from tests.support.logwriter import LogWriter
from tests.support.programs import Runner

pytestmark = pytest.mark.once
US = 1000


def times(path: Path, durations: list[int], line: int = 7, every: int = 1000 * US) -> LineTimes:
    """Reads of one line, one each so many ns."""
    writer = LogWriter()
    process = writer.process(100, begin=0, end=(len(durations) + 1) * every, argv=["python", "job.py"])
    desc = writer.desc(3, "/d/data", kind=1, dev=1, ino=11)
    stack = writer.stack((writer.code("/job.py", "work"), line))
    thread = writer.thread(process, 100)
    for n, duration in enumerate(durations):
        thread.record(
            "PREAD", begin=n * every, duration=duration, desc=desc, stack=stack, aux=3, offset=0, size=10, result=10
        )
    (found,) = scan(open_log(writer.save(path)), [CallTimes()])
    return found


@pytest.mark.parametrize(
    ("duration", "motif"),
    [
        (lambda n: 100 * US, "steady"),
        (lambda n: (100 + n % 7 * 10) * US, "steady"),
        (lambda n: (900 if n < 30 else 100) * US, "warm-up"),
        (lambda n: (10 + n) * US, "worsening"),
        (lambda n: (900 if 40 <= n < 80 else 100) * US, None),  # longest in the middle
    ],
)
def test_motifs(duration: Callable[[int], int], motif: str | None, tmp_path: Path) -> None:
    # GIVEN 120 reads of one line, of which each takes what the case says WHEN they are looked at THEN it has its word
    found = times(tmp_path / "run.pyio", [duration(n) for n in range(120)])
    assert found.motif([Site("/job.py", 7, "work")]) == motif
    # THEN of a line without calls there is none
    assert found.motif([Site("/job.py", 8, "work")]) is None and found.motif([]) is None


def test_too_few_calls(tmp_path: Path) -> None:
    assert times(tmp_path / "few.pyio", [US * (n + 1) for n in range(29)]).motif([Site("/job.py", 7, "work")]) is None


def test_a_short_burst(tmp_path: Path) -> None:
    # GIVEN 100 reads within 100 us, and one 10 s later WHEN they are looked at THEN their bins are too few to tell
    found = times(tmp_path / "burst.pyio", [US // 2] * 100, every=US)
    assert found.motif([Site("/job.py", 7, "work")]) is not None
    writer = times(tmp_path / "far.pyio", [US // 2] * 30 + [10**10], every=US)
    assert writer.motif([Site("/job.py", 7, "work")]) is None


def test_findings_have_one(program: Runner) -> None:
    # GIVEN a run with a finding WHEN it is written as JSON and text THEN it has a motif, or none
    outcome = program.traced("import os\nfor n in range(5000): os.stat('program.py')")
    finding = only(findings_of(outcome), "stat-storm")
    assert finding.motif in (None, *MOTIFS)
    assert finding.to_dict()["motif"] == finding.motif


@pytest.mark.parametrize("motif", [*MOTIFS, None])
def test_text_says_what_is_not_steady(motif: str | None) -> None:
    from pyio_trace.insights.insights import Insights

    finding = Finding("x", 10**9, Recoverable("x", "upper", 10**9), [], Query(""), motif=motif, severity="info")
    text = " ".join(" ".join(findings_lines(Insights([finding]), view=View(everything=True))).split())
    assert ("over time" in text) == (motif in ("warm-up", "worsening"))
    assert motif in (None, "steady") or MOTIFS[motif] in text
