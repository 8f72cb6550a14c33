"""Closing files takes long.

Most closes are quick. A network file system writes at the close what is
not yet with the server; closing the last descriptor of a deleted file frees its
space; a C stream writes what is in its buffer. The program waits for this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.enums import OpClass, Role
from pyio_trace.insights import libraries, sql, words
from pyio_trace.insights.finding import Confidence, Evidence, Finding
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.insights.words import mechanisms as m
from pyio_trace.units import counted, percent, seconds

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed

_MS = 1_000_000


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    calls = run.calls.where(role=Role.IO, own=True)
    for place in calls.where(kind=OpClass.CLOSE).by("site"):
        each = place.time // max(place.calls, 1)
        if each < limits["ms"] * _MS:
            continue
        gain = run.gain(run.times(place.rows), "the time in these closes; what is written there may be written earlier")
        if gain.ns < limits["share"] * run.wall_ns:
            continue
        whole = calls.where(path=place.rows.codes("path")).total("time")
        whole = max(whole, place.time)  # closes may have no path
        yield Finding(
            title=f"{counted(place.calls, 'close')} took {seconds(place.time)}, {seconds(each)} each",
            evidence=[
                Evidence(
                    f"That is {percent(place.time / max(whole, 1))} of the time in all calls on "
                    f"{counted(place.rows.distinct('path'), 'file')}.",
                    {"closes": place.calls, "time_ns": place.time, "io_ns": whole},
                )
            ],
            remedy=words.remedy(m.LONG_CLOSE, libraries.readers(run, place.rows)),
            confidence=Confidence(0.8, "each close is a call of its own"),
            query=sql.rows({"site": run.calls.site(place["site"]), "op_class": "close", "op_role": "io"}),
            **run.about(place.rows, gain),
        )


RULE = Rule(
    "synchronisation",
    find,
    limits={
        "ms": Limit(1, "that a close of one line takes on average, at least"),
        "share": Limit(0.01, "of the wall time that they take, at least"),
    },
    topic="close",
)
