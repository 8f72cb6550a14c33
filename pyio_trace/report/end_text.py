"""The end of a run: a screen of 80 x 24 at most, the verdict last, as people read the last lines of a terminal.

What ran, time by kind of process, the lines that held it, data, what was not
seen; then where the time went, the best finding, and the next command.
`pyio-trace summary` has the rest.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyio_trace.analysis.results.figures import Summary
from pyio_trace.errors import printable
from pyio_trace.insights.finding import Finding
from pyio_trace.report.bars import Letters, states_of
from pyio_trace.report.conclusions import conclusions
from pyio_trace.report.findings_text import begun_small, cost_of, is_notable, place_of, unanswered
from pyio_trace.report.overview_text import (
    KINDS,
    WIDTH,
    cut,
    lines_of,
    moved_by,
    run_line,
    state_lines,
    time_lines,
)
from pyio_trace.report.wording import relative
from pyio_trace.units import counted, percent, seconds, size

if TYPE_CHECKING:
    from pyio_trace.insights.insights import Insights

#: Of a terminal, less the line of the prompt.
HEIGHT = 23
#: (kinds of process, rows of LINES, lines on the run's state): the first that fit.
_ROWS = ((KINDS, 3, 4), (KINDS, 2, 3), (2, 2, 2), (1, 1, 1))
_SENTENCES = 2
#: ns from the end of the program to this screen that are worth saying.
_LONG = 1_000_000_000
_NOT_SEEN = "NOT SEEN  "
#: State of most of a program's time -> what it does.
_DOES = {
    "computing": "computes", "other": "computes, or waits unseen,", "library": "is in its libraries",
    "asleep": "sleeps", "waiting": "waits for others", "blocked": "waits", "gil": "waits for the GIL",
    "starting": "starts and imports", "io": "reads and writes", "sync": "waits for storage", "lock": "waits for locks",
}  # fmt: skip


def end_lines(
    summary: Summary, letters: Letters, insights: Insights | None, bars: bool = True, ranks: int = 0
) -> list[str]:
    """The lines.  insights: None: nobody looked; bars: whether TIME has bars, rather than words; ranks: how many more
    logs the figures are of.

    None is wider than WIDTH but a command at the end with a long name of the log.  Safe to print on a terminal.
    """
    best = best_of(insights)
    verdict = [*_verdict(summary, letters, insights, best), _next(summary, insights, best, ranks)]
    for kinds, rows, states in _ROWS:
        parts = [*_parts(summary, letters, bars, (kinds, rows, states)), verdict]
        lines = [printable(line) for part in parts if part for line in (*part, "")][:-1]
        if len(lines) - 1 + -(-len(lines[-1]) // WIDTH) <= HEIGHT:
            break
    return [*(cut(line, letters) for line in lines[:-1]), lines[-1]]


def _parts(summary: Summary, letters: Letters, bars: bool, most: tuple[int, int, int]) -> Iterator[list[str]]:
    kinds, rows, states = most
    overview, run = summary.overview, summary.run
    yield [run_line(summary), *state_lines(summary)[:states]]
    if overview is not None and (run.calls or overview.wall):
        yield time_lines(overview, letters, kinds, bars)
        yield lines_of(overview, run.folder, rows, run.wall)
    yield [*_data(summary), *_not_seen(summary)]


def _data(summary: Summary) -> list[str]:
    """DATA in one line."""
    moved, overview = moved_by(summary), summary.overview
    stored = overview.storage.read if overview is not None else None
    parts = []
    if moved.read:
        known = "" if stored is None else f" ({size(min(stored, moved.read))} from storage)" if stored else " (cached)"
        parts.append(f"read {size(moved.read)}{known}")
    parts += [f"written {size(moved.written)}"] if moved.written else []
    parts += [f"copied {size(moved.copied)}"] if moved.copied else []
    parts += [f"imports {size(moved.imports)}"] if moved.imports else []
    return [f"DATA  {', '.join(parts)}"] if parts else []


def _not_seen(summary: Summary) -> list[str]:
    """What is missing, in two lines at most."""
    texts = [" ".join(printable(one.brief).split()) for one in summary.weaknesses if one.brief is not None]
    for shown in range(len(texts), 0, -1):
        more = f"; {len(texts) - shown} more: summary --all" if shown < len(texts) else ""
        lines = textwrap.wrap(
            "; ".join(texts[:shown]) + more, WIDTH, initial_indent=_NOT_SEEN, subsequent_indent=" " * len(_NOT_SEEN),
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
        if len(lines) <= 2 or shown == 1:
            return lines[:2]
    return []


def answer(summary: Summary) -> list[str]:
    """What held the time, in a sentence or two."""
    return conclusions(summary)[:_SENTENCES]


def best_of(insights: Insights | None) -> Finding | None:
    """The finding that the end of a run shows."""
    found = insights.findings if insights is not None else []
    return next((one for one in found if is_notable(one) and one.severity != "ok"), None)


def _verdict(summary: Summary, letters: Letters, insights: Insights | None, best: Finding | None) -> list[str]:
    """Where the time went, and what to change; results that may be wrong and files that may be lost come first."""
    sentences = answer(summary)
    together = sum(map(len, sentences)) + len(sentences) - 1 <= WIDTH
    went = [line for text in ([" ".join(sentences)] if together else sentences) for line in textwrap.wrap(text, WIDTH)]
    missing = unanswered(insights, "insights --list") if insights is not None else []
    if best is None:
        found = [] if insights is None else nothing_found(summary)
        return [*went, *found, *missing]
    found = _best(best, letters)
    return [*found, *went, *missing] if not best.recoverable.is_time else [*went, *found, *missing]


def _best(finding: Finding, letters: Letters) -> list[str]:
    """Line, title and cost; then what to write instead."""
    place, cost = printable(place_of(finding)), cost_of(finding)
    what = f"  {place}  {begun_small(finding.title)}" if place else f"  {finding.title}"
    room = WIDTH - len(cost) - 2
    lines = [f"{cut(printable(what), letters, room):<{room}}  {cost}"]
    return [*lines, f"  {letters.arrow} {_instead(finding)}"] if finding.remedy is not None else lines


def _instead(finding: Finding) -> str:
    """Code if it is one line that fits, else what the remedy says first."""
    remedy = finding.remedy
    assert remedy is not None
    code = remedy.after.strip()
    if code and "\n" not in code and len(code) <= WIDTH - 6:
        return code
    return " ".join(remedy.text.split())


def nothing_found(summary: Summary) -> list[str]:
    """That there is no finding, and what the first process does most of the time."""
    overview = summary.overview
    if overview is None or not overview.kinds:
        return ["No finding."]
    split, process = overview.kinds[0].split, next(iter(overview.processes), None)
    state, time = max(states_of(split).items(), key=lambda one: one[1])
    if not time or not 0 < time <= split.wall_ns or state not in _DOES:
        return ["No finding."]
    name = process.name if process is not None and process.name else "the program"
    return [f"No finding: {name} {_DOES[state]} for {percent(time / split.wall_ns)} of its time."]


def _next(summary: Summary, insights: Insights | None, best: Finding | None, ranks: int) -> str:
    """The command that says more, what there is, and how large the log is."""
    run = summary.run
    if insights is None:
        there = "not looked for yet"
    else:
        count = sum(one.severity != "ok" for one in insights.findings) + sum(insights.more.values())
        left = count - (best is not None)
        there = counted(left, "more finding") if best is not None else counted(left, "small finding")
        there = there if left else "no more findings"
    made = summary.overview.tracing.end_ns if summary.overview is not None else None
    more = f" in {seconds(made)}" if made is not None and made >= _LONG else ""
    mode = "" if run.mode == "trace" else f"; mode {run.mode}"
    command = f"next: pyio-trace insights {shlex.quote(relative(run.path, run.folder))}"
    there = f"and {counted(ranks, 'more rank')}; {there}" if ranks else there
    log = f"; log {size(run.log_bytes)}"
    lines = (f"{command}  ({there}{note}{mode})" for note in (f"{log}{more}", log, ""))
    return next((line for line in lines if len(line) <= WIDTH), command)
