"""An SQLite database commits after each small change.

A commit makes its changes durable: it locks the file, writes a journal and waits
until they are on the device. Commit many changes at once; where the last ones may
be lost, `PRAGMA synchronous=NORMAL` with a write-ahead log waits less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyio_trace.enums import Role
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Evidence, Finding, Remedy, Term
from pyio_trace.insights.observed import DATABASE_FILES
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.units import number, seconds

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import CallTable, Group
    from pyio_trace.insights.observed import Observed


COMMITS = ("Connection.commit", "Connection.__exit__")
_EXECUTES = ("Connection.execute", "Cursor.execute")
_COMMIT = Remedy(
    "Commit once for many rows.",
    "for row in rows:\n    db.execute('INSERT INTO t VALUES (?)', row)\n    db.commit()",
    "with db:\n    db.executemany('INSERT INTO t VALUES (?)', rows)",
    "sqlite3",
)
_AUTOCOMMIT = Remedy(
    "Make one transaction of many statements.",
    "for row in rows:    # isolation_level=None: each is a transaction\n"
    "    db.execute('INSERT INTO t VALUES (?)', row)",
    "db.execute('BEGIN')\ndb.executemany('INSERT INTO t VALUES (?)', rows)\ndb.execute('COMMIT')",
    "sqlite3",
)


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    alone = _alone(run, limits["commits"])
    databases = run.calls.where(own=True)
    asked = np.isin(databases.columns["site"], alone) & _named(databases, _EXECUTES)
    files = databases.rows(asked | _named(databases, COMMITS)).by("path")
    shared = _shared_lines(files)
    for file in files:
        if file.calls < limits["commits"] or file["path"] < 0:
            continue
        path = run.calls.path(file["path"]) or ""
        lines = file.rows.columns["site"].tolist()
        beneath = run.calls.where(role=(Role.SYNC, Role.IO, Role.LOCK), inside=1, site=lines)
        if not shared.isdisjoint(lines):  # they commit to other databases, too
            beneath = beneath.where_paths([path + ending for ending in DATABASE_FILES])
        syncs = beneath.where(role=Role.SYNC)
        if syncs.total("calls") < file.calls:  # nothing is synced: in memory, or synchronous=OFF
            continue
        saved = run.times(beneath, (file.calls - 1) / file.calls)
        terms = [Term("waiting for syncs", syncs.total("time"))]
        gain = run.gain(
            saved, "calls beneath all but one commit, and beneath the statements of these lines", terms=terms
        )
        yield Finding(
            title=f"{number(file.calls)} commits to {path.rpartition('/')[2]}",
            evidence=[
                Evidence(
                    f"They took {seconds(file.time)}; {number(syncs.total('calls'))} times SQLite waited for a sync, "
                    f"{seconds(syncs.total('time'))}.",
                    {"commits": file.calls, "syncs": syncs.total("calls"), "sync_ns": syncs.total("time")},
                )
            ],
            remedy=_AUTOCOMMIT if set(lines) <= set(alone) else _COMMIT,
            query=sql.rows({"op": _ops(file.rows), "path": path, "site": file.rows.lines()}),
            **run.about(file.rows, gain),
        )


def _alone(run: Observed, least: float) -> list[int]:
    """Lines of so many statements, and no commit, of which each waits for a sync: it is a transaction of its own."""
    executes = run.calls.where(op=_EXECUTES, own=True)
    committed = run.calls.where(op=COMMITS, own=True).codes("site")
    syncs = run.calls.where(role=Role.SYNC, inside=1, site=executes.codes("site")).sums("site")
    synced = dict(zip(syncs["site"].tolist(), syncs["calls"].tolist(), strict=True))
    return [
        place["site"]
        for place in executes.by("site")
        if place["site"] not in committed and synced.get(place["site"], 0) >= place.calls >= least
    ]


def _shared_lines(files: list[Group]) -> set[int]:
    """Lines (codes) that use several of these files."""
    uses = Counter(site for file in files for site in file.rows.codes("site"))
    return {site for site, count in uses.items() if count > 1}


def _ops(calls: CallTable) -> list[str]:
    return sorted({calls.op(op) for op in calls.codes("op")})


def _named(calls: CallTable, names: tuple[str, ...]) -> NDArray[np.bool_]:
    """Which calls are these operations."""
    chosen: NDArray[np.bool_] = np.isin(calls.columns["op"], [op for op in calls.codes("op") if calls.op(op) in names])
    return chosen


RULE = Rule(
    "synchronisation",
    find,
    limits={"commits": Limit(50, "of one database, at least", few=3)},
    topic="sync",
    trial=Trial("pyio_trace.insights.trials.databases:one_commit", rows="files"),
)
