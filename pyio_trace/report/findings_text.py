"""Findings as text: all of each, 80 columns wide, and the first of them as a section of the summary."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from pyio_trace.errors import printable
from pyio_trace.insights import file_systems
from pyio_trace.insights.finding import MOTIFS, Finding, Verified
from pyio_trace.insights.insights import Insights
from pyio_trace.report.overview_text import WIDTH
from pyio_trace.report.wording import relative
from pyio_trace.units import counted, number, seconds, shortened

_INDENT = "   "
_LABEL = 12  #: of confidence, bound, over time, proof
_CODE = 8  #: of before and after
_FILES = 3
#: A finding that costs less than this share of the run is not in the summary.
_LEAST = 0.005


def findings_lines(insights: Insights, folder: str = "") -> Iterator[str]:
    """All findings; folder: that the program began in, which paths leave out.  Safe to print on a terminal."""
    if not insights.findings:
        yield "No findings."
    for at, finding in enumerate(insights.findings):
        if at:
            yield ""
        yield from map(printable, _finding(finding, at + 1, folder))
    for line in notes(insights):
        yield from ("", *_wrapped(printable(line), ""))


def notes(insights: Insights) -> Iterator[str]:
    """What is to be said of the findings as a whole."""
    if insights.suppressed:
        yield f"{counted(insights.suppressed, 'finding')} suppressed by settings or comments."
    yield from omissions(insights)


def omissions(insights: Insights) -> Iterator[str]:
    """What is missing from the findings."""
    for slug, more in insights.more.items():
        yield f"{counted(more, 'further finding')} of {slug}, with less time each."
    for slug, why in insights.failed.items():
        yield f"The rule {slug} failed: {why}"
    if insights.unanswered:
        slugs = ", ".join(insights.unanswered)
        yield f"Not looked for, as {_asks(len(insights.unanswered))} for each operation (mode trace): {slugs}."


def _asks(rules: int) -> str:
    return f"{counted(rules, 'rule')} {'asks' if rules == 1 else 'ask'}"


def _finding(finding: Finding, rank: int, folder: str) -> Iterator[str]:
    cost = cost_of(finding)
    if finding.recoverable_ns:
        cost += f" of {seconds(finding.recoverable.of_wall_ns)}"
    head = f"{rank} ".ljust(3) + f"{finding.severity.upper():<10}{finding.slug:<28} {cost:>24}"
    place = place_of(finding)
    yield f"{head}  {place}".rstrip() if len(head) + len(place) + 2 <= WIDTH else head
    if len(head) + len(place) + 2 > WIDTH:
        yield f"{_INDENT}at {shortened(place, WIDTH - 6)}"
    yield from _wrapped(finding.title, _INDENT)
    yield ""
    for evidence in finding.evidence:
        yield from _wrapped(evidence.text, _INDENT)
    if finding.files:
        names = [relative(name, folder) for name in finding.files[:_FILES]]
        more = f" and {len(finding.files) - _FILES} more" if len(finding.files) > _FILES else ""
        unusual = [name for name in finding.file_systems if file_systems.kind(name) != "local"]
        where = f" (on {', '.join(unusual)})" if unusual else ""
        yield from _wrapped(f"Files: {', '.join(names)}{more}{where}", _INDENT)
    if finding.remedy is not None:
        yield ""
        yield from _wrapped(finding.remedy.text, _INDENT)
        yield from _code("before", finding.remedy.before)
        yield from _code("after", finding.remedy.after)
    yield ""
    yield from _labelled("confidence", _confidence(finding))
    if not finding.recoverable.is_time:
        yield from _labelled("why", finding.recoverable.how)
    elif finding.severity != "ok":
        bound = {"upper": "at most: ", "measured": "measured: "}.get(finding.recoverable.bound, "")
        yield from _labelled("bound", bound + finding.recoverable.how)
    if finding.motif not in (None, "steady"):
        yield from _labelled("over time", MOTIFS[finding.motif])
    if finding.verified is not None:
        yield from _labelled(verified_label(finding.verified), verified_text(finding.verified))
    lines = finding.query.text.split("\n")
    yield f"{_INDENT}{'proof':<{_LABEL}}{lines[0]}"
    yield from (f"{_INDENT}{'':<{_LABEL}}{line}" for line in lines[1:])


def cost_of(finding: Finding) -> str:
    """``"up to 1.2 s"``, ``"about 1.2 s"``, ``"no cost"``, ``"wrong results"``, ``"data at risk"``,
    ``"ended the run"``."""
    if finding.severity == "ok":
        return "no cost"
    if finding.recoverable.bound == "failed":
        return "ended the run"
    if not finding.recoverable.is_time:
        return "wrong results" if finding.makes_wrong else "data at risk"
    word = {"upper": "up to", "estimate": "about"}.get(finding.recoverable.bound, "measured")
    return f"{word} {seconds(finding.recoverable_ns)}"


def verified_label(verified: Verified) -> str:
    """ "tried", "not tried", or "most" for a bound from recorded times."""
    return {"bound": "most", "not tried": "not tried"}.get(verified.outcome, "tried")


def verified_text(verified: Verified) -> str:
    """``"1.9 s -> 0.3 s, saves 1.6 s (1.5 s to 1.7 s), 9 rounds, cached"``, or why it was not tried."""
    if verified.outcome in ("bound", "not tried"):
        return verified.why
    found = _gain(verified) if verified.outcome == "gain" else _rejected(verified)
    parts = [f"{seconds(verified.plain_ns)} -> {seconds(verified.remedy_ns)}", found, verified.cache]
    if verified.operations < verified.of_operations:
        parts.append(f"from {number(verified.operations)} of {number(verified.of_operations)} operations")
    return ", ".join(parts) + (f"; {verified.why}" if verified.why else "")


def _gain(verified: Verified) -> str:
    saved = seconds(max(verified.saved_ns, 0))
    spread = f"{seconds(max(verified.low_ns, 0))} to {seconds(max(verified.high_ns, 0))}"
    return f"saves {'at least ' if verified.at_least else ''}{saved} ({spread}), {verified.rounds} rounds"


def _rejected(verified: Verified) -> str:
    """What the rounds showed, if that is no gain."""
    plain, remedy = verified.plain_range_ns, verified.remedy_range_ns
    if remedy[0] > plain[1]:
        return f"takes longer with the remedy, {verified.rounds} rounds"
    if remedy[1] < plain[0]:
        return f"saves too little to count, {verified.rounds} rounds"
    ranges = " and ".join(f"{seconds(fastest)} to {seconds(slowest)}" for fastest, slowest in (plain, remedy))
    return f"no difference seen in {verified.rounds} rounds: {ranges} overlap"


def place_of(finding: Finding) -> str:
    """The first line, else the first file."""
    if finding.sites:
        return str(finding.sites[0])
    return finding.files[0].rpartition("/")[2] if finding.files else ""


def _confidence(finding: Finding) -> str:
    sure = finding.confidence
    reasons = [reason for reason in (sure.why, *sure.lowered_by) if reason]
    return f"{sure.level}: {'; '.join(reasons)}" if reasons else sure.level


def _labelled(label: str, text: str) -> Iterator[str]:
    first = f"{_INDENT}{label:<{_LABEL}}"
    yield from textwrap.wrap(
        " ".join(text.split()), WIDTH, initial_indent=first, subsequent_indent=" " * len(first),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _code(label: str, code: str) -> Iterator[str]:
    for at, line in enumerate(code.split("\n") if code else []):
        yield f"{_INDENT}{label if at == 0 else '':<{_CODE}}{line}"


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        printable(text), WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def findings_section(insights: Insights, rows: int) -> list[str]:
    """The section FINDINGS of the summary: the first ones, a line each; empty if none is worth it."""
    shown = [one for one in insights.findings if _is_notable(one)][:rows]
    lines = ["FINDINGS  up to", *(_line(one) for one in shown)] if shown else []
    if insights.unanswered:
        asks = f"{_asks(len(insights.unanswered))} for each operation (mode trace): pyio-trace insights"
        lines = [*(lines or ["FINDINGS"]), f"  {asks}"]
    return lines


def _begun_small(title: str) -> str:
    """The title with a small first letter, unless it begins with a name: SQLite, ForkPoolWorker-1, Data.csv."""
    rest = title.partition(" ")[0][1:]
    return f"{title[:1].lower()}{title[1:]}" if not rest or (rest.isalpha() and rest.islower()) else title


def _is_notable(finding: Finding) -> bool:
    if finding.severity in ("critical", "warning", "ok"):
        return True
    return finding.recoverable_ns >= _LEAST * finding.recoverable.of_wall_ns


def _line(finding: Finding) -> str:
    place = place_of(finding)
    time = seconds(finding.recoverable_ns) if finding.recoverable.is_time else ""
    text = f"  {time:>11}  {place}{'  ' if place else ''}{_begun_small(finding.title)}"
    end = f" ({finding.severity})"
    room = WIDTH - len(end)
    return (text if len(text) <= room else text[: room - 3] + "...") + end
