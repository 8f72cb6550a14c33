"""Findings on a screen: the three best in 40 lines, or all of them; on a terminal the best comes last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyio_trace.errors import printable
from pyio_trace.insights.finding import Finding
from pyio_trace.report.findings_text import (
    INDENT,
    code_lines,
    files_of,
    head_of,
    notes,
    unanswered,
    verified_line,
    whole_finding,
    wrapped,
)
from pyio_trace.report.overview_text import WIDTH
from pyio_trace.units import counted, number, seconds

if TYPE_CHECKING:
    from pyio_trace.insights.insights import Insights

#: Findings that are printed unless all are wanted, and lines of a terminal for them.
BEST, MOST = 3, 40
#: Lines without a finding that are named unless all are wanted.
_LINES = 2
#: Columns of the time that such a line took.
_TIME = 15


@dataclass(frozen=True)
class _Room:
    """Most lines of each part of a finding.  files: whether they are named."""

    evidence: int
    remedy: int
    code: int
    files: bool = False


#: From the widest to the narrowest.  Three of the narrowest, of two lines of head each, fit MOST.
_ROOMS = (_Room(8, 6, 12, True), _Room(4, 4, 8, True), _Room(3, 3, 5), _Room(2, 2, 3), _Room(1, 1, 2), _Room(1, 1, 1))
#: Most lines of a title.
_TITLE = 2


@dataclass(frozen=True)
class View:
    """How findings are printed.  everything: all of each, else the BEST first ones on a screen; proof: with the queries
    of their evidence, and what their figures rest on; best_last: where people read a terminal."""

    everything: bool = False
    proof: bool = False
    best_last: bool = False


#: The best ones, the best first.
AS_USUAL = View()


def findings_lines(insights: Insights, folder: str = "", path: str = "LOG", view: View = AS_USUAL) -> list[str]:
    """The findings; folder: that the program began in, which paths leave out; path: of the log, as the user named it.

    Unless view wants more, MOST lines of a terminal that is WIDTH wide at most.  Safe to print on a terminal.
    """
    found = insights.findings if view.everything else insights.findings[:BEST]
    said = [*_wrapped_all(notes(insights) if view.everything else brief_notes(insights)), *_verdicts(insights, view)]
    hints = [_hints(insights, len(found), view)]
    if not found:
        return ["No findings.", *(["", *said] if said else [])]
    if view.everything or view.proof:
        blocks = [[*whole_finding(one, at + 1, folder, path, view.proof)] for at, one in enumerate(found)]
    else:
        blocks = short_findings(found, folder, MOST - len(said) - len(hints) - 2)
    blocks = [[*map(printable, block)] for block in blocks]
    parts = [said, *reversed(blocks), hints] if view.best_last else [*blocks, said, hints]
    return [line for part in parts if part for line in (*part, "")][:-1]


def _verdicts(insights: Insights, view: View) -> Iterator[str]:
    """What holds the lines that no finding is about."""
    shown = insights.verdicts if view.everything else insights.verdicts[:_LINES]
    if shown:
        yield "Where else the time went:"
    for one in shown:
        first, *more = wrapped(f"{one.site} {one.text}", " " * _TIME)
        yield _cut(f"  {seconds(one.held_ns):>{_TIME - 4}}  {first[_TIME:]}")
        yield from map(_cut, more[:1])


def _hints(insights: Insights, shown: int, view: View) -> str:
    """The options that say more."""
    more = len(insights.findings) + sum(insights.more.values()) - shown
    parts = [f"{number(more)} more: --all"] if more and not view.everything else []
    parts += [] if view.proof else ["why: --proof"]
    parts += ["try it here: --verify"] if all(one.verified is None for one in insights.findings) else []
    return "    ".join([*parts, "--explain SLUG"])


def _wrapped_all(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from wrapped(printable(text), "")


def brief_notes(insights: Insights) -> Iterator[str]:
    """What is missing from the findings, a line each."""
    if insights.suppressed:
        yield f"{counted(insights.suppressed, 'finding')} suppressed by settings or comments."
    if insights.failed:
        slug, why = next(iter(insights.failed.items()))
        others = f" (and {counted(len(insights.failed) - 1, 'other rule')}: --all)" if len(insights.failed) > 1 else ""
        yield _cut(printable(f"The rule {slug} failed{others}: {why}"))
    yield from unanswered(insights, "--list")


def short_findings(found: list[Finding], folder: str, most: int) -> list[list[str]]:
    """The lines of each, in `most` lines of a terminal with a blank one between any two, if that can be.

    What has to be cut is cut from the last finding first.
    """
    rooms = [0] * len(found)
    while True:
        blocks = [[*map(printable, _short(one, at + 1, folder, _ROOMS[rooms[at]]))] for at, one in enumerate(found)]
        # Where room is short, a line of code, or a path, that is wider than the terminal is cut too.
        blocks = [block if _ROOMS[rooms[at]].files else [*map(_cut, block)] for at, block in enumerate(blocks)]
        if sum(map(_rows, blocks)) + len(blocks) - 1 <= most or min(rooms) == len(_ROOMS) - 1:
            return blocks
        widest = min(rooms)
        rooms[max(at for at, room in enumerate(rooms) if room == widest)] += 1


def _rows(lines: list[str]) -> int:
    """Of a terminal: code is not wrapped here."""
    return sum(max(-(-len(line) // WIDTH), 1) for line in lines)


def _short(finding: Finding, rank: int, folder: str, room: _Room) -> Iterator[str]:
    head = head_of(finding, rank)
    yield from _first(head, 1 + head[1].startswith(f"{INDENT}at ") + _TITLE)
    evidence = [one.text for one in finding.evidence]
    evidence += [finding.recoverable.how] if not finding.recoverable.is_time else []
    yield from _first([line for text in evidence for line in wrapped(text, INDENT)], room.evidence)
    if room.files and finding.files:
        yield from _first(wrapped(files_of(finding, folder), INDENT), 2)
    if finding.remedy is not None:
        yield from _first(wrapped(finding.remedy.text, INDENT), room.remedy)
        for label, code in (("before", finding.remedy.before), ("after", finding.remedy.after)):
            yield from _first([*code_lines(label, code)], room.code)
    if finding.verified is not None:
        yield from _first(wrapped(verified_line(finding.verified), INDENT), 1)


def _first(lines: list[str], most: int) -> list[str]:
    """The first lines; what was cut is shown."""
    if len(lines) <= most:
        return lines
    last = lines[most - 1]
    return [*lines[: most - 1], (last if len(last) <= WIDTH - 4 else last[: WIDTH - 4].rstrip()) + " ..."]


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 3] + "..."
