"""The table of tests by I/O, in 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyio_trace.errors import printable
from pyio_trace.units import counted, number, seconds, shortened, size

WIDTH = 80
SHOWN = 15
_HEADING = "opens  reads writes     read  written  meta      I/O  test"
_NAME = WIDTH - _HEADING.index("test")

#: Opens, reads, writes, metadata calls, bytes read, bytes written, time (ns): phases.Counts.
Row = Sequence[int]


def table(totals: Mapping[str, Row], all_tests: bool = False) -> list[str]:
    """Lines of the table, tests with the most time in I/O first; all_tests: also those beyond SHOWN."""
    used = sorted(((test, row) for test, row in totals.items() if any(row)), key=lambda one: (-one[1][-1], one[0]))
    shown = used if all_tests else used[:SHOWN]
    lines = [_HEADING] * bool(used)
    lines += [_line(row, printable(test)) for test, row in shown]
    if len(used) > len(shown):
        lines.append(_line(_sum([row for _, row in used[len(shown) :]]), f"{number(len(used) - len(shown))} more (-v)"))
    if len(used) > 1:
        lines.append(_line(_sum([row for _, row in used]), f"in {counted(len(used), 'test')}"))
    idle = len(totals) - len(used)
    if idle:
        lines.append(f"{counted(idle, 'test')} without I/O")
    return lines


def _line(row: Row, test: str) -> str:
    opens, reads, writes, metadata, read, written, time = row
    name = shortened(test, _NAME)
    return (
        f"{_short(opens):>5} {_short(reads):>6} {_short(writes):>6} {size(read):>8} {size(written):>8} "
        f"{_short(metadata):>5} {seconds(time):>8}  {name}"
    )


def _sum(rows: Sequence[Row]) -> list[int]:
    return [sum(column) for column in zip(*rows, strict=True)]


def _short(count: int) -> str:
    """At most five characters: 99999, 1234k, 12M."""
    if count < 100_000:
        return str(count)
    return f"{count // 1000}k" if count < 10_000_000 else f"{count // 1_000_000}M"
