"""Statements read much of an SQLite database each, probably for want of an index.

SQLite keeps 2 MiB of a database in memory, or what `PRAGMA cache_size` says. A
statement that looks at every row of a larger database reads the file anew each time. With
an index on the columns that it asks for, it reads a few pages, and `EXPLAIN QUERY
PLAN` says SEARCH instead of SCAN. Where all rows are needed, ask for all results in
one statement (GROUP BY, IN), or make the cache larger than the database.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.enums import Layer, OpClass
from pyio_trace.insights import library_use
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.library_use import NEEDS, calls_of, joined
from pyio_trace.insights.observed import OPENS
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.insights.rules.read_again import REUSE
from pyio_trace.insights.source_files import content, statement
from pyio_trace.units import number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import CallTable
    from pyio_trace.insights.library_use import Group
    from pyio_trace.insights.observed import Observed

_EXECUTES = ("Connection.execute", "Cursor.execute")
_CONNECTS = ("sqlite3.connect", "Connection.close")
_INDEX = Remedy(
    "Make an index on the columns that the statement asks for; or one statement of many.",
    "for n in wanted:\n    db.execute('SELECT v FROM t WHERE id = ?', (n,)).fetchone()",
    "db.execute('CREATE INDEX t_id ON t (id)')    # once\n"
    "for n in wanted:\n    db.execute('SELECT v FROM t WHERE id = ?', (n,)).fetchone()",
    "sqlite3",
)


_CONNECT = Remedy(
    "Keep the connection open: a new one has nothing of the database in memory.",
    "for n in wanted:\n    db = sqlite3.connect(path)\n    use(db.execute(statement, (n,)).fetchone())\n    db.close()",
    "db = sqlite3.connect(path)    # once\nfor n in wanted:\n    use(db.execute(statement, (n,)).fetchone())",
    "sqlite3",
)


_PAGES = Remedy(
    "Go on after the last key of the page before: OFFSET reads all rows that it leaves out, whatever the index.",
    "for n in range(pages):\n    use(db.execute(\n        'SELECT id, v FROM t ORDER BY id LIMIT 100 OFFSET ?',\n"
    "        (n * 100,)).fetchall())",
    "last = -1\nfor n in range(pages):\n    use(rows := db.execute('SELECT id, v FROM t WHERE id > ? '\n"
    "        'ORDER BY id LIMIT 100', (last,)).fetchall())\n    last = rows[-1][0]",
    "sqlite3",
)
_SELECT = re.compile(rb"\bselect\b", re.IGNORECASE)
_OFFSET = re.compile(rb"\boffset\b\s*(\?|:|\$|\{|%|\d)", re.IGNORECASE)


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    sizes = {one.path: one.distinct_bytes for one in run.of(REUSE).rows if run.is_database(one.path)}
    statements = calls_of(run, *_EXECUTES)
    for (site, path), alike in statements.by("site", "path"):
        known = sizes.get(statements.calls.paths[path], 0) if path >= 0 else 0
        if site < 0 or not known or len(alike) < limits["statements"]:
            continue
        line, name = statements.calls.sites[site], statements.calls.paths[path]
        reads = run.calls.where_line(line).where_paths([name]).transfers("read")
        opens = run.calls.where_paths([name]).where(layer=Layer.POSIX, kind=OpClass.OPEN, op=OPENS, errno=0)
        during = opens.rows((opens.columns["last"] >= alike.first) & (opens.columns["first"] <= alike.last))
        connected = 2 * during.total("calls") > len(alike)
        least = limits["bytes"] + known
        if not connected:
            least = max(least, limits["share"] * known * len(alike))
        if reads.total("moved") >= least:
            yield _finding(run, alike, reads, known, _connections(run, alike) if connected else None)


def _connections(run: Observed, statements: Group) -> Group:
    """The calls that open and close connections to the database of these statements."""
    calls = calls_of(run, *_CONNECTS)
    same = calls.column("path") == statements.column("path")[0]
    return calls.where(same & (calls.column("time") <= statements.last))


def _finding(run: Observed, statements: Group, reads: CallTable, known: int, connections: Group | None) -> Finding:
    """known: bytes of the database that were read; connections: anew for each statement."""
    count, read = len(statements), reads.total("moved")
    name = statements.paths()[0].rpartition("/")[2]
    time = max(statements.total("duration"), reads.total("time"))
    saved = statements.scaled(statements.total("duration") * (count - 1) // count)
    for process, spent in run.times(reads, (count - 1) / count).items():  # a fetch reads, too, and is no statement
        saved[process] = max(saved.get(process, 0), spent)
    group = statements if connections is None else joined([connections, statements])
    if connections is not None:
        for process, spent in connections.scaled(connections.total("duration") * (count - 1) // count).items():
            saved[process] = saved.get(process, 0) + spent
    text = f"{number(count)} statements took {seconds(time)} and read {size(read)}; the run read no more than "
    text += f"{size(known)} of different bytes from the database."
    return library_use.finding(
        run, group,
        f"{name} is opened anew for {number(count)} statements" if connections is not None
        else f"Each statement reads {size(read // count)} of {name}",
        run.gain(saved, "all statements but one" + (", and their connections" if connections is not None else "")),
        [Evidence(text, {"statements": count, "read": read, "distinct": known, "time_ns": time})],
        _remedy(statements) if connections is None else _CONNECT,
        Confidence(0.7, "what the statements look for is not in the log"),
        query=statements.query("detail"),
    )  # fmt: skip


def _remedy(statements: Group) -> Remedy:
    """A statement that leaves out rows reads them; its text is in the line, or the only one of the file."""
    for site in statements.sites()[:1]:
        there = statement(site.file, site.line)
        if not _SELECT.search(there) and len(_SELECT.findall(whole := content(site.file))) == 1:
            there = whole
        if _OFFSET.search(there):
            return _PAGES
    return _INDEX


RULE = Rule(
    "accesses",
    find,
    {
        "statements": Limit(10, "of one line on a database, at least", few=3),
        "share": Limit(
            0.25, "of what was read of the database, that a statement on an open one reads on average, at least"
        ),
        "bytes": Limit(1 << 20, "read again, at least"),
    },
    (*NEEDS, REUSE),
    each_call=True,
)
