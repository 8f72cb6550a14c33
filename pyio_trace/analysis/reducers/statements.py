"""Statements of sqlite3 by database and line: executed, committed, fetched.

Result: Statements, whose rows are Statement.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, ClassVar

from pyio_trace.analysis.calls.details import number, text
from pyio_trace.analysis.view_sums.detail_sums import ByDetail, DetailSum, empty, rows
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    from pyio_trace.analysis.sums.grouped_sums import GroupedSums
    from pyio_trace.join.sources.facade import Log

#: What sqlite3's operations are called; other libraries have none of these names.
_OPS = ("Connection.", "Cursor.", "sqlite3.")


@dataclass(frozen=True)
class Statement:
    """Calls of one line with one statement.

    database: its path, empty in memory.  op: such as Connection.execute.
    statement: verb and names, without values; empty where the call has none, as a
    commit.  calls, time_ns, longest_ns; rows: of executemany and of fetches, as
    far as they are known; errors: calls that failed.
    """

    SHOWN: ClassVar[tuple[str, ...]] = ("op", "statement", "calls", "time_ns", "rows")

    line: str | None
    database: str
    op: str
    statement: str
    calls: int
    time_ns: int
    longest_ns: int
    rows: int
    errors: int


@dataclass(frozen=True)
class Statements:
    """rows: most time first.  more: further ones, with less; dropped: sums that did not fit into memory (0: all figures
    are exact)."""

    rows: list[Statement]
    more: int
    dropped: int


class StatementsByLine(ByDetail):
    """The reducer."""

    beginnings = _OPS

    def finish(self, part: GroupedSums | None, log: Log) -> Statements:
        part = part or empty()
        groups: dict[tuple[str, str, str, str], list[DetailSum]] = defaultdict(list)
        for one in rows(part, log):
            groups[one.line or "", one.path, one.op, text(one.detail, "statement") or ""].append(one)
        found = [
            Statement(
                line=line or None, database=path, op=op, statement=statement, calls=sum(one.calls for one in alike),
                time_ns=sum(one.time for one in alike), longest_ns=max(one.longest for one in alike),
                rows=sum((number(one.detail, "rows") or 0) * one.calls for one in alike),
                errors=sum(one.errors for one in alike),
            )
            for (line, path, op, statement), alike in groups.items()
        ]  # fmt: skip
        found.sort(key=lambda row: (-row.time_ns, row.line or "", row.op, row.statement, row.database))
        return Statements(found[: self.top], max(len(found) - self.top, 0), part.dropped)


REDUCER = StatementsByLine
