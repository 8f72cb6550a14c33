"""How bad and how sure a finding is, whatever its rule says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyio_trace.analysis.results.figures import Weakness
from pyio_trace.insights import insights, judgement, registry
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Query, Recoverable, Site
from pyio_trace.insights.judgement import judged, order, within_the_run
from pyio_trace.insights.rule import Rule
from pyio_trace.insights.settings import Settings
from tests.insights.test_formats import PROGRAM
from tests.support.findings import findings_of, only
from tests.support.programs import Runner

pytestmark = pytest.mark.once

MS = 1_000_000
LIMITS = Settings().of_severity()
FINDING = Finding(
    title="t",
    recoverable_ns=900 * MS,
    recoverable=Recoverable("h", "estimate", 1000 * MS),
    evidence=[Evidence("e")],
    query=Query("SELECT 1"),
    confidence=Confidence(0.9),
)


def of(finding: Finding, *known: Weakness) -> Finding:
    return judged(finding, "some-slug", LIMITS, list(known))


def bound(kind: str) -> Recoverable:
    return replace(FINDING.recoverable, bound=kind)


@pytest.mark.parametrize(
    ("finding", "severity"),
    [
        (FINDING, "critical"),
        (replace(FINDING, recoverable=bound("measured")), "critical"),
        # an upper bound alone is never critical
        (replace(FINDING, recoverable=bound("upper")), "warning"),
        (replace(FINDING, severity="info"), "info"),
        (replace(FINDING, severity="ok"), "ok"),
        # what is not sure
        (replace(FINDING, confidence=Confidence(0.6)), "warning"),
        (replace(FINDING, confidence=Confidence(0.3)), "info"),
        # what is short, or a small share of a long run
        (replace(FINDING, recoverable_ns=90 * MS), "info"),
        (replace(FINDING, recoverable=replace(bound("estimate"), of_wall_ns=100_000 * MS)), "info"),
        (replace(FINDING, recoverable=replace(bound("estimate"), of_wall_ns=10_000 * MS)), "warning"),
        # what is not about time
        (replace(FINDING, recoverable=bound("none"), recoverable_ns=0), "critical"),
    ],
)
def test_the_severity(finding: Finding, severity: str) -> None:
    assert of(finding).severity == severity


def test_times_that_cannot_be() -> None:
    assert of(replace(FINDING, recoverable_ns=1 << 62)).recoverable_ns == 1000 * MS
    assert of(replace(FINDING, recoverable_ns=-5)).recoverable_ns == 0
    assert of(replace(FINDING, severity="ok")).recoverable_ns == 0


def test_what_is_not_known_lowers_the_confidence() -> None:
    found = of(FINDING, Weakness("no-lines", "no lines", confidence=0.5))
    assert found.confidence.value == 0.45 and found.confidence.level == "low"
    assert found.confidence.lowered_by == ["no lines"] and found.severity == "info"


def test_the_order() -> None:
    wrong = of(replace(FINDING, recoverable=bound("none"), recoverable_ns=0))
    small, ok = of(replace(FINDING, recoverable_ns=MS)), of(replace(FINDING, severity="ok"))
    large = of(FINDING)
    assert sorted([ok, small, large, wrong], key=order) == [wrong, large, small, ok]
    # AND what is sure to cost less comes before what may cost more, if it is worse
    unsure = of(replace(FINDING, recoverable_ns=2 * FINDING.recoverable_ns, severity="info"))
    assert sorted([unsure, large], key=order) == [large, unsure]


def test_times_add_up_to_the_run_at_most() -> None:
    # GIVEN findings of a run of 10 s that promise 8 s at most, 7 s, 6 s at most, and one that costs nothing
    def promising(seconds: int, bound: str, severity: str = "warning") -> Finding:
        recoverable = Recoverable("x", bound, 10 * 10**9)
        return replace(FINDING, recoverable=recoverable, recoverable_ns=seconds * 10**9, severity=severity)

    found = [promising(8, "upper"), promising(7, "estimate"), promising(6, "upper"), promising(0, "upper", "ok")]
    # WHEN their times are limited THEN what is certain keeps its time, and the first ones get the rest
    limited = within_the_run(found, LIMITS)
    assert [one.recoverable_ns // 10**9 for one in limited] == [7, 3, 0, 0]
    assert [one.severity for one in limited] == ["warning", "warning", "info", "ok"]
    assert all("other findings" in one.recoverable.how for one in limited[1:3])


def test_a_general_rule_gives_way() -> None:
    rules = {"specific": Rule("g", lambda *_: []), "general": Rule("g", lambda *_: [], general=True)}
    here, there = Site("/a.py", 1), Site("/a.py", 2)

    def found(slug: str, time: int, *sites: Site) -> Finding:
        return replace(FINDING, slug=slug, recoverable_ns=time, sites=list(sites))

    # GIVEN a general finding WHEN another rule finds at least half of its time at one of its lines THEN it goes
    specific = found("specific", 50, here)
    for lines in ((here, there), (there, here)):
        assert insights._specific([found("general", 100, *lines), specific], rules) == [specific]
    # AND it stays beside less time, another line, or none
    for general in (found("general", 101, here), found("general", 100, there), found("general", 100)):
        assert insights._specific([general, specific], rules) == [general, specific]


def test_a_straggler_is_named_beside_what_else_its_line_does() -> None:
    # GIVEN a process with most of the bytes, whose line has slow first writes by chance THEN both are findings
    line = [Site("/a.py", 1)]
    found = [replace(FINDING, slug=slug, sites=line) for slug in ("stragglers", "slow-first-operations")]
    assert insights._specific(found, registry.found()) == found


def test_a_run_without_lines_says_so(program: Runner) -> None:
    # GIVEN a log without stacks WHEN findings are made THEN those that do not need a line say what is missing
    assert only(findings_of(program.traced(PROGRAM)), "sync-per-write").confidence.lowered_by == []
    without = program.traced(PROGRAM, log="b.pyio", env={"PYIO_TRACE_STACKS": "off"})
    _, found = insights.find(without.log, registry.found(), Settings())
    assert any("has no line" in text for text in found.weak)


def test_a_run_that_is_only_counted_says_so(program: Runner) -> None:
    outcome = program.traced(PROGRAM, env={"PYIO_TRACE_MODE": "profile"})
    _, found = insights.find(outcome.log, registry.found(), Settings())
    assert found.failed == {} and any("mode profile" in text for text in found.weak)


@pytest.mark.frameworks("torch")
def test_files_of_loader_workers(program: Runner) -> None:
    # GIVEN a DataLoader whose workers read a small file for each item, and whose trainer takes its time
    outcome = program.traced(
        """
        import os, time
        import numpy
        from torch.utils.data import DataLoader
        class Images:
            def __len__(self): return 1200
            def __getitem__(self, n): return numpy.load(f"d/{n}.npy")
        def main():
            os.mkdir("d")
            for n in range(1200): numpy.save(f"d/{n}.npy", numpy.zeros(8))
            for batch in DataLoader(Images(), 60, num_workers=2): time.sleep(0.05)
        if __name__ == "__main__":
            main()
        """
    )
    # THEN what the workers do costs at most what the trainer waited for it
    summary, _ = insights.find(outcome.log, {}, Settings())
    assert summary.overview is not None
    waited = sum(one.not_ready_ns for one in summary.overview.loaders)
    (read,) = [one for one in findings_of(outcome) if one.slug == "small-files" and one.sites[0].line == 7]
    assert read.recoverable_ns <= waited


@pytest.mark.parametrize(
    ("argv", "followed", "lasted", "missed"),
    [
        (["gzip", "data"], False, 30, True), (["gzip", "data"], False, None, True), (["gzip", "data"], True, 30, False),
        (["gzip", "data"], False, 20, False), (["/bin/uname", "-p"], False, 500, False), ([], False, 500, True),
    ],
)  # fmt: skip
def test_children_that_weaken_findings(argv: list[str], followed: bool, lasted: int | None, missed: bool) -> None:
    # GIVEN a child in a run of 1,000 ns WHEN findings are weighed
    process = {"argv": argv, "followed": followed, "begin": 100, "end": None if lasted is None else 100 + lasted}
    # THEN it weakens them only if it may have done something that the log has not
    assert judgement._is_missed(process, 1000) == missed


def test_what_is_wrong_comes_first_and_what_is_at_risk_after_what_costs_time() -> None:
    wrong = replace(FINDING, recoverable=bound("none"), recoverable_ns=0)
    at_risk, short = replace(wrong, severity="warning"), replace(FINDING, recoverable_ns=1, severity="info")
    assert sorted([at_risk, short, FINDING, wrong], key=order) == [wrong, FINDING, at_risk, short]
