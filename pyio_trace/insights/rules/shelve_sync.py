"""A shelf, or a dbm.dumb database, writes its whole index again for each change.

`shelve` uses dbm.dumb where Python has nothing better. Its index is a text file
that sync() and close() rewrite, keeping the old one as .bak; a new key appends
to it. Sync once for many changes, or use dbm.sqlite3, dbm.gnu or sqlite3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.enums import Layer, OpClass, Role
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.line_walls import with_libraries
from pyio_trace.insights.observed import MOST_NAMED
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed

#: Ends of the names of a dbm.dumb database: its index, its data, the index before.
_INDEX, _DATA, _BEFORE = ".dir", ".dat", ".bak"
_DELETING = ("unlink", "unlinkat")


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    calls = run.calls.where(layer=Layer.POSIX, role=Role.IO)
    sums = calls.where(kind=OpClass.OPEN, errno=0).sums("path")
    often = [run.calls.path(code) or "" for code in sums["path"][sums["calls"] >= limits["opens"]].tolist()]
    indexes = [path for path in often if path.endswith(_INDEX)][:MOST_NAMED]
    known = set(run.calls.paths()) if indexes else set()
    for path in indexes:
        base = path.removesuffix(_INDEX)
        if not {base + _DATA, base + _BEFORE} <= known:
            continue
        index = calls.where_paths([path])
        opens = index.where(kind=OpClass.OPEN, errno=0)
        count = opens.total("calls")
        around = calls.where_paths([path, base + _BEFORE])
        written = index.where(kind=OpClass.WRITE).total("moved")
        rewritten = calls.where_paths([base + _BEFORE]).where(op=_DELETING).total("calls")  # each time before
        if not rewritten or rewritten < limits["opens"]:
            continue
        saved = run.times(around, (rewritten - 1) / rewritten)
        gain = run.gain(saved, "the calls on the index, but for one sync", "estimate")
        processes = {group["process"] for group in opens.by("process")}
        gain = with_libraries(run, gain, run.sites(opens), (rewritten - 1) / rewritten, processes)
        yield Finding(
            title=f"The index of {base.rpartition('/')[2]} is written anew {number(rewritten)} times",
            evidence=[
                Evidence(
                    f"{size(written)} of index were written; the calls on it took {seconds(around.total('time'))}.",
                    {"opens": count, "written": written, "time_ns": around.total("time")},
                )
            ],
            remedy=Remedy(
                "Change many keys, then sync; or use a database that writes what has changed.",
                "for key, value in items:\n    shelf[key] = value\n    shelf.sync()",
                "db = dbm.sqlite3.open(path, 'c')    # Python 3.13; else dbm.gnu\n"
                "with shelve.Shelf(db) as shelf:\n    shelf.update(items)",
                "shelve",
            ),
            confidence=Confidence(0.9, "the three files of dbm.dumb are in the log"),
            query=sql.rows({"path": path, "layer": "posix"}),
            **run.about(opens, gain),
        )


RULE = Rule(
    "synchronisation", find, limits={"opens": Limit(50, "of the index to write it, at least", few=5)}, topic="metadata"
)
