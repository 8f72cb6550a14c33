"""A finding as text: all of it, 80 columns wide, or a line of the summary.  findings_screen.py prints several."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyio_trace.errors import printable
from pyio_trace.insights import file_systems
from pyio_trace.insights.finding import MOTIFS, Finding, Verified
from pyio_trace.report.overview_text import WIDTH
from pyio_trace.report.wording import relative
from pyio_trace.units import counted, number, seconds, shortened

if TYPE_CHECKING:
    from pyio_trace.insights.insights import Insights

INDENT = "   "
_LABEL = 12  #: of confidence, bound, over time, proof
_CODE = 8  #: of before and after
_FILES = 3
#: Lines of a query that are printed: in longer ones there are long lists of paths.
_LONGEST = 40
#: A finding that costs less than this share of the run is not in the summary.
_LEAST = 0.005


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
    yield from unanswered(insights)


def unanswered(insights: Insights, where: str = "") -> list[str]:
    """One line on what mode profile does not answer; where: the rest of the names is, if it has no room for all of
    them, "" for as many lines as they need."""
    slugs = insights.unanswered
    if not slugs:
        return []
    rules = counted(len(slugs), "rule")
    if not where:
        asks = f"{rules} {'asks' if len(slugs) == 1 else 'ask'}"
        return [f"Not looked for, as {asks} for each operation (mode trace): {', '.join(slugs)}."]
    for shown in range(len(slugs), -1, -1):
        names = ", ".join([*slugs[:shown], *(["..."] if shown < len(slugs) else [])])
        if len(text := f"Mode profile cannot answer {rules}: {names}  ({where})") <= WIDTH:
            break
    return [text]


def head_of(finding: Finding, rank: int) -> list[str]:
    """Rank, severity, slug, cost and line; then the title."""
    cost = cost_of(finding)
    if finding.recoverable_ns:
        cost += f" of {seconds(finding.recoverable.of_wall_ns)}"
    head = f"{rank} ".ljust(3) + f"{finding.severity.upper():<10}{finding.slug:<28} {cost:>24}"
    place = place_of(finding)
    fits = len(head) + len(place) + 2 <= WIDTH
    lines = [f"{head}  {place}".rstrip()] if fits else [head, f"{INDENT}at {shortened(place, WIDTH - 6)}"]
    return [*lines, *wrapped(finding.title, INDENT)]


def whole_finding(finding: Finding, rank: int, folder: str, path: str, proof: bool) -> Iterator[str]:
    """All of a finding; path: of the log."""
    yield from head_of(finding, rank)
    yield ""
    for evidence in finding.evidence:
        yield from wrapped(evidence.text, INDENT)
    if finding.files:
        yield from wrapped(files_of(finding, folder), INDENT)
    if finding.remedy is not None:
        yield ""
        yield from wrapped(finding.remedy.text, INDENT)
        yield from code_lines("before", finding.remedy.before)
        yield from code_lines("after", finding.remedy.after)
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
    if proof:
        yield from _proof(finding, path)


def _proof(finding: Finding, path: str) -> Iterator[str]:
    """A command that gives the rows of the evidence, to be pasted into a shell; all its lines begin at the margin."""
    query, log = finding.query.text, shlex.quote(path)
    yield f"{INDENT}proof:"
    if query.count("\n") > _LONGEST:
        yield f"{INDENT}a query of {counted(query.count(chr(10)) + 1, 'line')}: pyio-trace insights {log} --format json"
        return
    if finding.query.language != "sql":
        code = f"import pyio_trace; log = pyio_trace.open({path!r}); print({query})"
        yield from f"python -c {shlex.quote(code)}".split("\n")
        return
    # In double quotes a query reads better; what a shell would act on there is left to single ones.
    quoted = shlex.quote(query) if set(query) & set('"$`\\!') else f'"{query}"'
    yield from f"pyio-trace sql {log} {quoted}".split("\n")


def files_of(finding: Finding, folder: str) -> str:
    """The first files, as seen from a folder, and what is unusual about where they are."""
    names = [relative(name, folder) for name in finding.files[:_FILES]]
    more = f" and {len(finding.files) - _FILES} more" if len(finding.files) > _FILES else ""
    unusual = [name for name in finding.file_systems if file_systems.kind(name) != "local"]
    where = f" (on {', '.join(unusual)})" if unusual else ""
    return f"Files: {', '.join(names)}{more}{where}"


def cost_of(finding: Finding) -> str:
    """``"up to 1.2 s"``, ``"about 1.2 s"``, ``"next to nothing"``, ``"no cost"``, ``"wrong results"``,
    ``"data at risk"``, ``"ended the run"``."""
    if finding.severity == "ok":
        return "no cost"
    if finding.recoverable.bound == "failed":
        return "ended the run"
    if not finding.recoverable.is_time:
        return "wrong results" if finding.makes_wrong else "data at risk"
    if not finding.recoverable_ns:
        return "next to nothing"
    word = {"upper": "up to", "estimate": "about"}.get(finding.recoverable.bound, "measured")
    return f"{word} {seconds(finding.recoverable_ns)}"


def verified_label(verified: Verified) -> str:
    """ "tried", "not tried", or "most" for a bound from recorded times."""
    return {"bound": "most", "not tried": "not tried"}.get(verified.outcome, "tried")


def verified_line(verified: Verified) -> str:
    """``"tried here: saves 1.5 s to 1.7 s (9 rounds, cached)"``, or why that is not known, in a line."""
    why, rounds = verified.why, f"({verified.rounds} rounds, {verified.cache})"
    if verified.outcome in ("bound", "not tried"):
        return f"{verified_label(verified)}: {why}"
    if verified.outcome == "not known":
        spread = seconds(max(verified.plain_range_ns[1] - verified.plain_range_ns[0], 0))
        return f"not known on this machine now: rounds differ by {spread}; estimate kept ({why})"
    if verified.outcome == "gain" and verified.at_least:
        return f"tried here: saves at least {seconds(max(verified.low_ns, 0))} {rounds}; {why}"
    if verified.outcome == "gain":
        ends = dict.fromkeys(seconds(max(time, 0)) for time in (verified.low_ns, verified.high_ns))
        return f"tried here: saves {' to '.join(ends)} {rounds}"
    if verified.outcome == "harm":
        return f"tried here: the remedy takes {seconds(-verified.saved_ns)} longer, and is dropped {rounds}"
    return f"tried here: saves next to nothing of {seconds(verified.plain_ns)} {rounds}"


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
        dropped = ", which is dropped" if verified.outcome == "harm" else ""
        return f"takes longer with the remedy{dropped}, {verified.rounds} rounds"
    if remedy[1] < plain[0]:
        return f"saves too little to count, {verified.rounds} rounds"
    ranges = " and ".join(f"{seconds(fastest)} to {seconds(slowest)}" for fastest, slowest in (plain, remedy))
    kept = "; the estimate is kept" if verified.outcome == "not known" else ""
    return f"no difference seen in {verified.rounds} rounds: {ranges} overlap{kept}"


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
    first = f"{INDENT}{label:<{_LABEL}}"
    yield from textwrap.wrap(
        " ".join(text.split()), WIDTH, initial_indent=first, subsequent_indent=" " * len(first),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def code_lines(label: str, code: str) -> Iterator[str]:
    """The code, with its label before the first line."""
    for at, line in enumerate(code.split("\n") if code else []):
        yield f"{INDENT}{label if at == 0 else '':<{_CODE}}{line}".rstrip()


def wrapped(text: str, indent: str) -> list[str]:
    """The text as lines that are WIDTH wide at most, unless a word is wider."""
    return textwrap.wrap(
        printable(text), WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def findings_section(insights: Insights, rows: int) -> list[str]:
    """The section FINDINGS of the summary: the first ones, a line each; empty if none is worth it."""
    shown = [one for one in insights.findings if is_notable(one)][:rows]
    lines = ["FINDINGS  up to", *(_line(one) for one in shown)] if shown else []
    if insights.unanswered:
        (asks,) = unanswered(insights, "pyio-trace insights LOG")
        lines = [*(lines or ["FINDINGS"]), f"  {asks}"]
    return lines


def begun_small(title: str) -> str:
    """The title with a small first letter, unless it begins with a name: SQLite, ForkPoolWorker-1, Data.csv."""
    rest = title.partition(" ")[0][1:]
    return f"{title[:1].lower()}{title[1:]}" if not rest or (rest.isalpha() and rest.islower()) else title


def is_notable(finding: Finding) -> bool:
    """Whether a finding is worth a line of a summary."""
    if finding.severity in ("critical", "warning", "ok"):
        return True
    return finding.recoverable_ns >= _LEAST * finding.recoverable.of_wall_ns


def _line(finding: Finding) -> str:
    place = place_of(finding)
    time = seconds(finding.recoverable_ns) if finding.recoverable.is_time else ""
    text = f"  {time:>11}  {place}{'  ' if place else ''}{begun_small(finding.title)}"
    end = f" ({finding.severity})"
    room = WIDTH - len(end)
    return (text if len(text) <= room else text[: room - 3] + "...") + end
