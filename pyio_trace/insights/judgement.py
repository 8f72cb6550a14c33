"""Gives findings their severity and confidence.

A rule only states times: the severity follows from them in the same way for all rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyio_trace.analysis.results.figures import Weakness
from pyio_trace.enums import Layer
from pyio_trace.insights.finding import LEVELS, SEVERITIES, Confidence, Finding, Verified
from pyio_trace.insights.observed import Observed
from pyio_trace.insights.rule import Limit

#: Thresholds that apply to all findings; [tool.pyio_trace.insights.severity] overrides them.
LIMITS: Mapping[str, Limit] = {
    "critical_share": Limit(0.2, "of the wall time, from which on a finding may be critical"),
    "critical_ms": Limit(500, "recoverable, from which on a finding may be critical"),
    "warning_share": Limit(0.05, "of the wall time, from which on a finding may be a warning"),
    "warning_ms": Limit(100, "recoverable, from which on a finding may be a warning"),
    "few_share": Limit(0.05, "of the wall time, recoverable, from which on it does not matter how few the calls are"),
}
_MS = 1_000_000
#: A child that lived for less than this share of the run does not weaken findings.
_MOMENT = 0.02
#: Nor do these commands, which libraries run when they are imported: they read no data.
_ABOUT_THE_HOST = {"uname", "hostname", "id", "whoami", "getconf", "nproc"}


def weaknesses(observed: Observed) -> list[Weakness]:
    """What weakens every finding of a run."""
    found = [one for one in observed.summary.weaknesses if one.confidence < 1]
    if any(_is_missed(process, observed.wall_ns) for process in observed.processes):
        found.append(Weakness("unfollowed-child", "a child was not followed", confidence=0.85))
    if observed.summary.run.mode != "trace":
        text = f"mode {observed.summary.run.mode}: not every operation has a row"
        found.append(Weakness("few-rows", text, confidence=0.7))
    if observed.calls.more:
        text = f"{observed.calls.more:,} sums of few calls were added up without their paths"
        found.append(Weakness("few-calls", text, confidence=0.95))
    calls = observed.calls.where(layer=(Layer.POSIX, Layer.STDIO))
    whole, nameless = calls.total("time"), calls.where(site=-1, inside=0).total("time")
    if whole and nameless > 0.1 * whole:
        share = min(nameless / whole, 1.0)
        text = f"{share:.0%} of the time in calls on files has no line"
        found.append(Weakness("lines-missing", text, share=share, confidence=1 - share / 2))
    return found


def _is_missed(process: Mapping[str, Any], wall: int) -> bool:
    """Whether a process was not followed that may have done something."""
    end, program = process["end"], (process["argv"] or [""])[0].rpartition("/")[2]
    lasted = end is None or end - process["begin"] > _MOMENT * wall
    return not process["followed"] and lasted and program not in _ABOUT_THE_HOST


def judged(finding: Finding, slug: str, limits: Mapping[str, float], known: list[Weakness]) -> Finding:
    """The finding with its slug, its severity and its confidence.

    limits: a value for each of LIMITS.  A rule's own severity is the worst that
    its finding can have.  Small times are info.  Only what is done again for
    certain, or was measured, can be critical: an upper bound alone never is.
    What is not about time has the severity that its rule gives it.
    """
    value = finding.confidence.value
    for weakness in known:
        value *= weakness.confidence
    reasons = [*finding.confidence.lowered_by, *(weakness.text for weakness in known)]
    confidence = Confidence(round(min(max(value, 0.0), 1.0), 2), finding.confidence.why, reasons)
    wall = finding.recoverable.of_wall_ns
    time = min(max(finding.recoverable_ns, 0), wall) if finding.severity != "ok" else 0
    severity = finding.severity
    if severity != "ok" and finding.recoverable.is_time:
        by_time = _by_time(time, wall, confidence, finding.recoverable.bound, limits)
        severity = max(severity, by_time, key=SEVERITIES.index)
    return replace(finding, slug=slug, severity=severity, recoverable_ns=time, confidence=confidence)


def _by_time(time: int, wall: int, confidence: Confidence, bound: str, limits: Mapping[str, float]) -> str:
    def reaches(word: str) -> bool:
        return wall > 0 and time >= limits[f"{word}_ms"] * _MS and time >= limits[f"{word}_share"] * wall

    if reaches("critical") and bound != "upper" and confidence.level == "high":
        return "critical"
    return "warning" if reaches("warning") and confidence.level != "low" else "info"


def measured(finding: Finding, verified: Verified, most: int | None, limits: Mapping[str, float]) -> Finding:
    """A judged finding whose remedy was tried.

    A gain replaces the bound, and is as certain as a high confidence: what the
    log lacks was not issued again either, so the gain is too small rather than
    too large.  No gain makes it "info" at most, and a remedy that does harm is
    dropped.  If nothing is known, the finding stays as it is.  most: ns that the
    wall clock can lose, None: its own; limits: as for judged().
    """
    if verified.outcome not in ("gain", "no gain", "harm"):
        return replace(finding, verified=verified)
    of_wall = finding.recoverable.of_wall_ns
    saved = verified.saved_ns if verified.outcome == "gain" else 0
    time = max(min(saved, of_wall if most is None else min(most, of_wall)), 0)
    how = "the recorded operations issued again, without the remedy and with it"
    recoverable = replace(finding.recoverable, how=how, bound="measured", terms=[])
    found = replace(finding, recoverable_ns=time, recoverable=recoverable, verified=verified)
    if verified.outcome != "gain":
        remedy = None if verified.outcome == "harm" else finding.remedy
        return replace(found, remedy=remedy, severity=max(finding.severity, "info", key=SEVERITIES.index))
    least = next(value for name, value in LEVELS if name == "high")
    confidence = replace(finding.confidence, value=max(finding.confidence.value, least), why="the remedy was tried")
    severity = _by_time(time, of_wall, confidence, "measured", limits)
    return replace(found, severity=severity, confidence=confidence)


def within_the_run(found: list[Finding], limits: Mapping[str, float]) -> list[Finding]:
    """The same findings with times that add up to the wall clock at most.

    Two findings may promise the same time: it is counted for the more certain one, or the one before.  found: judged
    findings, the first ones first; limits: as for judged().
    """
    left = max((one.recoverable.of_wall_ns for one in found), default=0)
    result = list(found)
    for at in sorted(range(len(found)), key=lambda at: found[at].recoverable.bound == "upper"):
        finding = found[at]
        if finding.severity == "ok" or not finding.recoverable.is_time:
            continue
        time = min(finding.recoverable_ns, left)
        left -= time
        if time < finding.recoverable_ns:
            how = f"{finding.recoverable.how}; other findings have the rest of the run"
            recoverable = replace(finding.recoverable, how=how, terms=[])
            by_time = _by_time(time, recoverable.of_wall_ns, finding.confidence, recoverable.bound, limits)
            severity = max(finding.severity, by_time, key=SEVERITIES.index)
            result[at] = replace(finding, severity=severity, recoverable_ns=time, recoverable=recoverable)
    return sorted(result, key=order)


def order(finding: Finding) -> tuple[bool, int, int, str, str]:
    """The key to sort findings by: results that may be wrong, then by severity, and then the most recoverable time."""
    return (
        not finding.makes_wrong,
        SEVERITIES.index(finding.severity),
        -finding.recoverable_ns,
        finding.slug,
        finding.title,
    )
