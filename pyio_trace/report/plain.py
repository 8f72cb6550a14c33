"""Sections as plain text: for pipes, files and simple terminals; ASCII only, no colours."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import replace

from pyio_trace.report.sections import Section, Table
from pyio_trace.units import shortened

_NARROWEST = 16


def plain_lines(parts: Iterable[Section], width: int) -> Iterator[str]:
    """The sections, line by line; no line is wider than `width`, unless its fixed columns are."""
    for number, section in enumerate(parts):
        if number:
            yield ""
        yield section.title if len(section.title) <= width else section.title[: width - 3] + "..."
        if section.table is not None:
            yield from _table(section.table, width)
        for line in section.lines:
            if len(line) + 2 <= width:
                yield "  " + line
            else:  # do not break within a path or a command
                wrapped = textwrap.TextWrapper(width, "  ", "    ", break_long_words=False, break_on_hyphens=False)
                yield from wrapped.wrap(line)


def shorten_wide(table: Table, width: int) -> list[tuple[str, ...]]:
    """The rows of the table, with the wide column cut so that each line fits `width`, indent and gaps included."""
    rest = sum(_widths(table, i) + 2 for i in range(len(table.columns)) if i != table.wide) + 2
    room = max(width - rest, _NARROWEST)
    return [(*row[: table.wide], _cut(row[table.wide], room, table.keep), *row[table.wide + 1 :]) for row in table.rows]


def _cut(text: str, room: int, keep: str) -> str:
    if keep == "end" or len(text) <= room:
        return shortened(text, room)
    return text[: room - 3] + "..."


def _widths(table: Table, i: int) -> int:
    return max([len(table.columns[i]) - 1, *(len(row[i]) for row in table.rows)])


def _table(table: Table, width: int) -> Iterator[str]:
    short = replace(table, rows=shorten_wide(table, width))
    widths = [_widths(short, i) for i in range(len(table.columns))]
    for row in [tuple(column[1:] for column in table.columns), *short.rows]:
        cells = [
            text.rjust(cell) if column[0] == ">" else text.ljust(cell)
            for text, cell, column in zip(row, widths, table.columns, strict=True)
        ]
        yield ("  " + "  ".join(cells)).rstrip()
