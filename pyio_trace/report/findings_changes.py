"""What changed between the findings of the first and of the last of several logs, as text and for JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyio_trace.analysis.results.figures import Run
from pyio_trace.errors import printable
from pyio_trace.insights.changes import Change, changes
from pyio_trace.insights.finding import Finding
from pyio_trace.insights.insights import Insights
from pyio_trace.report.findings_text import place_of
from pyio_trace.report.overview_text import WIDTH
from pyio_trace.units import counted, seconds, shortened

#: Changes that are listed; --format json has all.
_MOST_LINES = 40


@dataclass(frozen=True)
class LogFindings:
    """The findings of one log.  path: as the user named it; program: the name of the first process."""

    path: str
    run: Run
    insights: Insights
    program: str = ""


def changes_of(found: Sequence[LogFindings]) -> list[Change] | None:
    """The changes from the first log to the last; None: they are not two runs of one program, one after the other."""
    first, last = found[0].run, found[-1].run
    side_by_side = first.start < last.start + last.wall and last.start < first.start + first.wall
    if len(found) < 2 or found[0].program != found[-1].program or side_by_side:
        return None
    return changes(found[0].insights, found[-1].insights)


def changes_lines(found: Sequence[LogFindings]) -> Iterator[str]:
    """A heading, and a line for each change.  Nothing if there is nothing to compare."""
    made = changes_of(found)
    if made is None:
        return
    yield f"==> from {printable(found[0].path)} to {printable(found[-1].path)} <=="
    different = [change for change in made if change.kind != "same"]
    if not different:
        yield "No finding is new, gone, worse or better."
        return
    yield f"{'':<8}{'before':>9}{'after':>10}"
    yield from map(_line, different[:_MOST_LINES])
    if len(different) > _MOST_LINES:
        yield f"{counted(len(different) - _MOST_LINES, 'further change')}: --format json has them all"


def _line(change: Change) -> str:
    finding = change.after or change.before
    assert finding is not None
    figures = f"{change.kind:<8}{_cost(change.before):>9}{_cost(change.after):>10}  {finding.slug}"
    return f"{figures}  {shortened(printable(place_of(finding)), max(WIDTH - len(figures) - 2, 10))}".rstrip()


def _cost(finding: Finding | None) -> str:
    if finding is None:
        return "-"
    if finding.recoverable.bound == "failed":
        return "ended"
    if not finding.recoverable.is_time:
        return "wrong" if finding.makes_wrong else "risk"
    return seconds(finding.recoverable_ns)


def change_fields(found: Sequence[LogFindings]) -> dict[int, dict[str, Any]]:
    """id() of a finding of the first or the last log -> further fields of its JSON."""
    fields: dict[int, dict[str, Any]] = {}
    for change in changes_of(found) or ():
        if change.after is not None:
            before = None if change.before is None else change.before.recoverable_ns
            fields[id(change.after)] = {"change": change.kind, "before_ns": before}
        elif change.before is not None:
            fields[id(change.before)] = {"change": change.kind}
    return fields
