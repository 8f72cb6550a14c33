"""Sections on a terminal, drawn by rich."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from pyio_trace.report.plain import shorten_wide
from pyio_trace.report.sections import Section, Table


def print_sections(parts: Iterable[Section], stream: TextIO) -> None:
    """Draw sections; colours as the terminal allows (NO_COLOR and TERM are heeded by rich)."""
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
        # The worst comes first: let it be seen.
        grid.add_row(*(Text(cell) for cell in row), style="cyan" if number == 0 else "")
    return grid
