"""Queries that give the rows of a finding's evidence again, for pyio_trace.open(LOG).sql()."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Mapping

from pyio_trace.insights.finding import Query

#: What a query shows unless a rule says otherwise.
SUMS = "op, sum(calls) AS calls, sum(bytes_moved) AS bytes,\n       sum(duration) / 1e9 AS seconds"

_CONTROL = re.compile(r"[\x01-\x1f\x7f]")
#: Characters of a list of values or columns that fit on one line.
_LINE = 50

Value = str | int | Collection[str] | Collection[int] | None


def literal(value: str | int) -> str:
    """A value in SQL.  Texts come from logs, so they may contain anything.  Control characters are spelled out: a
    terminal shows the query as it is, and it can be copied from there."""
    if isinstance(value, str):
        text = value.replace("\0", "").replace("'", "''")
        return "'" + _CONTROL.sub(lambda found: f"' || chr({ord(found[0])}) || '", text) + "'"
    return str(int(value))


def condition(column: str, value: Value) -> str:
    """A column with one value, or one of several; None: without any."""
    if value is None:
        return f"{column} IS NULL"
    if isinstance(value, (str, int)):
        return f"{column} = {literal(value)}"
    if not value:
        return "false"
    texts = [literal(one) for one in value]
    long = sum(len(text) + 2 for text in texts) > _LINE
    between, begin = (",\n    ", "\n    ") if long else (", ", "")
    return f"{column} IN ({begin}{between.join(texts)})"


def rows(
    where: Mapping[str, Value], select: str = SUMS, group: str = "op", order: str = "seconds DESC", more: str = ""
) -> Query:
    """The rows of the table operations whose columns have these values; more: a further condition in SQL."""
    parts = [*(condition(column, value) for column, value in where.items()), *([more] if more else [])]
    chosen = "\n  AND ".join(parts) or "true"
    if "\n" not in select:
        select = textwrap.fill(select, _LINE, subsequent_indent="       ", break_long_words=False)
    text = f"SELECT {select}\nFROM operations\nWHERE {chosen}"
    text += f"\nGROUP BY {group}" if group else ""
    return Query(text + (f"\nORDER BY {order}" if order else ""))


def samples_of(line: str) -> Query:
    """The samples of a line of the program, by stack."""
    text = "SELECT stack, state, sum(duration) / 1e9 AS seconds, sum(cpu) / 1e9 AS cpu\nFROM samples"
    return Query(f"{text}\nWHERE contains(stack, {literal(line)})\nGROUP BY stack, state\nORDER BY seconds DESC")
