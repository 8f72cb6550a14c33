"""What differs between the findings of two runs of a program: which are new, gone, worse or better."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence

from pyio_trace.analysis.compare.comparison import time_differs
from pyio_trace.insights.finding import SEVERITIES, Finding, Site
from pyio_trace.insights.insights import Insights
from pyio_trace.light_dataclass import dataclass

#: In the order in which they are shown.
KINDS = ("new", "worse", "gone", "better", "same")


@dataclass(frozen=True)
class Change:
    """A finding of two runs.  kind: of KINDS; before, after: in the first and in the second run, None: not there."""

    kind: str
    before: Finding | None
    after: Finding | None


def changes(before: Insights, after: Insights) -> list[Change]:
    """All findings of two runs, the new ones first, within a kind those with the most time.

    What costs nothing (severity "ok") is neither new nor gone.  Neither is what
    may be among the findings of the other run that were only counted.
    """
    pairs = list(_pairs(before.findings, after.findings))
    known = {id(finding) for pair in pairs for finding in pair}
    found = [Change(_kind(one, other), one, other) for one, other in pairs]
    for kind, findings, counted in (("gone", before.findings, after.more), ("new", after.findings, before.more)):
        for finding in findings:
            if id(finding) not in known and finding.severity != "ok" and finding.slug not in counted:
                gone = kind == "gone"
                found.append(Change(kind, finding if gone else None, None if gone else finding))
    return sorted(found, key=lambda one: (KINDS.index(one.kind), -_time(one)))


def _time(change: Change) -> int:
    finding = change.after or change.before
    return finding.recoverable_ns if finding is not None else 0


def _kind(before: Finding, after: Finding) -> str:
    severity = SEVERITIES.index(after.severity) - SEVERITIES.index(before.severity)
    if time_differs(before.recoverable_ns, after.recoverable_ns):
        return "worse" if after.recoverable_ns > before.recoverable_ns else "better"
    costs_nothing = (before.severity == "ok") != (after.severity == "ok")
    if costs_nothing or (severity and not before.recoverable.is_time):
        return "worse" if severity < 0 else "better"
    return "same"


def _pairs(before: Sequence[Finding], after: Sequence[Finding]) -> Iterator[tuple[Finding, Finding]]:
    """(a finding, the same one of the other run).  The source may have changed in between: first those at the same
    line on the same files are paired, then those of the same function, at last those of the same file."""
    left, right = list(before), list(after)
    for key in _KEYS:
        by_key: dict[Hashable, list[Finding]] = defaultdict(list)
        for finding in right:
            by_key[key(finding)].append(finding)
        rest = []
        for finding in left:
            partners = by_key[key(finding)]
            if partners:
                yield finding, partners.pop(0)
            else:
                rest.append(finding)
        left, right = rest, [finding for partners in by_key.values() for finding in partners]


def _site(finding: Finding) -> Site | None:
    return finding.sites[0] if finding.sites else None


def _at_line(finding: Finding) -> Hashable:
    return finding.slug, _site(finding), tuple(finding.files)


def _in_function(finding: Finding) -> Hashable:
    site = _site(finding)
    return finding.slug, (site.file.rpartition("/")[2], site.function) if site else tuple(finding.files)


def _in_file(finding: Finding) -> Hashable:
    site = _site(finding)
    return finding.slug, site.file.rpartition("/")[2] if site else tuple(finding.files)


_KEYS: tuple[Callable[[Finding], Hashable], ...] = (_at_line, _in_function, _in_file)
