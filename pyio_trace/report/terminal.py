"""Draws the overview and sections on a terminal with rich."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from pyio_trace.report.plain import shorten_wide
from pyio_trace.report.sections import Section, Table


def print_overview(lines: Iterable[str], stream: TextIO) -> None:
    """Prints the lines of overview.overview_lines, headings bold."""
    console = Console(file=stream, highlight=False, soft_wrap=True)
    for number, line in enumerate(lines):
        word, space, rest = line.partition(" ")
        heading = number > 0 and word.isupper()
        text = Text(word, style="bold" if heading or number == 0 else "")
        console.print(text.append(space + rest, style="not bold dim" if heading else ""), soft_wrap=True)


def print_sections(parts: Iterable[Section], stream: TextIO) -> None:
    """Draws sections, in colour if the terminal allows it (rich obeys NO_COLOR and TERM)."""
    console = Console(file=stream, highlight=False, soft_wrap=True)
    for number, section in enumerate(parts):
        if number:
            console.print()
        console.print(
            Text(section.title, style="bold yellow" if section.bad else "bold"), overflow="ellipsis", no_wrap=True
        )
        if section.table is not None:
            console.print(_grid(section.table, console.width))
        for line in section.lines:
            console.print(Text("  " + line), soft_wrap=True)


def _grid(table: Table, width: int) -> Grid:
    grid = Grid(box=None, padding=(0, 0, 0, 2), header_style="dim", show_edge=False)
    for column in table.columns:
        grid.add_column(column[1:], justify="right" if column[0] == ">" else "left", no_wrap=True)
    for number, row in enumerate(shorten_wide(table, width)):
        # The first row is the worst: highlight it.
        grid.add_row(*(Text(cell) for cell in row), style="cyan" if number == 0 else "")
    return grid
