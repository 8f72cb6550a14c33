"""The program waits for a lock on a file.

Processes that write one file in turns wait for each other. Let each write a file
of its own, and join them afterwards, or let one process write what the others
send it. Only calls that wait count: taking a free lock costs about as much as any
other call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from pyio_trace.enums import OpClass, Role
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.insights.slow_calls import SHORTEST, SLOW
from pyio_trace.units import counted, seconds

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import Group
    from pyio_trace.insights.observed import Observed


_MS = 1_000_000
_OWN_FILES = Remedy(
    "Let each process write its own file.",
    "with open('results', 'a') as f:\n    fcntl.flock(f, fcntl.LOCK_EX)\n    f.write(result)",
    "with open(f'results.{os.getpid()}', 'a') as f:\n    f.write(result)",
)
_DATABASE = Remedy(
    "Keep the transactions that write short; with a write-ahead log nobody who reads waits for them.",
    "db = sqlite3.connect(path)",
    "db = sqlite3.connect(path)\ndb.execute('PRAGMA journal_mode=WAL')    # once: the file keeps it",
    "sqlite3",
)


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    for place in run.calls.where(role=Role.LOCK).by("site"):
        waits, waited = _waits(run, place)
        line = run.wall.get(run.calls.site(place["site"]) or "")
        waited = max(waited - (0 if line is None else line.delay_ns), 0)
        if waited < limits["ms"] * _MS:
            continue
        gain = run.gain(
            run.times(place.rows, waited / max(place.time, 1)),
            "the time in the calls that waited, less what the line waited for a processor",
        )
        known = (run.calls.path(code) for code in place.rows.codes("path"))
        yield Finding(
            title=f"{counted(waits, 'call')} for a lock waited {seconds(waited)}",
            evidence=[
                Evidence(
                    f"{counted(place.rows.distinct('process'), 'process', 'processes')} called for a lock of "
                    f"{counted(place.rows.distinct('path'), 'file')} {counted(place.calls, 'time')}.",
                    {"calls": place.calls, "waits": waits, "processes": place.rows.distinct("process"),
                     "time_ns": waited},
                )
            ],
            remedy=_DATABASE if any(path and run.is_database(path) for path in known) else _OWN_FILES,
            confidence=Confidence(0.8, "each call is a lock's"),
            query=sql.rows({"op_role": "lock", "site": run.calls.site(place["site"])}),
            **run.about(place.rows, gain),
        )  # fmt: skip


def _waits(run: Observed, place: Group) -> tuple[int, int]:
    """How many calls of a line waited, for a lock or for a processor, and for how long, ns.  A log with only sums of
    calls does not tell which: then all waited, or none."""
    if place.time >= SHORTEST * place.calls:
        return place.calls, place.time
    slow = run.of(SLOW)
    durations = slow["duration"][(slow["kind"] == OpClass.LOCK) & (slow["site"] == place["site"])]
    return len(durations), int(np.sum(durations))


RULE = Rule(
    "synchronisation",
    find,
    limits={"ms": Limit(100, "of waiting on one line, at least")},
    needs=(SLOW,),
    topic="shared",
)
