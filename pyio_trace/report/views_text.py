"""Views as text of 80 columns: a heading of single figures, then a table for each list of rows.

How a field is shown follows from its name: _ns is time, _bytes a size.  A row's
first text is its last column, so that it has the rest of the line.  Of the other
fields those that its class names in SHOWN come first; what does not fit into 80
columns is left out, and a line names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import zip_longest
from textwrap import wrap
from typing import Any

import pyarrow as pa

from pyio_trace.errors import printable
from pyio_trace.units import counted, number, seconds, shortened, size

WIDTH = 80
#: What the text of a row gets at least.
_TEXT = 24
_BETWEEN = 2


def list_lines(views: Mapping[str, str]) -> Iterator[str]:
    """Names of views and what they show."""
    width = max(map(len, views), default=0) + _BETWEEN
    for name, about in views.items():
        lines = wrap(about, WIDTH - width) or [""]
        for first, line in zip_longest([name], lines, fillvalue=""):
            yield f"{first:<{width}}{line}".rstrip()


def result_lines(result: Any, limit: int) -> Iterator[str]:
    """A result: its single figures, then its lists, each up to `limit` rows."""
    lists, more, first = {}, {}, {}
    for field in fields(result):
        value = getattr(result, field.name)
        if isinstance(value, pa.Table):
            lists[field.name] = value.slice(0, limit).to_pylist()
            more[field.name] = value.num_rows - len(lists[field.name])
        elif isinstance(value, list):
            first[field.name] = getattr(type(value[0]), "SHOWN", ()) if value else ()
            lists[field.name] = [_as_dict(row) for row in value[:limit]]
            more[field.name] = len(value) - len(lists[field.name])
        elif field.name == "more":
            more["rows"] = more.get("rows", 0) + value
        elif field.name == "dropped":
            if value:
                yield f"{counted(value, 'sum')} did not fit into memory: figures are too small"
        else:
            yield f"{_title(field.name)}  {cell(field.name, value)}"
    for name, rows in lists.items():
        if len(lists) > 1:
            yield f"{_title(name)}:"
        yield from _table(rows, first.get(name, ()))
        if more.get(name):
            yield f"{counted(more[name], 'more row')}: --limit, --json"


def cell(name: str, value: Any) -> str:
    """One value, by the name of its field."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        unit = seconds if name.endswith("_ns") else size if name.endswith("_bytes") else number
        text = unit(abs(value))
        return f"-{text}" if value < 0 else text
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, (list, tuple, dict)):
        return printable(str(value)) if value else "-"
    return printable(str(value))


def _as_dict(row: Any) -> dict[str, Any]:
    if is_dataclass(row) and not isinstance(row, type):
        return {field.name: getattr(row, field.name) for field in fields(row)}
    return row if isinstance(row, dict) else {"value": row}


def _title(name: str) -> str:
    for ending in ("_ns", "_bytes"):
        name = name.removesuffix(ending)
    return name.replace("_", " ")


def _table(rows: Sequence[dict[str, Any]], first: Sequence[str]) -> Iterator[str]:
    if not rows:
        yield "none"
        return
    used = [name for name in rows[0] if any(row[name] not in (0, None, [], "") for row in rows)]
    texts = [name for name in used if any(isinstance(row[name], str) for row in rows)]
    main = texts[:1]
    others = [name for name in used if name not in main]
    others.sort(key=lambda name: first.index(name) if name in first else len(first))
    cells = {name: [cell(name, row[name]) for row in rows] for name in used}
    widths = {name: max(len(_title(name)), *map(len, cells[name])) for name in used}
    room = WIDTH - (min(max(widths[main[0]], _TEXT), WIDTH // 2) if main else 0)
    shown: list[str] = []
    for name in others:
        if widths[name] + _BETWEEN <= room:
            shown.append(name)
            room -= widths[name] + _BETWEEN
    left = [_title(name) for name in others if name not in shown]
    last = WIDTH - sum(widths[name] + _BETWEEN for name in shown)
    right = {name: name not in texts for name in shown}
    head = [_padded(_title(name), widths[name], right[name]) for name in shown] + [_title(name) for name in main]
    yield "  ".join(head).rstrip()
    for place in range(len(rows)):
        line = [_padded(cells[name][place], widths[name], right[name]) for name in shown]
        line += [shortened(cells[name][place], last) for name in main]
        yield "  ".join(line).rstrip()
    if left:
        yield from wrap(f"also in --json: {', '.join(left)}", WIDTH)


def _padded(text: str, width: int, right: bool) -> str:
    return text.rjust(width) if right else text.ljust(width)
