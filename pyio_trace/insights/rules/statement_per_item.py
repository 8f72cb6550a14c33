"""A line asks an SQLite database for one item at a time, with a statement for each.

Each statement is bound, run and taken apart in Python, and, outside of a transaction, locks the file
and looks whether another process has changed it: that costs more than finding the row. Ask for all of
them in one statement (JOIN, IN), or keep one transaction open for many statements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.enums import Role
from pyio_trace.insights import library_use
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.library_use import NEEDS, calls_of
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import number, seconds

if TYPE_CHECKING:
    from pyio_trace.insights.library_use import Group
    from pyio_trace.insights.observed import Observed

_EXECUTES = ("Connection.execute", "Cursor.execute")
_JOIN = Remedy(
    "Ask for many items in one statement (a JOIN, or IN); or begin a transaction before the loop, so that the file is "
    "locked once.",
    "for n in wanted:\n    rows = db.execute('SELECT v FROM t WHERE id = ?', (n,))\n    use(rows.fetchone()[0])",
    "marks = ', '.join('?' * len(wanted))    # up to 32,766 of them\n"
    "found = dict(db.execute(\n    f'SELECT id, v FROM t WHERE id IN ({marks})', wanted))\n"
    "for n in wanted:\n    use(found[n])",
    "sqlite3",
)


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    for (site, path), alike in calls_of(run, *_EXECUTES).by("site", "path"):
        if site < 0 or path < 0 or len(alike) < limits["statements"]:
            continue
        asks = alike.where(str(detail.get("statement", "")).startswith("SELECT") for detail in alike.details)
        if len(asks) >= limits["statements"] and asks.total("duration") >= limits["share"] * run.wall_ns:
            yield _finding(run, asks)


def _finding(run: Observed, statements: Group) -> Finding:
    count, time = len(statements), statements.total("duration")
    locks = run.calls.where(role=Role.LOCK, inside=1).where_lines(statements.lines())
    text = f"{number(count)} statements took {seconds(time)}, {seconds(time // count)} each"
    if locks.total("calls"):
        text += f"; {number(locks.total('calls'))} calls locked and unlocked the file, {seconds(locks.total('time'))}"
    return library_use.finding(
        run, statements,
        f"{number(count)} statements ask {statements.paths()[0].rpartition('/')[2]} for one item each",
        run.gain(statements.scaled(time * (count - 1) // count), "all statements but one"),
        [Evidence(f"{text}.", {"statements": count, "time_ns": time, "lock_ns": locks.total("time")})],
        _JOIN,
        Confidence(0.6, "how many rows each found is not in the log"),
        query=statements.query("detail"),
        severity="warning",
    )  # fmt: skip


RULE = Rule(
    "accesses",
    find,
    {
        "statements": Limit(1000, "of one line on a database, at least", few=100),
        "share": Limit(0.05, "of the wall time that they take, at least"),
    },
    NEEDS,
    yields_to=("database-scan",),
    each_call=True,
)
