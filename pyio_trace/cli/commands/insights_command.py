"""What is slow, why, at which line, and what to do.

Each finding says how much of the wall time it may cost at most, what to change,
and with --proof how sure that is, and a command that gives its evidence again.
The worst has the first number.  docs/reference/findings.md explains each.

Of several runs of a program, it says which findings are new, gone, worse or
better, from the first log to the last.

"ok" is a finding too: it looks bad and costs nothing.  To leave a finding out,
use --ignore, [tool.pyio_trace.insights] in pyproject.toml, or a comment on its
line: # pyio_trace: ignore[stat-storm]

The exit status is 0; 1 if a finding is as bad as --fail-on says, or worse; 2 if
an argument is wrong or a log cannot be read.

Of the findings, text has the three best on a screen, and on a terminal the
best last; the other formats have all of them.

  pyio-trace insights LOG
  pyio-trace insights LOG --all --proof
  pyio-trace insights --explain stat-storm
  pyio-trace insights LOG --fail-on warning --format sarif --output run.sarif
  pyio-trace insights before.parquet after.parquet
  pyio-trace insights LOG --ignore stat-storm --ignore 'small-files:/cache/**'
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from pyio_trace.cli.parser import Parser, add_format, add_output, open_log, progress, write_text
from pyio_trace.cli.scan_workers import add_workers, workers
from pyio_trace.cli.selection import add_selection, selection
from pyio_trace.errors import ConfigError, say

if TYPE_CHECKING:
    from pyio_trace.insights.rule import Rule
    from pyio_trace.insights.settings import Settings
    from pyio_trace.report.findings_changes import LogFindings


def arguments(parser: Parser) -> None:
    from pyio_trace.insights.finding import SEVERITIES
    from pyio_trace.report.findings import FORMATS

    parser.add_argument("log", metavar="LOG", nargs="*", help="live logs (*.pyio), Parquet logs, or folders of logs")
    add_format(parser, *FORMATS)
    add_output(parser)
    parser.add_argument("--all", action="store_true", help="in text, all findings, and all of each")
    parser.add_argument(
        "--proof",
        action="store_true",
        help="in text, what each finding rests on, and a command that gives the rows of its evidence",
    )
    parser.add_argument("--explain", metavar="SLUG", help="what this finding means, its thresholds, the remedy; no LOG")
    parser.add_argument("--list", action="store_true", help="all findings that there can be, a line each; no LOG")
    parser.add_argument(
        "--fail-on",
        choices=SEVERITIES[:-1],
        metavar="LEVEL",
        help=f"exit with 1 for a finding as bad as this, or worse: {', '.join(SEVERITIES[:-1])}",
    )
    parser.add_argument(
        "--rule", action="append", default=[], metavar="SLUG", help="look for this one only; may be repeated"
    )
    parser.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="SLUG[:GLOB]",
        help="leave this one out, on all files or those that match",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="try the remedies on this machine: issue recorded operations again, with and without the remedy; your "
        "files are only read, and writes go to a scratch folder beside them, which is removed",
    )
    parser.add_argument(
        "--verify-seconds",
        type=_seconds,
        default=10.0,
        metavar="N",
        help="about how long each trial may take, in seconds; default: %(default)g",
    )
    add_selection(parser)
    add_workers(parser)


def _seconds(text: str) -> float:
    """From 0.1 s to an hour.  Raises ConfigError."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.1 <= number <= 3600:
        raise ConfigError("bad-arguments", f"--verify-seconds {text!r}: write a number of seconds, 0.1 to 3600")
    return number


