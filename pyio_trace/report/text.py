"""Prints the summary: with rich on a terminal, as plain text elsewhere."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from pyio_trace.report.bars import letters_for
from pyio_trace.report.overview_text import overview_lines
from pyio_trace.report.plain import plain_lines
from pyio_trace.report.sections import sections

if TYPE_CHECKING:
    from pyio_trace.analysis.results.figures import Summary
    from pyio_trace.insights.insights import Insights

_PIPED_WIDTH = 120
#: Findings that the overview shows.
FINDINGS = 3
#: Operations up to which the end of a run, and `pyio-trace summary`, look for findings: a second or two, and four.
SEARCHED_AT_END, SEARCHED = 500_000, 2_000_000


def print_summary(
    summary: Summary,
    stream: TextIO,
    names: Sequence[str] | None = (),
    overview: bool = True,
    insights: Insights | None = None,
) -> None:
    """Prints the overview, a screen long, and the sections of these names (of sections.NAMES; None: all).

    insights: the first of them are in the overview; None: nobody looked for any.
    """
    findings = []
    if insights is not None:
        from pyio_trace.report.findings_text import findings_section  # not at the end of a tiny run

        findings = findings_section(insights, FINDINGS)
    elif summary.run.records_in_log > SEARCHED_AT_END:
        findings = ["FINDINGS  not looked for in so many operations: pyio-trace insights LOG"]
    lines = overview_lines(summary, letters_for(stream.encoding), findings) if overview else []
    more = list(sections(summary, names))
    if is_terminal(stream):
        from pyio_trace.report.terminal import print_overview, print_sections

        print_overview(lines, stream)
        if lines and more:
            stream.write("\n")
        print_sections(more, stream)
        return
    if lines and more:
        lines = [*lines, ""]
    for line in (*lines, *plain_lines(more, piped_width())):
        stream.write(line + "\n")


def print_end(summary: Summary, stream: TextIO, insights: Insights | None, ranks: int = 0) -> None:
    """Prints the end of a run, 24 lines at most; insights: None: nobody looked for any; ranks: whose logs are summed up
    too, beside the one that is named."""
    from pyio_trace.report.end_text import end_lines  # `pyio-trace summary --json` does without

    terminal = is_terminal(stream)
    lines = end_lines(summary, letters_for(stream.encoding), insights, terminal, ranks)
    if terminal:
        from pyio_trace.report.terminal import print_overview

        print_overview(lines, stream)
        return
    for line in lines:
        stream.write(line + "\n")


def is_terminal(stream: TextIO) -> bool:
    """Whether the stream is a terminal that can do more than print."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def piped_width() -> int:
    """The width of plain text: $COLUMNS if set, else 120."""
    columns = os.environ.get("COLUMNS", "")
    return max(int(columns[:6]), 40) if columns.isascii() and columns.isdigit() else _PIPED_WIDTH
