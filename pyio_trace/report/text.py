"""The summary to a stream: drawn by rich on a terminal, plain text everywhere else."""

from __future__ import annotations

import os
from typing import TextIO

from pyio_trace.analysis.facts import Summary
from pyio_trace.report.plain import plain_lines
from pyio_trace.report.sections import sections

_PIPED_WIDTH = 120


def print_summary(summary: Summary, stream: TextIO) -> None:
    """Write the summary in a screen or two."""
    if is_terminal(stream):
        from pyio_trace.report.terminal import print_sections

        print_sections(sections(summary), stream)
        return
    for line in plain_lines(sections(summary), piped_width()):
        stream.write(line + "\n")


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at it through a terminal that can do more than print."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def piped_width() -> int:
    """The width of plain text: $COLUMNS where someone says so, else 120."""
    columns = os.environ.get("COLUMNS", "")
    return max(int(columns), 40) if columns.isdigit() else _PIPED_WIDTH
