"""Darshan's counters as text of 80 columns: a block for each record, without the counters that are 0."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from pyio_trace.analysis.view_sums.counters_table import Counters
from pyio_trace.errors import printable
from pyio_trace.units import counted, shortened

WIDTH = 80
_CELL = (WIDTH - 4) // 2
_OURS = ("path", "process", "pid", "processes", "unplaced")


def counters_lines(counters: Counters, limit: int) -> Iterator[str]:
    """The first `limit` records, line by line: integers on the left, seconds on the right."""
    records = counters.table.slice(0, limit).to_pylist()
    for number, record in enumerate(records):
        if number:
            yield ""
        yield from _block(record)
    more = counters.table.num_rows - len(records)
    if more:
        yield ""
        yield f"{counted(more, 'more record')}, with less time: --limit {counters.table.num_rows} shows all"
    if not counters.table.num_rows:
        yield "no file has a call that these counters count"


def _block(record: dict[str, Any]) -> Iterator[str]:
    who = counted(record["processes"], "process", "processes") if record["process"] is None else f"pid {record['pid']}"
    path = shortened(printable(record["path"] or "(name not known)"), WIDTH - len(who) - 2)
    yield f"{path:<{WIDTH - len(who) - 2}}  {who}"
    named = {name: value for name, value in record.items() if name not in _OURS and value}
    left = [_cell(name, str(value)) for name, value in named.items() if "_F_" not in name]
    right = [_cell(name, f"{value:.6f}") for name, value in named.items() if "_F_" in name]
    for one, other in zip_longest(left, right, fillvalue=""):
        yield f"  {one:<{_CELL}}  {other}".rstrip()
    if record["unplaced"]:
        yield f"  {counted(record['unplaced'], 'transfer is', 'transfers are')} in no counter about offsets"


def _cell(name: str, value: str) -> str:
    return name + value.rjust(max(_CELL - len(name), len(value) + 1))
