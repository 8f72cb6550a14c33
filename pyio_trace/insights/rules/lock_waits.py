"""The program waits for a lock on a file.

Processes that write one file in turns wait for each other. Let each write a file
of its own, and join them afterwards, or let one process write what the others
send it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.enums import Role
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import counted, seconds

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed


_MS = 1_000_000


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    locks = run.calls.where(role=Role.LOCK)
    for place in locks.by("site"):
        if place.time < limits["ms"] * _MS:
            continue
        gain = run.gain(run.times(place.rows), "the time in these calls")
        yield Finding(
            title=f"{counted(place.calls, 'call')} for a lock took {seconds(place.time)}",
            evidence=[
                Evidence(
                    f"{counted(place.rows.distinct('process'), 'process', 'processes')} waited for "
                    f"{counted(place.rows.distinct('path'), 'file')}.",
                    {"calls": place.calls, "processes": place.rows.distinct("process"), "time_ns": place.time},
                )
            ],
            remedy=Remedy(
                "Let each process write its own file.",
                "with open('results', 'a') as f:\n    fcntl.flock(f, fcntl.LOCK_EX)\n    f.write(result)",
                "with open(f'results.{os.getpid()}', 'a') as f:\n    f.write(result)",
            ),
            confidence=Confidence(0.8, "each call is a lock's"),
            query=sql.rows({"op_role": "lock", "site": run.calls.site(place["site"])}),
            **run.about(place.rows, gain),
        )


RULE = Rule("synchronisation", find, limits={"ms": Limit(100, "of waiting on one line, at least")}, topic="shared")