def run(arguments: argparse.Namespace) -> int:
    from pyio_trace.insights import registry, settings
    from pyio_trace.insights.finding import SEVERITIES
    from pyio_trace.report.findings import WITH_NOTES
    from pyio_trace.report.findings_text import omissions

    known = registry.found()
    if arguments.list or arguments.explain is not None:
        return _about_rules(arguments, known)
    if not arguments.log:
        raise ConfigError("bad-arguments", "insights: LOG is missing; see pyio-trace insights --help")
    for slug in arguments.rule:
        settings.check_slug(slug, known, "--rule")
    from_file = settings.load(known)
    ignored = settings.parse_ignored(arguments.ignore, known, "--ignore")
    wanted = settings.Settings([*from_file.ignored, *ignored], from_file.limits)
    rules = {slug: one for slug, one in known.items() if not arguments.rule or slug in arguments.rule}
    found = _found(arguments, rules, wanted)
    write_text(_written(found, rules, arguments), arguments)
    if arguments.format not in WITH_NOTES:
        for line in (line for log in found for line in omissions(log.insights)):
            say(line)
    worst = min((SEVERITIES.index(one.severity) for log in found for one in log.insights.findings), default=9)
    return int(arguments.fail_on is not None and worst <= SEVERITIES.index(arguments.fail_on))


def _about_rules(arguments: argparse.Namespace, known: dict[str, Rule]) -> int:
    """Prints the list of the rules, or the page of one."""
    from pyio_trace.insights import settings
    from pyio_trace.report.rules_text import list_lines, rule_lines
    from pyio_trace.report.text import is_terminal

    if arguments.list:
        from shutil import get_terminal_size

        cut = arguments.output is None and sys.stdout is not None and is_terminal(sys.stdout)
        lines = list_lines(known, get_terminal_size().columns if cut else None)
    else:
        settings.check_slug(arguments.explain, known, "--explain")
        lines = rule_lines(known[arguments.explain], settings.load(known))
    return write_text("".join(f"{line}\n" for line in lines), arguments)


def _written(found: list[LogFindings], rules: dict[str, Rule], arguments: argparse.Namespace) -> str:
    """The findings in the format that was asked for."""
    from pyio_trace.report.findings import FORMATS, as_text
    from pyio_trace.report.findings_screen import View
    from pyio_trace.report.text import is_terminal

    if arguments.format != "text":
        return FORMATS[arguments.format](found, rules)
    on_terminal = arguments.output is None and sys.stdout is not None and is_terminal(sys.stdout)
    return as_text(found, rules, View(arguments.all, arguments.proof, on_terminal))


def _found(arguments: argparse.Namespace, rules: dict[str, Rule], wanted: Settings) -> list[LogFindings]:
    """The findings of each log."""
    from pyio_trace.analysis.scan.filters import check, restrict_unchecked
    from pyio_trace.insights.insights import find
    from pyio_trace.report.findings_changes import LogFindings

    chosen = selection(arguments)
    logs = [open_log(path) for path in arguments.log]
    check(logs, chosen)
    found = []
    with workers(arguments) as others, progress("insights", sum(log.rows() for log in logs)) as bar:
        for log in logs:
            # A selection reports the rows that it reads, unless they are read elsewhere.
            elsewhere = others is not None or not chosen
            read = restrict_unchecked(log, chosen, None if elsewhere else bar) if chosen else log
            summary, insights = find(read, rules, wanted, bar if elsewhere else None, workers=others)
            found.append((log, summary, replace(insights, verdicts=[]) if arguments.rule else insights))
    if arguments.verify:
        from pyio_trace.insights.verify import verify

        seconds = arguments.verify_seconds
        with _trials_shown() as shown:
            for at, (log, summary, insights) in enumerate(found):
                read = restrict_unchecked(log, chosen)
                found[at] = (log, summary, verify(read, summary, insights, rules, wanted, seconds, shown))
    return [
        LogFindings(str(log.path), summary.run, insights, next((one.name for one in summary.processes), ""))
        for log, summary, insights in found
    ]


@contextmanager
def _trials_shown() -> Iterator[Callable[[str], None] | None]:
    """Gives a function that shows on stderr which finding is being tried; None if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return

    def show(slug: str) -> None:
        sys.stderr.write(f"\r\033[Ktrying {slug}")
        sys.stderr.flush()

    try:
        yield show
    finally:
        sys.stderr.write("\r\033[K")
